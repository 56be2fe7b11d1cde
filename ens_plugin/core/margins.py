r"""The margin method: error at any size for soft votes, raw scores and more than two labels.

A member's margin on a row is its support for the true label minus its support for the strongest
rival; the ensemble is wrong where the mean margin is negative.  The true mean margins are
deconvolved from the observed ones (``docs/methods.md``, section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ens_plugin.core.density import GRID, Density, fit_density
from ens_plugin.core.row_model import mean_posterior
from ens_plugin.core.row_weight import RowWeight, as_row_weight, row_quantiles
from ens_plugin.core.validation import as_sizes, as_values

__all__ = ["MarginModel", "fit_margins"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.integer]

MIN_STANDARD_ERROR = 1.0 / 200.0
PRIOR_MEMBERS = 2.0
STRATA_PER_OCTAVE = 8
CELL_WIDTH = 0.5
EXACT_ROWS = 2000
SCORE_QUANTILE = 0.995
PART_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class MarginModel:
    """A fitted distribution over rows of the mean margin, with each row's spread of one member.

    It has the members of :class:`ens_plugin.core.row_model.RowModel`; strata are rows whose members
    spread alike.

    Attributes
    ----------
    support : ndarray, shape (400,)
        Mean margins, in units of `unit`.
    spread : ndarray, shape (n_strata,)
        Standard deviation of one member's margin in each stratum, in units of `unit`.
    unit : float
        Margins are divided by it: 1 for probabilities, a high quantile for raw scores.
    density, likelihood, counts, stratum, group, point_weights
        See RowModel.
    """

    support: FloatArray
    spread: FloatArray
    unit: float
    density: Density
    likelihood: FloatArray
    counts: FloatArray
    stratum: IntArray
    group: IntArray
    point_weights: FloatArray

    def _standardized(self, sizes: ArrayLike) -> FloatArray:
        b = as_sizes(sizes)
        ratio = self.support / self.spread[:, None]
        return np.asarray(np.sqrt(b)[:, None, None] * ratio)

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Probability of a negative mean margin, shape (n_sizes, n_strata, 400)."""
        return np.asarray(ndtr(-self._standardized(sizes)))

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Probability that the mean margin has its limit's sign, shape (n_sizes, n_strata, 400)."""
        return np.asarray(ndtr(np.abs(self._standardized(sizes))))

    def slope_by_point(self, size: float) -> FloatArray:
        """Derivative of the error in the mean margin as observed, shape (n_strata, 400)."""
        standardized = self._standardized([size])[0]
        density = np.exp(-0.5 * standardized**2) / np.sqrt(2 * np.pi)
        return np.asarray(-np.sqrt(size) / (self.spread[:, None] * self.unit) * density)


def fit_margins(
    mean: ArrayLike,
    sd: ArrayLike,
    trials: ArrayLike,
    weight: ArrayLike | RowWeight | None = None,
    *,
    bounded: bool = True,
) -> MarginModel:
    r"""Fit the distribution of the rows' true mean margins.

    Parameters
    ----------
    mean, sd : array-like, shape (n_rows,)
        Mean and standard deviation (ddof 1) of each row's margin over its members.
    trials : array-like, shape (n_rows,)
        Members of each row, at least 2.
    weight : array-like, shape (n_rows,), or RowWeight, optional
        A RowWeight also says how many rows that are nearly equal stand behind each entry.
    bounded : bool, default=True
        Whether margins lie in [-1, 1] (probabilities, votes).  If not (raw scores) they are divided
        by their 99.5 % absolute quantile and clipped.

    Returns
    -------
    MarginModel

    Raises
    ------
    InputError
        If shapes differ or anything is not finite.

    Notes
    -----
    :math:`m_i \sim N(\mu_i, d_i^2/n_i)`, with :math:`\mu_i` from a density as in section 2 of ``docs/methods.md``, on
    :math:`(\mu + 1)/2`; d_i shrunk to the pooled sd as if two more members had it.
    """
    m = as_values(mean, "mean")
    d = as_values(sd, "sd", m.size)
    n = as_values(trials, "trials", m.size)
    entry_weight = as_row_weight(weight, m.size)
    w = entry_weight.effective()
    unit = 1.0 if bounded else _unit(m, entry_weight)
    m = m / unit
    np.clip(m, -1.0, 1.0, out=m)
    d = _shrunk(d, n, w, unit)
    se = np.sqrt(n)
    np.divide(d, se, out=se)
    np.maximum(se, MIN_STANDARD_ERROR, out=se)
    row_stratum = _strata(d)
    spread = _group_means(d, w, row_stratum)
    del d
    group = _group_rows(m, se, row_stratum, entry_weight.n_rows)
    return _fit_grouped(m, se, w, row_stratum, spread, unit, group)


def _unit(m: FloatArray, weight: RowWeight) -> float:
    return max(float(row_quantiles(np.abs(m), [SCORE_QUANTILE], weight.rows)[0]), 1e-12)


