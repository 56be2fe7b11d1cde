"""The curve of a metric, from averages over subsets of members, extrapolated in 1/size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.curves.label_metric import LabelMetricCurve, TwoErrors, label_metric_curve
from ens_plugin.analysis.curves.metric_size import MetricChange, Resampled, metric_size
from ens_plugin.analysis.metrics.resolved import ResolvedMetric, ranking_caution
from ens_plugin.core.estimates.extrapolation import Extrapolation, extrapolate, subset_sizes
from ens_plugin.core.tallies.subsets import Sample, subset_means, subset_statistics
from ens_plugin.core.uncertainty.skewed_mean import hall_limits
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.report.estimates import ErrorCurve, MetricBasis

__all__ = ["with_metric_curve"]

N_ORDERS = 30
N_RESAMPLES = 200
# Bootstrap samples for the change between two sizes, each with two more calls of the metric.
N_STEPS = 60
MIN_LIMIT = 3
MAX_TRIES = 20
# The skewness of 200 normal values has a standard error of 0.17.
CLEAR_SKEWNESS = 0.35
# Weights of equal probabilities mixed into the mean outputs, to check whether the metric has a value at 0.
PULLS = (1e-9, 1e-6)
NO_VALUE = 1e-4
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class MetricRows:
    """The rows that a metric is computed on.

    Attributes
    ----------
    metric : ResolvedMetric
    sample : Sample
    target : ndarray, shape (n_sampled,)
        As the user gave it.
    link : callable
        Returns probabilities or values for mean outputs.
    weight : ndarray, shape (n_sampled,), or None
        None where all rows count the same, or the metric takes no weights.
    """

    metric: ResolvedMetric
    sample: Sample
    target: NDArray[Any]
    link: Callable[[FloatArray], FloatArray]
    weight: FloatArray | None

    def value(self, mean: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their mean outputs, before the link."""
        return self.linked_value(self.link(mean), rows)

    def linked_value(self, output: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their probabilities or values."""
        return self.metric.value(self.target[rows], output, None if self.weight is None else self.weight[rows])


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
    label_errors: Callable[[], TwoErrors | None] = lambda: None,
) -> Estimates:
    """Return the estimates with the curve of `metric` as error curve, and the size by it; the rest is unchanged.

    Parameters
    ----------
    metric : ResolvedMetric
    sample : Sample
        The metric is averaged over subsets of the members of these rows.
    y : ndarray, shape (n_sampled,)
        Target of the sampled rows as the user gave it.
    limit : int, optional
        Largest size to average subsets of; by default, the largest that most rows have members for.
    groups : ndarray of int, shape (n_sampled,), optional
        Group of each sampled row: the interval is then from bootstrap samples of groups.
    label_errors : callable
        Returns the errors by label of two labels, for a metric of labels; None where they are not known.

    Raises
    ------
    TooFewMembersError
        If half of the rows have too few out-of-bag members for subsets of three, or the metric beyond the largest
        subset cannot be extrapolated from the subsets.
    InputError
        If the metric fails or returns no finite number, or if it has no value for probabilities of 0 and some are 0.
    """
    if metric.greater_is_better and adapter.classes is not None:
        # In the type of the labels, whatever the container of y.
        y = adapter.classes[sample.block.target]
    is_weighted = metric.takes_weights and bool(np.ptp(sample.weight) > 0)
    rows = MetricRows(metric, sample, y, adapter.inverse_link, sample.weight if is_weighted else None)
    known = np.flatnonzero(sample.block.seen.any(axis=0))
    rng = np.random.default_rng(settings.random_state)
    is_of_labels = _is_of_labels(rows, known)
    limits = _limits(sample.block.seen.sum(axis=0)[known], limit)
    sizes, by_order = _by_order(rows, limits, rng, is_odd=is_of_labels)
    _refuse_no_value(rows, known)
    law = extrapolate(sizes, by_order.mean(axis=0))
    lowest, highest = _range(rows, known, law)
    covariance = np.cov(by_order, rowvar=False)
    resampled = _resample(rows, law, covariance, groups, rng)
    change: MetricChange | LabelMetricCurve
    by_label = label_errors() if is_of_labels and metric.takes_weights else None
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    if by_label is not None and adapter.classes is not None:
        change = label_metric_curve(by_label, metric, adapter.classes, resampled.sd)
        raw, model = change.at(wanted), np.zeros(wanted.size)
        trials = float(np.median(sample.block.seen.sum(axis=0)[known]))
        noise = np.hypot(resampled.sd, change.change_sd(wanted, trials))
    else:
        _refuse_unknown_limit(metric, law, (lowest, highest), resampled)
        change = MetricChange(law, by_order, (lowest, highest), _half_and_largest(law), resampled)
        raw, model = law.at(wanted), law.model_error(wanted)
        noise = np.sqrt(_row_variance(resampled, law, wanted) + law.order_variance(wanted, covariance / N_ORDERS))
    error = np.clip(raw, lowest, highest)
    skewness = resampled.skewness if abs(resampled.skewness) > CLEAR_SKEWNESS else 0.0
    below, above = (distance * noise for distance in hall_limits(skewness, settings.interval_level))
    lower = np.maximum(error - np.hypot(below, model), lowest)
    upper = np.minimum(error + np.hypot(above, model), highest)
    curve = ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=float(raw[-1]),
        estimator="subset_average" if isinstance(change, MetricChange) else "deconvolved",
        metric=metric.name,
        interval_level=settings.interval_level,
        metric_basis=MetricBasis(
            greater_is_better=metric.greater_is_better,
            lowest=metric.lowest,
            highest=metric.highest,
            n_rows=known.size,
        ),
    )
    return replace(
        estimates,
        error_curve=curve,
        algorithmic_sd=float("nan"),
        cautions=(
            *_cautions(metric, estimates, curve, (lowest, highest), settings),
            *ranking_caution(metric, sample.block),
        ),
        metric_size=metric_size(change, adapter.n_members, estimates.recommendation.agreement, settings),
    )


def _cautions(
    metric: ResolvedMetric,
    estimates: Estimates,
    curve: ErrorCurve,
    limits: tuple[float, float],
    settings: ResolvedOptions,
) -> tuple[str, ...]:
    own = estimates.bias_variance.loss
    about = (
        f"Bias and variance are those of the {own}, not of {metric.name}."
        if settings.criterion == "metric"
        else f"Only the curve is of {metric.name}: the recommended size, bias and variance are those of the {own}."
    )
    raw, limit = curve.asymptote_raw, curve.asymptote
    if limits[0] - 1e-12 <= raw <= limits[1] + 1e-12:
        return (*estimates.cautions, about)
    return (
        *estimates.cautions,
        about,
        f"The {metric.name} of the infinite ensemble was estimated at {raw:.4g} and is reported as {limit:.4g}, "
        "that of perfect outputs.",
    )


def _limits(trials: IntArray, limit: int | None) -> tuple[int, int]:
    """Return the largest subset sizes that nine in ten rows, and half of them, have members for; `limit` if given.

    Raises
    ------
    TooFewMembersError
        If half of the rows have fewer than three members.
    """
    common, largest = (int(np.quantile(trials, q, method="lower")) if trials.size else 0 for q in (0.1, 0.5))
    if limit is not None:
        common = largest = limit
    if largest < MIN_LIMIT:
        raise TooFewMembersError(
            f"Half of the rows have {largest} out-of-bag members or fewer: subsets of at least {MIN_LIMIT} are needed "
            "to estimate how a metric depends on size. Train more members."
        )
    return common, largest


def _by_order(
    rows_of_metric: MetricRows, limits: tuple[int, int], rng: np.random.Generator, *, is_odd: bool
) -> tuple[IntArray, FloatArray]:
    """Return subset sizes, and the metric by random order of the members and size, shape (n_orders, n_sizes).

    Nine in ten rows give the curve up to the size they have members for, and half of the rows its steps beyond.  Rows
    with fewer members shift the whole curve, by their effect on the metric of all members.  At even sizes votes tie, so
    that the curve of a metric of labels is smooth over odd ones only.
    """
    sample, value = rows_of_metric.sample, rows_of_metric.value
    common, largest = (limit - (is_odd and limit % 2 == 0) for limit in limits)
    trials = sample.block.seen.sum(axis=0)
    sizes = np.union1d(subset_sizes(largest), [common])
    sizes = np.unique(sizes - (sizes % 2 == 0)) if is_odd else sizes
    means = sample.mean_outputs()

    def averages(limit: int, wanted: IntArray) -> FloatArray:
        rows = np.flatnonzero(trials >= limit)
        found = subset_statistics(sample.select(rows).block, wanted, N_ORDERS, rng, lambda mean: value(mean, rows))
        return found - value(means[rows], rows)

    small = averages(common, sizes[sizes <= common])
    known = np.flatnonzero(trials)
    level = value(means[known], known)
    if common == largest:
        return sizes, small + level
    beyond = averages(largest, sizes[sizes >= common])
    return sizes, np.hstack([small, small[:, -1:] + beyond[:, 1:] - beyond[:, :1]]) + level


def _is_of_labels(rows: MetricRows, known: NDArray[np.intp]) -> bool:
    """Return whether the metric is a scorer that depends on the labels with the largest mean output only.

    It is compared on the outputs and on their labels, both in the order of the rows and in a random one: where all
    labels are right, other metrics may be equal too.
    """
    mean = rows.link(rows.sample.mean_outputs()[known])
    if mean.ndim != 2 or not rows.metric.greater_is_better:
        return False
    orders = (np.arange(known.size), np.random.default_rng(0).permutation(known.size))
    labels = np.eye(mean.shape[1])[np.argmax(mean, axis=1)]
    return all(rows.linked_value(labels[order], known) == rows.linked_value(mean[order], known) for order in orders)


def _refuse_no_value(rows: MetricRows, known: NDArray[np.intp]) -> None:
    """Raise InputError if the metric has no value at mean probabilities of 0, as the log loss, and some are 0.

    If probabilities are mixed with a little of equal ones, a metric with a value at 0 hardly changes, and one with a
    threshold changes equally for every weight.  A logarithm changes equally for every factor of the weight.
    """
    mean = rows.link(rows.sample.mean_outputs()[known])
    if not rows.sample.block.n_labels or mean.ndim != 2 or mean.min() > 0 or mean.min() < 0:
        return
    little, more = (rows.linked_value((1.0 - pull) * mean + pull / mean.shape[1], known) for pull in PULLS)
    if abs(little - more) <= NO_VALUE * max(abs(more), 1e-12):
        return
    found = rows.linked_value(mean, known)
    remedy = (
        "Pass a function of your own that clips the probabilities (for example lambda y, p: log_loss(y, np.clip(p, "
        "0.01, 1)))"
        if rows.metric.greater_is_better
        else "Clip the probabilities in your metric (for example np.clip(p, 0.01, 1))"
    )
    raise InputError(
        f"metric {rows.metric.name!r} has no value of its own on these rows: some out-of-bag mean probabilities are 0, "
        f"and the metric is {found:.4g}, {little:.4g} or {more:.4g} if they are replaced by 0, "
        f"{PULLS[0] / mean.shape[1]:.0e} or {PULLS[1] / mean.shape[1]:.0e}. {remedy}, train members whose leaves are "
        "not pure (min_samples_leaf), or train more members."
    )


def _range(rows: MetricRows, known: NDArray[np.intp], law: Extrapolation) -> tuple[float, float]:
    """Return the least and the largest value: those of a scorer; a user's own metric is least for perfect outputs."""
    metric, block = rows.metric, rows.sample.block
    if metric.greater_is_better:
        return metric.lowest, metric.highest
    target, weight = rows.target[known].copy(), None if rows.weight is None else rows.weight[known]
    perfect: NDArray[Any] = np.eye(block.n_labels)[block.target[known]] if block.n_labels else target.astype(np.float64)
    try:
        best = float(metric.evaluate(target, perfect, weight))
    except Exception:  # a user's function may raise anything
        return -np.inf, np.inf
    return (best if best <= float(law.averages.min()) else -np.inf), np.inf


def _refuse_unknown_limit(
    metric: ResolvedMetric, law: Extrapolation, limits: tuple[float, float], resampled: Resampled
) -> None:
    """Raise TooFewMembersError if the metric's limit is more uncertain than its distance from perfect outputs."""
    model, asymptote = float(law.model_error([np.inf])[0]), float(law.at([np.inf])[0])
    best = limits[1] if metric.greater_is_better else limits[0]
    seen = float(np.ptp(law.averages))
    known = abs(asymptote - best) if np.isfinite(best) else seen
    if metric.is_absolute:
        # A score near its largest value is bounded by it, however uncertain the rest of the way.
        known = max(known, seen)
    if model <= max(2.0 * resampled.sd, ROUNDING * abs(asymptote)) or model < known:
        return
    raise TooFewMembersError(
        f"metric {metric.name!r} is known for subsets of up to {law.sizes[-1]} members ({law.averages[-1]:.4g}); "
        f"beyond, a line and a parabola in 1/B differ so much (the limit is {asymptote:.4g}, give or take {model:.2g}) "
        "that the curve is not known there. Train more members, or clip extreme probabilities in your metric (for "
        "example np.clip(p, 0.01, 1))."
    )


def _row_variance(resampled: Resampled, law: Extrapolation, sizes: FloatArray) -> FloatArray:
    """Return the variance over rows of the extrapolated metric, level and slope together, at each size."""
    half, largest = _half_and_largest(law)
    reach = np.maximum(1.0 / law.sizes[largest] - 1.0 / sizes, 0.0)
    steps = reach / (1.0 / law.sizes[half] - 1.0 / law.sizes[largest])
    variance = resampled.sd**2 + 2.0 * steps * resampled.shared + steps**2 * resampled.step_variance
    return np.asarray(np.maximum(variance, resampled.sd**2))


def _half_and_largest(law: Extrapolation) -> tuple[int, int]:
    """Return the positions, among the subset sizes, of half the largest size and of the largest."""
    largest = law.sizes.size - 1
    return min(int(np.searchsorted(law.sizes, law.sizes[-1] / 2.0)), largest - 1), largest


def _resample(
    metric_rows: MetricRows,
    law: Extrapolation,
    covariance: FloatArray,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> Resampled:
    """Return the moments, over bootstrap samples of rows, of the metric and of its change between two subset sizes."""
    sample, target, value = metric_rows.sample, metric_rows.target, metric_rows.linked_value
    trials = sample.block.seen.sum(axis=0)
    known = np.flatnonzero(trials)
    mean = metric_rows.link(sample.mean_outputs())
    ends = list(_half_and_largest(law))
    usable = np.flatnonzero(trials >= law.sizes[-1])
    place = np.full(trials.size, -1)
    place[usable] = np.arange(usable.size)
    means = [metric_rows.link(part) for part in subset_means(sample.select(usable).block, law.sizes[ends], rng)]
    codes = sample.block.target if sample.block.n_labels else np.zeros(target.size, dtype=np.int64)
    levels, steps = np.empty(N_RESAMPLES), np.empty(N_STEPS)
    for index in range(N_RESAMPLES):
        rows = _draw(known, codes, groups, rng)
        levels[index] = value(mean[rows], rows)
        if index >= N_STEPS:
            continue
        # Where a label is missing, rows are drawn anew, independent of the level; this is rare.
        inside = rows[place[rows] >= 0]
        if np.unique(codes[inside]).size < np.unique(codes[usable]).size:
            inside = _draw(usable, codes, groups, rng)
        small, large = (value(part[place[inside]], inside) for part in means)
        steps[index] = large - small
    shared = np.cov(levels[:N_STEPS], steps)
    contrast = np.array([-1.0, 1.0])
    one_order = float(contrast @ covariance[np.ix_(ends, ends)] @ contrast)
    deviations, sd = levels - levels.mean(), float(levels.std(ddof=1))
    skewness = float(np.mean(deviations**3) / sd**3) if sd > 0 else 0.0
    return Resampled(sd, skewness, max(float(shared[1, 1]) - one_order, 0.0), float(shared[0, 1]))


def _draw(
    rows: NDArray[np.intp], codes: NDArray[Any], groups: NDArray[np.integer] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return a bootstrap sample of rows, or of groups, with every label, which many metrics need.

    A sample that misses a label is drawn again; after too many attempts, each label's rows are drawn separately.
    """
    own = codes[rows]
    n_present = np.unique(own).size
    members = None if groups is None else _rows_by_group(groups[rows])
    for _ in range(MAX_TRIES):
        if members is None:
            drawn = rng.integers(0, rows.size, size=rows.size)
        else:
            drawn = np.concatenate([members[index] for index in rng.integers(0, len(members), size=len(members))])
        if np.count_nonzero(np.bincount(own[drawn])) == n_present:
            return np.asarray(rows[drawn])
    return np.concatenate(
        [rng.choice(rows[own == code], size=np.count_nonzero(own == code)) for code in np.unique(own)]
    )


def _rows_by_group(groups: NDArray[np.integer]) -> list[NDArray[np.int64]]:
    order = np.argsort(groups, kind="stable").astype(np.int64)
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
