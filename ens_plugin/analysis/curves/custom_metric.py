"""The curve of a user's own metric, from averages over subsets of members, extrapolated in 1/size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.core.estimates.extrapolation import Extrapolation, extrapolate, subset_sizes
from ens_plugin.core.tallies.subsets import Sample, subset_means, subset_statistics
from ens_plugin.core.uncertainty.skewed_mean import hall_limits
from ens_plugin.core.validation import FloatArray, IntArray, one_line, shown
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.report.estimates import ErrorCurve

__all__ = ["call_metric", "with_metric_curve"]

Metric = Callable[[NDArray[Any], NDArray[Any]], float]

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


@dataclass(frozen=True)
class Resampled:
    """Moments of the metric of all members over bootstrap samples of the rows.

    Attributes
    ----------
    sd, skewness : float
    step_variance : float
        Variance of the metric's change from half the largest subset to the largest, less its variance over orders.
    shared : float
        Covariance of the metric and that change.
    """

    sd: float
    skewness: float
    step_variance: float
    shared: float


def with_metric_curve(
    estimates: Estimates,
    metric: Metric,
    adapter: EnsembleAdapter,
    sample: Sample,
    y: NDArray[Any],
    settings: ResolvedOptions,
    *,
    limit: int | None = None,
    groups: NDArray[np.integer] | None = None,
) -> Estimates:
    """Return the estimates with the curve of `metric` as error curve; size, bias and variance are unchanged.

    Parameters
    ----------
    metric : callable
        ``metric(y, mean_output) -> float``, lower is better.
    sample : Sample
        At most 20 000 rows; the metric is averaged over subsets of their members.
    y : ndarray, shape (n_sampled,)
        Target of the sampled rows as the user gave it.
    limit : int, optional
        Largest size to average subsets of; by default, the largest that most rows have members for.
    groups : ndarray of int, shape (n_sampled,), optional
        Group of each sampled row: the interval is then from bootstrap samples of groups.

    Raises
    ------
    TooFewMembersError
        If half of the rows have too few out-of-bag members for subsets of three, or the metric beyond the largest
        subset cannot be extrapolated from the subsets.
    InputError
        If the metric fails or returns no finite number, or if it has no value for probabilities of 0 and some are 0.
    """
    trials = sample.block.seen.sum(axis=0)
    known = np.flatnonzero(trials)
    rng = np.random.default_rng(settings.random_state)

    def value(mean: FloatArray, rows: NDArray[np.intp]) -> float:
        return call_metric(metric, y[rows], adapter.inverse_link(mean))

    sizes, by_order = _by_order(sample, _limits(trials[known], limit), value, rng)
    _refuse_no_value(metric, y[known], adapter.inverse_link(sample.mean_outputs()[known]), sample.block.n_labels)
    law = extrapolate(sizes, by_order.mean(axis=0))
    floor = _floor(metric, adapter, sample, y, law)
    covariance = np.cov(by_order, rowvar=False)
    resampled = _resample(metric, adapter, sample, y, law, covariance, groups, rng)
    _refuse_unknown_limit(metric, law, floor, resampled)
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    error = np.maximum(law.at(wanted), floor)
    noise = np.sqrt(_row_variance(resampled, law, wanted) + law.order_variance(wanted, covariance / N_ORDERS))
    skewness = resampled.skewness if abs(resampled.skewness) > CLEAR_SKEWNESS else 0.0
    below, above = (distance * noise for distance in hall_limits(skewness, settings.interval_level))
    model = law.model_error(wanted)
    lower = np.maximum(error - np.hypot(below, model), floor)
    upper = error + np.hypot(above, model)
    name = _name(metric)
    curve = ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=float(law.at([np.inf])[0]),
        estimator="subset_average",
        metric=name,
        interval_level=settings.interval_level,
    )
    cautions = _cautions(name, estimates, curve, floor)
    return replace(estimates, error_curve=curve, algorithmic_sd=float("nan"), cautions=cautions)


def _cautions(name: str, estimates: Estimates, curve: ErrorCurve, floor: float) -> tuple[str, ...]:
    own = estimates.bias_variance.loss
    cautions = [
        *estimates.cautions,
        f"Only the curve is of {name}: the recommended size, bias and variance are those of the {own}.",
    ]
    if curve.asymptote_raw < floor - 1e-12:
        cautions.append(
            f"The {name} of the infinite ensemble was estimated at {curve.asymptote_raw:.4g} and is reported as "
            f"{floor:.4g}, that of perfect outputs."
        )
    return tuple(cautions)


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
    sample: Sample,
    limits: tuple[int, int],
    value: Callable[[FloatArray, NDArray[np.intp]], float],
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Return subset sizes, and the metric by random order of the members and size, shape (n_orders, n_sizes).

    Nine in ten rows give the curve up to the size they have members for, and half of the rows its steps beyond.  Rows
    with fewer members shift the whole curve, by their effect on the metric of all members.
    """
    common, largest = limits
    trials = sample.block.seen.sum(axis=0)
    sizes = np.union1d(subset_sizes(largest), [common])
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


