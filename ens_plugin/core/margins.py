r"""The margin method: error at any size for soft votes, raw scores and more than two labels.

A member's margin on a row is its support for the true label minus its support for the strongest
rival; the ensemble is wrong where the mean margin is negative.  The true mean margins are
deconvolved from the observed ones (``docs/methods.md``, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ens_plugin.core.density import GRID, Density, fit_density
from ens_plugin.core.row_model import mean_posterior
from ens_plugin.core.validation import as_sizes, as_values, as_weight

__all__ = ["MarginModel", "fit_margins"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIN_STANDARD_ERROR = 1.0 / 200.0
PRIOR_MEMBERS = 2.0
STRATA_PER_OCTAVE = 8
CELL_WIDTH = 0.5
EXACT_ROWS = 2000
SCORE_QUANTILE = 0.995


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
    mean: ArrayLike, sd: ArrayLike, trials: ArrayLike, weight: ArrayLike | None = None, *, bounded: bool = True
) -> MarginModel:
    r"""Fit the distribution of the rows' true mean margins.

    Parameters
    ----------
    mean, sd : array-like, shape (n_rows,)
        Mean and standard deviation (ddof 1) of each row's margin over its members.
    trials : array-like, shape (n_rows,)
        Members of each row, at least 2.
    weight : array-like, shape (n_rows,), optional
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
    w = as_weight(weight, m.size)
    w = w / w.max()
    w = w * w.sum() / (w @ w)
    unit = 1.0 if bounded else max(float(np.quantile(np.abs(m), SCORE_QUANTILE)), 1e-12)
    m, d = np.clip(m / unit, -1.0, 1.0), d / unit
    pooled = float(w @ ((n - 1.0) * d**2) / (w @ (n - 1.0)))
    d = np.sqrt(((n - 1.0) * d**2 + PRIOR_MEMBERS * pooled) / (n - 1.0 + PRIOR_MEMBERS))
    d = np.maximum(d, 1e-9)
    se = np.maximum(d / np.sqrt(n), MIN_STANDARD_ERROR)
    return _fit_grouped(m, d, se, w, unit)


def _fit_grouped(m: FloatArray, d: FloatArray, se: FloatArray, w: FloatArray, unit: float) -> MarginModel:
    octaves = np.floor(np.log2(d) * STRATA_PER_OCTAVE).astype(np.int64)
    row_stratum = _index_of_distinct(octaves - octaves.min())
    spread = _group_means(d, w, row_stratum)
    group = _group_rows(m, se, row_stratum)
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
    mass = np.where(np.bincount(group, weight)[group] > 0, weight, 1.0)
    return np.asarray(np.bincount(group, mass * values) / np.bincount(group, mass))


def _group_rows(m: FloatArray, se: FloatArray, row_stratum: IntArray) -> IntArray:
    """Group rows of one stratum whose margins share a cell, half of its least standard error wide, when rows are many.

    Groups come in the order of the strata.
    """
    if m.size <= EXACT_ROWS:
        return np.argsort(np.argsort(row_stratum, kind="stable"))
    least = np.full(int(row_stratum.max()) + 1, np.inf)
    np.minimum.at(least, row_stratum, se)
    cell = np.floor((m + 1.0) / (CELL_WIDTH * least)[row_stratum]).astype(np.int64)
    return _index_of_distinct(row_stratum * (cell.max() + 1) + cell)


def _index_of_distinct(code: IntArray) -> IntArray:
    """Index of each code among the distinct ones, in ascending order; codes are small and not negative."""
    position = np.cumsum(np.bincount(code) > 0) - 1
    return np.asarray(position[code])
