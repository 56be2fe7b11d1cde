"""The chance that a member errs on a row, its density over rows, and the error and agreement of majorities."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from ens_plugin.core.validation import (
    PART_ROWS,
    AnyIntArray,
    FloatArray,
    as_probability,
    as_sizes,
    as_values,
    counted,
    pair_index,
    row_parts,
    sums_by_code,
    whole_counts,
)
from ens_plugin.core.weights import row_quantiles
from ens_plugin.errors import InputError, WeakEstimateWarning, warn_user

# For larger sizes, the incomplete beta function is quicker than one step per two members. A curve has most of the sizes
# up to its largest; other errors are wanted at few.
LARGEST_OF_CURVE = 100_000
LARGEST_STEPPED = 2_001


def majority_error(probability: ArrayLike, sizes: ArrayLike) -> FloatArray:
    r"""Return the probability that the majority of B members is wrong, shape (n_sizes, n_points).

    2007 eq. 2 and 2013 eq. 7.  At infinity it is 1 above 1/2, 0 below, 1/2 at 1/2.  From size 2k-1 to 2k+1 the tail
    changes by :math:`-(1-2p)\binom{2k-1}{k}(p(1-p))^k`; absolute error below 1e-14, and below 1e-12 above size 2001,
    where it is the incomplete beta function of :func:`soft_majority_error`.
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
    """Return the weighted mean of :func:`majority_error` over points, without an array of sizes x points."""
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
    """Return the probability that the majority is wrong for a number of votes that need not be whole.

    :math:`I_p(b/2 + 1/2, b/2 + 1/2)`, equal to :func:`majority_error` at odd whole ``b``; shape (n_sizes, n_points).
    """
    p = as_probability(probability, "probability")
    b = np.atleast_1d(np.asarray(votes, dtype=np.float64))
    if not np.all(b > 0):
        raise InputError(f"votes must be positive, got {b.min():g}.")
    limit = np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))
    shape = np.where(np.isinf(b), 1.0, b / 2 + 0.5)[:, None]
    return np.where(np.isinf(b)[:, None], limit, betainc(shape, shape, p))


FEW_ROWS = 30
MAX_GROUPS = 4096
# Of shares by angle, from 0 to 256, times eighths of the numbers of votes.
N_MAJORITY_CELLS = 257 * 8


def warn_of_few_rows(n_rows: float) -> None:
    """Warn of fewer than 30 rows, counted by what they are worth."""
    if n_rows < FEW_ROWS:
        number = f"{n_rows:.3g}"
        warn_user(
            f"There {'is' if number == '1' else 'are'} only {counted(number, 'row')} to estimate the distribution of "
            f"votes from; below {FEW_ROWS} every figure is rough. Pass more rows.",
            WeakEstimateWarning,
        )


def group_counts(
    k: FloatArray,
    n: FloatArray,
    weight: FloatArray,
    rows: FloatArray | None = None,
    votes_per_member: float = 1.0,
) -> tuple[FloatArray, FloatArray, FloatArray, AnyIntArray]:
    """Return groups of rows with equal (k, n) votes; above 4096 pairs, of rows that are nearly equal."""
    # Of each group it returns the weighted mean k and n, times `votes_per_member`, and the total weight; then the group
    # of each entry. k and n are multiplied in parts to save memory. Nearly equal rows share a cell of width pi/512 in
    # asin(sqrt(k/n)) and a quantile eighth of n: a quarter of the binomial's standard deviation or less up to n = 1600
    # per row.
    votes = votes_per_member
    first = slice(0, PART_ROWS)
    n_rows = k.size if rows is None else rows.sum()
    whole = n_rows <= MAX_GROUPS or not (np.any(k[first] * votes % 1.0) or np.any(n[first] * votes % 1.0))
    if whole:
        group = pair_index(k, n) if votes == 1.0 else pair_index(k * votes, n * votes)
    if not whole or group.max() >= MAX_GROUPS:
        group = _cell_index(k, n, rows, votes)
        counts = sums_by_code(group, weight, int(group.max()) + 1)
        return *_means_of_cells(k, n, weight, votes, group, counts), counts, group
    counts = sums_by_code(group, weight, int(group.max()) + 1)
    k_group, n_group = np.empty((2, counts.size))
    for part in row_parts(k.size):
        k_group[group[part]], n_group[group[part]] = k[part] * votes, n[part] * votes
    return k_group, n_group, counts, group


def _means_of_cells(
    k: FloatArray, n: FloatArray, weight: FloatArray, votes: float, group: AnyIntArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean votes of the rows of each cell, and their number."""
    total, k_sum, n_sum = np.zeros((3, counts.size))
    for part in row_parts(k.size):
        here = group[part]
        # A group without weight still needs its k and n, because its rows have a posterior.
        mass = np.where(counts[here] > 0, weight[part], 1.0)
        total += np.bincount(here, mass, counts.size)
        k_sum += np.bincount(here, mass * (k[part] * votes), counts.size)
        n_sum += np.bincount(here, mass * (n[part] * votes), counts.size)
    return k_sum / total, n_sum / total


def _cell_index(k: FloatArray, n: FloatArray, rows: FloatArray | None, votes: float) -> NDArray[np.int16]:
    """Return the index of each entry among the occupied cells of nearly equal rows."""
    numbers = whole_counts(n) if rows is None else None
    values, alike = (n, rows) if numbers is None else numbers
    edges = row_quantiles(values * votes, np.arange(1, 8) / 8, alike)
    code = np.empty(k.size, dtype=np.int16)
    is_code = np.zeros(N_MAJORITY_CELLS, dtype=bool)
    for part in row_parts(k.size):
        k_votes, n_votes = k[part] * votes, n[part] * votes
        code[part] = np.floor(share_angle(k_votes, n_votes)) * 8 + np.searchsorted(edges, n_votes)
        is_code[code[part]] = True
    position = (np.cumsum(is_code) - 1).astype(np.int16)
    for part in row_parts(k.size):
        code[part] = position[code[part]]
    return code


def share_angle(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return asin(sqrt(k/n)) scaled to 0 to 256, whose variance does not depend on k/n; unit cells group rows."""
    return np.asarray(np.arcsin(np.sqrt(k / n)) * (512 / np.pi))