def _refuse_no_value(metric: Metric, target: NDArray[Any], mean: NDArray[Any], n_labels: int) -> None:
    """Raise InputError if the metric has no value at mean probabilities of 0, as the log loss, and some are 0.

    If probabilities are mixed with a little of equal ones, a metric with a value at 0 hardly changes, and one with a
    threshold changes equally for every weight.  A logarithm changes equally for every factor of the weight.
    """
    if not n_labels or mean.ndim != 2 or mean.min() > 0 or mean.min() < 0:
        return
    little, more = (call_metric(metric, target, (1.0 - pull) * mean + pull / mean.shape[1]) for pull in PULLS)
    if abs(little - more) <= NO_VALUE * max(abs(more), 1e-12):
        return
    found = call_metric(metric, target, mean)
    raise InputError(
        f"metric {_name(metric)!r} has no value of its own on these rows: some out-of-bag mean probabilities are 0, "
        f"and the metric is {found:.4g}, {little:.4g} or {more:.4g} if they are replaced by 0, "
        f"{PULLS[0] / mean.shape[1]:.0e} or {PULLS[1] / mean.shape[1]:.0e}. Clip the probabilities in your metric (for "
        "example np.clip(p, 0.01, 1)), train members whose leaves are not pure (min_samples_leaf), or train more "
        "members."
    )


def _floor(metric: Metric, adapter: EnsembleAdapter, sample: Sample, y: NDArray[Any], law: Extrapolation) -> float:
    """Return the metric of perfect outputs, the least possible; minus infinity where it cannot be computed."""
    block = sample.block
    perfect: NDArray[Any] = np.eye(block.n_labels)[block.target] if block.n_labels else y.astype(np.float64)
    try:
        best = float(metric(y.copy(), perfect))
    except Exception:  # a user's function may raise anything
        return -np.inf
    return best if best <= float(law.averages.min()) else -np.inf


def _refuse_unknown_limit(metric: Metric, law: Extrapolation, floor: float, resampled: Resampled) -> None:
    """Raise TooFewMembersError if the metric's limit is more uncertain than its distance from perfect outputs."""
    model, asymptote = float(law.model_error([np.inf])[0]), float(law.at([np.inf])[0])
    known = asymptote - floor if np.isfinite(floor) else float(np.ptp(law.averages))
    if model <= 2.0 * resampled.sd or model < known:
        return
    raise TooFewMembersError(
        f"metric {_name(metric)!r} is known for subsets of up to {law.sizes[-1]} members ({law.averages[-1]:.4g}); "
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
    metric: Metric,
    adapter: EnsembleAdapter,
    sample: Sample,
    target: NDArray[Any],
    law: Extrapolation,
    covariance: FloatArray,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> Resampled:
    """Return the moments, over bootstrap samples of rows, of the metric and of its change between two subset sizes."""
    trials = sample.block.seen.sum(axis=0)
    known = np.flatnonzero(trials)
    mean = adapter.inverse_link(sample.mean_outputs())
    ends = list(_half_and_largest(law))
    usable = np.flatnonzero(trials >= law.sizes[-1])
    place = np.full(trials.size, -1)
    place[usable] = np.arange(usable.size)
    means = [adapter.inverse_link(part) for part in subset_means(sample.select(usable).block, law.sizes[ends], rng)]
    codes = sample.block.target if sample.block.n_labels else np.zeros(target.size, dtype=np.int64)
    levels, steps = np.empty(N_RESAMPLES), np.empty(N_STEPS)
    for index in range(N_RESAMPLES):
        rows = _draw(known, codes, groups, rng)
        levels[index] = call_metric(metric, target[rows], mean[rows])
        if index >= N_STEPS:
            continue
        # Where a label is missing, rows are drawn anew, independent of the level; this is rare.
        inside = rows[place[rows] >= 0]
        if np.unique(codes[inside]).size < np.unique(codes[usable]).size:
            inside = _draw(usable, codes, groups, rng)
        small, large = (call_metric(metric, target[inside], part[place[inside]]) for part in means)
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


def _name(metric: Metric) -> str:
    name = getattr(metric, "__name__", None)
    return one_line(name if isinstance(name, str) else type(metric).__name__)


def call_metric(metric: Metric, target: NDArray[Any], mean: NDArray[Any]) -> float:
    """Return a user's metric of the target and the mean outputs; refuse one that fails or is not finite."""
    name = _name(metric)
    try:
        value = float(metric(target, mean))
    except Exception as error:  # a user's function may raise anything
        raise InputError(
            f"metric {name!r} failed on y of shape {target.shape} and mean output of shape {mean.shape}: {shown(error)}"
        ) from error
    if not np.isfinite(value):
        raise InputError(f"metric {name!r} returned {value}; it must return a finite number, lower is better.")
    return value
