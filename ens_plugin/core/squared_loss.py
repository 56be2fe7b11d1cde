r"""Squared loss: the closed form of the error curve, its uncertainty and the size it asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ens_plugin.core.row_groups import group_sums
from ens_plugin.core.validation import as_sizes, as_values, as_weight
from ens_plugin.errors import InputError

__all__ = ["LossMoments", "SquaredLoss", "fit_moments", "fit_squared_loss", "loss_moments"]

FloatArray = NDArray[np.float64]

LARGEST_LOG = 700.0


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    r"""The mean squared error of an ensemble of any size, :math:`\mathrm{MSE}_\infty + v/B`.

    Attributes
    ----------
    raw_asymptote : float
        Unbiased estimate of the infinite ensemble's mean squared error; can come out negative.
    member_variance : float
        v, the mean variance of one member.
    covariance : ndarray, shape (2, 2)
        Sampling covariance of (raw_asymptote, member_variance) over rows.
    """

    raw_asymptote: float
    member_variance: float
    covariance: FloatArray

    @property
    def asymptote(self) -> float:
        """The asymptote, 0 where its estimate came out negative."""
        return max(self.raw_asymptote, 0.0)

    def error(self, sizes: ArrayLike) -> FloatArray:
        """Mean squared error at each size, infinity allowed, at least 0."""
        return np.maximum(self.raw_asymptote + self.member_variance / as_sizes(sizes), 0.0)

    def interval(self, sizes: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
        """Normal interval of the error on fresh rows at each size, cut at 0."""
        inverse = 1.0 / as_sizes(sizes)
        c = self.covariance
        sd = np.sqrt(np.maximum(c[0, 0] + 2 * inverse * c[0, 1] + inverse**2 * c[1, 1], 0.0))
        half = float(ndtri(0.5 + level / 2.0)) * sd
        error = self.error(sizes)
        return np.maximum(error - half, 0.0), error + half

    def recommended_size(self, tolerance: float, max_size: int) -> int | None:
        """Smallest size with an excess error of at most `tolerance` times the asymptote."""
        if not tolerance > 0:
            raise InputError(f"tolerance must be positive, got {tolerance}.")
        if self.member_variance <= 0:
            return 1
        if self.asymptote <= 0:
            return None
        size = int(np.ceil(self.member_variance / (tolerance * self.asymptote) * (1.0 - 1e-12)))
        return max(size, 1) if size <= max_size else None

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Interval of the recommended size, log-normal by the delta method."""
        if self.member_variance <= 0:
            return 1, 1
        if self.asymptote <= 0:
            return 1, None
        gradient = np.array([-1.0 / self.asymptote, 1.0 / self.member_variance])
        sd = float(np.sqrt(gradient @ self.covariance @ gradient))
        centre = np.log(self.member_variance / (tolerance * self.asymptote))
        z = float(ndtri(0.5 + level / 2.0))
        low, high = np.exp(np.clip(centre + np.array([-z, z]) * sd, -LARGEST_LOG, LARGEST_LOG))
        return int(np.clip(np.floor(low), 1, max_size)), int(np.ceil(high)) if high <= max_size else None


def fit_squared_loss(
    mean: ArrayLike, variance: ArrayLike, trials: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None
) -> SquaredLoss:
    r"""Fit the closed form of the mean squared error from each row's out-of-bag outputs.

    Parameters
    ----------
    mean, variance : array-like, shape (n_rows,)
        Mean and variance (ddof 1) of the members that speak about each row.
    trials : array-like, shape (n_rows,)
        Their number, at least 2.
    target : array-like, shape (n_rows,)
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    SquaredLoss

    Raises
    ------
    InputError
        If shapes differ, anything is not finite, or a row has fewer than two members.

    Notes
    -----
    :math:`\mathrm{MSE}_\infty = \overline{(\bar h_i - y_i)^2 - S_i^2/n_i}`, unbiased for every size
    and linear in 1/B.  E2 - V2 of Wolpert and Macready (1996) with ddof 1.

    Examples
    --------
    >>> fit_squared_loss([1.0, 2.0], [0.5, 0.5], [10, 10], [1.0, 1.0]).error([1, float("inf")]).round(3)
    array([0.95, 0.45])
    """
    return fit_moments(loss_moments(mean, variance, trials, target, weight))


@dataclass(frozen=True, eq=False)
class LossMoments:
    """What the closed form needs of many rows, in a few numbers; those of disjoint rows merge.

    Each row has two terms: its unbiased squared error and the variance of its members.

    Attributes
    ----------
    n_rows : int
        Rows with weight.
    weight : float
        Their summed weight.
    squares : float
        Sum of the squared weights, relative to the square of `weight`.
    centre : ndarray, shape (2,)
        Weighted mean of the terms.
    scatter : ndarray, shape (2, 2)
        Weighted mean of the products of their deviations.
    """

    n_rows: int
    weight: float
    squares: float
    centre: FloatArray
    scatter: FloatArray

    def merge(self, other: LossMoments) -> LossMoments:
        """Moments of the rows of both.

        Examples
        --------
        >>> first = loss_moments([1.0], [0.5], [10], [1.0])
        >>> both = first.merge(loss_moments([2.0], [0.5], [10], [1.0]))
        >>> both.centre.round(3), both.n_rows
        (array([0.45, 0.5 ]), 2)
        """
        weight = self.weight + other.weight
        own, others = self.weight / weight, other.weight / weight
        apart = other.centre - self.centre
        return LossMoments(
            self.n_rows + other.n_rows,
            weight,
            own**2 * self.squares + others**2 * other.squares,
            self.centre + others * apart,
            own * self.scatter + others * other.scatter + own * others * np.outer(apart, apart),
        )


def loss_moments(
    mean: ArrayLike,
    variance: ArrayLike,
    trials: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    groups: NDArray[np.integer] | None = None,
) -> LossMoments:
    """Sum up rows for the closed form; arguments and errors as of :func:`fit_squared_loss`.

    Rows of one group, where `groups` tells them, count as one with their mean terms and summed weight.
    """
    h = as_values(mean, "mean")
    s2 = as_values(variance, "variance", h.size)
    n = as_values(trials, "trials", h.size)
    y = as_values(target, "target", h.size)
    w = as_weight(weight, h.size)
    if n.min() < 2:
        raise InputError("trials must be at least 2 for every row: a variance needs two members.")
    terms = np.stack([(h - y) ** 2 - s2 / n, s2])
    if groups is not None:
        terms, w = _group_terms(terms, w, groups)
    total = float(w.sum())
    share = w / total
    centre = terms @ share
    deviations = terms - centre[:, None]
    scatter = (deviations * share) @ deviations.T
    return LossMoments(int(np.count_nonzero(w)), total, float(share @ share), centre, scatter)


def _group_terms(terms: FloatArray, weight: FloatArray, groups: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
    weights = group_sums(weight, groups)
    sums = np.stack([group_sums(weight * term, groups) for term in terms])
    return sums[:, weights > 0] / weights[weights > 0], weights[weights > 0]


def fit_moments(moments: LossMoments) -> SquaredLoss:
    """Fit the closed form to the moments of all rows.

    Raises
    ------
    InputError
        If fewer than two rows have weight.
    """
    if moments.n_rows < 2:
        raise InputError(f"target has {moments.n_rows} rows with weight; a mean squared error needs at least 2.")
    covariance = moments.scatter / max(1.0 / moments.squares - 1.0, 1.0)
    return SquaredLoss(float(moments.centre[0]), float(moments.centre[1]), covariance)
