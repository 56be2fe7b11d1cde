"""Repeated, seeded simulation with a known truth: a problem draws rows, an estimator is judged over repetitions.

To judge another estimator or problem, add it to a list in one of the test files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

FloatArray = NDArray[np.float64]

IN_BAG = 1 - 0.368


@dataclass(frozen=True)
class Problem:
    """Rows whose probability of a wrong vote is drawn from a known distribution.

    Attributes
    ----------
    draw : draws the probabilities of some rows from a generator
    """

    name: str
    draw: Callable[[np.random.Generator, int], FloatArray]

    def counts(self, rng: np.random.Generator, n_rows: int, n_members: int) -> tuple[FloatArray, FloatArray]:
        """Wrong votes and votes of `n_rows` rows, votes as a bootstrap leaves them; rows without any left out."""
        p = self.draw(rng, n_rows)
        n = rng.binomial(n_members, 1 - IN_BAG, n_rows)
        k = rng.binomial(n, p)
        return k[n > 0].astype(np.float64), n[n > 0].astype(np.float64)

    def true_error(self, size: float) -> float:
        """Error of an ensemble of one size over all rows there could be."""
        p = population(self)
        if np.isinf(size):
            return float(np.mean(p > 0.5))
        return float(np.mean(binom.sf((size - 1) // 2, int(size), p)))


@lru_cache(maxsize=8)
def population(problem: Problem) -> FloatArray:
    return problem.draw(np.random.default_rng(987), 200_000)


def beta_rows(rng: np.random.Generator, n_rows: int) -> FloatArray:
    return rng.beta(0.5, 3.0, n_rows)


def two_kinds_of_rows(rng: np.random.Generator, n_rows: int) -> FloatArray:
    return np.where(rng.random(n_rows) < 0.85, rng.beta(0.6, 8.0, n_rows), rng.beta(3.0, 3.0, n_rows))


def noisy_labels(rng: np.random.Generator, n_rows: int) -> FloatArray:
    p = rng.beta(0.8, 4.0, n_rows)
    return np.where(rng.random(n_rows) < 0.1, 1 - p, p)


PROBLEMS = [
    Problem("beta", beta_rows),
    Problem("two kinds of rows", two_kinds_of_rows),
    Problem("noisy labels", noisy_labels),
]


def repeat(n_repeats: int, one: Callable[[np.random.Generator], FloatArray]) -> FloatArray:
    """Results of independent, seeded repetitions, shape (n_repeats, ...)."""
    seeds = np.random.SeedSequence(20240501).spawn(n_repeats)
    return np.array([one(np.random.default_rng(seed)) for seed in seeds])


def standard_error(results: FloatArray) -> FloatArray:
    """Standard error of the mean over repetitions."""
    return np.asarray(results.std(axis=0, ddof=1) / np.sqrt(len(results)))
