"""Problems whose law is known: rows drawn anew, and the chance of the second label at each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.shared.problems import friedman

Array = NDArray[Any]


class Problem(NamedTuple):
    """How rows are drawn, and what is known of their labels.

    Attributes
    ----------
    sample : callable
        ``sample(rng, n_rows)`` returns features, shape (n_rows, n_features), and labels 0 and 1 or values, shape
        (n_rows,).
    chance : callable or None
        ``chance(features)`` returns the probability of label 1 at each row, shape (n_rows,); None of values.
    """

    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    chance: Callable[[Array], Array] | None = None


def logistic(rng: np.random.Generator, n_rows: int, offset: float, slope: float) -> tuple[Array, Array]:
    """Draw rows whose log odds are linear but for one product."""
    features = rng.normal(size=(n_rows, 10))
    return features, (rng.random(n_rows) < _logistic_chance(features, offset, slope)).astype(np.int64)


def _logistic_chance(features: Array, offset: float, slope: float) -> Array:
    score = slope * (features[:, 0] + features[:, 1] * features[:, 2] + 0.5 * features[:, 3]) - offset
    return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _shells(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw two labels that differ by the distance from the middle, one of them rare."""
    features = rng.normal(size=(n_rows, 6))
    return features, (_shell_score(features) + rng.normal(size=n_rows) > 0.0).astype(np.int64)


def _shell_score(features: Array) -> Array:
    return np.asarray((features**2).sum(axis=1) - 10.5)


def _friedman(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw values with normal noise."""
    features = rng.random((n_rows, 8))
    return features, friedman(features) + 1.5 * rng.normal(size=n_rows)


def _heavy(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw values with long-tailed noise."""
    features = rng.random((n_rows, 8))
    return features, friedman(features) + 2.0 * rng.standard_t(4, n_rows)


def _of_logistic(offset: float, slope: float) -> Problem:
    return Problem(
        lambda rng, n_rows: logistic(rng, n_rows, offset, slope),
        lambda features: _logistic_chance(features, offset, slope),
    )


PROBLEMS = {
    "logistic, even": _of_logistic(0.0, 1.0),
    "logistic, steep": _of_logistic(0.0, 3.0),
    "logistic, 10 % rare": _of_logistic(4.2, 2.0),
    "shells, 8 % rare": Problem(_shells, lambda features: np.asarray(ndtr(_shell_score(features)))),
    "Friedman": Problem(_friedman),
    "Friedman, long tails": Problem(_heavy),
}