def _parts(n_rows: int) -> Iterator[slice]:
    """Stretches of rows, so that intermediate results stay small."""
    return (slice(start, start + PART_ROWS) for start in range(0, n_rows, PART_ROWS))


def _shrunk(d: FloatArray, n: FloatArray, w: FloatArray, unit: float) -> FloatArray:
    """Each row's spread, in units, put together with the pooled one as if two more members had that."""
    sums = np.zeros(2)
    for rows in _parts(d.size):
        freedom = w[rows] * (n[rows] - 1.0)
        sums += [freedom @ d[rows] ** 2, freedom.sum()]
    pooled = sums[0] / sums[1]
    shrunk = np.empty(d.size)
    for rows in _parts(d.size):
        freedom = n[rows] - 1.0
        shrunk[rows] = np.sqrt((freedom * d[rows] ** 2 + PRIOR_MEMBERS * pooled) / (freedom + PRIOR_MEMBERS))
    shrunk /= unit
    return np.maximum(shrunk, 1e-9, out=shrunk)


def _strata(d: FloatArray) -> IntArray:
    """Index of each row's part of an octave of the spread among the occupied ones."""
    octave = np.empty(d.size, dtype=np.int16)
    for rows in _parts(d.size):
        octave[rows] = np.floor(np.log2(d[rows]) * STRATA_PER_OCTAVE)
    octave -= octave.min()
    return _index_of_distinct(octave)


def _fit_grouped(
    m: FloatArray,
    se: FloatArray,
    w: FloatArray,
    row_stratum: IntArray,
    spread: FloatArray,
    unit: float,
    group: IntArray,
) -> MarginModel:
    counts = np.bincount(group, w).astype(np.float64)
    centre = _group_means(m, w, group)
    error = _group_means(se, w, group)
    stratum = np.zeros(counts.size, dtype=np.int64)
    stratum[group] = row_stratum
    support = 2.0 * GRID - 1.0
    likelihood = _normal_likelihood(centre, error, support)
    density = fit_density(likelihood, counts, beta_mean=(0.0, 0.0), beta_start=(0.0, 0.0))
    unfilled = MarginModel(
        support, spread, unit, density, likelihood, counts, stratum, group, np.empty((spread.size, GRID.size))
    )
    shares = mean_posterior(unfilled, density.weights)
    return MarginModel(support, spread, unit, density, likelihood, counts, stratum, group, shares)


def _normal_likelihood(centre: FloatArray, error: FloatArray, support: FloatArray) -> FloatArray:
    likelihood = centre[:, None] - support
    likelihood /= error[:, None]
    likelihood *= likelihood
    likelihood *= -0.5
    likelihood -= likelihood.max(axis=1, keepdims=True)
    return np.asarray(np.exp(likelihood, out=likelihood))


def _group_means(values: FloatArray, weight: FloatArray, group: IntArray) -> FloatArray:
    """Weighted mean of each group; the plain mean where no row of it has weight."""
    n_groups = int(group.max()) + 1
    mass, total, count, plain = np.zeros((4, n_groups))
    for rows in _parts(group.size):
        own, part, share = group[rows], values[rows], weight[rows]
        mass += np.bincount(own, share, n_groups)
        total += np.bincount(own, share * part, n_groups)
        count += np.bincount(own, minlength=n_groups)
        plain += np.bincount(own, part, n_groups)
    return np.asarray(np.where(mass > 0, total, plain) / np.where(mass > 0, mass, count))


def _group_rows(m: FloatArray, se: FloatArray, row_stratum: IntArray, n_rows: int) -> IntArray:
    """Group rows of one stratum whose margins share a cell, half of its least standard error wide, when rows are many.

    Groups come in the order of the strata.
    """
    if n_rows <= EXACT_ROWS:
        return np.argsort(np.argsort(row_stratum, kind="stable"))
    least = np.full(int(row_stratum.max()) + 1, np.inf)
    for rows in _parts(m.size):
        np.minimum.at(least, row_stratum[rows], se[rows])
    width = CELL_WIDTH * least
    first_cell = np.concatenate([[0.0], np.cumsum(np.floor(2.0 / width) + 1.0)])
    cell = np.empty(m.size, dtype=np.int32)
    for rows in _parts(m.size):
        own = row_stratum[rows]
        cell[rows] = first_cell[own] + np.floor((m[rows] + 1.0) / width[own])
    return _index_of_distinct(cell)


def _index_of_distinct(code: IntArray) -> IntArray:
    """Index of each code among the distinct ones, in ascending order; codes are small and not negative."""
    counts = np.zeros(int(code.max()) + 1, dtype=np.int64)
    for rows in _parts(code.size):
        counts += np.bincount(code[rows], minlength=counts.size)
    position = np.cumsum(counts > 0, dtype=np.int32) - 1
    index = np.empty(code.size, dtype=np.int32)
    for rows in _parts(code.size):
        index[rows] = position[code[rows]]
    return index
