"""Curves of any metric by the number of members, its limit, and the size that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.label_metrics import MatrixMetric
from ens_plugin.analysis.labels import LabelEstimates, LabelledEstimates
from ens_plugin.analysis.log_losses import LogLosses, findings_on_zeros, log_losses, zero_findings
from ens_plugin.analysis.metric_rows import (
    FEWEST_OF_LABEL,
    MetricRows,
    expected_outputs,
    large_tolerance_notes,
    low_score_doubts,
    metric_rows,
    rare_label_doubts,
    refuse_no_value,
    with_chance,
)
from ens_plugin.analysis.metrics import ResolvedMetric, ranking_notes
from ens_plugin.analysis.sizes import Goal, NoLimit, SizeLaw, recommend
from ens_plugin.analysis.variance import closed_form, metric_sd_over_seeds
from ens_plugin.core.error_curve import ERROR_FACTOR, Extrapolation, extrapolate, subset_sizes
from ens_plugin.core.intervals import (
    N_DRAWS,
    SD_INFLATION,
    ErrorDraws,
    hall_limits,
    interval_of_draws,
    size_of_approach,
)
from ens_plugin.core.label_draws import normal_draws
from ens_plugin.core.losses import SquaredLoss
from ens_plugin.core.sample import Sample, subset_combinations, subset_mean_orders, subset_means
from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray, IntArray, counted, is_tied, previous_odd_size
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import BiasVariance, ErrorCurve, MetricBasis, SizeRecommendation, ZeroProbabilities

# Errors of each label at which the metric is computed; a cubic spline has it between them.
LEAST_RANGE = 1e-6
# Random confusion matrices by which a metric that is linear in the error is found.
N_MATRICES = 6
# The draws of a curve are of distributions of one smooth form; their deviations are multiplied by this for the size, so
# that its interval holds (docs/methods/metrics.md).
SPREAD_OF_FORM = 1.4


@dataclass(frozen=True, eq=False)
class LabelMetricCurve:
    """A metric of labels at a grid of odd sizes, the last of them infinity, with draws from its posterior.

    Attributes
    ----------
    sizes, values : ndarray, shape (n_sizes,)
    draws : ndarray, shape (n_draws, n_sizes)
    level_sd : float
        Standard deviation of the metric over samples of the rows.
    tie_effects : ndarray, shape (n_sizes,), or None
        What ties of hard votes add to the metric at the even size above each size.
    """

    sizes: FloatArray
    values: FloatArray
    draws: FloatArray
    level_sd: float
    tie_effects: FloatArray | None = None

    @property
    def limit(self) -> float:
        """Return the metric of the infinite ensemble."""
        return float(self.values[-1])

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, linear in 1/size between the sizes of the grid, with ties at even ones."""
        wanted = np.asarray(sizes, dtype=np.float64)
        shift = self.even_shift(wanted)
        if shift is None:
            return np.asarray(np.interp(1.0 / wanted, *self._ascending(self.values)))
        untied = np.interp(1.0 / previous_odd_size(wanted, np.inf), *self._ascending(self.values))
        return np.asarray(untied + np.where(is_tied(wanted, np.inf), shift, 0.0))

    def even_shift(self, sizes: ArrayLike) -> FloatArray | None:
        """Return what ties add to the metric at each size, or at the even size above an odd one; None without ties."""
        if self.tie_effects is None:
            return None
        even = previous_odd_size(sizes, np.inf) + 1.0
        return np.asarray(np.interp(1.0 / even, 1.0 / (self.sizes[::-1] + 1.0), self.tie_effects[::-1]))

    def change_sd(self, sizes: ArrayLike, known: float) -> FloatArray:
        """Return the posterior standard deviation of the metric's difference from its value at a known size."""
        wanted = 1.0 / np.append(np.asarray(sizes, dtype=np.float64), known)
        values = np.array([np.interp(wanted, *self._ascending(draw)) for draw in self.draws])
        return np.asarray((values[:, :-1] - values[:, -1:]).std(axis=0, ddof=1))

    def differences(self, sizes: IntArray) -> FloatArray:
        """Return the metric at each size less that of the infinite ensemble."""
        return self.at(sizes) - self.limit

    def close_size(self, distance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the metric is within a distance of its limit, or None."""
        if self.tie_effects is None:
            size = _first_close(self.sizes, self.values, distance)
            return int(size) if size <= max_size else None
        far = np.flatnonzero(np.abs(self.differences(np.arange(1, max_size + 1))) > distance)
        first = int(far[-1]) + 2 if far.size else 1
        return first if first <= max_size else None

    def size_draws(self, settings: ResolvedOptions) -> FloatArray:
        """Return :meth:`close_size` of each draw, shape (n_draws,); infinity where above `max_size`."""
        distances = np.maximum(settings.metric_distances(self.draws[:, -1]), LEAST_RANGE)
        found = np.array([self._first_close(draw, far) for draw, far in zip(self.draws, distances, strict=True)])
        return np.where(found <= settings.max_size, found, np.inf)

    def _first_close(self, draw: FloatArray, distance: float) -> float:
        """Return the size from which on a draw stays within a distance of its limit, at odd sizes and at even ones."""
        odd = _first_close(self.sizes, draw, distance)
        if self.tie_effects is None:
            return odd
        even = _first_close(self.sizes + 1.0, draw + self.tie_effects, distance)
        # The last far sizes are the odd one below the first close odd one, and likewise of even sizes.
        odd, even = 2.0 * np.ceil((odd - 1.0) / 2.0) + 1.0, 2.0 * np.ceil(even / 2.0)
        return float(max(odd - 1.0, even - 1.0, 1.0))

    def _ascending(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        return 1.0 / self.sizes[::-1], values[::-1]


@dataclass(frozen=True, eq=False)
class MatrixMetricCurve(LabelMetricCurve):
    """A metric that both errors of two labels move, often in opposite directions."""

    def size_draws(self, settings: ResolvedOptions) -> FloatArray:
        """Return the sizes of the draws, whose deviations from the curve are multiplied by `SPREAD_OF_FORM`."""
        draws = self.values + SPREAD_OF_FORM * (self.draws - self.values)
        return LabelMetricCurve(self.sizes, self.values, draws, self.level_sd, self.tie_effects).size_draws(settings)


def typical_size(draws: FloatArray, max_size: int) -> int | None:
    """Return the geometric mean of drawn sizes; None where more than half are above `max_size`.

    The size by the mean of the drawn curves would be too small where they go up as well as down: their mean is flat,
    and none of them is.  Of all sizes, the mean of the logarithms has the least expected square of the doublings.
    """
    if np.isinf(draws).mean() > 0.5:
        return None
    return int(np.ceil(np.exp(np.log(np.minimum(draws, max_size)).mean()) - ROUNDING))


def label_metric_curve(
    found: LabelEstimates, metric: ResolvedMetric, matrix: MatrixMetric, level_sd: float
) -> MatrixMetricCurve:
    """Return a metric of labels as a function of the expected confusion matrix at each size."""
    by_size = (found.metric_draws(place, np.random.default_rng(0)) for place in range(found.sizes.size))
    draws = np.array([[matrix(each) for each in matrices] for matrices in by_size])
    draws = np.clip(draws.T, metric.lowest, metric.highest)
    return MatrixMetricCurve(found.sizes, draws[0], draws[1:], level_sd, _tie_effects(found, matrix, metric))


def _tie_effects(found: LabelEstimates, matrix: MatrixMetric, metric: ResolvedMetric) -> FloatArray | None:
    """Return what ties add to the metric: the rows that tie, half of which are wrong, get the first of two labels."""
    if not np.isinf(found.ties_to):
        return None
    shifts = [found.even_shift(found.sizes[:-1] + 1.0, code) for code in range(2)]
    effects = []
    for place, size in enumerate(found.sizes):
        untied = found.confusions(place, found.draws.share[None])[0]
        moved = [0.0 if shift is None or np.isinf(size) else float(shift[place]) for shift in shifts]
        first, second = untied.sum(axis=1) * moved
        tied = np.maximum(untied + np.array([[-first, first], [second, -second]]), 0.0)
        values = np.clip([matrix(tied), matrix(untied)], metric.lowest, metric.highest)
        effects.append(values[0] - values[1])
    return np.array(effects)


def error_metric_curve(whole: ErrorDraws, line: tuple[float, float], level_sd: float) -> LabelMetricCurve:
    """Return a metric of labels that is linear in the error, such as the accuracy."""
    intercept, slope = line
    values, draws = (intercept + slope * np.clip(errors, 0.0, 1.0) for errors in (whole.error, whole.draws))
    tie_effects = None if whole.even_shift is None else slope * whole.even_shift
    return LabelMetricCurve(whole.sizes, values, draws, level_sd, tie_effects)


def line_in_error(metric: ResolvedMetric, classes: NDArray[np.generic], n_rows: int) -> tuple[float, float] | None:
    """Return intercept and slope of a metric of labels as a function of the error; None for other metrics.

    It is found by random confusion matrices of as many rows: some metrics are numbers of rows, not shares.
    """
    n_labels = classes.size
    truth, predicted = (each.ravel() for each in np.indices((n_labels, n_labels)))
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(truth.size), size=N_MATRICES)
    shares[0] = (shares[0] + (truth == predicted) / n_labels) / 2.0
    counts = [rng.multinomial(n_rows, share) for share in shares]
    errors = np.array([each @ (truth != predicted) / n_rows for each in counts])
    columns = np.eye(n_labels)
    try:
        values = np.array(
            [
                metric.value(np.repeat(classes[truth], each), np.repeat(columns[predicted], each, axis=0))
                for each in counts
            ]
        )
    except InputError:  # some metrics have no value where a label is missing
        return None
    if errors[0] == errors[1]:
        return None
    slope = float((values[1] - values[0]) / (errors[1] - errors[0]))
    intercept = float(values[0] - slope * errors[0])
    is_line = np.abs(intercept + slope * errors - values) <= ROUNDING * np.maximum(np.abs(values), 1.0)
    return (intercept, slope) if is_line.all() else None


def _first_close(sizes: FloatArray, values: FloatArray, distance: float) -> float:
    """Return the size from which on the values stay within a distance of the last one; infinity where none does."""
    return float(np.ceil(size_of_approach(sizes, np.abs(values[:-1] - values[-1]) - distance) - 1e-9))


# The noise of the orders falls with the rows, as that of the metric does.
N_ORDERS, FEWEST_ORDERS = 30, 8
ROWS_OF_ORDERS = 200_000
MIN_LIMIT = 3
# Sizes at which a log loss is computed; straight lines in 1/size between them are good enough.
N_LOG_LOSSES = 50


@dataclass(frozen=True, eq=False)
class SubsetAverages:
    """Values of a metric by random order of the members and size of the subset.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    by_order : ndarray, shape (n_orders, n_sizes)
    ends : tuple of two ints
        Positions of the two sizes whose difference, from row to row, gives the noise of the curve's slope.
    rows : ndarray of int
        Positions of the rows for which this difference is taken.
    is_expected : bool
        Whether the difference is one of expected losses, not of the losses of one random subset for each row.
    """

    sizes: IntArray
    by_order: FloatArray
    ends: tuple[int, int]
    rows: NDArray[np.intp]
    is_expected: bool

    @property
    def mean_covariance(self) -> FloatArray:
        """Return the covariance, between sizes, of the means of `by_order` over orders, shape (n_sizes, n_sizes)."""
        return np.asarray(self.covariance / self.by_order.shape[0])

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of `by_order` between sizes, over random orders, shape (n_sizes, n_sizes)."""
        return np.asarray(np.cov(self.by_order, rowvar=False))


def largest_subsets(trials: FloatArray, limit: int | None) -> tuple[int, int]:
    """Return the largest subset sizes for which 90 % and 50 % of the rows have members."""
    common, largest = (int(np.quantile(trials, q, method="lower")) if trials.size else 0 for q in (0.1, 0.5))
    if limit is not None:
        common = largest = limit
    if largest < MIN_LIMIT:
        raise TooFewMembersError(
            f"Half of the rows have {largest} out-of-bag members or fewer: subsets of at least {MIN_LIMIT} are needed "
            "to estimate how a metric depends on size. Train more members."
        )
    return common, largest


def _reached_by_labels(rows: MetricRows) -> int:
    """Return the largest size of a subset, MIN_LIMIT or more, that some row of every label has members for.

    A metric that ranks the rows of one label against those of another has no value without one of them.  Of a target of
    values, rows of two different ones must have them, without which r2 has no value.
    """
    trials = rows.trials[rows.known].astype(np.int64)
    target = rows.sample.block.target[rows.known]
    if rows.metric.is_joint:
        return int(trials.max())
    if rows.sample.block.n_labels == 0:
        values, codes = np.unique(target, return_inverse=True)
        reached = np.zeros(values.size, dtype=np.int64)
        np.maximum.at(reached, codes, trials)
        return max(MIN_LIMIT, int(np.sort(reached)[-2:].min()))
    most = np.zeros(rows.sample.block.n_labels, dtype=np.int64)
    np.maximum.at(most, target, trials)
    return max(MIN_LIMIT, int(most[most > 0].min()))


def subset_averages(rows: MetricRows, limits: tuple[int, int], rng: np.random.Generator) -> SubsetAverages:
    """Return the metric by random order of the members and size.

    Up to the first of the two limits, the metric is computed on the nine in ten rows that have as many members; beyond,
    its changes are those on the half of the rows that have more.  The rows left out shift the whole curve, by their
    effect on the metric of all members.  For a metric of labels all sizes are odd, because votes tie at even ones.

    The changes of a ranking are those of the expected one, whose level is moved to that of the metric of all members.
    """
    reached = _reached_by_labels(rows)
    common, largest = (min(limit, reached) for limit in limits)
    common, largest = (limit - (rows.is_of_labels and limit % 2 == 0) for limit in (common, largest))
    sizes = np.union1d(subset_sizes(largest), [common])
    sizes = np.unique(sizes - (sizes % 2 == 0)) if rows.is_of_labels else sizes
    trials = rows.trials
    fewest = max(common, 1)
    near = _with_members(rows, fewest)
    is_far = trials[near] >= largest
    is_all = bool(is_far.all())
    level = rows.linked_value(rows.linked[rows.known], rows.known)
    shift = level - rows.expected_value(rows.linked[near], near)
    last = int(np.searchsorted(sizes, common))

    def curve(outputs: Iterable[FloatArray]) -> FloatArray:
        found, beyond = np.empty(sizes.size), 0.0
        for place, output in enumerate(outputs):
            if place <= last or is_all:
                found[place] = rows.expected_value(output, near)
            if place >= last and not is_all:
                here = rows.expected_value(output[is_far], near[is_far])
                beyond = here if place == last else beyond
                found[place] = found[last] + here - beyond
        return found + shift

    by_order = np.array([curve(outputs) for outputs in _orders(rows, fewest, sizes, rng)])
    half = min(int(np.searchsorted(sizes, sizes[-1] / 2.0)), sizes.size - 2)
    far = _with_members(rows, largest)
    return SubsetAverages(sizes, by_order, (half, sizes.size - 1), far, rows.losses == "squared")


def _with_members(rows: MetricRows, fewest: int) -> NDArray[np.intp]:
    """Return the positions of the rows that have at least so many members, in the order of :func:`_orders`."""
    if rows.losses == "squared":
        return np.flatnonzero(rows.trials >= fewest)
    return rows.packed.with_members(fewest).rows


def end_outputs(rows: MetricRows, averages: SubsetAverages, rng: np.random.Generator) -> list[FloatArray]:
    """Return the outputs, through the inverse link, of the averaged rows at the two sizes ``averages.ends``."""
    sizes = averages.sizes[list(averages.ends)]
    if averages.is_expected:
        return list(expected_outputs(rows, averages.rows, sizes))
    packed = rows.packed.with_members(int(sizes[1]))
    if rows.combine is not None:
        return list(next(subset_combinations(packed, sizes, 1, rng, rows.combine)))
    return [rows.inverse_link(mean) for mean in subset_means(packed, sizes, rng)]


def _orders(rows: MetricRows, fewest: int, sizes: IntArray, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
    """Yield the linked outputs of subsets of each size, for several random orders, of rows with `fewest` members."""
    chosen = _with_members(rows, fewest)
    if rows.losses == "squared":
        # The same twice, as orders without noise.
        outputs = list(expected_outputs(rows, chosen, sizes))
        yield from (outputs, outputs)
        return
    n_orders = int(np.clip(ROWS_OF_ORDERS // max(chosen.size, 1), FEWEST_ORDERS, N_ORDERS))
    packed = rows.packed.with_members(fewest)
    if rows.combine is not None:
        yield from subset_combinations(packed, sizes, n_orders, rng, rows.combine)
        return
    for means in subset_mean_orders(packed, sizes, n_orders, rng):
        yield (rows.inverse_link(mean) for mean in means)


# More samples where a metric has a formula, so that few rows' skewness is known; so many rows are drawn in all.
MOST_RESAMPLES = 1000
ROWS_DRAWN = 2_000_000
# Bootstrap samples for the change between two sizes, each with two more calls of a metric without a formula.
N_STEPS = 60
MAX_TRIES = 20
# With fewer rows of a label that are predicted right, bootstrap samples have too little spread.  Labels of fewer rows
# than FEWEST_OF_LABEL lead to a doubt.
FEW_RIGHT = 5


@dataclass(frozen=True)
class Resampled:
    """Moments of the metric of all members over bootstrap samples of the rows.

    Attributes
    ----------
    sd : float
        Of out-of-bag rows 1.1 times that of the samples.
    skewness : float
        Shrunk towards 0 by its own noise: the skewness of n normal values has a standard error of about sqrt(6/n).
    step_variance : float
        Variance of the metric's change from half the largest subset to the largest, less its variance over orders.
    shared : float
        Covariance of the metric and that change.
    """

    sd: float
    skewness: float
    step_variance: float = 0.0
    shared: float = 0.0


def resample_level(rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator) -> Resampled:
    """Return the standard deviation and the skewness of the metric of all members over bootstrap samples."""
    known = rows.known
    level = rows.of_counts(rows.linked[known], known)
    codes = _codes(rows)
    n_levels, least = _n_levels(rows), _least(rows, codes[known])
    draws = (np.bincount(_draw(known, codes, least, groups, rng), minlength=codes.size)[known] for _ in range(n_levels))
    levels = np.array([level(counts.astype(np.float64)) for counts in draws])
    return _of_levels(rows, levels, _metrics_of_few_right(rows, groups, rng))


def resample_rows(
    rows: MetricRows,
    averages: SubsetAverages,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> Resampled:
    """Return the moments, over bootstrap samples of rows, of the metric and of its change between two subset sizes."""
    known, codes = rows.known, _codes(rows)
    level = rows.of_counts(rows.linked[known], known)
    ends, usable = list(averages.ends), averages.rows
    small, large = end_outputs(rows, averages, rng)
    change = rows.change_of_counts(small, large, usable)
    least, inside_least = _least(rows, codes[known]), _least(rows, codes[usable])
    n_steps = N_STEPS if rows.formula is None else N_DRAWS
    levels, steps = np.empty(_n_levels(rows)), np.empty(n_steps)
    for index in range(levels.size):
        counts = np.bincount(_draw(known, codes, least, groups, rng), minlength=codes.size).astype(np.float64)
        levels[index] = level(counts[known])
        if index >= n_steps:
            continue
        inside = counts[usable]
        # Where a label is missing, rows are drawn anew, independent of the level; this is rare.
        if np.count_nonzero(np.bincount(codes[usable], weights=inside)) < inside_least:
            drawn = _draw(usable, codes, inside_least, groups, rng)
            inside = np.bincount(drawn, minlength=codes.size)[usable].astype(np.float64)
        steps[index] = change(counts, inside)
    shared = np.cov(levels[:n_steps], steps)
    contrast = np.array([-1.0, 1.0])
    one_order = float(contrast @ averages.covariance[np.ix_(ends, ends)] @ contrast)
    found = _of_levels(rows, levels, _metrics_of_few_right(rows, groups, rng))
    return Resampled(found.sd, found.skewness, max(float(shared[1, 1]) - one_order, 0.0), float(shared[0, 1]))


def bootstrap_counts(
    rows: MetricRows, chosen: NDArray[np.intp], n_draws: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield how often each of the `chosen` rows, by position, is in bootstrap samples of them that have every label."""
    codes = _codes(rows)
    least = _least(rows, codes[chosen])
    for _ in range(n_draws):
        yield np.bincount(_draw(chosen, codes, least, None, rng), minlength=codes.size)[chosen].astype(np.float64)


def _n_levels(rows: MetricRows) -> int:
    """Return the number of bootstrap samples on which the metric is computed."""
    if rows.formula is None:
        return N_DRAWS
    return int(np.clip(ROWS_DRAWN // rows.known.size, N_DRAWS, MOST_RESAMPLES))


def _metrics_of_few_right(
    rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator
) -> FloatArray | None:
    """Return draws of a metric of labels where hardly a row of some label is right; None elsewhere.

    Samples of rows that are all wrong have no spread.  The shares of a label's rows that are predicted to have each of
    K labels are therefore drawn from their posterior, a Dirichlet distribution with 1/K added to each number of rows.
    """
    formula, known = rows.formula, rows.known
    if formula is None or not rows.is_of_labels:
        return None
    n_labels = rows.sample.block.n_labels
    target, labels = rows.sample.block.target[known].astype(np.intp), np.argmax(rows.linked[known], axis=1)
    matrix = np.zeros((n_labels, n_labels))
    np.add.at(matrix, (target, labels), 1.0)
    has_rows = matrix.sum(axis=1) > 0
    is_few = (np.diag(matrix) < FEW_RIGHT) & (matrix.sum(axis=1) >= FEWEST_OF_LABEL)
    if not is_few.any():
        return None
    weight = np.bincount(target, None if rows.weight is None else rows.weight[known], n_labels)[has_rows]
    units = 1.0 if groups is None else np.unique(groups[known]).size / known.size
    shares = [rng.dirichlet(units * own + 1.0 / n_labels, N_DRAWS) for own in matrix[has_rows]]
    cells = np.repeat(np.flatnonzero(has_rows), n_labels)
    level = formula(cells, np.tile(np.eye(n_labels), (weight.size, 1)))
    drawn = np.stack(shares, axis=1) * weight[:, None]
    return np.array([level(own.reshape(-1)) for own in drawn])


def _of_levels(rows: MetricRows, levels: FloatArray, of_few_right: FloatArray | None) -> Resampled:
    """Return the moments of the metric by bootstrap sample, or of other draws of it that spread more."""
    widest = levels if of_few_right is None or of_few_right.std() <= levels.std() else of_few_right
    deviations, sd = widest - widest.mean(), float(widest.std(ddof=1))
    skewness = float(np.mean(deviations**3) / sd**3) if sd > 0 else 0.0
    # Within two standard errors of 0 it counts as 0; one that jumped there would depend on the random state.
    noise = 4.0 * 6.0 / widest.size
    inflation = 1.0 if rows.sample.block.counted.all() else SD_INFLATION
    return Resampled(inflation * sd, skewness * max(1.0 - noise / skewness**2, 0.0) if skewness else 0.0)


def _codes(rows: MetricRows) -> NDArray[Any]:
    block = rows.sample.block
    if block.n_labels:
        return block.target
    if rows.metric.is_joint:
        return np.zeros(block.target.size, dtype=np.int64)
    return np.unique(block.target, return_inverse=True)[1].reshape(-1)


def _least(rows: MetricRows, own: NDArray[Any]) -> int:
    """Return how many different labels or values a sample must have: all labels, or the two values that r2 needs."""
    n_present = int(np.count_nonzero(np.bincount(own)))
    return n_present if rows.sample.block.n_labels else min(n_present, 2)


def _draw(
    rows: NDArray[np.intp],
    codes: NDArray[Any],
    least: int,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return a bootstrap sample of rows, or of groups, with at least so many different labels or values.

    A sample that has fewer is drawn again; after too many attempts, the rows of each are drawn separately.
    """
    own = codes[rows]
    members = None if groups is None else _rows_by_group(groups[rows])
    for _ in range(MAX_TRIES):
        if members is None:
            drawn = rng.integers(0, rows.size, size=rows.size)
        else:
            drawn = np.concatenate([members[index] for index in rng.integers(0, len(members), size=len(members))])
        if np.count_nonzero(np.bincount(own[drawn])) >= least:
            return np.asarray(rows[drawn])
    return np.concatenate(
        [rng.choice(rows[own == code], size=np.count_nonzero(own == code)) for code in np.unique(own)]
    )


def _rows_by_group(groups: NDArray[np.integer]) -> list[NDArray[np.int64]]:
    order = np.argsort(groups, kind="stable").astype(np.int64)
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


MOST_SINGLE = 1000
# The bound on the error of the extrapolation is taken as the half-width of a normal interval at 95 %.
NORMAL_95 = 1.96
# Of quantiles of errors with tails; between them errors are interpolated.
NORMAL_GRID = np.linspace(-3.5, 3.5, 15)
TINY = 1e-200


@dataclass(frozen=True, eq=False)
class MetricChange:
    """What is known of how a metric changes with the size.

    Attributes
    ----------
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
    falls_with_loss : bool
        Whether the metric is lower the larger the loss.
    """

    law: Extrapolation
    by_order: FloatArray
    limits: tuple[float, float]
    ends: tuple[int, int]
    moments: Resampled
    closed: SquaredLoss | None = None
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
        """Return differences, and the signed bound on their error, for other averages of shape (n_draws, n_sizes)."""
        reached = np.append(grid, np.inf)
        laws = extrapolate(self.law.sizes, averages, self.law.offset)
        line, apart, beyond = laws.at(reached), laws.apart(reached), reached > self.law.sizes[-1]
        signed = np.sign(apart[:, -1:]) * np.where(beyond, ERROR_FACTOR * np.abs(apart), 0.0)
        limit, known = (np.clip(column, *self.limits)[:, None] for column in (line[:, -1], averages[:, -1]))
        is_cut = (limit != line[:, -1:]) & beyond
        within = np.where(is_cut, limit + (known - limit) * _share_left(self.law, reached), line)
        values = np.clip(within, *self.limits)
        return values[:, :-1] - values[:, -1:], signed[:, :-1] - signed[:, -1:]


@dataclass(frozen=True, eq=False)
class MetricLaw:
    """The :class:`~ens_plugin.analysis.sizes.SizeLaw` of a metric's distance from that of the infinite ensemble.

    `tolerance` is the distance that the tolerance of the options allows.
    """

    change: MetricChange | LabelMetricCurve
    settings: ResolvedOptions
    tolerance: float

    @cached_property
    def _draws_by_options(self) -> FloatArray:
        return self.change.size_draws(self.settings)

    def size_draws(self, tolerance: float) -> FloatArray:
        """Return draws of the size, whose tolerance depends on the limit that was drawn with each."""
        if tolerance == self.tolerance:
            return self._draws_by_options
        other = self.settings.metric_tolerance * tolerance / self.tolerance
        return self.change.size_draws(replace(self.settings, metric_tolerance=other))

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the distance at each size, shape (n_sizes,)."""
        return np.abs(self.change.differences(np.asarray(sizes)))

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the metric is within a distance of its limit; None above `max_size`.

        Of a metric that both errors of two labels move, the size is the typical one of the draws.
        """
        if isinstance(self.change, MatrixMetricCurve):
            return typical_size(self.size_draws(tolerance), max_size)
        return self.change.close_size(tolerance, max_size)

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of :meth:`size_within` by the draws."""
        return interval_of_draws(self.size_draws(tolerance), self.size_within(tolerance, max_size), max_size, level)


def metric_size(
    change: MetricChange | LabelMetricCurve, n_members: int, agreement: float | None, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the size by a metric: from it on, the metric is within the tolerance of its value at infinity.

    Beyond the largest subset the metric is a line in 1/size; what a draw varies is in
    ``docs/methods/metrics.md``.
    """
    metric = settings.metric
    assert metric is not None
    tolerance = float(settings.metric_distances(change.limit))
    law: SizeLaw = MetricLaw(change, settings, tolerance) if _is_apart(change, settings) else NoLimit()
    goal = Goal("metric", metric.name, tolerance, change.limit)
    return replace(recommend(law, goal, agreement, n_members, settings), of_metric=metric.name)


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
    beyond = np.geomspace(largest, max(max_size, largest + 1), N_DRAWS).astype(np.int64)
    return np.unique(np.concatenate([np.arange(1, largest + 1), beyond]))


def _share_left(law: Extrapolation, sizes: FloatArray) -> FloatArray:
    """Return which share of the way from the largest subset to the limit is left at each size, infinity allowed."""
    return np.asarray((law.sizes[-1] + law.offset) / (sizes + law.offset))


def _root(covariance: FloatArray) -> FloatArray:
    """Return a square root of a covariance matrix whose estimate may have a negative eigenvalue."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


# Hall's limit is three standard deviations away at 0.4 and eight at 0.5, which covers the truth hardly more often.
MOST_SKEWNESS = 0.4
FEWEST_OF_PARABOLA = 3


@dataclass(frozen=True, eq=False)
class _Curve:
    """A metric at the wanted sizes, within its range.

    Attributes
    ----------
    values, model, noise : ndarray, shape (n_sizes,)
        Value within the limits, bound on the error of the extrapolation, and standard deviation.
    asymptote_raw : float
        Value of the infinite ensemble as estimated, not limited.
    limits : tuple of two floats
        Least and largest value.
    even_shift : ndarray, shape (n_sizes - 1,), or None
        What ties of hard votes add at even sizes; `values` are without it.
    """

    change: MetricChange | LabelMetricCurve
    values: FloatArray
    model: FloatArray
    noise: FloatArray
    asymptote_raw: float
    limits: tuple[float, float]
    moments: Resampled
    even_shift: FloatArray | None = None


def with_metric_curve(
    estimates: Estimates,
    metric: ResolvedMetric,
    adapter: EnsembleAdapter,
    sample: Sample,
    y: NDArray[Any],
    settings: ResolvedOptions,
    *,
    limit: int | None = None,
    groups: NDArray[np.integer] | None = None,
) -> Estimates:
    """Return the estimates with the curve of `metric` as error curve, and the size by it; the rest is unchanged."""
    rows = metric_rows(metric, adapter, sample, y)
    settings = with_chance(settings, rows.chance_level)
    subsets = largest_subsets(rows.trials[rows.known], limit)
    refuse_no_value(rows)
    losses = log_losses(rows, groups)
    finite_from = None if losses is None else _finite_from(losses, settings)
    if finite_from is not None:
        settings = replace(settings, sizes=np.union1d(settings.sizes, [finite_from]))
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    found = None if losses is None else _log_road(losses, rows, wanted, settings)
    if rows.is_of_labels and adapter.classes is not None and estimates.error_draws is not None:
        found = _label_road(rows, estimates, adapter.classes, groups, wanted, settings)
    if found is None:
        found = _subset_road(rows, subsets, groups, wanted, settings)
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    level = rows.linked_value(rows.linked[rows.known], rows.known)
    by_metric = partial(metric_size, found.change, adapter.n_members, estimates.agreement, settings)
    of_zeros = zero_findings(losses, curve, finite_from, adapter.n_members, settings.max_size)
    about_zeros = findings_on_zeros(of_zeros, curve, rows.known.size, adapter.n_members, settings.max_size)
    curve = _with_zeros(curve, of_zeros)
    return replace(
        estimates,
        error_curve=curve,
        algorithmic_sd=lambda: seed_sd,
        sizes={**estimates.sizes, "metric": cache(by_metric)},
        findings=(
            *estimates.findings,
            *rare_label_doubts(rows, curve.asymptote_interval),
            *low_score_doubts(curve, settings, level),
            *about_zeros,
            *_unchecked_line_doubts(found, metric),
            *metric.findings,
            *_perfect_notes(curve, found.limits),
            *large_tolerance_notes(curve, settings, rows.chance_level),
            *rows.library_warnings(),
            *ranking_notes(metric, sample.block),
        ),
    )


def estimate_own_loss(
    adapter: EnsembleAdapter,
    sample: Sample,
    y: NDArray[Any],
    settings: ResolvedOptions,
    *,
    limit: int | None = None,
    groups: NDArray[np.integer] | None = None,
) -> Estimates:
    """Return the estimates of an ensemble whose predictions neither labels nor squared errors describe.

    All are of its own loss, or of the metric that the user named in its place.
    """
    metric = settings.metric
    assert metric is not None
    rows = metric_rows(metric, adapter, sample, y)
    settings = with_chance(settings, rows.chance_level)
    subsets = largest_subsets(rows.trials[rows.known], limit)
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    found = _subset_road(rows, subsets, groups, wanted, settings)
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    return Estimates(
        error_curve=curve,
        sizes={"metric": cache(partial(metric_size, found.change, adapter.n_members, None, settings))},
        bias_variance=_parts(found, metric, adapter.n_members),
        algorithmic_sd=lambda: seed_sd,
        findings=_perfect_notes(curve, found.limits),
    )


def _parts(found: _Curve, metric: ResolvedMetric, n_members: int) -> BiasVariance:
    """Return the loss of one member and of the ensemble, and their distance, with scores negated."""
    assert isinstance(found.change, MetricChange)
    sign = -1.0 if metric.greater_is_better else 1.0
    one, current, infinite = (float(sign * value) for value in found.change.values([1, n_members, np.inf]))
    return BiasVariance(
        member_error=one,
        member_variance=one - infinite,
        ensemble_error=current,
        asymptotic_error=infinite,
        bias=infinite,
        loss=f"-{metric.name}" if metric.greater_is_better else metric.name,
    )


def _error_curve(found: _Curve, rows: MetricRows, settings: ResolvedOptions, seed_sd: float) -> ErrorCurve:
    """Return the curve with its intervals, limited to the range of the metric.

    An interval includes the uncertainty from the rows, from the members trained, and from the extrapolation.
    """
    metric = rows.metric
    lowest, highest = found.limits
    error = found.values.copy()
    if found.even_shift is not None:
        error[:-1] = np.clip(error[:-1] + found.even_shift * is_tied(settings.sizes, np.inf), lowest, highest)
    skewness = found.moments.skewness
    if np.isfinite([lowest, highest]).all():
        skewness = float(np.clip(skewness, -MOST_SKEWNESS, MOST_SKEWNESS))
    noise = np.hypot(found.noise, 0.0 if np.isnan(seed_sd) else seed_sd)
    below, above = (distance * noise for distance in hall_limits(skewness, settings.interval_level))
    lower = np.maximum(error - np.hypot(below, found.model), lowest)
    upper = np.minimum(error + np.hypot(above, found.model), highest)
    return ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=found.asymptote_raw,
        estimator="subset_average" if isinstance(found.change, MetricChange) else "deconvolved",
        metric=metric.name,
        interval_level=settings.interval_level,
        ties_to=0.0 if found.even_shift is None else np.inf,
        even_shift=found.even_shift,
        metric_basis=MetricBasis(
            greater_is_better=metric.greater_is_better,
            lowest=metric.lowest,
            highest=metric.highest,
            n_rows=rows.known.size,
            positive_label=metric.positive_label,
        ),
    )


def _label_road(
    rows: MetricRows,
    estimates: Estimates,
    classes: NDArray[Any],
    groups: NDArray[np.integer] | None,
    wanted: FloatArray,
    settings: ResolvedOptions,
) -> _Curve | None:
    """Return the curve of a metric of labels from the error, or the expected confusion matrix; None if not known.

    The noise is that of the rows, and of the models beyond their members.
    """
    metric, whole = rows.metric, estimates.error_draws
    assert whole is not None
    line = line_in_error(metric, classes, rows.known.size)
    if line is None and (rows.matrix is None or not isinstance(estimates, LabelledEstimates)):
        return None
    moments = resample_level(rows, groups, np.random.default_rng(settings.random_state))
    if line is None:
        assert rows.matrix is not None
        assert isinstance(estimates, LabelledEstimates)
        curve: LabelMetricCurve = label_metric_curve(estimates.labels, metric, rows.matrix, moments.sd)
    else:
        curve = error_metric_curve(whole, line, moments.sd)
    shift = curve.even_shift(settings.sizes)
    trials = float(np.median(rows.trials[rows.known]))
    noise = np.hypot(moments.sd, curve.change_sd(wanted, trials))
    limits = (metric.lowest, metric.highest)
    # Tied votes are those of the odd size below, but for what the library's rule for ties adds.
    values = np.clip(curve.at(wanted if shift is None else previous_odd_size(wanted, np.inf)), *limits)
    return _Curve(curve, values, np.zeros(wanted.size), noise, curve.limit, limits, moments, shift)


def _subset_road(
    rows: MetricRows,
    subsets: tuple[int, int],
    groups: NDArray[np.integer] | None,
    wanted: FloatArray,
    settings: ResolvedOptions,
) -> _Curve:
    """Return the curve of a metric, from its averages over subsets of the members."""
    rng = np.random.default_rng(settings.random_state)
    averages = subset_averages(rows, subsets, rng)
    law = extrapolate(averages.sizes, averages.by_order.mean(axis=0), rows.size_offset)
    limits = _range(rows, float(law.averages.min()))
    moments = resample_rows(rows, averages, groups, rng)
    _refuse_unknown_limit(rows.metric, law, limits, moments)
    change = MetricChange(
        law, averages.by_order, limits, averages.ends, moments, closed_form(rows, groups),
        rows.metric.greater_is_better,
    )  # fmt: skip
    by_orders = law.order_variance(wanted, averages.mean_covariance)
    variance = _row_variance(moments, averages, wanted, law.offset) + by_orders
    asymptote = float(law.at([np.inf])[0])
    return _Curve(change, change.values(wanted), law.model_error(wanted), np.sqrt(variance), asymptote, limits, moments)


def _log_road(losses: LogLosses, rows: MetricRows, wanted: FloatArray, settings: ResolvedOptions) -> _Curve:
    """Return the curve of a log loss from the row model of the labels' shares."""
    sizes = np.union1d(np.geomspace(1, settings.max_size, N_LOG_LOSSES).astype(np.int64), wanted)
    values, covariance = losses.values(sizes), losses.covariance(sizes)
    limits = _range(rows, float(values.min()))
    draws = values + normal_draws(np.random.default_rng(settings.random_state), covariance, N_DRAWS)
    sd = np.sqrt(np.diag(covariance))
    curve = LabelMetricCurve(sizes, np.clip(values, *limits), np.clip(draws, *limits), float(sd[-1]))
    places = np.searchsorted(sizes, wanted)
    moments = Resampled(float(sd[-1]), losses.skewness)
    return _Curve(curve, curve.values[places], np.zeros(wanted.size), sd[places], float(values[-1]), limits, moments)


def _finite_from(losses: LogLosses, settings: ResolvedOptions) -> int | None:
    """Return the size from which on a log loss counts as finite; None if above `max_size`."""
    limit = losses.values(np.array([np.inf]))[0]
    return losses.finite_from(settings.max_size, float(settings.metric_distances(limit)))


def _with_zeros(curve: ErrorCurve, found: ZeroProbabilities | None) -> ErrorCurve:
    """Return the curve from the size on at which the log loss counts as finite, with what is known of zeros."""
    if found is None:
        return curve
    assert curve.metric_basis is not None
    kept = curve.sizes >= (found.finite_from or 1)
    return replace(
        curve,
        sizes=curve.sizes[kept],
        error=curve.error[kept],
        lower=curve.lower[kept],
        upper=curve.upper[kept],
        metric_basis=replace(curve.metric_basis, zeros=found),
    )


def _unchecked_line_doubts(found: _Curve, metric: ResolvedMetric) -> tuple[Finding, ...]:
    """Return a doubt about a line through two averages, as of subsets of 1 and 3, which no parabola checks."""
    if not isinstance(found.change, MetricChange) or found.change.law.sizes.size >= FEWEST_OF_PARABOLA:
        return ()
    first, last = found.change.law.sizes[[0, -1]]
    sentence = (
        f"The {metric.name} is known for subsets of {first} and {last} members only: most rows are judged by too few "
        "for more. What it is for more members, the size by it and its interval are a guess. Train more members, about "
        "twice as many."
    )
    return (finding("two-subset-sizes", sentence, smallest=first, largest=last),)


def _perfect_notes(curve: ErrorCurve, limits: tuple[float, float]) -> tuple[Finding, ...]:
    raw, limit = curve.asymptote_raw, curve.asymptote
    low, high = curve.asymptote_interval
    if limits[0] - 1e-12 <= raw <= limits[1] + 1e-12 or abs(raw - limit) <= high - low:
        return ()
    sentence = (
        f"The {curve.metric} of the infinite ensemble was estimated at {raw:.4g} and is reported as {limit:.4g}, "
        "that of perfect outputs."
    )
    return (finding("better-than-perfect", sentence, estimate=raw, reported=limit),)


def _range(rows: MetricRows, least: float) -> tuple[float, float]:
    """Return the least and largest value of the metric; the least of a user's function is that of perfect outputs."""
    metric, block, known = rows.metric, rows.sample.block, rows.known
    if metric.greater_is_better:
        return metric.lowest, metric.highest
    target, weight = rows.target[known].copy(), None if rows.weight is None else rows.weight[known]
    perfect = np.eye(block.n_labels)[block.target[known]] if block.n_labels else block.target[known].astype(np.float64)
    try:
        best = float(metric.evaluate(target, perfect, weight))
    except Exception:  # a user's function may raise anything
        return -np.inf, np.inf
    return (best if best <= least else -np.inf), np.inf


def _refuse_unknown_limit(
    metric: ResolvedMetric, law: Extrapolation, limits: tuple[float, float], resampled: Resampled
) -> None:
    """Raise TooFewMembersError if the metric's limit is more uncertain than its distance from perfect outputs."""
    model, asymptote = float(law.model_error([np.inf])[0]), float(law.at([np.inf])[0])
    best = limits[1] if metric.greater_is_better else limits[0]
    spread = float(np.ptp(law.averages))
    known = abs(asymptote - best) if np.isfinite(best) else spread
    if metric.is_absolute:
        # A score near its largest value is bounded by it, however uncertain the rest of the way.
        known = max(known, spread)
    if model <= max(2.0 * resampled.sd, NEGLIGIBLE * abs(asymptote)) or model < known:
        return
    raise TooFewMembersError(
        f"metric {metric.name!r} is known for subsets of up to {counted(law.sizes[-1], 'member')} "
        f"({law.averages[-1]:.4g}); for larger sizes, a line and a parabola in 1/size differ so much (the limit is "
        f"{asymptote:.4g}, give or take {model:.2g}) that the curve is not known. Train more members, or clip extreme "
        "probabilities in your metric (for example np.clip(p, 0.01, 1))."
    )


def _row_variance(resampled: Resampled, averages: SubsetAverages, sizes: FloatArray, offset: float) -> FloatArray:
    """Return the variance over rows of the extrapolated metric, level and slope together, at each size."""
    half, largest = 1.0 / (averages.sizes[list(averages.ends)] + offset)
    steps = np.maximum(largest - 1.0 / (sizes + offset), 0.0) / (half - largest)
    variance = resampled.sd**2 + 2.0 * steps * resampled.shared + steps**2 * resampled.step_variance
    return np.asarray(np.maximum(variance, resampled.sd**2))
