"""Tables built once for all tests of scores, and exact values to compare them with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit, logit, ndtr

from ens_plugin.papers.score_tables_2017 import tables as load_score_tables
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables

FloatArray = NDArray[np.float64]


@lru_cache(maxsize=1)
def tables() -> ScoreTables:
    return load_score_tables()


def normal_mean(function: object, mean: float, spread: float) -> float:
    """E f(c), c normal, by adaptive quadrature split at the mean and at 0."""
    points = sorted({-mean / spread, 0.0, *np.linspace(-8, 8, 9)})

    def integrand(z: float) -> float:
        return float(function(mean + spread * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi))  # type: ignore[operator]

    edges = [point for point in points if -10 < point < 10]
    return sum(quad(integrand, a, b, epsabs=1e-13)[0] for a, b in zip([-10.0, *edges], [*edges, 10.0], strict=True))


def dense_normal(spread: float, step: float = 0.01) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of many equal steps for a normal variable."""
    z = np.arange(-9.0, 9.0, step / max(1.0, spread / 2))
    w = np.exp(-z * z / 2)
    return z, w / w.sum()


def three_below_half(mean: float, spread: float) -> float:
    """P(mean of three < 1/2): two integrated numerically, the third exactly (to 1e-6 up to a spread of 4)."""
    z, w = dense_normal(spread, 0.01)
    p = expit(mean + spread * z)
    rest = 1.5 - p[:, None] - p
    inside = np.clip(rest, 1e-300, 1 - 1e-16)
    third = np.where(rest <= 0, 0.0, np.where(rest >= 1, 1.0, ndtr((logit(inside) - mean) / spread)))
    return float(w @ third @ w)
