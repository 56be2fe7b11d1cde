"""Test problems: by formula, where fresh rows cost nothing, and the real data that ship with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

FloatArray = NDArray[np.float64]
LabelArray = NDArray[np.int64]
Sample = tuple[FloatArray, LabelArray]

N_FEATURES = 20
# 2013 gives 16.2 +- 0.4 % for a forest on 5000 rows: one cycle with this noise gives 16.3 %, and mlbench's default
# noise (none) gives 0 %.
SPIRAL_NOISE = 0.15
LOGIT_SCALE = 2.0
HARD_SHARE, HARD_FLIPS, EASY_FLIPS = 0.3, 0.4, 0.02


@dataclass(frozen=True)
class Formula:
    """A two-label problem that can be sampled without end.

    Attributes
    ----------
    sample : callable
        ``sample(n_rows, rng)`` returns X, float64 of shape (n_rows, n_features), and y, labels 0 and 1.
    bayes_label : callable or None
        ``bayes_label(X)`` returns the label of the best possible rule, shape (n_rows,); None where it is not known.
    """

    sample: Callable[[int, np.random.Generator], Sample]
    bayes_label: Callable[[FloatArray], LabelArray] | None


def balanced_labels(n_rows: int, rng: np.random.Generator) -> LabelArray:
    """Half of the rows of each label, as in mlbench, in random order."""
    return np.asarray(rng.permutation(np.arange(n_rows) % 2), dtype=np.int64)


def twonorm(n_rows: int, rng: np.random.Generator) -> Sample:
    """Two normal clouds of unit covariance around (a, ..., a) and (-a, ..., -a), a = 2 / sqrt(20)."""
    y = balanced_labels(n_rows, rng)
    a = 2.0 / np.sqrt(N_FEATURES)
    return rng.standard_normal((n_rows, N_FEATURES)) + a * (2 * y - 1)[:, None], y


def twonorm_label(features: FloatArray) -> LabelArray:
    return np.asarray(features.sum(axis=1) > 0, dtype=np.int64)


def ringnorm(n_rows: int, rng: np.random.Generator) -> Sample:
    """Sample mlbench's ringnorm: N(0, 4 I) around N((a, ..., a), I), a = 1 / sqrt(20)."""
    return _ringnorm(n_rows, rng, 1.0 / np.sqrt(N_FEATURES))


def ringnorm_label(features: FloatArray) -> LabelArray:
    return _ringnorm_label(features, 1.0 / np.sqrt(N_FEATURES))


def breiman_ringnorm(n_rows: int, rng: np.random.Generator) -> Sample:
    """Breiman's own ringnorm: as mlbench's, with a = 2 / sqrt(20)."""
    return _ringnorm(n_rows, rng, 2.0 / np.sqrt(N_FEATURES))


def breiman_ringnorm_label(features: FloatArray) -> LabelArray:
    return _ringnorm_label(features, 2.0 / np.sqrt(N_FEATURES))


def _ringnorm(n_rows: int, rng: np.random.Generator, a: float) -> Sample:
    y = balanced_labels(n_rows, rng)
    noise = rng.standard_normal((n_rows, N_FEATURES))
    return np.where((y == 1)[:, None], noise + a, 2.0 * noise), y


def _ringnorm_label(features: FloatArray, a: float) -> LabelArray:
    log_wide = -np.sum(features**2, axis=1) / 8.0 - N_FEATURES * np.log(2.0)
    log_narrow = -np.sum((features - a) ** 2, axis=1) / 2.0
    return np.asarray(log_narrow > log_wide, dtype=np.int64)


def circle(n_rows: int, rng: np.random.Generator) -> Sample:
    """Sample mlbench's circle: a disc of half the area of the square [-1, 1]^2 it lies in."""
    features = rng.uniform(-1.0, 1.0, (n_rows, 2))
    return features, circle_label(features)


