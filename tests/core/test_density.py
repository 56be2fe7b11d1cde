from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.stats import beta, binom

from ens_plugin.core import row_model as density
from ens_plugin.core.row_model import GRID, Density, PowerPrior, RowGroups, cell_weights, design, end_power, fit_density

FloatArray = NDArray[np.float64]

BETA_PRIOR = (-0.5, 0.5)


def counted(wrong: NDArray[np.int64], trials: int) -> RowGroups:
    """Likelihood of each number of wrong votes on the grid, scaled to a maximum of 1, and its rows."""
    likelihood = np.array([binom.pmf(k, trials, GRID) for k in range(trials + 1)])
    likelihood /= likelihood.max(axis=1, keepdims=True)
    return RowGroups(likelihood, np.bincount(wrong, minlength=trials + 1).astype(np.float64))


@pytest.fixture(scope="module")
def example() -> RowGroups:
    rng = np.random.default_rng(0)
    return counted(rng.binomial(20, rng.beta(0.7, 2.0, size=400)), 20)


@pytest.fixture
def start() -> FloatArray:
    return np.asarray(0.2 * np.random.default_rng(1).standard_normal(design().shape[1]))


def log_likelihood(coefficients: FloatArray, rows: RowGroups) -> float:
    """The definition, term by term: sum over groups of count times log of sum over cells."""
    log_density = design() @ coefficients
    g = np.exp(log_density) / np.exp(log_density).sum()
    return float(np.sum([count * np.log((row * g).sum()) for row, count in zip(*rows, strict=True)]))


def finite_difference(function: Callable[[FloatArray], Any], at: FloatArray, step: float) -> FloatArray:
    columns = []
    for index in range(at.size):
        move = np.zeros_like(at)
        move[index] = step
        columns.append((function(at + move) - function(at - move)) / (2 * step))
    return np.array(columns)


