r"""Error of the majority vote of independent members: tails of the binomial and of the hypergeometric distribution.

``p`` is the probability that one member is wrong about a row.  A majority of ``B`` members is
wrong with probability :math:`\pi(p, B) = P[\mathrm{Bin}(B, p) > B/2]` (for odd ``B`` 2007 eq. 2 and 2013 eq. 7).
At an even ``B`` a tie counts half here, which gives an even size the error of the odd size below it; neither paper
counts ties so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import count, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln

from ens_plugin.core.row_models.density import GRID
from ens_plugin.core.validation import FloatArray, as_counts, as_probability, as_sizes, as_values
from ens_plugin.errors import InputError

__all__ = [
    "LOWER_HALF",
    "MOST_CACHED",
    "agreement_on_grid",
    "grid_agreement",
    "grid_majority_error",
    "grid_soft_error",
    "majority_curve",
    "majority_error",
    "majority_slope",
    "soft_majority_error",
    "subset_majority_error",
]

# For larger sizes, the incomplete beta function is quicker than one step per two members. A curve has most of the sizes
# up to its largest; other errors are wanted at few.
LARGEST_OF_CURVE = 100_000
LARGEST_STEPPED = 2_001
# Sizes of a table on the grid that is kept; of so many sizes it takes 3 MB.
MOST_CACHED = 1_000
# The grid is symmetric about 1/2, and the majority of 1 - p is wrong where that of p is right.
LOWER_HALF = GRID[: GRID.size // 2]


def majority_error(probability: ArrayLike, sizes: ArrayLike) -> FloatArray:
    r"""Return the probability that the majority of B members is wrong.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        Probability that one member is wrong.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes, whole numbers of at least 1 or infinity, in any order.

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_points)
        At infinity: 1 above 1/2, 0 below, 1/2 at 1/2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1] or a size below 1.

    Notes
    -----
    2007 eq. 2 and 2013 eq. 7.  From size 2k-1 to 2k+1 the tail changes by
    :math:`-(1-2p)\binom{2k-1}{k}(p(1-p))^k`; absolute error below 1e-14, and below 1e-12 above size 2001, where it is
    the incomplete beta function of :func:`soft_majority_error`.

    Examples
    --------
    >>> majority_error([0.3], [1, 2, 3]).ravel().round(3)
    array([0.3  , 0.3  , 0.216])
    """
    p = as_probability(probability, "probability")
    wanted = as_sizes(sizes)
    result = np.empty((wanted.size, p.size))
    large = wanted > LARGEST_STEPPED
    result[large] = soft_majority_error(p, 2.0 * np.ceil(wanted[large] / 2.0) - 1.0)
    finite = np.flatnonzero(~large)
    if finite.size:
        steps = (wanted[finite].astype(np.int64) - 1) // 2
        _, first, inverse = np.unique(steps, return_index=True, return_inverse=True)
        tails = _tails_at(p, steps[first])
        result[finite] = tails[inverse]
    return result


def majority_curve(probability: ArrayLike, shares: ArrayLike, sizes: ArrayLike) -> FloatArray:
    """Return the weighted mean of :func:`majority_error` over points, without an array of sizes x points.

    Parameters
    ----------
    probability, shares : array-like, shape (n_points,)
        Probability that one member is wrong, and share of the rows with that probability.
    sizes : array-like, shape (n_sizes,)

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
    """
    p = as_probability(probability, "probability")
    share = as_values(shares, "shares", p.size)
    wanted = as_sizes(sizes)
    result = np.empty(wanted.size)
    large = wanted > LARGEST_OF_CURVE
    result[large] = soft_majority_error(p, 2.0 * np.ceil(wanted[large] / 2.0) - 1.0) @ share
    finite = ~large
    if finite.any():
        steps = (wanted[finite].astype(np.int64) - 1) // 2
        means = np.array([tail @ share for tail in islice(_tails(p), int(steps.max()) + 1)])
        result[finite] = np.clip(means[steps], 0.0, None)
    return result


@lru_cache(maxsize=8)
def grid_majority_error(sizes: tuple[float, ...]) -> FloatArray:
    """Return :func:`majority_error` on the points of the density's grid, shape (n_sizes, 400), cached and read-only."""
    return _mirrored(_lower_errors(2.0 * np.ceil(as_sizes(sizes) / 2.0) - 1.0))


@lru_cache(maxsize=8)
def grid_soft_error(votes: tuple[float, ...]) -> FloatArray:
    """Return :func:`soft_majority_error` on the points of the density's grid, shape (n_sizes, 400), read-only."""
    return _mirrored(soft_majority_error(LOWER_HALF, votes))


@lru_cache(maxsize=4)
def grid_agreement(votes: tuple[float, ...]) -> FloatArray:
    """Return the chance of the infinite ensemble's label on the density's grid, shape (n_sizes, 400), read-only."""
    agreement = agreement_on_grid(np.array(votes))
    agreement.flags.writeable = False
    return agreement


def agreement_on_grid(votes: FloatArray) -> FloatArray:
    """Return what :func:`grid_agreement` does, without keeping it."""
    is_odd = bool(np.all(votes[np.isfinite(votes)] % 2.0 == 1.0))
    right = 1.0 - (_lower_errors(votes) if is_odd else soft_majority_error(LOWER_HALF, votes))
    return np.hstack([right, right[:, ::-1]])


