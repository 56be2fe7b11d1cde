"""Losses of mean outputs in closed form, by size: squared error and Brier score; and limits of predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from ens_plugin.core.intervals import FittedTail, LargestValues, fit_tail, hall_limits, largest_values
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import (
    RowBlock,
    ValueTally,
    count_members,
    select_rows,
    sum_squares_over_members,
    tally_values,
)
from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray, as_sizes, as_values, as_weight, counted
from ens_plugin.core.weights import group_sums
from ens_plugin.errors import InputError

TINY = 1e-200


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    r"""The mean squared error of an ensemble of any size, :math:`\mathrm{MSE}_\infty + v/B`, unbiased.

    It is the :class:`~ens_plugin.analysis.sizes.SizeLaw` of this error.  `covariance` and `skewness` are of the
    sampling distribution of both terms over rows; `luck` is the standard deviation of v, the mean variance of one
    member, by the members that happened to be trained, as far as all rows share it.
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
        """Return the interval of the error on fresh rows at each size: distances are combined as deviations are."""
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

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the error at each size less that of the infinite ensemble, shape (n_sizes,)."""
        return np.asarray(max(self.member_variance, 0.0) / as_sizes(sizes))

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest size whose error is at most so far above its limit; None if above `max_size`."""
        return _smallest_size(self.member_variance, tolerance, max_size)

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of :meth:`size_within`, from the limits of the variance of one member."""
        if self.member_variance <= 0:
            return 1, 1
        luck = self.luck * float(norm.ppf(0.5 + level / 2.0))
        _, (below, above) = self.distances(level)
        low = _smallest_size(self.member_variance - math.hypot(below, luck), tolerance, max_size)
        high = _smallest_size(self.member_variance + math.hypot(above, luck), tolerance, max_size)
        return max_size if low is None else low, high


def _smallest_size(variance: float, tolerance: float, max_size: int) -> int | None:
    """Return the smallest size of which a variance divided by it is within the tolerance; None if above `max_size`."""
    # A quotient that is whole but for rounding is taken as whole.
    size = max(variance, 0.0) / tolerance * (1.0 - 1e-12) if tolerance > 0 else math.inf
    return max(math.ceil(size), 1) if size <= max_size else None


def _combined(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """Return the distance from the sum of two correlated estimates to its limit, from the distances of both terms."""
    one, other = np.asarray(first), np.asarray(second)
    if np.isinf(one).any() or np.isinf(other).any():
        return np.asarray(np.maximum(one, other))
    return np.asarray(np.sqrt(np.maximum(one**2 + other**2 + 2.0 * correlation * one * other, 0.0)))


@dataclass(frozen=True, eq=False)
class LossMoments:
    """Moments over rows from which the closed form is computed; those of disjoint rows merge.

    Each row has two terms, its unbiased squared error and the variance of its members; their sum is the third column.
    `second` and `third` are sums over rows of the squared and the cubed share of the weight times the deviation from
    `centre` to the powers 0 to 2 and 0 to 3; `squared_error` is of the rows' mean outputs.
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
        """Return the moments of the rows of `self` and `other`, which must be disjoint."""
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
    """Return the moments of rows, of two members or more, from mean and variance (ddof 1) of their outputs."""
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
    """Return the moments of rows from each one's squared error and the variance of its members, summed over outputs."""
    # The rows of one group count as one, with their mean terms and summed weight.
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
    powers = np.cumprod(np.stack([np.ones_like(deviations), *3 * [deviations]]), axis=0)
    return LossMoments(
        n_rows=int(np.count_nonzero(w)),
        weight=total,
        squared_error=float(squared @ share),
        centre=centre,
        variance=powers[2] @ share,
        second=powers[:3] @ (share * share),
        third=powers @ (share * share * share),
        largest=(largest_values(unbiased, w), largest_values(s2, w)),
    )


def _group_terms(terms: FloatArray, weight: FloatArray, groups: NDArray[np.integer]) -> tuple[FloatArray, FloatArray]:
    weights = group_sums(weight, groups)
    sums = np.stack([group_sums(weight * term, groups) for term in terms])
    return sums[:, weights > 0] / weights[weights > 0], weights[weights > 0]


def fit_moments(moments: LossMoments) -> SquaredLoss:
    r"""Fit the closed form of the mean squared error to the moments of all rows.

    :math:`\mathrm{MSE}_\infty = \overline{(\bar h_i - y_i)^2 - S_i^2/n_i}`, unbiased for every size
    and linear in 1/B.  E2 - V2 of Wolpert and Macready (1996) with ddof 1.
    A row's weight enters the covariance beside its own deviation, so weights may depend on the losses.
    """
    if moments.n_rows < 2:
        raise InputError(
            f"target has {counted(moments.n_rows, 'row')} of positive weight; a mean squared error needs at least 2."
        )
    squares, cubes = float(moments.second[0, 0]), float(moments.third[0, 0])
    # What is left of the squared deviations from the weighted mean, where weights do not depend on the losses.
    first, second, both = moments.second[2] / max(1.0 - 2.0 * cubes / squares + squares, NEGLIGIBLE)
    shared = (both - first - second) / 2.0
    scale = np.maximum(moments.second[2, :2], TINY) ** 1.5
    return SquaredLoss(
        raw_asymptote=float(moments.centre[0]),
        member_variance=float(moments.centre[1]),
        covariance=np.array([[first, shared], [shared, second]]),
        skewness=np.clip(moments.third[3, :2] / scale, -1.0, 1.0),
        moments=moments,
    )


