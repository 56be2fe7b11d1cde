"""The chance that a member errs on a row, its density over rows, and the error and agreement of majorities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import count, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc

from ens_plugin.core.row_model import (
    GRID,
    Density,
    Likelihood,
    RowGroups,
    binomial_likelihood,
    fit_density,
    mean_posterior,
)
from ens_plugin.core.validation import (
    PART_ROWS,
    AnyIntArray,
    FloatArray,
    as_counts,
    as_probability,
    as_sizes,
    as_values,
    code_index,
    counted,
    pair_index,
    row_parts,
    sums_by_code,
    whole_counts,
)
from ens_plugin.core.weights import RowWeight, as_row_weight, row_quantiles
from ens_plugin.errors import InputError, WeakEstimateWarning, warn_user

# For larger sizes, the incomplete beta function is quicker than one step per two members. A curve has most of the sizes
# up to its largest; other errors are wanted at few.
LARGEST_OF_CURVE = 100_000
LARGEST_STEPPED = 2_001
# Sizes of a table on the grid that is kept; of so many sizes it takes 3 MB.
MOST_CACHED = 1_000
# The grid is symmetric about 1/2, and the majority of 1 - p is wrong where that of p is right.
LOWER_HALF = GRID[: GRID.size // 2]


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


@lru_cache(maxsize=8)
def grid_majority_error(sizes: tuple[float, ...]) -> FloatArray:
    """Return :func:`majority_error` on the points of the density's grid, shape (n_sizes, 400), cached and read-only."""
    return _mirrored(_lower_errors(2.0 * np.ceil(as_sizes(sizes) / 2.0) - 1.0))


@lru_cache(maxsize=8)
def grid_soft_error(votes: tuple[float, ...]) -> FloatArray:
    """Return :func:`soft_majority_error` on the points of the density's grid, shape (n_sizes, 400), read-only."""
    return _mirrored(soft_majority_error(LOWER_HALF, votes))


def _mirrored(lower: FloatArray) -> FloatArray:
    """Return errors on the whole grid from those on its lower half, read-only."""
    error = np.hstack([lower, 1.0 - lower[:, ::-1]])
    error.flags.writeable = False
    return error


def _lower_errors(odd_sizes: FloatArray) -> FloatArray:
    """Return the error on the lower half of the grid, shape (n_sizes, 200), of odd sizes and infinity."""
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


def subset_majority_error(wrong: ArrayLike, trials: ArrayLike, max_size: int) -> FloatArray:
    """Return the probability that the majority of a random subset of a row's members is wrong.

    P[Hypergeometric(trials, wrong, B) > B/2] at B = 1, 3, 5, ... up to `max_size`, shape (n_odd_sizes, n_rows); NaN
    where B exceeds the row's trials.  The exact mean over all subsets of size B, by recurrence over odd B: absolute
    error about 1e-15.
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


FEW_ROWS = 30
MANY_VOTES = 60.0
MAX_GROUPS = 4096
# Of shares by angle, from 0 to 256, times eighths of the numbers of votes.
N_MAJORITY_CELLS = 257 * 8
# Width of the cells that a fit starts from, in standard deviations, and how many times fewer than groups they are.
COARSE_WIDTH, LEAST_REDUCTION = 0.5, 3


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted distribution over rows of the probability that one member is wrong.

    It implements the protocol :class:`ens_plugin.core.row_model.RowModel`.

    Attributes
    ----------
    support, weights : ndarray, shape (n_points,)
        The distribution G: points in [0, 1] and their probabilities.
    votes_per_member : float
        Effective votes that one member is worth; 1 for hard votes.
    density : Density or None
        None for a point mass (no member is wrong on any row, or all are).
    likelihood : ndarray or ProductMatrix, shape (n_groups, n_points)
        Likelihood of each group of equal rows at each point.
    counts : ndarray, shape (n_groups,)
        Weight of each group.
    group : ndarray of int, shape (n_rows,)
        Group of each row.
    """

    support: FloatArray
    weights: FloatArray
    votes_per_member: float
    density: Density | None
    likelihood: Likelihood
    counts: FloatArray
    group: AnyIntArray

    @property
    def point_weights(self) -> FloatArray:
        """Return the distribution of the rows over the points, the same as `weights`; sums to 1."""
        return self.weights

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability that the ensemble is wrong at each point, shape (n_sizes, n_points)."""
        b = as_sizes(sizes)
        is_cached = self.support is GRID and b.size <= MOST_CACHED
        if self.votes_per_member == 1.0:
            return grid_majority_error(tuple(b)) if is_cached else majority_error(self.support, b)
        votes = b * self.votes_per_member
        return grid_soft_error(tuple(votes)) if is_cached else soft_majority_error(self.support, votes)

    def error(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected error of an ensemble of each size, shape (n_sizes,); infinity is allowed."""
        return np.asarray(self.error_by_point(sizes) @ self.weights)

    @property
    def asymptote(self) -> float:
        """Return the error of the infinite ensemble, G(p > 1/2)."""
        return float(self.error([np.inf])[0])