def _mirrored(lower: FloatArray) -> FloatArray:
    """Return errors on the whole grid from those on its lower half, read-only."""
    error = np.hstack([lower, 1.0 - lower[:, ::-1]])
    error.flags.writeable = False
    return error


def _lower_errors(odd_sizes: FloatArray) -> FloatArray:
    """Return the error on the lower half of the grid, shape (n_sizes, 200), of odd sizes and infinity.

    One analysis wants the error of many sizes and, of the same sizes, the agreement.
    """
    result = np.empty((odd_sizes.size, LOWER_HALF.size))
    stepped = odd_sizes <= LARGEST_STEPPED
    result[stepped] = _lower_steps()[odd_sizes[stepped].astype(np.int64) // 2]
    for place in np.flatnonzero(~stepped):
        result[place] = _lower_error(odd_sizes[place])
    return result


@cache
def _lower_steps() -> FloatArray:
    """Return the error on the lower half of the grid at sizes 1, 3, 5, ..., 2001: 1.6 MB."""
    return _tails_at(LOWER_HALF, np.arange(LARGEST_STEPPED // 2 + 1))


@lru_cache(maxsize=MOST_CACHED)
def _lower_error(size: float) -> FloatArray:
    """Return the error on the lower half of the grid at one large odd size, or at infinity."""
    if np.isinf(size):
        return np.zeros(LOWER_HALF.size)
    half = (size + 1.0) / 2.0
    return np.asarray(betainc(half, half, LOWER_HALF))


def _tails_at(p: FloatArray, steps: NDArray[np.int64]) -> FloatArray:
    """Return the probability of a wrong majority at sizes 2 * step + 1, steps ascending, shape (n_steps, n_points)."""
    rows = np.empty((steps.size, p.size))
    position = 0
    for step, tail in enumerate(islice(_tails(p), int(steps[-1]) + 1)):
        if step == steps[position]:
            rows[position] = tail
            position += 1
    return np.clip(rows, 0.0, 1.0, out=rows)


def _tails(p: FloatArray) -> Iterator[FloatArray]:
    """Yield the probability of a wrong majority at sizes 1, 3, 5, ... (the same array, updated in place)."""
    odds = p * (1.0 - p)
    tail = p.copy()
    term = (1.0 - 2.0 * p) * odds
    for k in count(1):
        yield tail
        tail -= term
        term *= odds * (2.0 * (2 * k + 1) / (k + 1))


def soft_majority_error(probability: ArrayLike, votes: ArrayLike) -> FloatArray:
    r"""Return the probability that the majority is wrong for a number of votes that need not be whole.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
    votes : array-like of float, shape (n_sizes,)
        Positive numbers of effective votes, or infinity.

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_points)

    Notes
    -----
    :math:`I_p(b/2 + 1/2, b/2 + 1/2)`, equal to :func:`majority_error` at odd whole ``b``.
    """
    p = as_probability(probability, "probability")
    b = np.atleast_1d(np.asarray(votes, dtype=np.float64))
    if not np.all(b > 0):
        raise InputError(f"votes must be positive, got {b.min():g}.")
    limit = np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))
    shape = np.where(np.isinf(b), 1.0, b / 2 + 0.5)[:, None]
    return np.where(np.isinf(b)[:, None], limit, betainc(shape, shape, p))


def majority_slope(probability: ArrayLike, votes: float) -> FloatArray:
    r"""Return the derivative of the majority's error in the probability that one member is wrong, shape (n_points,).

    :math:`\partial\pi/\partial p = (p(1-p))^{(b-1)/2} / \mathrm{B}(\tfrac{b+1}{2}, \tfrac{b+1}{2})`.
    """
    p = as_probability(probability, "probability")
    half = (votes - 1.0) / 2.0
    inside = np.clip(p * (1.0 - p), 1e-300, None)
    return np.asarray(np.exp(half * np.log(inside) - betaln(half + 1.0, half + 1.0)))


def subset_majority_error(wrong: ArrayLike, trials: ArrayLike, max_size: int) -> FloatArray:
    r"""Return the probability that the majority of a random subset of a row's members is wrong.

    Parameters
    ----------
    wrong, trials : array-like, shape (n_rows,)
        Wrong members and members of each row, whole numbers.
    max_size : int
        Largest subset size.

    Returns
    -------
    ndarray of float64, shape (n_odd_sizes, n_rows)
        P[Hypergeometric(trials, wrong, B) > B/2] at B = 1, 3, 5, ... up to `max_size`; NaN where
        B exceeds the row's trials.

    Notes
    -----
    The exact mean over all subsets of size B, by recurrence over odd B: absolute error about 1e-15.
    """
    k, n = as_counts(wrong, trials)
    if max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size}.")
    if np.any(k != np.floor(k)) or np.any(n != np.floor(n)):
        raise InputError("wrong and trials must be whole numbers: subsets of members are counted; pass hard votes.")
    right = n - k
    steps = (int(max_size) - 1) // 2
    rows = np.full((steps + 1, k.size), np.nan)
    tail = k / n
    scale = 1.0 / n
    rows[0] = tail
    for a in range(steps):
        size = 2 * a + 1
        left = n - size
        alive = left >= 2
        spare = np.where(alive, left * (left - 1.0), 1.0)
        base = scale * (k - a) * (right - a) / spare
        tail = tail + base * (k - right)
        scale = base * 2.0 * (2 * a + 3) / (a + 2)
        rows[a + 1] = np.where(alive, np.clip(tail, 0.0, 1.0), np.nan)
    return rows
