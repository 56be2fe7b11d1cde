"""The experiment of Wolpert and Macready (1996), section 4.1: many random targets and bagged learners at once.

Arrays start with the targets.  The learner is least squares on cosines and sines of three of four
wavelengths; which one is dropped depends on the data in a way that makes the learner unstable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
WidthLaw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

NOISE = 0.05
N_COEFFICIENTS = 6
WAVELENGTHS = np.array([0.5, 1.0, 2.0, 4.0])
KEPT = np.repeat(~np.eye(4, dtype=bool), 2, axis=1)

# The paper has "widths were randomly chosen from [0.1, 0.3]"; its figures fit a uniform square of the width better.
WIDTH_LAWS: dict[str, WidthLaw] = {
    "squared widths uniform": lambda rng, shape: np.sqrt(rng.uniform(0.01, 0.09, shape)),
    "widths uniform": lambda rng, shape: rng.uniform(0.1, 0.3, shape),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """One training set and one test set per target.

    Attributes
    ----------
    x, y : ndarray, shape (n_targets, n_rows)
    test_x, test_y : ndarray, shape (n_targets, n_test)
    """

    x: FloatArray
    y: FloatArray
    test_x: FloatArray
    test_y: FloatArray


def draw_samples(n_targets: int, n_rows: int, n_test: int, law: WidthLaw, rng: np.random.Generator) -> Sample:
    """Draw random cubics with two normalised Gaussians on top, inputs uniform on [-1, 1], noise on all outputs."""
    coefficients = rng.uniform(-1.0, 1.0, (n_targets, 4, 1))
    centres = rng.uniform(-1.0, 1.0, (n_targets, 2, 1))
    widths = law(rng, (n_targets, 2, 1))
    x = rng.uniform(-1.0, 1.0, (n_targets, n_rows + n_test))
    bumps = np.exp(-0.5 * ((x[:, None] - centres) / widths) ** 2) / (widths * np.sqrt(2.0 * np.pi))
    cubic = np.sum(coefficients * x[:, None] ** np.arange(4)[:, None], axis=1)
    y = cubic + bumps.sum(axis=1) + rng.normal(0.0, NOISE, x.shape)
    return Sample(x[:, :n_rows], y[:, :n_rows], x[:, n_rows:], y[:, n_rows:])


def features(x: FloatArray) -> FloatArray:
    """Return the cosine and sine of each wavelength, shape (..., 8)."""
    phase = 2.0 * np.pi * x[..., None] / WAVELENGTHS
    return np.stack([np.cos(phase), np.sin(phase)], axis=-1).reshape(*x.shape, 8)


def fit(x: FloatArray, y: FloatArray, counts: FloatArray) -> FloatArray:
    """Fit the unstable learner to bags given as how often each row occurs in each.

    Parameters
    ----------
    x, y : ndarray, shape (n_targets, n_rows)
    counts : ndarray, shape (n_targets, n_bags, n_rows)

    Returns
    -------
    ndarray, shape (n_targets, n_bags, 8)
        Coefficients, 0 for the dropped wavelength.
    """
    total = np.einsum("tbr,tr->tb", counts, x + y)
    kept = KEPT[np.floor(10.0 * total).astype(np.int64) % 4]
    phi = features(x)
    products = (phi[..., :, None] * phi[..., None, :]).reshape(*x.shape, 64)
    gram = (counts @ products).reshape(*kept.shape, 8)
    moment = counts @ (phi * y[..., None])
    # A dropped feature gets an equation of its own, "coefficient = 0", so that all bags share one shape.
    gram = np.where(kept[..., :, None] & kept[..., None, :], gram, np.eye(8))
    moment = np.where(kept, moment, 0.0)[..., None]
    # One bag in 100 million has fewer distinct rows than there are coefficients: the shortest solution.
    few = np.count_nonzero(counts, axis=-1) < N_COEFFICIENTS
    solution = np.linalg.solve(np.where(few[..., None, None], np.eye(8), gram), moment)
    solution[few] = np.linalg.pinv(gram[few], hermitian=True) @ moment[few]
    return np.asarray(solution[..., 0], dtype=np.float64)


def predict(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Return outputs of shape (n_targets, n_bags, n_points) at x of shape (n_targets, n_points)."""
    return np.asarray(coefficients @ np.swapaxes(features(x), -1, -2))


def draw_counts(shape: tuple[int, ...], rows: NDArray[np.int64], n_rows: int, rng: np.random.Generator) -> FloatArray:
    """Bootstrap `rows`: how often each of all `n_rows` rows is drawn, shape (*shape, n_rows)."""
    drawn = rows[rng.integers(0, rows.size, (*shape, rows.size))]
    bags = int(np.prod(shape))
    offset = np.arange(bags).reshape(*shape, 1) * n_rows
    return np.bincount((drawn + offset).ravel(), minlength=bags * n_rows).reshape(*shape, n_rows).astype(np.float64)


def bag(sample: Sample, n_members: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Bag the learner on every target.

    Returns
    -------
    outputs : ndarray, shape (n_targets, n_members, n_rows)
        At the training rows.
    out_of_bag : ndarray of bool, of the same shape
    test_outputs : ndarray, shape (n_targets, n_members, n_test)
    """
    n_targets, n_rows = sample.x.shape
    counts = draw_counts((n_targets, n_members), np.arange(n_rows), n_rows, rng)
    members = fit(sample.x, sample.y, counts)
    return predict(members, sample.x), counts == 0, predict(members, sample.test_x)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Estimate and test errors of cross-validation for each target.

    Attributes
    ----------
    estimate : ndarray, shape (n_targets,)
        Mean squared error over the rows, each under the fit that left it out.
    test_error : ndarray, shape (n_targets, n_test)
        Squared error at the test points, averaged over the folds' fits.
    """

    estimate: FloatArray
    test_error: FloatArray


def cross_validate(sample: Sample, n_folds: int, n_members: int | None, rng: np.random.Generator) -> CrossValidation:
    """Cross-validate the bagged learner of `n_members`, trained anew in each fold, or the learner itself (None)."""
    n_targets, n_rows = sample.x.shape
    # Rows are exchangeable, so that consecutive ones make folds as random as any.
    fold_of_row = np.arange(n_rows) * n_folds // n_rows
    square = np.empty((n_targets, n_rows))
    test_error = np.zeros(sample.test_x.shape)
    for fold in range(n_folds):
        held_out = fold_of_row == fold
        rest = np.flatnonzero(~held_out)
        if n_members is None:
            counts = np.broadcast_to((~held_out).astype(np.float64), (n_targets, 1, n_rows))
        else:
            counts = draw_counts((n_targets, n_members), rest, n_rows, rng)
        model = fit(sample.x, sample.y, counts).mean(axis=1, keepdims=True)
        square[:, held_out] = (predict(model, sample.x[:, held_out])[:, 0] - sample.y[:, held_out]) ** 2
        test_error += (predict(model, sample.test_x)[:, 0] - sample.test_y) ** 2 / n_folds
    return CrossValidation(square.mean(axis=1), test_error)