# Groups of members that are left out, one after the other, and outputs that are read each time.
N_GROUPS, CELLS_OF_LUCK, FEWEST_ROWS = 20, 1_000_000, 100
# Of differences of probabilities along a member's deviation: their relative error is about its square, and rounding
# adds a share of the inverse of that.
STEP = 1e-4


def squared_loss(
    sample: Sample,
    inverse_link: Callable[[FloatArray], NDArray[Any]] | None = None,
    groups: NDArray[np.integer] | None = None,
) -> SquaredLoss | None:
    """Return the mean squared error, or Brier score, of an ensemble of any size, on the rows with two members.

    The Brier score of two labels is that of the second one, :math:`(p - y)^2`; of more the sum over labels.
    `inverse_link` turns mean scores, shape (n_rows, n_labels), into probabilities; None where the outputs are votes,
    probabilities or values.  None is returned for fewer than two rows, or groups.
    """
    places = np.flatnonzero((sample.block.trials >= 2) & (sample.weight > 0))
    used = sample if places.size == sample.rows.size else sample.select(places)
    own_groups = None if groups is None else groups[places]
    if places.size < 2 or (own_groups is not None and np.unique(own_groups).size < 2):
        return None
    squared, variance = squared_terms(used.block, inverse_link)
    moments = term_moments(squared, variance, used.block.trials, used.weight, own_groups)
    return replace(fit_moments(moments), luck=luck_of_members(used, inverse_link))


def luck_of_members(sample: Sample, inverse_link: Callable[[FloatArray], NDArray[Any]] | None = None) -> float:
    r"""Return the standard deviation of the mean variance by which members were trained, as far as all rows share it.

    By the delete-a-group jackknife: with :math:`e_{gi}` the change of row i's term without group g,
    :math:`\frac{G - 1}{G} \sum_g [(\sum_i e_{gi})^2 - \sum_i e_{gi}^2] / N^2`, at least 0.
    """
    # Members of small bags differ: one that drew an outlier errs on all rows, and trees with one split each may predict
    # all rows alike far from their means. What is independent from row to row is part of the variance over rows.
    n_members, n_groups = len(sample.block.counted), min(N_GROUPS, len(sample.block.counted))
    n_rows = CELLS_OF_LUCK // (n_members * max(sample.block.n_labels, 1))
    part = sample.some_rows(max(n_rows, FEWEST_ROWS))
    stays = [np.arange(n_members) % n_groups != left_out for left_out in range(n_groups)]
    known = np.all([count_members(part.block.counted[kept]) >= 2 for kept in stays], axis=0)
    if np.count_nonzero(known) < 2:
        return 0.0
    part = part.select(np.flatnonzero(known))
    block, share = part.block, part.weight / part.weight.sum()
    others = (block.like(block.outputs[kept], block.counted[kept], block.target) for kept in stays)
    terms = np.stack([squared_terms(each, inverse_link)[1] for each in others])
    apart = (terms - terms.mean(axis=0)) * share
    pairs = float(np.square(apart.sum(axis=1)).sum() - np.square(apart).sum())
    return math.sqrt(max(pairs, 0.0) * (n_groups - 1.0) / n_groups)


