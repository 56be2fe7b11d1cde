"""Curves of any metric by the number of members, its limit, and the size that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.formulas import MatrixMetric
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
from ens_plugin.analysis.metric_seeds import metric_sd_over_seeds
from ens_plugin.analysis.metrics import ResolvedMetric, ranking_notes
from ens_plugin.analysis.sizes import Goal, NoLimit, SizeLaw, recommend
from ens_plugin.core.error_curve import ERROR_FACTOR, Extrapolation, extrapolate, subset_sizes
from ens_plugin.core.intervals import N_DRAWS, SD_INFLATION, DrawnCurve, hall_limits
from ens_plugin.core.label_draws import normal_draws
from ens_plugin.core.losses import SquaredLoss, squared_loss
from ens_plugin.core.sample import Sample, subset_orders
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, IntArray, counted, previous_odd_size
from ens_plugin.errors import TooFewMembersError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import BiasVariance, ErrorCurve, MetricBasis, SizeRecommendation, ZeroProbabilities

# A distance of 0 from the limit, of a score by chance, would need infinitely many members.
LEAST_DISTANCE = 1e-12
# The draws of a curve are of distributions of one smooth form; their deviations are multiplied by this for the size, so
# that its interval holds (docs/methods/metrics.md).
SPREAD_OF_FORM = 1.4
# Random orders of the members; their noise falls with the rows, as that of the metric does.
N_ORDERS, FEWEST_ORDERS, ROWS_OF_ORDERS = 30, 8, 200_000
MIN_LIMIT = 3
# Sizes at which a log loss is computed; straight lines in 1/size between them are good enough.
N_LOG_LOSSES = 50
# More samples where a metric has a formula, so that few rows' skewness is known; so many rows are drawn in all.
MOST_RESAMPLES, ROWS_DRAWN = 1000, 2_000_000
# Bootstrap samples for the change between two sizes, each with two more calls of a metric without a formula.
N_STEPS = 60
# With fewer rows of a label that are predicted right, bootstrap samples have too little spread.  Labels of fewer rows
# than FEWEST_OF_LABEL lead to a doubt.
FEW_RIGHT = 5
# Of quantiles of errors with tails; between them errors are interpolated.
NORMAL_GRID = np.linspace(-3.5, 3.5, 15)
# Hall's limit is three standard deviations away at 0.4 and eight at 0.5, which covers the truth hardly more often.
MOST_SKEWNESS = 0.4


def metric_size(
    curve: DrawnCurve, level_sd: float, n_members: int, agreement: float | None, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the size by a metric: from it on, the metric is within the tolerance of its value at infinity."""
    # `level_sd` is the metric's standard deviation over samples of the rows. The tolerance of each draw is that of its
    # own limit; one of 0, of a score by chance, would need infinitely many members.
    metric = settings.metric
    assert metric is not None
    tolerance = float(settings.metric_distances(curve.limit))
    of_draws = np.maximum(settings.metric_distances(curve.draws[:, -1]), LEAST_DISTANCE)
    own: SizeLaw = replace(curve, stretch=of_draws / max(tolerance, LEAST_DISTANCE))
    law = own if _is_apart(curve.limit, level_sd, settings) else NoLimit()
    goal = Goal("metric", metric.name, tolerance, curve.limit)
    return replace(recommend(law, goal, agreement, n_members, settings), of_metric=metric.name)


def _is_apart(limit: float, level_sd: float, settings: ResolvedOptions) -> bool:
    """Return whether the limit is apart from what its tolerance is relative to: nothing is a share of what may be 0."""
    reference, metric = settings.metric_reference, settings.metric
    if reference is None:
        return True
    apart = limit - reference
    is_score = metric is not None and metric.is_absolute
    return (apart if is_score else abs(apart)) > 2.0 * level_sd


class Resampled(NamedTuple):
    """Moments of the metric of all members over bootstrap samples of the rows.

    `sd` is of out-of-bag rows 1.1 times that of the samples; `step_variance` is of the metric's change from half the
    largest subset to the largest, less its variance over orders, and `shared` the covariance of both.
    """

    sd: float
    skewness: float
    step_variance: float = 0.0
    shared: float = 0.0


