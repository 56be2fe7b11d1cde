r"""Intervals of an error, from the rows and from the seeds of the members.

Limits of the mean of losses whose distribution has a long tail, from statistics that merge over parts of the rows.
Two corrections of the normal interval are made, and the larger upper limit is taken: Hall's transformation, which
needs the third moment, and a Pareto tail fitted to the largest values, which allows for larger losses than any in the
data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray, previous_odd_size

SD_INFLATION = 1.1
N_DRAWS = 200


def wilson_interval(error: ArrayLike, sd: ArrayLike, n_rows: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
    r"""Return the lower and upper limits of the Wilson interval of a share whose standard deviation is `sd`.

    The effective number of rows is :math:`e(1-e)/\mathrm{sd}^2`, at most `n_rows`; `n_rows` where the share is 0 or 1.
    """
    e = np.asarray(error, dtype=np.float64)
    spread = e * (1.0 - e)
    variance = np.maximum(np.asarray(sd, dtype=np.float64) ** 2, spread / np.asarray(n_rows, dtype=np.float64))
    # An error within rounding of 0 or 1 is treated as 0 or 1.
    certain = (spread <= NEGLIGIBLE) | (variance <= 0)
    n = np.where(certain, n_rows, spread / np.where(certain, 1.0, variance))
    z = float(ndtri(0.5 + level / 2.0))
    centre = (e + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(np.clip(spread, 0.0, None) / n + z**2 / (4 * n**2))
    return np.clip(centre - half, 0.0, e), np.clip(centre + half, e, 1.0)


def size_interval(draws: FloatArray, level: float, max_size: int) -> tuple[int, int | None]:
    """Return the ends of the recommended size's interval: the lower at most `max_size`, the upper None if above it."""
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], method="inverted_cdf")
    return int(min(low, max_size)), None if high > max_size else int(high)


@dataclass(frozen=True, eq=False)
class DrawnCurve:
    """A quantity by the number of members, and draws of it: the :class:`~ens_plugin.analysis.sizes.SizeLaw` of it.

    Attributes
    ----------
    sizes, values : ndarray, shape (n_sizes,)
        Ascending sizes, the last of which is infinity, and the quantity at each.
    draws : ndarray, shape (n_draws, n_sizes)
    ties_to : float
        Largest even size up to which votes tie, so that an ensemble has the quantity of one with a member less.
    stretch : float, or ndarray of shape (n_draws,)
        Tolerance of each draw in multiples of that of the curve, where it depends on the limit.
    """

    sizes: FloatArray
    values: FloatArray
    draws: FloatArray
    ties_to: float = 0.0
    stretch: FloatArray | float = 1.0

    @property
    def limit(self) -> float:
        """Return the quantity of the infinite ensemble."""
        return float(self.values[-1])

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the quantity at each size, linear in 1/size between those of the curve."""
        return self._between(sizes, self.values)

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the distance from the limit at each size, shape (n_sizes,)."""
        return np.abs(self.at(sizes) - self.limit)

    def change_sd(self, sizes: FloatArray, known: float) -> FloatArray:
        """Return the standard deviation, over draws, of the difference from the quantity at a known size."""
        values = np.array([self._between(np.append(sizes, known), draw) for draw in self.draws])
        return np.asarray((values[:, :-1] - values[:, -1:]).std(axis=0, ddof=1))

    def loss_interval(self, size: float, level: float) -> tuple[float, float]:
        """Return the ends of the interval of :meth:`losses` at a size, by the draws."""
        wanted = 1.0 / previous_odd_size(np.float64(size), self.ties_to)
        excess = self.draws - self.draws[:, -1:]
        found = [np.interp(wanted, 1.0 / self.sizes[::-1], own[::-1]) for own in excess]
        low, high = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        return float(low), float(high)

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the size from which on the quantity is as close to its limit; None if above `max_size`."""
        size = float(self._first_close(self.values[None], np.array([tolerance]))[0])
        return int(size) if size <= max_size else None

    def size_draws(self, tolerance: float) -> FloatArray:
        """Return :meth:`size_within` of each draw, shape (n_draws,); infinity where there is none."""
        return self._first_close(self.draws, np.broadcast_to(tolerance * self.stretch, len(self.draws)))

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of the size by the draws; where these go up as well as down, none is as flat as all."""
        return size_interval(self.size_draws(tolerance), level, max_size)

    def _between(self, sizes: ArrayLike, values: FloatArray) -> FloatArray:
        wanted = 1.0 / previous_odd_size(np.asarray(sizes, dtype=np.float64), self.ties_to)
        return np.asarray(np.interp(wanted, 1.0 / self.sizes[::-1], values[::-1]))

    def _first_close(self, curves: FloatArray, tolerance: FloatArray) -> FloatArray:
        """Return the size from which on each curve stays within its tolerance of its limit, or infinity."""
        apart = np.abs(curves[:, :-1] - curves[:, -1:]) - tolerance[:, None]
        # Where votes tie, an even size is no better than the odd one below.
        step = 2.0 if self.ties_to else 1.0
        return np.asarray(step * np.ceil((sizes_of_approach(self.sizes, apart) - 1.0) / step - ROUNDING) + 1.0)


def sizes_of_approach(sizes: FloatArray, excess: FloatArray) -> FloatArray:
    """Return the size, not rounded, from which on each curve's excess is at most 0; infinity if the last is above."""
    # Sizes are ascending, and the last one is infinity, which has no excess; between sizes it is linear in 1/size.
    # Excesses have shape (n_curves, n_sizes - 1).
    is_far = excess > 0
    n_finite = excess.shape[1]
    last = n_finite - 1 - np.argmax(is_far[:, ::-1], axis=1)
    found = np.where(is_far.any(axis=1), np.inf, sizes[0])
    curve = np.flatnonzero(is_far.any(axis=1) & (last < n_finite - 1))
    here, beyond = last[curve], last[curve] + 1
    part = excess[curve, here] / (excess[curve, here] - excess[curve, beyond])
    found[curve] = 1.0 / (1.0 / sizes[here] + part * (1.0 / sizes[beyond] - 1.0 / sizes[here]))
    return found