def linear_probabilities(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> tuple[RowBlock, FloatArray]:
    r"""Return raw scores as probabilities whose mean is that of the mean score, and what else a member adds to a loss.

    A member's probabilities differ from those of the mean score by the derivative of the inverse link along its
    deviation d.  The Brier score :math:`\sum_k (p_k - y_k)^2` of B members also has
    :math:`\overline{\sum_k (p_k - y_k)\, \partial_d^2 p_k} / B`, from the curvature of the link, which is the second
    array, shape (n_rows,).
    """
    mean = block.support / block.trials[:, None]
    whole = np.asarray(inverse_link(mean), dtype=np.float64)
    linear, bend = np.empty((*block.counted.shape, block.n_labels)), np.zeros(whole.shape)
    for own, output, counts in zip(linear, block.outputs, block.counted, strict=True):
        step = STEP * (output - mean)
        above, below = (np.asarray(inverse_link(moved), dtype=np.float64) for moved in (mean + step, mean - step))
        own[:] = whole + (above - below) / (2.0 * STEP)
        bend += (above + below - 2.0 * whole) * counts[:, None]
    apart = whole - np.eye(block.n_labels)[block.target]
    added = (apart * bend).sum(axis=1) / (STEP**2 * (block.trials - 1.0))
    return RowBlock(linear, block.counted, block.target, block.n_labels), _scale(block.n_labels) * added


def squared_terms(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]] | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return each row's squared error and what one member adds to it, from values, votes, probabilities or scores.

    :math:`\sum_k (\bar p_k - y_k)^2` of the mean over the members that count, at least two, and :math:`\sum_k s_k^2`
    with ddof 1; both are halved for two labels.  For scores, see :func:`linear_probabilities`.
    """
    if inverse_link is not None:
        linear, bend = linear_probabilities(block, inverse_link)
        squared, variance = squared_terms(linear)
        return squared, variance + bend
    if not block.n_labels:
        tally = tally_values(block)
        return (tally.mean - tally.target) ** 2, tally.variance
    trials = block.trials
    squares = trials if block.is_vote else sum_squares_over_members(block.outputs, block.counted).sum(axis=1)
    mean = block.support / trials[:, None]
    length = (mean**2).sum(axis=1)
    variance = np.maximum(squares - trials * length, 0.0) / (trials - 1.0)
    of_truth, scale = mean[np.arange(trials.size), block.target], _scale(block.n_labels)
    return scale * (length - of_truth**2 + (1.0 - of_truth) ** 2), scale * variance


def _scale(n_labels: int) -> float:
    return 0.5 if n_labels == 2 else 1.0


def residuals_at_size(tally: ValueTally, weight: FloatArray, size: float) -> FloatArray:
    r"""Return residuals of out-of-bag means, target less prediction, as narrow as those of `size` members.

    A row has fewer out-of-bag members, :math:`m_i`, than the ensemble has members, B.  Each residual's distance from
    the weighted mean is therefore multiplied by :math:`\sqrt{(s^2 + v/B) / (s^2 + v/m_i)}`, with v the variance of a
    member and :math:`s^2` 0 where its estimate is negative (``docs/methods/squared-loss.md``); the shape is kept.  Each
    row has a member, and two rows with weight have two.
    """
    several = (tally.trials >= 2) & (weight > 0)
    if np.count_nonzero(several) < 2:
        raise InputError("Fewer than two rows have two out-of-bag members; train more members.")
    residuals = tally.target - tally.mean
    centre = float(np.average(residuals, weights=weight))
    known = select_rows(tally, several)
    assert isinstance(known, ValueTally)
    # About their mean: what all rows have in common is no part of the spread.
    moments = loss_moments(known.mean + centre, known.variance, known.trials, known.target, weight[several])
    law = fit_moments(moments)
    expected, wanted = (law.asymptote + law.member_variance / members for members in (tally.trials, size))
    factor = np.sqrt(np.divide(wanted, expected, out=np.ones_like(expected), where=expected > 0))
    return np.asarray(centre + factor * (residuals - centre))


def residual_limits(
    residuals: FloatArray, level: float, weight: FloatArray, groups: NDArray[np.integer] | None = None
) -> tuple[float, float]:
    r"""Return the two quantiles between which the residual of one more row lies with a chance of `level`.

    With groups, the row is one of a fresh group.  The upper quantile is where the weight of all residuals up to it,
    interpolated between residuals, is :math:`(1 - \alpha/2)(W + w)`, with :math:`\alpha` one less the level, W the
    weight of all and :math:`w = \sum w_i^2 / W` that which the fresh row may have; the lower one mirrors it.  Between
    residuals at whole places a further one lies with exactly the chance `level` (with weights: R. J. Tibshirani and
    others 2019), and interpolation keeps that but for an error of order :math:`1/n^2` (R. Beran, P. Hall 1993,
    *Interpolated nonparametric prediction intervals and confidence intervals*, JRSS B 55).  Fewer rows, or groups, than
    2 / (1 - level) - 1 raise an InputError.
    """
    units = weight if groups is None else group_sums(weight, groups)
    total = float(units.sum())
    one = float(units @ units) / total
    needed = (0.5 + level / 2.0) * (total + one)
    if needed > total * (1.0 + ROUNDING):
        what = "rows" if groups is None else "groups"
        fewest = np.ceil(2.0 / (1.0 - level) - 1.0 - ROUNDING)
        raise InputError(
            f"An interval of level {level:g} needs at least {fewest:.0f} {what} with out-of-bag members, and there are "
            f"{_worth(units)}. Pass a lower interval_level, or train on more rows."
        )
    lower, upper = -_quantile(-residuals, weight, needed), _quantile(residuals, weight, needed)
    # A limit of 0 has no sign.
    return lower + 0.0, upper + 0.0


def _worth(weight: FloatArray) -> str:
    """Return how many rows count, and as how many of equal weight if they differ."""
    known = weight[weight > 0.0]
    if known.size == 0 or known.min() == known.max():
        return str(known.size)
    return f"{known.size}, which weigh as much as {known.sum() ** 2 / (known @ known):.3g} of equal weight"


def _quantile(values: FloatArray, weight: FloatArray, needed: float) -> float:
    """Return the value below which the values have the `needed` weight together, interpolated linearly."""
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0]
    return float(np.interp(needed, np.cumsum(weight[order]), values[order]))
