"""Several methods on several problems: average ranks, and how far apart they must be (Demsar 2006)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata, studentized_range


def average_ranks(errors: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over problems of each method's rank; 1 is the lowest error, and equal errors share their ranks.

    `errors` has shape (n_problems, n_methods).
    """
    return np.asarray(rankdata(np.asarray(errors), axis=1).mean(axis=0))


def nemenyi_distance(n_methods: int, n_problems: int, level: float = 0.05) -> float:
    """Return the critical difference of average ranks of Nemenyi's test (Demsar 2006, section 3.2.2)."""
    quantile = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_problems)))