N_KEPT = 256
TAIL_ROWS = (10.0, 64.0)
TAIL_SHARE = 1.0 / 15.0
SHAPES = np.linspace(-0.45, 0.95, 29)
SHAPE_PRIOR = (0.3, 0.35)
N_SCALES = 25


@dataclass(frozen=True, eq=False)
class LargestValues:
    """The largest values, at most 256, among weighted rows, descending, with their weights; disjoint rows merge."""

    values: FloatArray
    weights: FloatArray

    def merge(self, other: LargestValues) -> LargestValues:
        """Return the largest values among the rows of `self` and `other`, which must be disjoint."""
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
    """Return the distances, both positive, of a mean's lower and upper limit from its estimate, in standard errors.

    Hall (1992), "On the removal of skewness by transformation": :math:`t + a t^2/3 + a^2 t^3/27 + a/6` is nearly normal
    for the studentised mean t of skewness a; the limits are its inverse at the normal quantiles.  The skewness of a
    mean is that of one value divided by the square root of the number of values.
    """
    z = float(ndtri(0.5 + level / 2.0))
    if abs(skewness) < 1e-6:
        return z, z
    low, high = (3.0 / skewness * (np.cbrt(1.0 + skewness * (t - skewness / 6.0)) - 1.0) for t in (z, -z))
    return max(float(low), 0.0), max(float(-high), 0.0)


@dataclass(frozen=True, eq=False)
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
    """Fit a generalised Pareto distribution to the excesses of the largest values over a threshold."""
    # The tail, the priors and their cuts are in `docs/methods/squared-loss.md`, long tails. Without the cut of the
    # scale, the limit of a long tail would be up to twice as far from the mean. None if there are too few values, or
    # too few that differ.
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


def dyadic_variance(terms: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer]) -> float:
    r"""Return the variance over rows of a sum of terms, less their mean, each of which belongs to two rows.

    :math:`\frac{G}{G-1} \sum_{s, t} e_s e_t`, over all pairs of terms that share a row (or group), of G in all: P. M.
    Aronow, C. Samii, V. A. Assenova (2015), *Cluster-robust variance estimation for dyadic data*, Political Analysis
    23, eq. 3.  Sums of terms by row count the pairs that share both rows twice, which is put right.  The estimate is at
    least that of the first rows alone, below which only chance takes it where few terms differ from 0.  It is 0 for a
    single row or group, from which nothing is known.
    """
    n_rows = int(max(first.max(), second.max())) + 1
    if np.unique(first).size < 2:
        return 0.0
    own = np.bincount(first, terms, n_rows)
    apart = first != second
    both = own + np.bincount(second[apart], terms[apart], n_rows)
    pair = np.minimum(first, second)[apart].astype(np.int64) * n_rows + np.maximum(first, second)[apart]
    twice = np.bincount(np.unique(pair, return_inverse=True)[1], terms[apart])
    n_units = np.unique(first).size
    return float(max(both @ both - twice @ twice, own @ own)) * n_units / (n_units - 1.0)


N_PARTS = 8
# One-sided, of 95 %.
UPPER = 1.645
# With this relative deviation of the ratio, that of a standard error is half as large.
LARGEST_NOISE = 0.3


@dataclass(frozen=True, eq=False)
class TrainingRatio:
    """Ratio of the variance over training sets to the variance over members, in the mean of many predictions.

    `sd` is the standard deviation of `value` over members.
    """

    value: float
    sd: float

    @property
    def is_estimated(self) -> bool:
        """Return whether the members are many enough for more than an upper bound."""
        return self.sd <= LARGEST_NOISE * self.value

    @property
    def members_needed(self) -> float:
        """Return how many times the members it takes until `is_estimated` is true; infinite where unknown."""
        return self.sd / (LARGEST_NOISE * self.value) if self.value > 0.0 else np.inf

    @property
    def upper(self) -> float:
        """Return the upper end of a one-sided 95 % interval; at least 0."""
        return max(self.value, 0.0) + UPPER * self.sd


def pooled_ratio(variances: FloatArray, member_variances: FloatArray, weight: FloatArray) -> TrainingRatio:
    """Return the ratio of weighted means of the variances, and its standard deviation by a jackknife over members."""
    # The variances, shape (n_parts + 1, n_predictions), are of all members, then without each part of them. Without
    # predictions nothing is known: 0, with an infinite standard deviation.
    if not variances.size:
        return TrainingRatio(0.0, np.inf)
    over_members = member_variances @ weight
    ratios = np.divide(variances @ weight, over_members, out=np.zeros(over_members.size), where=over_members > 0)
    return TrainingRatio(float(ratios[0]), float(np.sqrt(ratios.size - 2.0) * np.std(ratios[1:])))


def pooled_variance(member_variance: FloatArray, typical: FloatArray | float, ratio: float) -> FloatArray:
    r"""Return the variance over training sets of single predictions, from their variances over members.

    Where each member predicts the target of one of k rows, the ratio :math:`\rho` of both variances is
    :math:`1/(k - 1)`.  A variance over members thus has :math:`1/\rho` degrees of freedom, which are few, and the
    typical variance, its mean over many rows, counts as one more.
    """
    return np.asarray(ratio * (member_variance + ratio * typical) / (1.0 + ratio))