def bootstrap_counts(
    rows: MetricRows,
    chosen: NDArray[np.intp],
    n_draws: int,
    rng: np.random.Generator,
    groups: NDArray[np.integer] | None = None,
) -> Iterator[FloatArray]:
    """Yield how often each of the `chosen` rows, by position, is in bootstrap samples of them, or of their groups."""
    members = None if groups is None else _rows_by_group(groups[chosen])
    for _ in range(n_draws):
        if members is None:
            drawn = rng.integers(0, chosen.size, size=chosen.size)
        else:
            drawn = np.concatenate([members[index] for index in rng.integers(0, len(members), size=len(members))])
        yield _with_all_labels(rows, chosen, np.bincount(drawn, minlength=chosen.size).astype(np.float64), rng)


def _with_all_labels(
    rows: MetricRows, chosen: NDArray[np.intp], counts: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return counts with one row of each label that has none, or with two values, without which r2 has no value."""
    target = rows.sample.block.target[chosen]
    if rows.sample.block.n_labels:
        for code in np.flatnonzero((np.bincount(target) > 0) & (np.bincount(target, counts) == 0)):
            counts[rng.choice(np.flatnonzero(target == code))] = 1.0
    elif np.ptp(target[counts > 0]) == 0 < np.ptp(target):
        counts[[np.argmin(target), np.argmax(target)]] = 1.0
    return counts


def _rows_by_group(groups: NDArray[np.integer]) -> list[NDArray[np.intp]]:
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def resample(
    rows: MetricRows,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
    averages: SubsetAverages | None = None,
) -> Resampled:
    """Return the moments, over bootstrap samples of rows, of the metric and of its change between two subset sizes."""
    known = rows.known
    level = rows.of_counts(rows.linked[known], known)
    n_levels = N_DRAWS
    if rows.formula is not None:
        n_levels = int(np.clip(ROWS_DRAWN // known.size, N_DRAWS, MOST_RESAMPLES))
    n_steps = 0 if averages is None else N_STEPS if rows.formula is None else N_DRAWS
    if averages is not None:
        small, large = _end_outputs(rows, averages, rng)
        change = rows.change_of_counts(small, large, averages.rows)
    levels, steps, all_counts = np.empty(n_levels), np.empty(n_steps), np.zeros(rows.trials.size)
    for index, counts in enumerate(bootstrap_counts(rows, known, n_levels, rng, groups)):
        levels[index] = level(counts)
        if averages is not None and index < n_steps:
            all_counts[known] = counts
            steps[index] = change(all_counts, _with_all_labels(rows, averages.rows, all_counts[averages.rows], rng))
    found = _of_levels(rows, levels, _metrics_of_few_right(rows, groups, rng))
    if averages is None:
        return found
    shared = np.cov(levels[:n_steps], steps)
    ends, contrast = list(averages.ends), np.array([-1.0, 1.0])
    one_order = float(contrast @ averages.covariance[np.ix_(ends, ends)] @ contrast)
    return found._replace(step_variance=max(float(shared[1, 1]) - one_order, 0.0), shared=float(shared[0, 1]))


def _metrics_of_few_right(
    rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator
) -> FloatArray | None:
    """Return draws of a metric of labels where hardly a row of some label is right, whose samples have no spread."""
    # The shares of a label's rows that are predicted to have each of K labels are drawn from their posterior, a
    # Dirichlet distribution with 1/K added to each number of rows.
    value, known, n_labels = rows.matrix, rows.known, rows.sample.block.n_labels
    if value is None:
        return None
    target = rows.sample.block.target[known].astype(np.intp)
    matrix = np.zeros((n_labels, n_labels))
    np.add.at(matrix, (target, np.argmax(rows.linked[known], axis=1)), 1.0)
    if not np.any((np.diag(matrix) < FEW_RIGHT) & (matrix.sum(axis=1) >= FEWEST_OF_LABEL)):
        return None
    weight = np.bincount(target, None if rows.weight is None else rows.weight[known], n_labels)
    units = 1.0 if groups is None else np.unique(groups[known]).size / known.size
    shares = np.stack([rng.dirichlet(units * own + 1.0 / n_labels, N_DRAWS) for own in matrix], axis=1)
    return np.array([value(own) for own in shares * weight[:, None]])


def _of_levels(rows: MetricRows, levels: FloatArray, of_few_right: FloatArray | None) -> Resampled:
    """Return the moments of the metric by bootstrap sample, or of other draws of it that spread more."""
    widest = levels if of_few_right is None or of_few_right.std() <= levels.std() else of_few_right
    deviations, sd = widest - widest.mean(), float(widest.std(ddof=1))
    skewness = float(np.mean(deviations**3) / sd**3) if sd > 0 else 0.0
    # The skewness of n normal values has a standard error of about sqrt(6/n).  Within two of them it counts as 0; one
    # that jumped there would depend on the random state.
    noise = 4.0 * 6.0 / widest.size
    inflation = 1.0 if rows.sample.block.counted.all() else SD_INFLATION
    return Resampled(inflation * sd, skewness * max(1.0 - noise / skewness**2, 0.0) if skewness else 0.0)


@dataclass(frozen=True, eq=False)
class SubsetAverages:
    """A metric by random order of the members and size of the subset, shape (n_orders, n_sizes).

    `ends` are the places of two sizes, between which the change over `rows` gives the noise of the curve's slope.
    """

    sizes: IntArray
    by_order: FloatArray
    ends: tuple[int, int]
    rows: NDArray[np.intp]

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
    """Return the largest size, MIN_LIMIT or more, that a row of every label, or of two values, has members for."""
    # Without one of two labels a ranking has no value, and without two values r2.
    trials = rows.trials[rows.known].astype(np.int64)
    values, codes = np.unique(rows.sample.block.target[rows.known], return_inverse=True)
    reached = np.zeros(values.size, dtype=np.int64)
    np.maximum.at(reached, codes.reshape(-1), trials)
    fewest = values.size if rows.sample.block.n_labels else 2
    return max(MIN_LIMIT, int(np.sort(reached)[-fewest:].min()))


def subset_averages(rows: MetricRows, limits: tuple[int, int], rng: np.random.Generator) -> SubsetAverages:
    """Return the metric by random order of the members and size."""
    # Up to the first of the two limits, the metric is computed on the nine in ten rows that have as many members;
    # beyond, its changes are those on the half of the rows that have more. The rows left out shift the whole curve, by
    # their effect on the metric of all members. For a metric of labels all sizes are odd, because votes tie at even
    # ones. The changes of a ranking are those of the expected one, whose level is moved to that of the metric of all
    # members.
    reached = _reached_by_labels(rows)
    common, largest = (min(limit, reached) for limit in limits)
    common, largest = (limit - (rows.is_of_labels and limit % 2 == 0) for limit in (common, largest))
    sizes = np.union1d(subset_sizes(largest), [common])
    sizes = np.unique(sizes - (sizes % 2 == 0)) if rows.is_of_labels else sizes
    fewest = max(common, 1)
    near = _with_members(rows, fewest)
    is_far = rows.trials[near] >= largest
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
    return SubsetAverages(sizes, by_order, (half, sizes.size - 1), _with_members(rows, largest))


def _with_members(rows: MetricRows, fewest: int) -> NDArray[np.intp]:
    """Return the positions of the rows that have at least so many members, in the order of :func:`_orders`."""
    if rows.losses == "squared":
        return np.flatnonzero(rows.trials >= fewest)
    return rows.packed.with_members(fewest).rows


def _end_outputs(rows: MetricRows, averages: SubsetAverages, rng: np.random.Generator) -> list[FloatArray]:
    """Return the linked outputs of the averaged rows at the two sizes ``averages.ends``, in one order."""
    sizes = averages.sizes[list(averages.ends)]
    return list(next(_orders(rows, int(sizes[1]), sizes, rng)))


def _orders(rows: MetricRows, fewest: int, sizes: IntArray, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
    """Yield the linked outputs of subsets of each size, for several random orders, of rows with `fewest` members."""
    chosen = _with_members(rows, fewest)
    if rows.losses == "squared":
        # The same twice, as orders without noise.
        outputs = list(expected_outputs(rows, chosen, sizes))
        yield from (outputs, outputs)
        return
    n_orders = int(np.clip(ROWS_OF_ORDERS // max(chosen.size, 1), FEWEST_ORDERS, N_ORDERS))
    for found in subset_orders(rows.packed.with_members(fewest), sizes, n_orders, rng, rows.combine):
        yield (found_at if rows.combine is not None else rows.inverse_link(found_at) for found_at in found)


def within_limits(law: Extrapolation, sizes: FloatArray, limits: tuple[float, float]) -> FloatArray:
    """Return the metric at sizes of which the last is infinity, by its law or several, within its limits."""
    # A line that leaves the limits is replaced by the one from the largest subset to the limit at infinity: cut at the
    # limit, it would reach it at a finite size.
    found = law.at(sizes)
    limit, known = np.clip(found[..., -1:], *limits), np.clip(law.averages[..., -1:], *limits)
    left = (law.sizes[-1] + law.offset) / (sizes + law.offset)
    is_cut = (limit != found[..., -1:]) & (sizes > law.sizes[-1])
    return np.asarray(np.clip(np.where(is_cut, limit + (known - limit) * left, found), *limits))


def subset_curve(
    law: Extrapolation,
    averages: SubsetAverages,
    moments: Resampled,
    limits: tuple[float, float],
    settings: ResolvedOptions,
    closed: SquaredLoss | None = None,
) -> DrawnCurve:
    """Return a metric from its averages over subsets, with draws."""
    # Drawn are the orders of the members, the level and the slope by samples of the rows, and what is between the line
    # and the parabola; of squared losses also tails and the members that were trained.
    sizes = _sizes_of_curve(law.sizes, settings)
    values = within_limits(law, sizes, limits)
    rng = np.random.default_rng(settings.random_state)
    covariance = np.array([[moments.sd**2, moments.shared], [moments.shared, moments.step_variance]])
    of_level, of_step = normal_draws(rng, covariance, N_DRAWS).T
    # The bound on the error of the extrapolation is taken as the half-width of a normal interval at 95 %.
    extrapolated = rng.standard_normal(N_DRAWS) / float(ndtri(0.975))
    places = rng.integers(0, len(averages.by_order), (N_DRAWS, len(averages.by_order)))
    laws = extrapolate(law.sizes, averages.by_order[places].mean(axis=1), law.offset)
    if closed is not None:
        first, last = law.averages[list(averages.ends)]
        sign = -1.0 if settings.metric is None or settings.metric.greater_is_better else 1.0
        of_level, of_step = _errors_of_squares(closed, moments, sign * of_level, sign * of_step, abs(last - first), rng)
        of_level, of_step = sign * of_level, sign * of_step
    differences = within_limits(laws, sizes, limits)
    differences -= differences[:, -1:]
    apart, beyond = laws.apart(sizes), sizes > law.sizes[-1]
    bound = np.sign(apart[:, -1:]) * np.where(beyond, ERROR_FACTOR * np.abs(apart), 0.0)
    half, largest = law.sizes[list(averages.ends)]
    # Averages over subsets below the first end are known better than the slope; a closed form has one slope.
    inverse = law.inverse(np.maximum(sizes, half if closed is None else 1.0))
    by_step = inverse / float(np.diff(law.inverse([half, largest]))[0])
    differences += np.outer(of_step, by_step) + extrapolated[:, None] * (bound - bound[:, -1:])
    return DrawnCurve(sizes, values, values[-1] + of_level[:, None] + differences)


def closed_form(rows: MetricRows, groups: NDArray[np.integer] | None) -> SquaredLoss | None:
    """Return the closed form of the mean loss that a metric depends on, up to its scale; None where it has none."""
    if rows.losses != "squared":
        return None
    weight = np.ones(rows.trials.size) if rows.weight is None else rows.weight
    found = squared_loss(replace(rows.sample, weight=weight), groups=groups)
    return found if found is not None and found.member_variance > 0.0 else None


def _sizes_of_curve(subsets: IntArray, settings: ResolvedOptions) -> FloatArray:
    """Return the sizes of the averages, between which the curve is a line in 1/size, others, and infinity."""
    others = np.geomspace(1, settings.max_size, N_DRAWS).astype(np.int64)
    finite = np.unique(np.concatenate([subsets, others, settings.sizes]))
    return np.append(finite.astype(np.float64), np.inf)


def _errors_of_squares(
    closed: SquaredLoss,
    moments: Resampled,
    of_level: FloatArray,
    of_step: FloatArray,
    step: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Return normal errors of a loss and of its step with the tails of the rows' losses and slopes."""
    # Without them, the promise held the needed size in 77 % of cases where members' variances had a long tail, in place
    # of 90 %. The step has the luck of the members that were trained too, normal on the scale of logarithms.
    positive = NORMAL_GRID[NORMAL_GRID > 0]
    distances = np.array([closed.distances(2.0 * float(ndtr(z)) - 1.0) for z in positive])
    below, above = (np.maximum.accumulate(distances[:, :, side]) for side in (0, 1))
    quantiles = np.concatenate([-below[::-1], np.zeros((1, 2)), above])
    sd = np.sqrt(np.maximum(np.diag(closed.covariance), 0.0))
    quantiles /= np.where(sd > 0.0, sd, 1.0)
    sds = (moments.sd, float(np.sqrt(moments.step_variance)))
    # A loss that falls faster has a larger, negative step.
    level, slope = (
        sd * np.interp(errors / sd, NORMAL_GRID, own) if sd > 0.0 else errors
        for errors, sd, own in zip((of_level, -of_step), sds, quantiles.T, strict=True)
    )
    relative = closed.luck / closed.member_variance
    return level, -slope - step * np.expm1(relative * rng.standard_normal(N_DRAWS))


def label_metric_curve(
    found: LabelEstimates,
    metric: ResolvedMetric,
    matrix: MatrixMetric,
    sizes: FloatArray,
    n_rows: float,
) -> DrawnCurve:
    """Return a metric of labels as a function of the confusion matrix of so many rows that is expected at each size."""
    # It is interpolated as the error is, at `sizes` too.
    by_size = (found.metric_draws(place, np.random.default_rng(0)) for place in range(found.sizes.size))
    values = np.array([[matrix(n_rows * each) for each in matrices] for matrices in by_size]).T
    close = np.union1d(found.sizes, previous_odd_size(sizes, found.ties_to))
    values = np.clip(found.between(values, close), metric.lowest, metric.highest)
    return DrawnCurve(close, values[0], values[1:], found.ties_to)


class _Found(NamedTuple):
    """A curve with what its interval is of, at the sizes to tabulate and at infinity.

    `model` is a bound on the error of the extrapolation, `noise` a standard deviation; `raw` is the estimated limit
    before it was kept within the least and largest value, `limits`; `level_sd` is of the metric over samples of rows.
    """

    curve: DrawnCurve
    model: FloatArray
    noise: FloatArray
    raw: float
    limits: tuple[float, float]
    skewness: float
    level_sd: float
    subsets: IntArray | None = None


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
    if losses is not None:
        found = _log_road(losses, rows, settings)
    elif rows.matrix is not None and isinstance(estimates, LabelledEstimates):
        found = _label_road(rows, rows.matrix, estimates.labels, groups, settings)
    else:
        found = _subset_road(rows, subsets, groups, settings)
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    level = rows.linked_value(rows.linked[rows.known], rows.known)
    by_metric = partial(metric_size, found.curve, found.level_sd, adapter.n_members, estimates.agreement, settings)
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
    """Return the estimates of an ensemble that is judged by a loss of its own, or by the metric in its place."""
    metric = settings.metric
    assert metric is not None
    rows = metric_rows(metric, adapter, sample, y)
    settings = with_chance(settings, rows.chance_level)
    subsets = largest_subsets(rows.trials[rows.known], limit)
    found = _subset_road(rows, subsets, groups, settings)
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    return Estimates(
        error_curve=curve,
        sizes={"metric": cache(partial(metric_size, found.curve, found.level_sd, adapter.n_members, None, settings))},
        bias_variance=_parts(found.curve, metric, adapter.n_members),
        algorithmic_sd=lambda: seed_sd,
        findings=_perfect_notes(curve, found.limits),
    )


def _parts(curve: DrawnCurve, metric: ResolvedMetric, n_members: int) -> BiasVariance:
    """Return the loss of one member and of the ensemble, and their distance, with scores negated."""
    sign = -1.0 if metric.greater_is_better else 1.0
    one, current, infinite = (float(sign * value) for value in curve.at([1, n_members, np.inf]))
    return BiasVariance(
        member_error=one,
        member_variance=one - infinite,
        ensemble_error=current,
        asymptotic_error=infinite,
        bias=infinite,
        loss=f"-{metric.name}" if metric.greater_is_better else metric.name,
    )


def _error_curve(found: _Found, rows: MetricRows, settings: ResolvedOptions, seed_sd: float) -> ErrorCurve:
    """Return the curve with its intervals, of rows, members and extrapolation, limited to the range of the metric."""
    metric, wanted = rows.metric, _wanted(settings)
    lowest, highest = found.limits
    error = np.clip(found.curve.at(wanted), lowest, highest)
    skewness = found.skewness
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
        asymptote_raw=found.raw,
        estimator="deconvolved" if found.subsets is None else "subset_average",
        metric=metric.name,
        interval_level=settings.interval_level,
        ties_to=found.curve.ties_to,
        metric_basis=MetricBasis(
            greater_is_better=metric.greater_is_better,
            lowest=metric.lowest,
            highest=metric.highest,
            n_rows=rows.known.size,
            positive_label=metric.positive_label,
        ),
    )