def circle_label(features: FloatArray) -> LabelArray:
    return np.asarray(np.sum(features**2, axis=1) > 2.0 / np.pi, dtype=np.int64)


def spiral(n_rows: int, rng: np.random.Generator) -> Sample:
    """Sample mlbench's two spirals of one cycle, with normal noise across the arms."""
    y = balanced_labels(n_rows, rng)
    features = np.empty((n_rows, 2))
    for label, sign in ((0, 1.0), (1, -1.0)):
        features[y == label] = sign * _spiral_arm(int(np.count_nonzero(y == label)), rng)
    return features, y


def _spiral_arm(n_rows: int, rng: np.random.Generator) -> FloatArray:
    turn = np.arange(n_rows) / n_rows
    angle, radius = 2.0 * np.pi * turn, 2.0 * turn + 1.0
    arm = radius[:, None] / 3.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    along = np.column_stack(
        [np.cos(angle) - np.pi * radius * np.sin(angle), np.sin(angle) + np.pi * radius * np.cos(angle)]
    )
    across = np.column_stack([along[:, 1], -along[:, 0]]) / np.linalg.norm(along, axis=1)[:, None]
    noise = rng.normal(0.0, SPIRAL_NOISE, n_rows)
    return np.asarray(arm + noise[:, None] * across)


def noisy_logistic(n_rows: int, rng: np.random.Generator) -> Sample:
    """Ten normal features; the log odds, of standard deviation 2, are a sum of the first five."""
    features = rng.standard_normal((n_rows, 10))
    log_odds = LOGIT_SCALE / np.sqrt(5.0) * features[:, :5].sum(axis=1)
    return features, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-log_odds))).astype(np.int64)


def noisy_logistic_label(features: FloatArray) -> LabelArray:
    return np.asarray(features[:, :5].sum(axis=1) > 0, dtype=np.int64)


def hard_easy_mixture(n_rows: int, rng: np.random.Generator) -> Sample:
    """Sample a linear rule on ten uniform features; labels are flipped often where the first feature is below 0.3."""
    features = rng.uniform(0.0, 1.0, (n_rows, 10))
    flips = np.where(features[:, 0] < HARD_SHARE, HARD_FLIPS, EASY_FLIPS)
    return features, hard_easy_label(features) ^ (rng.random(n_rows) < flips)


def hard_easy_label(features: FloatArray) -> LabelArray:
    return np.asarray(features[:, 1] + features[:, 2] > 1.0, dtype=np.int64)


FORMULAS: dict[str, Formula] = {
    "twonorm": Formula(twonorm, twonorm_label),
    "ringnorm": Formula(ringnorm, ringnorm_label),
    "ringnorm (Breiman)": Formula(breiman_ringnorm, breiman_ringnorm_label),
    "circle": Formula(circle, circle_label),
    "spiral": Formula(spiral, None),
    "noisy logistic": Formula(noisy_logistic, noisy_logistic_label),
    "hard/easy mixture": Formula(hard_easy_mixture, hard_easy_label),
}

REAL_DATA: dict[str, Callable[..., tuple[FloatArray, NDArray[np.float64]]]] = {
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "iris": datasets.load_iris,
    "diabetes": datasets.load_diabetes,
}


def load_real(name: str, n_rows: int | None, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return a real data set, or `n_rows` random rows of it; y holds labels, or the target for diabetes."""
    features, target = REAL_DATA[name](return_X_y=True)
    if n_rows is None:
        return features, target
    rows = rng.permutation(target.size)[:n_rows]
    return features[rows], target[rows]


def friedman(features: FloatArray) -> FloatArray:
    """Return Friedman's function of the first five features."""
    x = features.T
    return np.asarray(10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4])


def friedman1(n_rows: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Friedman's first regression problem: ten uniform features, noise of standard deviation 1."""
    features, target = datasets.make_friedman1(n_rows, noise=1.0, random_state=int(rng.integers(2**31)))
    return features, target
