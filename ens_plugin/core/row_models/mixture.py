"""The distribution over rows of the probability that one member is wrong, deconvolved (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.columns import sums_by_code, whole_counts
from ens_plugin.core.row_models.density import GRID, Density, RowGroups, fit_density
from ens_plugin.core.row_models.likelihoods.band import Likelihood
from ens_plugin.core.row_models.likelihoods.binomial import binomial_likelihood
from ens_plugin.core.row_models.majority import (
    MOST_CACHED,
    agreement_on_grid,
    grid_agreement,
    grid_majority_error,
    grid_soft_error,
    majority_error,
    majority_slope,
    soft_majority_error,
)
from ens_plugin.core.row_models.row_model import mean_posterior
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight, row_quantiles
from ens_plugin.core.validation import (
    FloatArray,
    as_counts,
    as_probability,
    as_sizes,
    code_index,
    counted,
    pair_index,
)
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.records import record
from ens_plugin.user_warnings import warn_user

IntArray = NDArray[np.integer]

__all__ = [
    "Mixture",
    "fit_mixture",
    "fixed_mixture",
    "group_counts",
    "mixture_of_counts",
    "share_angle",
]

FEW_ROWS = 30
MANY_VOTES = 60.0
MAX_GROUPS = 4096
# Of shares by angle, from 0 to 256, times eighths of the numbers of votes.
N_CELLS = 257 * 8
PART_ROWS = 65_536
# Width of the cells that a fit starts from, in standard deviations, and how many times fewer than groups they are.
COARSE_WIDTH, LEAST_REDUCTION = 0.5, 3


@record
class Mixture:
    """A fitted distribution over rows of the probability that one member is wrong.

    It implements the protocol :class:`ens_plugin.core.row_models.row_model.RowModel`.

    Attributes
    ----------
    support, weights : ndarray, shape (n_points,)
        The distribution G: points in [0, 1] and their probabilities.
    votes_per_member : float
        Effective votes that one member is worth; 1 for hard votes.
    density : Density or None
        The fitted density; None for a point mass (no member is wrong on any row, or all are).
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
    group: IntArray

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

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of the infinite ensemble's label at each point, shape (n_sizes, n_points).

        2013 eq. 9: the majority of B is on the side of max(p, 1 - p); ties of hard votes count half.
        """
        if np.isinf(self.votes_per_member):
            return np.ones((as_sizes(sizes).size, self.support.size))
        b = as_sizes(sizes)
        votes = 2.0 * np.ceil(b / 2.0) - 1.0 if self.votes_per_member == 1.0 else b * self.votes_per_member
        if self.support is GRID and b.size <= MOST_CACHED:
            # A search for a size passes one size at a time, each another one.
            return grid_agreement(tuple(votes)) if b.size > 1 else agreement_on_grid(votes)
        minority = np.minimum(self.support, 1.0 - self.support)
        return 1.0 - soft_majority_error(minority, votes)

    def slope_by_point(self, size: float) -> FloatArray:
        """Return the derivative of the error with respect to the probability, shape (n_points,)."""
        if np.isinf(self.votes_per_member):
            return np.zeros(self.support.size)
        return majority_slope(self.support, size * self.votes_per_member)

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
    r"""Fit the distribution over rows of the probability that one member is wrong, by penalised maximum likelihood.

    Parameters
    ----------
    wrong : array-like of float, shape (n_rows,)
        Out-of-bag members that are wrong about each row (or their summed support for wrong labels).
    trials : array-like of float, shape (n_rows,)
        Out-of-bag members of each row, positive.
    weight : array-like of float, shape (n_rows,), or RowWeight, optional
        Row weights, scaled to Kish's effective number of rows.  A RowWeight also holds the number of equal
        rows of each entry.
    votes_per_member : float, default=1.0
        Effective votes that one member is worth: 1 for hard votes, more for soft votes.

    Returns
    -------
    Mixture

    Raises
    ------
    InputError
        If shapes differ, counts are not within 0 <= wrong <= trials, or anything is not finite.

    Warns
    -----
    WeakEstimateWarning
        If there are fewer than 30 effective rows.

    Notes
    -----
    With 60 or more votes a row on average, the fitted density is replaced by the mean of the rows'
    posteriors (one EM step): so many votes determine a row better than the smooth density does.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=2000)
    >>> mixture = fit_mixture(rng.binomial(20, p), np.full(2000, 20))
    >>> bool(abs(mixture.asymptote - np.mean(p > 0.5)) < 0.02)
    True
    """
    k, n = as_counts(wrong, trials)
    entry_weight = as_row_weight(weight, k.size)
    row_weight = entry_weight.effective()
    if row_weight.sum() < FEW_ROWS:
        number = f"{row_weight.sum():.3g}"
        warn_user(
            f"There {'is' if number == '1' else 'are'} only {counted(number, 'row')} to estimate the distribution of "
            f"votes from; below {FEW_ROWS} every figure is rough. Pass more rows.",
            WeakEstimateWarning,
        )
    return mixture_of_counts(k, n, entry_weight, votes_per_member)


def mixture_of_counts(k: FloatArray, n: FloatArray, entry_weight: RowWeight, votes_per_member: float) -> Mixture:
    """Fit the same distribution as :func:`fit_mixture`, from checked arguments and without a warning for few rows."""
    row_weight = entry_weight.effective()
    if not k.any() or np.array_equal(k, n):
        return _point_mass(0.0 if not k.any() else 1.0, row_weight, votes_per_member)
    votes = votes_per_member
    k_group, n_group, counts, group = group_counts(k, n, row_weight, entry_weight.rows, votes)
    likelihood = binomial_likelihood(k_group, n_group)
    start = _moment_beta(k_group, n_group, counts)
    density = fit_density(
        RowGroups(likelihood, counts),
        beta_mean=(-0.5, 0.5),
        beta_start=start,
        coarse=_nearly_equal(k_group, n_group, counts),
    )
    mixture = Mixture(GRID, density.weights, votes_per_member, density, likelihood, counts, group)
    # Rounding must not decide at exactly MANY_VOTES.
    if counts @ n_group / counts.sum() < MANY_VOTES * (1.0 - 1e-9):
        return mixture
    return replace(mixture, weights=mean_posterior(mixture, density.weights))


def fixed_mixture(share: ArrayLike, weight: ArrayLike | RowWeight | None = None) -> Mixture:
    """Return the distribution of rows for which all members predict the same, so that the size changes nothing.

    Parameters
    ----------
    share : array-like of float, shape (n_rows,)
        Every member's support for the wrong label.
    weight : array-like of float, shape (n_rows,), or RowWeight, optional
    """
    p = as_probability(share, "share")
    row_weight = as_row_weight(weight, p.size).effective()
    support, group = np.unique(np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5)), return_inverse=True)
    counts = np.bincount(group, row_weight).astype(np.float64)
    return Mixture(support, counts / counts.sum(), np.inf, None, np.eye(support.size), counts, group)


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
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Return groups of rows with equal (k, n) votes; above 4096 pairs, of rows that are nearly equal.

    Parameters
    ----------
    k, n, weight : ndarray, shape (n_entries,)
    rows : ndarray, shape (n_entries,), or None
        Number of rows of each entry; None for one each.
    votes_per_member : float, default=1.0
        Factor of k and n, by which they are multiplied in parts to save memory.

    Returns
    -------
    k_group, n_group, counts : ndarrays, shape (n_groups,)
        Weighted mean k and n of each group, times `votes_per_member`, and its total weight.
    group : ndarray of int, shape (n_entries,)

    Notes
    -----
    Nearly equal rows share a cell of width pi/512 in asin(sqrt(k/n)) and a quantile eighth of n: a
    quarter of the binomial's standard deviation or less up to n = 1600 per row.
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
    for part in _parts(k.size):
        k_group[group[part]], n_group[group[part]] = k[part] * votes, n[part] * votes
    return k_group, n_group, counts, group


def _means_of_cells(
    k: FloatArray, n: FloatArray, weight: FloatArray, votes: float, group: IntArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean votes of the rows of each cell, and their number."""
    total, k_sum, n_sum = np.zeros((3, counts.size))
    for part in _parts(k.size):
        here = group[part]
        # A group without weight still needs its k and n, because its rows have a posterior.
        mass = np.where(counts[here] > 0, weight[part], 1.0)
        total += np.bincount(here, mass, counts.size)
        k_sum += np.bincount(here, mass * (k[part] * votes), counts.size)
        n_sum += np.bincount(here, mass * (n[part] * votes), counts.size)
    return k_sum / total, n_sum / total


def _parts(n_entries: int) -> list[slice]:
    """Return slices of entries, each of which takes little memory."""
    return [slice(start, start + PART_ROWS) for start in range(0, n_entries, PART_ROWS)]


def _cell_index(k: FloatArray, n: FloatArray, rows: FloatArray | None, votes: float) -> NDArray[np.int16]:
    """Return the index of each entry among the occupied cells of nearly equal rows."""
    numbers = whole_counts(n) if rows is None else None
    values, alike = (n, rows) if numbers is None else numbers
    edges = row_quantiles(values * votes, np.arange(1, 8) / 8, alike)
    code = np.empty(k.size, dtype=np.int16)
    is_code = np.zeros(N_CELLS, dtype=bool)
    for part in _parts(k.size):
        k_votes, n_votes = k[part] * votes, n[part] * votes
        code[part] = np.floor(share_angle(k_votes, n_votes)) * 8 + np.searchsorted(edges, n_votes)
        is_code[code[part]] = True
    position = (np.cumsum(is_code) - 1).astype(np.int16)
    for part in _parts(k.size):
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
