"""The curve of a metric, from averages over subsets of members, extrapolated in 1/size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.curves.size_reasons import as_told
from ens_plugin.analysis.metric_curves.expected_outputs import low_row_variance
from ens_plugin.analysis.metric_curves.label_metric import (
    LabelMetricCurve,
    TwoErrors,
    error_metric_curve,
    label_metric_curve,
    line_in_error,
)
from ens_plugin.analysis.metric_curves.low_scores import low_score_caution, low_score_doubt, with_chance
from ens_plugin.analysis.metric_curves.metric_resampling import Resampled, resample_level, resample_rows
from ens_plugin.analysis.metric_curves.metric_rows import MetricRows, metric_rows
from ens_plugin.analysis.metric_curves.metric_size import MetricChange, metric_size
from ens_plugin.analysis.metric_curves.rare_labels import rare_label_doubts
from ens_plugin.analysis.metric_curves.subset_averages import SubsetAverages, largest_subsets, subset_averages
from ens_plugin.analysis.metric_curves.zero_probabilities import (
    ZeroRows,
    expected_zeros,
    refuse_no_value,
    zero_findings,
    zero_probability_texts,
)
from ens_plugin.analysis.metrics.resolved import ResolvedMetric, ranking_caution
from ens_plugin.analysis.variance.closed_losses import closed_form
from ens_plugin.analysis.variance.metric_seeds import metric_sd_over_seeds
from ens_plugin.core.estimates.extrapolation import Extrapolation, extrapolate
from ens_plugin.core.estimates.tied_sizes import is_tied, previous_odd_size
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.uncertainty.skewed_mean import hall_limits
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import TooFewMembersError
from ens_plugin.records import record
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, MetricBasis, ZeroProbabilities

__all__ = ["estimate_own_loss", "with_metric_curve"]

# Hall's limit is three standard deviations away at 0.4 and eight at 0.5, which covers the truth hardly more often.
MOST_SKEWNESS = 0.4
FEWEST_OF_PARABOLA = 3
ROUNDING = 1e-12


@record
class _Curve:
    """A metric at the wanted sizes, within its range.

    Attributes
    ----------
    change : MetricChange or LabelMetricCurve
    values, model, noise : ndarray, shape (n_sizes,)
        Value within the limits, bound on the error of the extrapolation, and standard deviation.
    asymptote_raw : float
        Value of the infinite ensemble as estimated, not limited.
    limits : tuple of two floats
        Least and largest value.
    moments : Resampled
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
    rows = metric_rows(metric, adapter, sample, y)
    settings = with_chance(settings, rows.chance_level)
    subsets = largest_subsets(rows.trials[rows.known], limit)
    refuse_no_value(rows)
    zeros = expected_zeros(rows)
    finite_from = _finite_from(rows, zeros, settings)
    if finite_from is not None:
        settings = replace(settings, sizes=np.union1d(settings.sizes, [finite_from]))
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    by_error = None
    if rows.is_of_labels and adapter.classes is not None and estimates.error_draws is not None:
        by_error = _label_road(rows, estimates, adapter.classes, groups, wanted, settings, label_errors)
    found = _subset_road(rows, subsets, groups, wanted, settings, zeros) if by_error is None else by_error
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    level = rows.linked_value(rows.finite[rows.known], rows.known)
    size = metric_size(found.change, adapter.n_members, estimates.recommendation.agreement, settings)
    of_zeros = zero_findings(zeros, curve, finite_from, adapter.n_members, settings.max_size)
    zero_cautions, zero_doubts = zero_probability_texts(
        of_zeros, curve, rows.known.size, adapter.n_members, settings.max_size
    )
    curve = _with_zeros(curve, of_zeros)
    return replace(
        estimates,
        error_curve=curve,
        algorithmic_sd=seed_sd,
        cautions=(
            *estimates.cautions,
            *zero_cautions,
            *([metric.caution] if metric.caution else []),
            *_perfect_caution(curve, found.limits),
            *low_score_caution(curve, settings, rows.chance_level),
            *rows.library_warnings(),
            *ranking_caution(metric, sample.block),
        ),
        doubts=(
            *estimates.doubts,
            *rare_label_doubts(rows, curve.asymptote_interval),
            *low_score_doubt(curve, settings, level),
            *zero_doubts,
            *_unchecked_line_doubt(found, metric),
        ),
        metric_size=size,
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

    All are of its own loss, or of the metric that the user named in its place.  The parameters are those of
    :func:`with_metric_curve`.

    Raises
    ------
    TooFewMembersError, InputError
        As :func:`with_metric_curve`.
    """
    metric = settings.metric
    assert metric is not None
    rows = metric_rows(metric, adapter, sample, y)
    settings = with_chance(settings, rows.chance_level)
    subsets = largest_subsets(rows.trials[rows.known], limit)
    wanted = np.append(settings.sizes.astype(np.float64), np.inf)
    found = _subset_road(rows, subsets, groups, wanted, settings, None)
    seed_sd = metric_sd_over_seeds(rows, groups, np.random.default_rng(settings.random_state))
    curve = _error_curve(found, rows, settings, seed_sd)
    size = as_told(metric_size(found.change, adapter.n_members, None, settings), settings.interval_level)
    return Estimates(
        error_curve=curve,
        recommendation=size,
        bias_variance=_parts(found, metric, adapter.n_members),
        algorithmic_sd=seed_sd,
        cautions=_perfect_caution(curve, found.limits),
        criteria=(size,),
        metric_size=size,
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
    label_errors: Callable[[], TwoErrors | None],
) -> _Curve | None:
    """Return the curve of a metric of labels from the error, or the expected confusion matrix; None if not known.

    The noise is that of the rows, and of the models beyond their members.
    """
    metric, whole = rows.metric, estimates.error_draws
    assert whole is not None
    line = line_in_error(metric, classes, rows.known.size)
    by_label = label_errors() if line is None and metric.takes_weights else None
    if line is None and by_label is None:
        return None
    moments = resample_level(rows, groups, np.random.default_rng(settings.random_state))
    if line is None:
        assert by_label is not None
        curve: LabelMetricCurve = label_metric_curve(by_label, metric, classes, moments.sd)
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
    zeros: ZeroRows | None,
) -> _Curve:
    """Return the curve of a metric, from its averages over subsets of the members."""
    rng = np.random.default_rng(settings.random_state)
    first = None if zeros is None else zeros.finite_from(settings.max_size, 0.0)
    averages = subset_averages(rows, subsets, rng, settings.max_size if zeros and first is None else first or 1)
    law = extrapolate(averages.sizes, averages.by_order.mean(axis=0), rows.size_offset)
    limits = _range(rows, law)
    moments = resample_rows(rows, averages, groups, rng)
    _refuse_unknown_limit(rows.metric, law, limits, moments)
    change = MetricChange(
        law, averages.by_order, limits, averages.ends, moments, closed_form(rows, groups), zeros,
        rows.metric.greater_is_better,
    )  # fmt: skip
    by_orders = law.order_variance(wanted, averages.mean_covariance)
    variance = _row_variance(moments, averages, wanted, law.offset) + by_orders
    if zeros is not None:
        variance = variance + low_row_variance(rows, wanted)
    asymptote = float(law.at([np.inf])[0])
    return _Curve(change, change.values(wanted), law.model_error(wanted), np.sqrt(variance), asymptote, limits, moments)


def _finite_from(rows: MetricRows, zeros: ZeroRows | None, settings: ResolvedOptions) -> int | None:
    """Return the size from which on a log loss counts as finite; None for other metrics, and if above `max_size`."""
    if zeros is None:
        return None
    limit = 1.0 if rows.metric.is_absolute else abs(rows.linked_value(rows.finite[rows.known], rows.known))
    return zeros.finite_from(settings.max_size, settings.metric_tolerance * limit)


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


def _unchecked_line_doubt(found: _Curve, metric: ResolvedMetric) -> tuple[str, ...]:
    """Return a doubt about a line through two averages, as of subsets of 1 and 3, which no parabola checks."""
    if not isinstance(found.change, MetricChange) or found.change.law.sizes.size >= FEWEST_OF_PARABOLA:
        return ()
    first, last = found.change.law.sizes[[0, -1]]
    return (
        f"The {metric.name} is known for subsets of {first} and {last} members only: most rows are judged by too few "
        "for more. What it is for more members, the size by it and its interval are a guess. Train more members, about "
        "twice as many.",
    )


def _perfect_caution(curve: ErrorCurve, limits: tuple[float, float]) -> tuple[str, ...]:
    raw, limit = curve.asymptote_raw, curve.asymptote
    low, high = curve.asymptote_interval
    if limits[0] - 1e-12 <= raw <= limits[1] + 1e-12 or abs(raw - limit) <= high - low:
        return ()
    return (
        f"The {curve.metric} of the infinite ensemble was estimated at {raw:.4g} and is reported as {limit:.4g}, "
        "that of perfect outputs.",
    )


def _range(rows: MetricRows, law: Extrapolation) -> tuple[float, float]:
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
    return (best if best <= float(law.averages.min()) else -np.inf), np.inf


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
    if model <= max(2.0 * resampled.sd, ROUNDING * abs(asymptote)) or model < known:
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
