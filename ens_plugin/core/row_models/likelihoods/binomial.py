"""Likelihoods of votes on the grid of a density, and their matrix as a product of two smaller ones."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.row_models.density import GRID
from ens_plugin.core.row_models.likelihoods.product import ProductMatrix
from ens_plugin.core.validation import FloatArray

__all__ = ["binomial_likelihood"]

# Binomial coefficients and powers of so many votes are far from the largest and smallest numbers, where p is near k/n.
MOST_VOTES = 200
# How many times fewer numbers the two matrices have than their product.
LEAST_REDUCTION = 1.5


def binomial_likelihood(k: FloatArray, n: FloatArray) -> FloatArray | ProductMatrix:
    r"""Return the likelihood of k of n votes for each group at each point of the grid, shape (n_groups, 400).

    The largest of each group is 1, to rounding; what is below 1e-240 may be 0.

    Notes
    -----
    Votes on many groups in whole numbers make a product.  With N the largest n,

    .. math:: p^k (1-p)^{n-k} = \sum_j \binom{N-n}{j} p^{k+j} (1-p)^{N-k-j},

    so that the powers of N votes are enough; all factors are positive, and nothing is lost to rounding.
    """
    most = n.max()
    n_numbers = (most + 1.0) * (k.size + GRID.size)
    are_few = most <= MOST_VOTES and n_numbers * LEAST_REDUCTION <= k.size * GRID.size
    if not are_few or np.any(k % 1.0) or np.any(n % 1.0):
        return _likelihood(k, n)
    choices = _choices(int(most - n.min()))[(most - n).astype(np.intp)] * np.exp(-_largest_log(k, n))[:, None]
    return ProductMatrix(_shifted(choices, k.astype(np.intp), int(most) + 1), _powers(int(most)))


@lru_cache(maxsize=8)
def _powers(most: int) -> FloatArray:
    """Return p^k (1-p)^(most-k) of each k at each point of the grid, shape (most + 1, 400)."""
    k = np.arange(most + 1.0)
    powers = np.exp(np.outer(k, np.log(GRID)) + np.outer(most - k, np.log1p(-GRID)))
    powers.flags.writeable = False
    return np.asarray(powers)


def _shifted(rows: FloatArray, places: NDArray[np.intp], width: int) -> FloatArray:
    """Return rows that each start at a place of their own, shape (n_rows, width); 0 before, and beyond is cut off."""
    n_rows, length = rows.shape
    wide = width + length
    shifted = np.zeros(n_rows * wide)
    # No two of these overlap.
    windows = np.lib.stride_tricks.sliding_window_view(shifted, length, writeable=True)
    windows[np.arange(n_rows) * wide + places] = rows
    return shifted.reshape(n_rows, wide)[:, :width]


@lru_cache(maxsize=8)
def _choices(largest: int) -> FloatArray:
    """Return the binomial coefficients of numbers up to `largest`, shape (largest + 1, largest + 1)."""
    table = np.zeros((largest + 1, largest + 1))
    table[:, 0] = 1.0
    for row in range(1, largest + 1):
        table[row, 1:] = table[row - 1, 1:] + table[row - 1, :-1]
    table.flags.writeable = False
    return table


def _largest_log(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return the largest log-likelihood of each group at a point of the grid."""
    below = _point_below(k, n)
    return np.maximum(*(k * np.log(GRID[at]) + (n - k) * np.log1p(-GRID[at]) for at in (below, below + 1)))


def _likelihood(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return the whole matrix, columns contiguous for the fit."""
    log_likelihood = np.column_stack([np.log(GRID), np.log1p(-GRID)]) @ np.stack([k, n - k])
    # To look for the largest value at all points takes as long as the rest.
    below, rows = _point_below(k, n), np.arange(k.size)
    log_likelihood -= np.maximum(log_likelihood[below, rows], log_likelihood[below + 1, rows])
    return np.asarray(np.exp(log_likelihood, out=log_likelihood).T)


def _point_below(k: FloatArray, n: FloatArray) -> NDArray[np.intp]:
    """Return the first of the two points around k/n, at one of which the likelihood is largest."""
    return np.clip(np.floor(k / n * GRID.size - 0.5).astype(np.intp), 0, GRID.size - 2)