def _wanted(settings: ResolvedOptions) -> FloatArray:
    return np.append(settings.sizes.astype(np.float64), np.inf)


def _label_road(
    rows: MetricRows,
    matrix: MatrixMetric,
    labels: LabelEstimates,
    groups: NDArray[np.integer] | None,
    settings: ResolvedOptions,
) -> _Found:
    """Return the curve of a metric of labels; its noise is that of the rows, and of the models beyond their members."""
    moments, wanted = resample(rows, groups, np.random.default_rng(settings.random_state)), _wanted(settings)
    n_rows = float(rows.known.size if rows.weight is None else rows.weight[rows.known].sum())
    curve = label_metric_curve(labels, rows.metric, matrix, wanted, n_rows)
    noise = np.hypot(moments.sd, curve.change_sd(wanted, float(np.median(rows.trials[rows.known]))))
    spread = replace(curve, draws=curve.values + SPREAD_OF_FORM * (curve.draws - curve.values))
    limits = (rows.metric.lowest, rows.metric.highest)
    return _Found(spread, np.zeros(wanted.size), noise, curve.limit, limits, moments.skewness, moments.sd)


def _subset_road(
    rows: MetricRows, subsets: tuple[int, int], groups: NDArray[np.integer] | None, settings: ResolvedOptions
) -> _Found:
    """Return the curve of a metric, from its averages over subsets of the members."""
    rng = np.random.default_rng(settings.random_state)
    averages = subset_averages(rows, subsets, rng)
    law = extrapolate(averages.sizes, averages.by_order.mean(axis=0), rows.size_offset)
    limits = _range(rows, float(law.averages.min()))
    moments = resample(rows, groups, rng, averages)
    _refuse_unknown_limit(rows.metric, law, limits, moments)
    curve = subset_curve(law, averages, moments, limits, settings, closed_form(rows, groups))
    wanted = _wanted(settings)
    variance = _row_variance(moments, averages, wanted, law.offset)
    variance += law.order_variance(wanted, averages.mean_covariance)
    raw = float(law.at([np.inf])[0])
    return _Found(
        curve, law.model_error(wanted), np.sqrt(variance), raw, limits, moments.skewness, moments.sd, law.sizes
    )


def _log_road(losses: LogLosses, rows: MetricRows, settings: ResolvedOptions) -> _Found:
    """Return the curve of a log loss from the row model of the labels' shares."""
    wanted = _wanted(settings)
    sizes = np.union1d(np.geomspace(1, settings.max_size, N_LOG_LOSSES).astype(np.int64), wanted)
    values, covariance = losses.values(sizes), losses.covariance(sizes)
    limits = _range(rows, float(values.min()))
    draws = values + normal_draws(np.random.default_rng(settings.random_state), covariance, N_DRAWS)
    sd = np.sqrt(np.diag(covariance))
    curve = DrawnCurve(sizes, np.clip(values, *limits), np.clip(draws, *limits))
    noise = sd[np.searchsorted(sizes, wanted)]
    return _Found(curve, np.zeros(wanted.size), noise, float(values[-1]), limits, losses.skewness, float(sd[-1]))


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


def _unchecked_line_doubts(found: _Found, metric: ResolvedMetric) -> tuple[Finding, ...]:
    """Return a doubt about a line through two averages, as of subsets of 1 and 3, which no parabola checks."""
    if found.subsets is None or found.subsets.size >= 3:
        return ()
    first, last = found.subsets[[0, -1]]
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
