"""The smallest size from which on a metric stays close to that of the infinite ensemble."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.analysis.curves.size_reasons import metric_reason
from ens_plugin.analysis.metric_curves.label_metric import LabelMetricCurve, MatrixMetricCurve, typical_size
from ens_plugin.analysis.metric_curves.metric_resampling import Resampled
from ens_plugin.analysis.metric_curves.zero_probabilities import ZeroRows
from ens_plugin.core.estimates.extrapolation import ERROR_FACTOR, Extrapolation, extrapolate
from ens_plugin.core.estimates.squared_loss import SquaredLoss
from ens_plugin.core.uncertainty.error_draws import size_of_approach
from ens_plugin.core.uncertainty.intervals import size_interval
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.records import record
from ens_plugin.report.estimates import SizeRecommendation

__all__ = ["MetricChange", "metric_size"]

N_DRAWS = 200
N_BEYOND = 200
MOST_SINGLE = 1000
# The bound on the error of the extrapolation is taken as the half-width of a normal interval at 95 %.
NORMAL_95 = 1.96
ROUNDING = 1e-9
# Of quantiles of errors with tails; between them errors are interpolated.
NORMAL_GRID = np.linspace(-3.5, 3.5, 15)
TINY = 1e-200


@record
class MetricChange:
    """What is known of how a metric changes with the size.

    Attributes
    ----------
    law : Extrapolation
    by_order : ndarray, shape (n_orders, n_sizes)
        The metric by random order of the members and size.
    limits : tuple of two floats
        Least and largest value of the metric.
    ends : tuple of two ints
        Positions, among the sizes of the law, of the two between which the change was resampled.
    moments : Resampled
        Over bootstrap samples of the rows: of the metric, and of its change between these two sizes.
    closed : SquaredLoss or None
        The closed form of the loss that the metric depends on, where there is one.
    zeros : ZeroRows or None
        Rows of probability 0 that are to be expected, of a log loss.
    falls_with_loss : bool
        Whether the metric is lower the larger the loss.
    """

    law: Extrapolation
    by_order: FloatArray
    limits: tuple[float, float]
    ends: tuple[int, int]
    moments: Resampled
    closed: SquaredLoss | None = None
    zeros: ZeroRows | None = None
    falls_with_loss: bool = True

    @property
    def limit(self) -> float:
        """Return the metric of the infinite ensemble."""
        return float(self.values([np.inf])[0])

    @property
    def level_sd(self) -> float:
        """Return the standard deviation of the metric over samples of the rows."""
        return self.moments.sd

    def values(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, infinity allowed, within its limits.

        A line that leaves the limits is replaced by the one from the largest subset to the limit at infinity: cut at
        the limit, it would reach it at a finite size.
        """
        wanted = np.asarray(sizes, dtype=np.float64)
        found, end = self.law.at(wanted), float(self.law.at([np.inf])[0])
        limit = float(np.clip(end, *self.limits))
        if limit != end:
            known = float(np.clip(self.law.averages[-1], *self.limits))
            beyond = wanted > self.law.sizes[-1]
            found = np.where(beyond, limit + (known - limit) * _share_left(self.law, wanted), found)
        return np.asarray(np.clip(found, *self.limits))

    def differences(self, sizes: IntArray) -> FloatArray:
        """Return the metric at each size less that of the infinite ensemble."""
        values = self.values(np.append(sizes.astype(np.float64), np.inf))
        return np.asarray(values[:-1] - values[-1])

    def close_size(self, distance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the metric is within a distance of its limit, or None."""
        largest, offset = int(self.law.sizes[-1]), self.law.offset
        beyond = abs(float(self.differences(np.array([largest]))[0])) * (largest + offset) / distance - offset
        if beyond > max_size:
            return None
        if beyond > largest:
            return int(np.ceil(beyond - ROUNDING))
        within = np.arange(1, min(largest, max_size) + 1)
        far = np.flatnonzero(np.abs(self.differences(within)) > distance)
        size = int(within[far[-1]]) + 1 if far.size else 1
        return size if size <= max_size else None

    def size_draws(self, settings: ResolvedOptions) -> FloatArray:
        """Return draws of :meth:`close_size`, shape (n_draws,); infinity where above `max_size`."""
        rng = np.random.default_rng(settings.random_state)
        metric, moments, (half, last) = settings.metric, self.moments, self.ends
        assert metric is not None
        sizes, offset, grid = self.law.sizes, self.law.offset, _grid(self.law.sizes, settings.max_size)
        n_orders = self.by_order.shape[0]
        covariance = np.array([[moments.sd**2, moments.shared], [moments.shared, moments.step_variance]])
        level_errors, step_errors = (rng.standard_normal((N_DRAWS, 2)) @ _root(covariance).T).T
        slope = 1.0 / (sizes[half] + offset) - 1.0 / (sizes[last] + offset)
        # Averages over subsets below the first end are known better than the slope; a closed form has one slope.
        by_slope = -1.0 / slope / (np.maximum(grid, sizes[half] if self.closed is None else 1) + offset)
        extrapolated = rng.standard_normal(N_DRAWS) / NORMAL_95
        averages = self.by_order[rng.integers(0, n_orders, (N_DRAWS, n_orders))].mean(axis=1)
        found, bound = self._drawn_differences(averages, grid)
        if self.closed is not None:
            level_errors, step_errors = self._with_tails(self.closed, level_errors, step_errors)
            step_errors += self._luck(self.closed, rng)
        found = found + np.outer(step_errors, by_slope) + extrapolated[:, None] * bound
        if self.zeros is not None:
            # How many there are is known about as well as the time of one rare event.
            found += np.outer(rng.exponential(size=N_DRAWS) - 1.0, self.zeros.effect(grid))
        found = np.abs(found)
        allowed = np.maximum(settings.metric_distances(self.limit + level_errors), 1e-12)
        reached = np.append(grid, np.inf)
        close = [size_of_approach(reached, apart - most) for apart, most in zip(found, allowed, strict=True)]
        draws = np.ceil(np.array(close) - ROUNDING)
        return np.where(draws <= settings.max_size, draws, np.inf)

    @property
    def _loss_step(self) -> float:
        """Return the metric's change between the two ends as far as the loss makes it: negative of a loss."""
        first, last = self.law.averages[list(self.ends)]
        return abs(float(last - first)) * (1.0 if self.falls_with_loss else -1.0)

    def _luck(self, closed: SquaredLoss, rng: np.random.Generator) -> FloatArray:
        """Return errors of the step by the members that were trained, normal on the scale of logarithms."""
        relative = closed.luck / closed.member_variance
        return np.asarray(self._loss_step * np.expm1(relative * rng.standard_normal(N_DRAWS)))

    def _with_tails(
        self, closed: SquaredLoss, level_errors: FloatArray, step_errors: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return normal errors of level and step with the skewness and the tails of the rows' losses and slopes."""
        sign = -1.0 if self.falls_with_loss else 1.0
        by_level, by_slope = _error_quantiles(closed)
        level_errors = sign * _with_quantiles(sign * level_errors, self.moments.sd, by_level)
        # A loss that falls faster has a larger, negative step.
        step_errors = -sign * _with_quantiles(-sign * step_errors, float(np.sqrt(self.moments.step_variance)), by_slope)
        return level_errors, step_errors

    def _drawn_differences(self, averages: FloatArray, grid: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return differences, and the signed bound on their error, for other averages of shape (n_draws, n_sizes).

        Returns
        -------
        differences, bound : ndarray, shape (n_draws, n_grid)
        """
        reached = np.append(grid, np.inf)
        laws = extrapolate(self.law.sizes, averages, self.law.offset)
        line, apart, beyond = laws.at(reached), laws.apart(reached), reached > self.law.sizes[-1]
        signed = np.sign(apart[:, -1:]) * np.where(beyond, ERROR_FACTOR * np.abs(apart), 0.0)
        limit, known = (np.clip(column, *self.limits)[:, None] for column in (line[:, -1], averages[:, -1]))
        is_cut = (limit != line[:, -1:]) & beyond
        within = np.where(is_cut, limit + (known - limit) * _share_left(self.law, reached), line)
        values = np.clip(within, *self.limits)
        return values[:, :-1] - values[:, -1:], signed[:, :-1] - signed[:, -1:]


def metric_size(
    change: MetricChange | LabelMetricCurve, n_members: int, agreement: float | None, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the smallest size from which on the metric is at most `tolerance` away from its value at infinity.

    Parameters
    ----------
    change : MetricChange or LabelMetricCurve
    n_members : int
    agreement : float or None
        Of the current size with the infinite ensemble.
    settings : ResolvedOptions
        With a metric.

    Notes
    -----
    Beyond the largest subset the metric is a line in 1/size, so its distance from the limit falls as 1/size.  A draw
    for the interval resamples the orders of the members, adds an error of the rows to level and slope, and continues
    the curve between the line and the parabola whose distance bounds the error of the extrapolation.

    Of a metric that both errors of two labels move, the size is the typical one of the draws.
    """
    metric = settings.metric
    assert metric is not None
    is_known = _is_apart(change, settings)
    distance = float(settings.metric_distances(change.limit))
    if metric.is_absolute and is_known:
        distance = float(f"{distance:.2g}")
    is_typical = isinstance(change, MatrixMetricCurve)
    sizes = settings.sizes
    size: int | None = None
    interval: tuple[int, int | None] = (1, None)
    differences, allowed = np.full(sizes.size + 1, np.nan), np.nan
    if is_known:
        # What a difference is stated in.
        unit = 1.0 if metric.is_absolute else abs(change.limit)
        draws = change.size_draws(settings)
        most = settings.max_size
        size = typical_size(draws, most) if is_typical else change.close_size(distance, most)
        interval = _interval(draws, size, settings)
        differences, allowed = change.differences(np.append(sizes, n_members)) / unit, distance / unit
    return SizeRecommendation(
        size=size,
        criterion="metric",
        confidence=None,
        tolerance=distance if metric.is_absolute and is_known else settings.metric_tolerance,
        agreement=agreement,
        interval=interval,
        reason=metric_reason(size, float(differences[-1]), allowed, n_members, settings, is_typical=is_typical),
        max_size=settings.max_size,
        sizes=sizes.copy(),
        values=np.abs(differences[:-1]),
        of_metric=metric.name,
        is_absolute=metric.is_absolute and (is_known or settings.metric_reference is None),
    )


def _is_apart(change: MetricChange | LabelMetricCurve, settings: ResolvedOptions) -> bool:
    """Return whether the limit is apart from what its tolerance is relative to: nothing is a share of what may be 0."""
    reference, metric = settings.metric_reference, settings.metric
    if reference is None:
        return True
    apart = change.limit - reference
    is_score = metric is not None and metric.is_absolute
    return (apart if is_score else abs(apart)) > 2.0 * change.level_sd


def _error_quantiles(closed: SquaredLoss) -> tuple[FloatArray, FloatArray]:
    """Return errors of the limit and of the slope of a loss, in standard deviations, at the normal quantiles."""
    positive = NORMAL_GRID[NORMAL_GRID > 0]
    distances = np.array([closed.distances(2.0 * float(ndtr(z)) - 1.0) for z in positive])
    below, above = (np.maximum.accumulate(distances[:, :, side]) for side in (0, 1))
    both = np.concatenate([-below[::-1], np.zeros((1, 2)), above])
    both /= np.maximum(np.sqrt(np.maximum(np.diag(closed.covariance), 0.0)), TINY)
    return both[:, 0], both[:, 1]


def _with_quantiles(errors: FloatArray, sd: float, quantiles: FloatArray) -> FloatArray:
    """Return normal errors of a standard deviation with other quantiles than the normal ones."""
    if sd <= 0:
        return errors
    return np.asarray(sd * np.interp(errors / sd, NORMAL_GRID, quantiles))


def _grid(known: IntArray, max_size: int) -> IntArray:
    """Return the sizes to look at: every one up to the largest subset or 1000, and beyond that a geometric sequence."""
    largest = min(int(known[-1]), MOST_SINGLE)
    beyond = np.geomspace(largest, max(max_size, largest + 1), N_BEYOND).astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, largest + 1), beyond]))


def _interval(draws: FloatArray, size: int | None, settings: ResolvedOptions) -> tuple[int, int | None]:
    low, high = size_interval(draws, settings.interval_level, settings.max_size)
    if size is None:
        return low, None
    return min(low, size), None if high is None else max(high, size)


def _share_left(law: Extrapolation, sizes: FloatArray) -> FloatArray:
    """Return which share of the way from the largest subset to the limit is left at each size, infinity allowed."""
    return np.asarray((law.sizes[-1] + law.offset) / (sizes + law.offset))


def _root(covariance: FloatArray) -> FloatArray:
    """Return a square root of a covariance matrix whose estimate may have a negative eigenvalue."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
