r"""Squared loss: the closed form of the error curve, its uncertainty and the recommended size."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from ens_plugin.core.tallies.row_groups import group_sums
from ens_plugin.core.uncertainty.skewed_mean import FittedTail, LargestValues, fit_tail, hall_limits, largest_values
from ens_plugin.core.validation import FloatArray, as_sizes, as_values, as_weight, counted
from ens_plugin.errors import InputError
from ens_plugin.records import record

__all__ = ["LossMoments", "SquaredLoss", "fit_moments", "loss_moments", "term_moments"]

LARGEST_LOG = 700.0
TINY = 1e-200
ROUNDING = 1e-12


@record
class SquaredLoss:
    r"""The mean squared error of an ensemble of any size, :math:`\mathrm{MSE}_\infty + v/B`.

    Attributes
    ----------
    raw_asymptote : float
        Unbiased estimate of the infinite ensemble's mean squared error; can be negative.
    member_variance : float
        v, the mean variance of one member.
    covariance : ndarray, shape (2, 2)
        Sampling covariance of (raw_asymptote, member_variance) over rows.
    skewness : ndarray, shape (2,)
        Skewness of the sampling distributions of both; 0 makes their intervals normal.
    moments : LossMoments or None
        Moments of the rows' terms; None where only the figures above are available.
    luck : float
        Standard deviation of member_variance by the members that happened to be trained, as far as all rows share it.
    """

    raw_asymptote: float
    member_variance: float
    covariance: FloatArray
    skewness: FloatArray = field(default_factory=lambda: np.zeros(2))
    moments: LossMoments | None = None
    luck: float = 0.0

    @property
    def asymptote(self) -> float:
        """Return the estimated asymptote, cut at 0."""
        return max(self.raw_asymptote, 0.0)

    def error(self, sizes: ArrayLike) -> FloatArray:
        """Return the mean squared error at each size, at least 0; infinity is allowed."""
        return np.maximum(self.raw_asymptote + self.member_variance / as_sizes(sizes), 0.0)

    def interval(self, sizes: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the interval of the error on fresh rows at each size, cut at 0.

        Distances of limits from estimates are combined over the two terms, and the luck of the members, as standard
        deviations are.
        """
        inverse = 1.0 / as_sizes(sizes)
        (below, v_below), (above, v_above) = np.transpose(self.distances(level))
        error, luck = self.error(sizes), inverse * self.luck * float(norm.ppf(0.5 + level / 2.0))
        lower = error - np.hypot(_combined(below, inverse * v_below, self._correlation), luck)
        return np.maximum(lower, 0.0), error + np.hypot(_combined(above, inverse * v_above, self._correlation), luck)

    @cached_property
    def tails(self) -> tuple[FittedTail | None, ...]:
        """Return the tails fitted to the rows' terms of the asymptote and of the variance; None for a term without."""
        if self.moments is None:
            return None, None
        return self.moments.fit_tails()

    @property
    def _correlation(self) -> float:
        scale = float(np.sqrt(self.covariance[0, 0] * self.covariance[1, 1]))
        return float(np.clip(self.covariance[0, 1] / scale, -1.0, 1.0)) if scale > 0 else 0.0

    def distances(self, level: float) -> list[tuple[float, float]]:
        """Return the distances of lower and upper limit from the estimate, for asymptote and member variance."""
        distances = []
        for term, value in enumerate((self.raw_asymptote, self.member_variance)):
            sd = float(np.sqrt(max(self.covariance[term, term], 0.0)))
            below, above = (sd * distance for distance in hall_limits(float(self.skewness[term]), level))
            tail = self.tails[term]
            distances.append((below, above if tail is None else max(above, tail.upper_limit(level) - value)))
        return distances

    def excess(self, sizes: ArrayLike) -> FloatArray:
        """Return the error relative to that of the infinite ensemble, less 1; NaN where that is 0."""
        wanted = as_sizes(sizes)
        if self.asymptote <= 0:
            return np.full(wanted.shape, np.nan)
        return np.asarray(self.member_variance / wanted / self.asymptote)

    def recommended_size(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest size with an excess error of at most `tolerance` times the asymptote, or None."""
        if not tolerance > 0:
            raise InputError(f"tolerance must be positive, got {tolerance}.")
        if self.member_variance <= 0:
            return 1
        if self.asymptote <= 0:
            return None
        size = int(np.ceil(self.member_variance / (tolerance * self.asymptote) * (1.0 - 1e-12)))
        return max(size, 1) if size <= max_size else None

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of the recommended size, from the limits of both terms on the scale of logarithms."""
        if self.member_variance <= 0:
            return 1, 1
        if self.asymptote <= 0:
            return 1, None
        distances = np.array(self.distances(level))
        estimates = np.array([self.asymptote, self.member_variance])
        with np.errstate(divide="ignore"):
            down = np.log(estimates) - np.log(np.maximum(estimates - distances[:, 0], 0.0))
        up = np.log1p(distances[:, 1] / estimates)
        centre = float(np.log(self.member_variance / (tolerance * self.asymptote)))
        luck = self.luck / self.member_variance * float(norm.ppf(0.5 + level / 2.0))
        low = centre - float(np.hypot(_combined(up[0], down[1], -self._correlation), luck))
        high = centre + float(np.hypot(_combined(down[0], up[1], -self._correlation), luck))
        smallest, largest = np.exp(np.clip([low, high], -LARGEST_LOG, LARGEST_LOG))
        return (
            int(np.clip(np.floor(smallest), 1, max_size)),
            max(int(np.ceil(largest)), 1) if largest <= max_size else None,
        )


def _combined(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """Return the distance from the sum of two correlated estimates to its limit, from the distances of both terms."""
    one, other = np.asarray(first), np.asarray(second)
    if np.isinf(one).any() or np.isinf(other).any():
        return np.asarray(np.maximum(one, other))
    return np.asarray(np.sqrt(np.maximum(one**2 + other**2 + 2.0 * correlation * one * other, 0.0)))


@record
class LossMoments:
    """Moments over rows from which the closed form is computed; those of disjoint rows merge.

    Each row has two terms, its unbiased squared error and the variance of its members; their sum is the third column.

    Attributes
    ----------
    n_rows : int
        Rows with weight.
    weight : float
        Summed weight of the rows.
    squared_error : float
        Weighted mean of the squared errors of the rows' mean outputs.
    centre, variance : ndarray, shape (3,)
        Weighted mean and variance of the columns.
    second : ndarray, shape (3, 3)
        Sums over rows of the squared share of the weight times the deviation to the powers 0, 1, 2, by column.
    third : ndarray, shape (4, 3)
        Sums of the cubed share times the deviation to the powers 0 to 3.
    largest : tuple of two LargestValues
        Largest values of each of the two terms.
    """

    n_rows: int
    weight: float
    squared_error: float
    centre: FloatArray
    variance: FloatArray
    second: FloatArray
    third: FloatArray
    largest: tuple[LargestValues, LargestValues]

    def merge(self, other: LossMoments) -> LossMoments:
        """Return the moments of the rows of `self` and `other`, which must be disjoint.

        Examples
        --------
        >>> first = loss_moments([1.0], [0.5], [10], [1.0])
        >>> both = first.merge(loss_moments([2.0], [0.5], [10], [1.0]))
        >>> both.centre.round(3), both.n_rows
        (array([0.45, 0.5 , 0.95]), 2)
        """
        weight = self.weight + other.weight
        parts = ((self, self.weight / weight), (other, other.weight / weight))
        centre = self.centre + parts[1][1] * (other.centre - self.centre)
        return LossMoments(
            n_rows=self.n_rows + other.n_rows,
            weight=weight,
            squared_error=sum(share * part.squared_error for part, share in parts),
            centre=centre,
            variance=np.sum([share * (part.variance + (part.centre - centre) ** 2) for part, share in parts], axis=0),
            second=np.sum([share**2 * _moved(part.second, part.centre - centre) for part, share in parts], axis=0),
            third=np.sum([share**3 * _moved(part.third, part.centre - centre) for part, share in parts], axis=0),
            largest=(self.largest[0].merge(other.largest[0]), self.largest[1].merge(other.largest[1])),
        )

    def fit_tails(self) -> tuple[FittedTail | None, FittedTail | None]:
        """Return the tail fitted to each of the rows' two terms; None for a term of which too few values differ."""
        n_effective = 1.0 / float(self.second[0, 0])
        first, second = (
            fit_tail(largest, float(centre), float(variance), self.weight, n_effective)
            for largest, centre, variance in zip(self.largest, self.centre, self.variance, strict=False)
        )
        return first, second

    def carriers(self) -> int | None:
        """Return the smallest number of rows that hold half of the squared error; None if more than 256."""
        largest = self.largest[0]
        carried = np.cumsum(largest.values * largest.weights) / self.weight
        enough = np.flatnonzero(carried > self.squared_error / 2.0)
        return int(enough[0]) + 1 if enough.size else None


def _moved(moments: FloatArray, step: FloatArray) -> FloatArray:
    """Return moments about a new centre from those about an old one; `step` is the old centre minus the new one."""
    return np.array(
        [
            sum(comb(power, lower) * step ** (power - lower) * moments[lower] for lower in range(power + 1))
            for power in range(len(moments))
        ]
    )


def loss_moments(
    mean: ArrayLike,
    variance: ArrayLike,
    trials: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    groups: NDArray[np.integer] | None = None,
) -> LossMoments:
    """Return the moments of rows for the closed form, from the mean and variance of each row's out-of-bag outputs.

    Parameters
    ----------
    mean, variance : array-like, shape (n_rows,)
        Mean and variance (ddof 1) of each row's out-of-bag outputs.
    trials : array-like, shape (n_rows,)
        Number of out-of-bag outputs of each row, at least 2.
    target : array-like, shape (n_rows,)
    weight : array-like, shape (n_rows,), optional
    groups : ndarray of int, shape (n_rows,), optional
        The rows of one group count as one, with their mean terms and summed weight.

    Raises
    ------
    InputError
        If shapes differ, anything is not finite, or a row has fewer than two members.
    """
    h = as_values(mean, "mean")
    s2 = as_values(variance, "variance", h.size)
    n = as_values(trials, "trials", h.size)
    y = as_values(target, "target", h.size)
    w = as_weight(weight, h.size)
    if n.min() < 2:
        raise InputError("trials must be at least 2 for every row: a variance needs two members.")
    return term_moments((h - y) ** 2, s2, n, w, groups)


def term_moments(
    squared: FloatArray,
    variance: FloatArray,
    trials: FloatArray,
    weight: FloatArray,
    groups: NDArray[np.integer] | None = None,
) -> LossMoments:
    """Return the moments of rows for the closed form, from each row's squared error and the variance of its members.

    Parameters
    ----------
    squared : ndarray, shape (n_rows,)
        Squared error of the mean of each row's out-of-bag outputs, summed over the outputs of a row.
    variance : ndarray, shape (n_rows,)
        Variance (ddof 1) of these outputs, summed alike.
    trials : ndarray, shape (n_rows,)
        Number of out-of-bag members, at least 2.
    weight : ndarray, shape (n_rows,)
    groups : ndarray of int, shape (n_rows,), optional
        The rows of one group count as one, with their mean terms and summed weight.
    """
    terms, w = np.stack([squared - variance / trials, variance, squared]), weight
    if groups is not None:
        terms, w = _group_terms(terms, w, groups)
    unbiased, s2, squared = terms
    deviations = np.stack([unbiased, s2, unbiased + s2])
    total = float(w.sum())
    share = w / total
    centre = deviations @ share
    deviations -= centre[:, None]
    # By products: a power takes twenty times as long.
    squared_share = share * share
    cubed_share = squared_share * share
    variance, second, third = np.empty(3), [], []
    power = np.ones_like(deviations)
    for exponent in range(4):
        third.append(power @ cubed_share)
        if exponent < 3:
            second.append(power @ squared_share)
        if exponent == 2:
            variance = power @ share
        power *= deviations
    return LossMoments(
        n_rows=int(np.count_nonzero(w)),
        weight=total,
        squared_error=float(squared @ share),
        centre=centre,
        variance=variance,
        second=np.stack(second),
        third=np.stack(third),
        largest=(largest_values(unbiased, w), largest_values(s2, w)),
    )


def _group_terms(terms: FloatArray, weight: FloatArray, groups: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
    weights = group_sums(weight, groups)
    sums = np.stack([group_sums(weight * term, groups) for term in terms])
    return sums[:, weights > 0] / weights[weights > 0], weights[weights > 0]


def fit_moments(moments: LossMoments) -> SquaredLoss:
    r"""Fit the closed form of the mean squared error to the moments of all rows.

    Raises
    ------
    InputError
        If fewer than two rows have weight.

    Notes
    -----
    :math:`\mathrm{MSE}_\infty = \overline{(\bar h_i - y_i)^2 - S_i^2/n_i}`, unbiased for every size
    and linear in 1/B.  E2 - V2 of Wolpert and Macready (1996) with ddof 1.
    A row's weight enters the covariance beside its own deviation, so weights may depend on the losses.

    Examples
    --------
    >>> moments = loss_moments([1.0, 2.0], [0.5, 0.5], [10, 10], [1.0, 1.0])
    >>> fit_moments(moments).error([1, float("inf")]).round(3)
    array([0.95, 0.45])
    """
    if moments.n_rows < 2:
        raise InputError(
            f"target has {counted(moments.n_rows, 'row')} of positive weight; a mean squared error needs at least 2."
        )
    squares, cubes = float(moments.second[0, 0]), float(moments.third[0, 0])
    # What is left of the squared deviations from the weighted mean, where weights do not depend on the losses.
    first, second, both = moments.second[2] / max(1.0 - 2.0 * cubes / squares + squares, ROUNDING)
    shared = (both - first - second) / 2.0
    scale = np.maximum(moments.second[2, :2], TINY) ** 1.5
    return SquaredLoss(
        raw_asymptote=float(moments.centre[0]),
        member_variance=float(moments.centre[1]),
        covariance=np.array([[first, shared], [shared, second]]),
        skewness=np.clip(moments.third[3, :2] / scale, -1.0, 1.0),
        moments=moments,
    )