def derivatives(rows: RowGroups, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The gradient of the log-likelihood without a penalty, and its negated Hessian."""
    free = np.zeros_like(coefficients)
    reached = density._Objective(rows, free, free).at(coefficients)
    return reached.gradient(), reached.hessian()


def test_gradient_is_the_derivative_of_the_log_likelihood(example: RowGroups, start: FloatArray) -> None:
    gradient, _ = derivatives(example, start)
    expected = finite_difference(lambda a: log_likelihood(a, example), start, 1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_hessian_is_the_derivative_of_the_gradient(example: RowGroups, start: FloatArray) -> None:
    _, hessian = derivatives(example, start)
    expected = -finite_difference(lambda a: derivatives(example, a)[0], start, 1e-5)
    np.testing.assert_allclose(hessian, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_fit_is_a_maximum_of_the_penalised_likelihood(example: RowGroups) -> None:
    fit = fit_density(example, beta_mean=BETA_PRIOR, beta_start=(0.0, 0.0))
    precision = np.full(fit.coefficients.size, 1 / 2.0**2)
    precision[:2] = 1 / 1e4
    centre = np.zeros_like(precision)
    centre[:2] = BETA_PRIOR

    def objective(a: FloatArray) -> float:
        return log_likelihood(a, example) - 0.5 * float(precision @ (a - centre) ** 2)

    best = objective(fit.coefficients)
    rng = np.random.default_rng(2)
    for _ in range(40):
        direction = rng.normal(size=centre.size)
        step = 0.05 * direction / np.linalg.norm(direction)
        assert objective(fit.coefficients + step) < best + 1e-6
    gradient = finite_difference(objective, fit.coefficients, 1e-4)
    newton_gain = 0.5 * gradient @ fit.covariance @ gradient
    assert newton_gain < 1e-5


@pytest.mark.parametrize("start", [(-0.9, -0.9), (0.0, 0.0), (5.0, 1.0), (-0.5, 8.0)])
def test_fit_does_not_depend_on_where_it_starts(example: RowGroups, start: tuple[float, float]) -> None:
    reference = fit_density(example, beta_mean=BETA_PRIOR, beta_start=(0.0, 2.0))
    other = fit_density(example, beta_mean=BETA_PRIOR, beta_start=start)
    assert np.abs(other.weights - reference.weights).sum() < 1e-3


def test_covariance_inverts_the_penalised_hessian(example: RowGroups) -> None:
    fit = fit_density(example, beta_mean=BETA_PRIOR, beta_start=(0.0, 0.0))
    precision = np.full(fit.coefficients.size, 1 / 2.0**2)
    precision[:2] = 1 / 1e4
    _, hessian = derivatives(example, fit.coefficients)
    np.testing.assert_allclose(fit.covariance @ (hessian + np.diag(precision)), np.eye(precision.size), atol=1e-8)


def test_prior_near_one_is_of_the_power_between_the_last_two_points(example: RowGroups) -> None:
    def fitted(sd: float) -> Density:
        return fit_density(example, beta_mean=(0.0, 3.0), beta_start=(0.0, 3.0), near_one=PowerPrior(3.0, sd))

    def power(fit: Density) -> float:
        return float(np.log(fit.weights[-1] / fit.weights[-2]) / np.log((1.0 - GRID[-1]) / (1.0 - GRID[-2])))

    assert power(fitted(1e-3)) == pytest.approx(3.0, abs=0.01)
    fit = fitted(0.5)
    # At the maximum, the rows pull the power as hard as its prior.
    gradient, _ = derivatives(example, fit.coefficients)
    precision = np.full(fit.coefficients.size, 1 / 2.0**2)
    precision[:2] = 1 / 1e4
    apart = fit.coefficients - np.append([0.0, 3.0], np.zeros(precision.size - 2))
    assert power(fit) == pytest.approx(float(end_power() @ fit.coefficients), rel=1e-9)
    np.testing.assert_allclose(gradient, precision * apart + (power(fit) - 3.0) / 0.5**2 * end_power(), atol=1e-3)


def test_grid_is_the_400_cell_centres() -> None:
    np.testing.assert_allclose(GRID, (np.arange(400) + 0.5) / 400, rtol=0, atol=1e-16)


def test_null_columns_are_the_beta_family() -> None:
    g = cell_weights(np.concatenate([[1.5, 3.0], np.zeros(design().shape[1] - 2)]))
    np.testing.assert_allclose(g, beta.pdf(GRID, 2.5, 4.0) / beta.pdf(GRID, 2.5, 4.0).sum(), rtol=1e-12)


def test_smooth_columns_are_splines_off_the_beta_family_on_a_unit_scale() -> None:
    smooth = design()[:, 2:]
    fixed = np.column_stack([np.ones(400), np.log(GRID), np.log1p(-GRID)])
    np.testing.assert_allclose(fixed.T @ smooth, 0.0, atol=1e-8)
    assert np.mean(np.sum(smooth**2, axis=1)) == pytest.approx(1.0)
    knots = np.concatenate([np.zeros(3), np.linspace(0, 1, 12), np.ones(3)])
    splines = BSpline.design_matrix(GRID, knots, 3).toarray()
    assert splines.shape[1] == 14
    space = np.column_stack([splines, fixed])
    residual = smooth - space @ np.linalg.lstsq(space, smooth, rcond=None)[0]
    np.testing.assert_allclose(residual, 0.0, atol=1e-8)
    overlap = smooth.T @ smooth
    np.testing.assert_allclose(overlap, np.diag(np.diag(overlap)), atol=1e-8)


def test_smooth_columns_favour_the_smooth() -> None:
    """The ridge on them is a roughness penalty: columns that wiggle more are shorter."""
    smooth = design()[:, 2:]
    roughness = np.square(np.diff(smooth, n=2, axis=0)).sum(axis=0) / np.square(smooth).sum(axis=0)
    lengths = np.linalg.norm(smooth, axis=0)
    assert np.corrcoef(np.log(roughness), np.log(lengths))[0, 1] < -0.9


def test_weights_are_probabilities_however_steep() -> None:
    for steep in (0.0, 60.0, 4000.0):
        weights = cell_weights(np.concatenate([[steep, 0.0], np.zeros(design().shape[1] - 2)]))
        assert weights.sum() == pytest.approx(1.0)
        assert (weights >= 0).all()


def test_no_information_leaves_the_prior_mean() -> None:
    flat = fit_density(RowGroups(np.ones((1, 400)), np.array([1000.0])), beta_mean=BETA_PRIOR, beta_start=(0.0, 0.0))
    np.testing.assert_allclose(flat.coefficients[:2], BETA_PRIOR, atol=1e-3)
    np.testing.assert_allclose(flat.coefficients[2:], 0.0, atol=1e-3)


def test_a_million_rows_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    # Curvatures of a million rows and of the prior lie far apart: a floor relative to the largest takes 200 steps.
    monkeypatch.setattr(density, "MAX_ITERATIONS", 15)
    rng = np.random.default_rng(5)
    rows = counted(rng.binomial(37, rng.beta(0.5, 3.0, size=1_000_000)), 37)
    few = fit_density(rows, beta_mean=BETA_PRIOR, beta_start=(-0.5, 2.0))
    monkeypatch.setattr(density, "MAX_ITERATIONS", 500)
    many = fit_density(rows, beta_mean=BETA_PRIOR, beta_start=(-0.5, 2.0))
    np.testing.assert_allclose(few.weights, many.weights, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_signs_of_the_columns_are_not_left_to_the_processor() -> None:
    script = (
        "import numpy as np; from ens_plugin.core.row_model import design; "
        "print(' '.join(f'{value:.6f}' for value in design()[[0, -1]].ravel()))"
    )
    kernels = ("Prescott", "Haswell", "Nehalem")
    printed = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_CORETYPE": kernel},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kernel in kernels
    }
    assert len(printed) == 1


def test_the_search_does_not_start_with_steps_that_are_far_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here the maximum is near after 15 evaluations, and after 49 where long steps are only halved."""
    rng, values = np.random.default_rng(0), []
    plain = density._Objective.at

    def counting(objective: density._Objective, coefficients: FloatArray) -> density._Reached:
        reached = plain(objective, coefficients)
        values.append(reached.value)
        return reached

    rows = counted(rng.binomial(2, rng.beta(0.4, 4.6, size=100_000)), 2)
    coefficients, centre = np.zeros((2, design().shape[1]))
    coefficients[:2], centre[:2] = 3.0, BETA_PRIOR
    precision = np.append([1 / 100.0] * 2, [1 / 4.0] * (centre.size - 2))
    start = density._Objective(rows, centre, precision).at(coefficients)
    monkeypatch.setattr(density._Objective, "at", counting)
    density._maximize(start, start.hessian())
    assert int(np.argmax(np.array(values) > max(values) - 1.0)) < 25
