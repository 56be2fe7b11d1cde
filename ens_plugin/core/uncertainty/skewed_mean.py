r"""Limits of the mean of losses whose distribution has a long tail, from statistics that merge over parts of the rows.

Two corrections of the normal interval are made, and the larger upper limit is taken: Hall's transformation, which
needs the third moment, and a Pareto tail fitted to the largest values, which allows for larger losses than any in
the data.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["FittedTail", "LargestValues", "fit_tail", "hall_limits", "largest_values"]

N_KEPT = 256
TAIL_ROWS = (10.0, 64.0)
TAIL_SHARE = 1.0 / 15.0
SHAPES = np.linspace(-0.45, 0.95, 29)
SHAPE_PRIOR = (0.3, 0.35)
N_SCALES = 25
ROUNDING = 1e-9


@record
class LargestValues:
    """The largest values among weighted rows, descending, with their weights; those of disjoint rows merge.

    Attributes
    ----------
    values, weights : ndarray, shape (n_kept,)
        At most 256 values, and their weights.
    """

    values: FloatArray
    weights: FloatArray

    def merge(self, other: LargestValues) -> LargestValues:
        """Return the largest values among the rows of `self` and `other`, which must be disjoint.

        Examples
        --------
        >>> ones = np.ones(2)
        >>> largest_values(np.array([1.0, 5.0]), ones).merge(largest_values(np.array([3.0, 2.0]), ones)).values
        array([5., 3., 2., 1.])
        """
        return largest_values(
            np.concatenate([self.values, other.values]), np.concatenate([self.weights, other.weights])
        )


def largest_values(values: FloatArray, weights: FloatArray) -> LargestValues:
    """Return the 256 largest values of the rows with weight; of equal ones those with the largest weights."""
    rows = np.flatnonzero(weights > 0)
    if rows.size > N_KEPT:
        least = np.partition(values[rows], rows.size - N_KEPT)[rows.size - N_KEPT]
        rows = rows[values[rows] >= least]
    order = rows[np.lexsort((-weights[rows], -values[rows]))][:N_KEPT]
    return LargestValues(values[order], weights[order])


def hall_limits(skewness: float, level: float) -> tuple[float, float]:
    r"""Return the distances of the lower and upper limit of a mean from its estimate, in standard errors.

    Parameters
    ----------
    skewness : float
        Skewness of the estimate: that of one value divided by the square root of the number of values.
    level : float

    Returns
    -------
    below, above : float
        Distances, both positive.

    Notes
    -----
    Hall (1992), "On the removal of skewness by transformation": :math:`t + a t^2/3 + a^2 t^3/27 + a/6` is nearly
    normal for the studentised mean t of skewness a; the limits are its inverse at the normal quantiles.

    Examples
    --------
    >>> [round(distance, 3) for distance in hall_limits(0.3, 0.95)]
    [1.63, 2.65]
    """
    z = float(ndtri(0.5 + level / 2.0))
    if abs(skewness) < 1e-6:
        return z, z
    low, high = (3.0 / skewness * (np.cbrt(1.0 + skewness * (t - skewness / 6.0)) - 1.0) for t in (z, -z))
    return max(float(low), 0.0), max(float(-high), 0.0)


@record
class FittedTail:
    """Posterior of a mean whose rows above a threshold follow a generalised Pareto distribution.

    Attributes
    ----------
    shape : float
        Posterior mean of the tail's shape; the variance is infinite from 1/2 on, and the mean from 1 on.
    posterior, centre, spread : ndarray, shape (n_points,)
        Weights, means and standard deviations of a mixture of normal distributions, one per tail on the grid.
    """

    shape: float
    posterior: FloatArray
    centre: FloatArray
    spread: FloatArray

    def upper_limit(self, level: float) -> float:
        """Return the upper end of the interval of the mean at `level`."""
        wanted = 0.5 + level / 2.0
        reach = 9.0 * float(self.spread.max())
        low, high = float(self.centre.min()) - reach, float(self.centre.max()) + reach

        def too_much(share: float) -> float:
            limit = low + share * (high - low)
            return float(self.posterior @ ndtr((limit - self.centre) / self.spread)) - wanted

        # As a share of the range, because the search ends at a fixed distance, which small targets are below.
        return low + float(brentq(too_much, 0.0, 1.0)) * (high - low)


def fit_tail(
    largest: LargestValues, mean: float, variance: float, total_weight: float, n_effective: float
) -> FittedTail | None:
    """Fit a generalised Pareto distribution to the excesses of the largest values over a threshold.

    Parameters
    ----------
    largest : LargestValues
    mean, variance : float
        Weighted mean and variance over all rows.
    total_weight, n_effective : float
        Summed weight and effective number of all rows.

    Returns
    -------
    FittedTail or None
        None if there are too few values, or too few that differ.

    Notes
    -----
    A fifteenth of the rows, at least 10 and at most 64, are the tail.  The shape has a normal prior with mean 0.3 and
    standard deviation 0.35, cut at 0.95 so that the mean is finite.  The scale has a flat prior on its logarithm, cut
    where the mean excess is not within a factor of the observed one: e with 44 rows in the tail or fewer, 2.4 with 64.
    Without this cut the limit of a long tail would be up to twice as far from the mean.  The mean of the rows below the
    threshold, and the share of those above, are taken as normal.

    Examples
    --------
    >>> losses = np.random.default_rng(0).standard_t(3, size=500) ** 2
    >>> tail = fit_tail(largest_values(losses, np.ones(500)), losses.mean(), losses.var(), 500.0, 500.0)
    >>> bool(tail.upper_limit(0.95) > losses.mean() + 2.5 * losses.std() / np.sqrt(500))
    True
    """
    share = largest.weights / total_weight
    wanted = float(np.clip(TAIL_SHARE * n_effective, *TAIL_ROWS))
    n_tail = int(np.searchsorted(np.cumsum(share) * n_effective, wanted - 1e-9)) + 1
    if n_tail >= share.size or wanted > n_effective / 2.0:
        return None
    values, share = largest.values[:n_tail], share[:n_tail]
    threshold = float(largest.values[n_tail])
    above = float(share.sum())
    mean_excess = float((values - threshold) @ share) / above
    if mean_excess <= ROUNDING * abs(threshold) or above >= 1.0:
        return None
    reach = min(1.0, 0.25 + 5.0 / float(np.sqrt(above * n_effective)))
    scales = mean_excess * (1.0 - SHAPES)[:, None] * np.exp(np.linspace(-reach, reach, N_SCALES))
    prior = -0.5 * ((SHAPES - SHAPE_PRIOR[0]) / SHAPE_PRIOR[1]) ** 2
    posterior = _log_likelihood(values - threshold, share * n_effective, scales) + prior[:, None]
    posterior = np.exp(posterior - posterior.max())
    posterior /= posterior.sum()
    tail_mean = threshold + scales / (1.0 - SHAPES)[:, None]
    body = 1.0 - above
    body_mean = (mean - float(share @ values)) / body
    squares = variance + mean**2 - float(share @ values**2)
    body_variance = max(squares / body - body_mean**2, 0.0)
    noise = (body * body_variance + above * body * (tail_mean - body_mean) ** 2) / n_effective
    return FittedTail(
        shape=float(posterior.sum(axis=1) @ SHAPES),
        posterior=posterior.ravel(),
        centre=(body * body_mean + above * tail_mean).ravel(),
        spread=np.maximum(np.sqrt(noise), ROUNDING * mean_excess).ravel(),
    )


def _log_likelihood(excess: FloatArray, counts: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the log-likelihood of the generalised Pareto distribution at each shape and scale, shape as `scales`."""
    total = float(counts.sum())
    found = np.empty_like(scales)
    for index, shape in enumerate(SHAPES):
        relative = excess / scales[index][:, None]
        if abs(shape) < 1e-9:
            found[index] = -total * np.log(scales[index]) - relative @ counts
            continue
        inside = 1.0 + shape * relative
        logs = np.log(np.where(inside > 0, inside, 1.0)) @ counts
        value = -total * np.log(scales[index]) - (1.0 + 1.0 / shape) * logs
        found[index] = np.where((inside > 0).all(axis=1), value, -np.inf)
    return found