def fit_mixture(
    wrong: ArrayLike, trials: ArrayLike, weight: ArrayLike | RowWeight | None = None, *, votes_per_member: float = 1.0
) -> Mixture:
    """Fit the distribution over rows of the probability that one member is wrong, by penalised maximum likelihood.

    `wrong` of `trials` out-of-bag members are wrong about each row, or their support for wrong labels is summed; each
    is worth `votes_per_member` votes, 1 for hard votes.  Weights are scaled to Kish's effective number of rows, of
    which fewer than 30 warn.  With 60 or more votes a row on average, the fitted density is replaced by the mean of the
    rows' posteriors (one EM step): so many votes determine a row better than the smooth density does.
    """
    k, n = as_counts(wrong, trials)
    entry_weight = as_row_weight(weight, k.size)
    row_weight, votes = entry_weight.effective(), votes_per_member
    warn_of_few_rows(float(row_weight.sum()))
    if not k.any() or np.array_equal(k, n):
        return _point_mass(0.0 if not k.any() else 1.0, row_weight, votes)
    k_group, n_group, counts, group = group_counts(k, n, row_weight, entry_weight.rows, votes)
    likelihood = binomial_likelihood(k_group, n_group)
    start = _moment_beta(k_group, n_group, counts)
    density = fit_density(
        RowGroups(likelihood, counts),
        beta_mean=(-0.5, 0.5),
        beta_start=start,
        coarse=_nearly_equal(k_group, n_group, counts),
    )
    mixture = Mixture(GRID, density.weights, votes, density, likelihood, counts, group)
    # Rounding must not decide at exactly MANY_VOTES.
    if counts @ n_group / counts.sum() < MANY_VOTES * (1.0 - 1e-9):
        return mixture
    return replace(mixture, weights=mean_posterior(mixture, density.weights))


def warn_of_few_rows(n_rows: float) -> None:
    """Warn of fewer than 30 rows, counted by what they are worth."""
    if n_rows < FEW_ROWS:
        number = f"{n_rows:.3g}"
        warn_user(
            f"There {'is' if number == '1' else 'are'} only {counted(number, 'row')} to estimate the distribution of "
            f"votes from; below {FEW_ROWS} every figure is rough. Pass more rows.",
            WeakEstimateWarning,
        )


def _point_mass(at: float, row_weight: FloatArray, votes_per_member: float) -> Mixture:
    return Mixture(
        support=np.array([at]),
        weights=np.ones(1),
        votes_per_member=votes_per_member,
        density=None,
        likelihood=np.ones((1, 1)),
        counts=np.array([row_weight.sum()]),
        group=np.zeros(row_weight.size, dtype=np.int64),
    )


def group_counts(
    k: FloatArray,
    n: FloatArray,
    weight: FloatArray,
    rows: FloatArray | None = None,
    votes_per_member: float = 1.0,
) -> tuple[FloatArray, FloatArray, FloatArray, AnyIntArray]:
    """Return groups of rows with equal (k, n) votes; above 4096 pairs, of rows that are nearly equal.

    Of each group it returns the weighted mean k and n, times `votes_per_member`, and the total weight; then the group
    of each entry.  k and n are multiplied in parts to save memory.  Nearly equal rows share a cell of width pi/512 in
    asin(sqrt(k/n)) and a quantile eighth of n: a quarter of the binomial's standard deviation or less up to n = 1600
    per row.
    """
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


def _nearly_equal(k: FloatArray, n: FloatArray, counts: FloatArray) -> RowGroups | None:
    """Return few groups of nearly equal groups, half a standard deviation of the votes wide; None if not so few."""
    filled = np.flatnonzero(counts)
    k, n, counts = k[filled], n[filled], counts[filled]
    # Rounding must not decide where all groups have the typical number of votes, or shares are at the edge of a cell.
    typical = float(counts @ n / counts.sum()) * (1.0 + 1e-9)
    # The variance of asin(sqrt(k/n)) is 1 / 4n.
    cell = np.floor(share_angle(k, n) * (np.pi / 512 * 2.0 * np.sqrt(typical) / COARSE_WIDTH) + 1e-9)
    group = code_index(2 * cell.astype(np.int64) + (n > typical))
    counts_of, k_of, n_of = (
        np.bincount(group, values).astype(np.float64) for values in (counts, counts * k, counts * n)
    )
    if counts_of.size * LEAST_REDUCTION > k.size:
        return None
    return RowGroups(binomial_likelihood(k_of / counts_of, n_of / counts_of), counts_of)


def share_angle(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return asin(sqrt(k/n)) scaled to 0 to 256, whose variance does not depend on k/n; unit cells group rows."""
    return np.asarray(np.arcsin(np.sqrt(k / n)) * (512 / np.pi))


def _moment_beta(k: FloatArray, n: FloatArray, counts: FloatArray) -> tuple[float, float]:
    """Return the exponents of the beta density that matches the mean and variance of the rows' probabilities."""
    total = counts.sum()
    mean = float(np.clip(counts @ (k / n) / total, 1e-3, 1 - 1e-3))
    observed = counts @ (k / n - mean) ** 2 / total
    noise = float(counts @ (1.0 / n) / total)
    spread = (observed / (mean * (1 - mean)) - noise) / max(1.0 - noise, 1e-9)
    concentration = 1.0 / float(np.clip(spread, 1e-2, 0.95)) - 1.0
    return mean * concentration - 1.0, (1.0 - mean) * concentration - 1.0
