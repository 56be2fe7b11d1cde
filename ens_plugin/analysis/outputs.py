"""The analysis of a model of several outputs: a report for each output, and one of the mean over outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.outputs import output_ensemble
from ens_plugin.adapters.unwrap.stacked_outputs import OutputPart, StackedOutputs
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis.arguments import granted_threads, resolve_options
from ens_plugin.analysis.build_report import build_report
from ens_plugin.analysis.metrics.joint import OutputMetric, mean_over_outputs
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.analysis.model_rows import ModelRows, RowChoice, read_rows
from ens_plugin.analysis.one_output import open_model, report_on_rows, tally_model_rows, with_member_findings
from ens_plugin.analysis.options import AnalysisOptions, metric_without_label
from ens_plugin.analysis.row_blocks import Progress, tally_rows
from ens_plugin.analysis.rows.hashes import hash_rows
from ens_plugin.analysis.rows.repeats import identical_rows
from ens_plugin.analysis.rows.targets import target_array
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.core.validation import FloatArray, IntArray, counted, printable, shown
from ens_plugin.errors import EnsPluginError, InputError, TooFewMembersError
from ens_plugin.records import record
from ens_plugin.report.estimates import BiasVariance, ErrorCurve
from ens_plugin.report.result import EnsembleReport

__all__ = ["analyze_outputs"]

# Times the size that the mean needs, from which on an output's need is warned of.
MANY_TIMES = 2.0
# Share of the summed mean squared error in one output, from which on it is warned of.
DOMINANT = 0.9
MOST_DROPPED = 0.5


@record
class _Output:
    """The rows of one output that take part in the mean over outputs: those that at least two members predict.

    Attributes
    ----------
    part : OutputPart
    rows : IntArray
        Their places among the rows given.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    weight : FloatArray
    groups : IntArray
        Group of each row; the row's own place without groups.
    chance : FloatArray or None
        Chance of each row to be left out of one bag.
    proof : BagProof
    metric : OutputMetric or None
        Where a metric was requested.
    """

    part: OutputPart
    rows: IntArray
    target: NDArray[Any]
    weight: FloatArray
    groups: IntArray
    chance: FloatArray | None
    proof: BagProof
    metric: OutputMetric | None


def analyze_outputs(
    ensemble: Any,
    n_outputs: int,
    X: Any,
    y: Any,
    options: AnalysisOptions,
    progress: Progress | None = None,
    choose_rows: RowChoice | None = None,
) -> EnsembleReport:
    """Return the report of the mean over outputs, with the report of each output in ``outputs``.

    An output's report is that of the same members predicting it alone.  The curve of the mean is the mean of theirs.
    Its intervals, its size and its variance over seeds are estimated from the rows of all outputs together; the outputs
    of one row count as one independent draw.

    Parameters
    ----------
    ensemble : fitted model of several outputs, wrappers removed
    n_outputs : int
    X : rows as the ensemble takes them
    y : array-like of shape (n_rows, n_outputs)
    options : AnalysisOptions
    progress : callable or None
        As for :func:`ens_plugin.analysis.analyze.run_analysis`, for the mean.
    choose_rows : callable or None
        Likewise; called for the first output, whose rows are those of all.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; the message names the output.
    """
    names, columns = _columns(ensemble, n_outputs, y)
    options = replace(options, groups=_group_codes(options, ensemble, X, columns))
    choose = None if choose_rows is None else _same_rows(choose_rows)
    reports, outputs = {}, list[_Output]()
    for output, name in enumerate(names):
        try:
            model = output_ensemble(ensemble, output)
            reports[name], found = _analyze_output(model, X, columns[output], options, choose)
            outputs.append(found)
        except EnsPluginError as error:
            raise _named(error, name) from error
    with granted_threads(options.n_jobs):
        mean = _mean_report(ensemble, outputs, options, progress)
    return _joined(mean, reports, outputs, options)


def _columns(ensemble: Any, n_outputs: int, y: Any) -> tuple[list[str], list[NDArray[Any]]]:
    """Return the names of the outputs, and the target of each, shape (n_rows,)."""
    target = target_array(y)
    if target.ndim != 2 or target.shape[1] != n_outputs:
        raise InputError(
            f"y has shape {target.shape}, and this {type(ensemble).__name__} predicts {n_outputs} outputs; pass y of "
            f"shape (n_rows, {n_outputs}), one column for each."
        )
    names = [str(output) for output in range(n_outputs)]
    if not isinstance(y, pd.DataFrame):
        return names, [target[:, output] for output in range(n_outputs)]
    own = [printable(str(name), 60) for name in y.columns]
    # Columns of a frame keep their types, which its array has in common.
    columns = [target_array(y.iloc[:, output]) for output in range(n_outputs)]
    return own if len(set(own)) == n_outputs and all(own) else names, columns


def _group_codes(options: AnalysisOptions, ensemble: Any, X: Any, columns: list[NDArray[Any]]) -> Any:
    """Return the groups of the rows; of identical rows, those with the same features and all targets in common."""
    if not (isinstance(options.groups, str) and options.groups == "identical"):
        return options.groups
    inner, rows = unwrap(output_ensemble(ensemble, 0), X, are_fresh=options.data == "holdout")
    codes = [pd.factorize(column)[0] for column in columns]
    target = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    return identical_rows(hash_rows(find_adapter(inner).prepare(rows), rows), target)


def _same_rows(choose_rows: RowChoice) -> RowChoice:
    """Return a choice of rows that is made once, for the first output."""
    chosen: list[NDArray[np.intp] | None] = []

    def choose(adapter: EnsembleAdapter, features: Any, bags: Bags) -> NDArray[np.intp] | None:
        if not chosen:
            chosen.append(choose_rows(adapter, features, bags))
        return chosen[0]

    return choose


def _analyze_output(
    model: Any, X: Any, y: NDArray[Any], options: AnalysisOptions, choose_rows: RowChoice | None
) -> tuple[EnsembleReport, _Output]:
    """Return the report of one output, and what the stack needs of it."""
    adapter, inner, settings = open_model(model, X, y, options)
    with granted_threads(options.n_jobs):
        rows = read_rows(adapter, inner, y, options, settings.metric).choose(choose_rows)
        evidence = tally_model_rows(rows, settings)
        output = _rows_for_stack(rows, settings.metric)
        rows = with_member_findings(rows, evidence.sample).without_features()
        report = report_on_rows(rows, evidence, settings, sizes_given=options.sizes is not None)
    n_used, n_rows = output.rows.size, rows.target.size
    if n_used < (1.0 - MOST_DROPPED) * np.count_nonzero(rows.weight > 0):
        raise TooFewMembersError(
            f"Only {counted(n_used, 'has', 'have', of=f'{n_rows} rows')} two out-of-bag members: too few for the mean "
            "over outputs. Train more members, or leave more rows out of each bag (smaller max_samples)."
        )
    return report, output


def _rows_for_stack(rows: ModelRows, metric: ResolvedMetric | None) -> _Output:
    """Return the rows with weight that at least two members predict."""
    usable = rows.weight > 0
    if rows.bags is not None:
        usable &= _oob_counts(rows.bags) >= 2
    used = np.flatnonzero(usable)
    places = rows.place(used)
    return _Output(
        part=OutputPart(rows.adapter, rows.features[used], None if rows.bags is None else rows.bags.take(used)),
        rows=places,
        target=rows.target[used],
        weight=rows.weight[used],
        groups=places if rows.groups is None else rows.groups[used],
        chance=None if rows.chances is None else rows.chances[used],
        proof=rows.proof,
        metric=None if metric is None else _metric_of_output(metric, rows, used),
    )


def _metric_of_output(metric: ResolvedMetric, rows: ModelRows, used: NDArray[np.intp]) -> OutputMetric:
    """Return the metric of an output, with its rows' labels in the form in which the metric takes them."""
    classes = rows.adapter.classes
    if classes is None:
        return OutputMetric(metric, rows.labels.reshape(-1)[used], 0)
    labels = classes[rows.target[used]] if metric.greater_is_better else rows.labels.reshape(-1)[used]
    return OutputMetric(metric, labels, len(classes))


def _oob_counts(bags: Bags) -> IntArray:
    in_bag = np.zeros(bags.n_rows, dtype=np.int64)
    for member in range(bags.n_members):
        in_bag += bags.member(member)
    return bags.n_members - in_bag


def _mean_report(
    ensemble: Any, outputs: Sequence[_Output], options: AnalysisOptions, progress: Progress | None
) -> EnsembleReport:
    stack = StackedOutputs(ensemble, [output.part for output in outputs])
    settings = resolve_options(stack, replace(options, metric=metric_without_label(options.metric)))
    metrics = [output.metric for output in outputs if output.metric is not None]
    if metrics:
        settings = replace(settings, metric=mean_over_outputs(metrics))
    target = np.concatenate([output.target for output in outputs])
    tallied = tally_rows(
        stack,
        stack.prepare(None),
        outputs[0].part.bags,
        target,
        np.concatenate([output.weight for output in outputs]),
        with_path=settings.estimator == "path",
        with_metric=settings.metric is not None,
        rng=np.random.default_rng(settings.random_state),
        progress=progress,
    )
    if stack.classes is not None:
        tallied = tallied.sort_samples()
    return build_report(
        stack,
        _with_groups(tallied, outputs),
        settings,
        sizes_given=options.sizes is not None,
        sampled_labels=tallied.rows_of_metric.rows[:, None],
    )


def _with_groups(tallied: TalliedRows, outputs: Sequence[_Output]) -> TalliedRows:
    """Return the tallied rows of the stack with the rows of each original row, or group, as one group."""
    chances = [output.chance for output in outputs if output.chance is not None]
    return replace(
        tallied,
        weight=replace(tallied.weight, groups=np.concatenate([output.groups for output in outputs])),
        chance=np.concatenate(chances) if len(chances) == len(outputs) else None,
        proof=BagProof(all(output.proof.rows for output in outputs), all(output.proof.target for output in outputs)),
    )


def _joined(
    mean: EnsembleReport, reports: dict[str, EnsembleReport], outputs: Sequence[_Output], options: AnalysisOptions
) -> EnsembleReport:
    """Return the report of the mean with those of the outputs, and with what casts doubt on any of them."""
    used = np.unique(np.concatenate([output.rows for output in outputs])).size
    considered = max(report.n_rows + report.rows_without_oob for report in reports.values())
    doubts = _merged([report.basis.doubts for report in reports.values()], list(reports))
    warnings = _merged([report.warnings for report in reports.values()], list(reports))
    basis = replace(
        mean.basis,
        # A label belongs to one output.
        labels=(),
        n_groups=None if options.groups is None else mean.basis.n_groups,
        doubts=tuple(dict.fromkeys((*doubts, *mean.basis.doubts))),
    )
    return replace(
        mean,
        error_curve=_mean_curve(mean.error_curve, [report.error_curve for report in reports.values()]),
        bias_variance=_mean_parts([report.bias_variance for report in reports.values()]),
        n_rows=used,
        rows_without_oob=max(considered - used, 0),
        basis=basis,
        warnings=tuple(dict.fromkeys((*_size_warnings(mean, reports), *_scale_warnings(reports), *warnings))),
        outputs=reports,
    )


def _mean_curve(stacked: ErrorCurve, curves: Sequence[ErrorCurve]) -> ErrorCurve:
    """Return the mean of the outputs' curves, with intervals as wide as those of all outputs' rows together.

    The mean of the outputs' curves has no intervals of its own, because errors of different outputs on one row are
    related.  `stacked`, the curve of all outputs' rows together, takes that into account.
    """
    if any(not np.array_equal(curve.sizes, stacked.sizes) for curve in curves):
        return stacked
    lowest, highest = _range(stacked)
    error = np.mean([curve.error for curve in curves], axis=0)
    asymptote = float(np.mean([curve.asymptote for curve in curves]))
    shift, limit_shift = error - stacked.error, asymptote - stacked.asymptote
    low, high = (float(np.clip(end + limit_shift, lowest, highest)) for end in stacked.asymptote_interval)
    shifts = [curve.even_shift for curve in curves if curve.even_shift is not None]
    return replace(
        stacked,
        error=error,
        lower=np.clip(stacked.lower + shift, lowest, highest),
        upper=np.clip(stacked.upper + shift, lowest, highest),
        asymptote=asymptote,
        asymptote_interval=(low, high),
        asymptote_raw=float(np.mean([curve.asymptote_raw for curve in curves])),
        ties_to=min(curve.ties_to for curve in curves),
        even_shift=np.mean(shifts, axis=0) if len(shifts) == len(curves) else None,
    )


def _range(curve: ErrorCurve) -> tuple[float, float]:
    if curve.metric_basis is not None:
        return curve.metric_basis.lowest, curve.metric_basis.highest
    return 0.0, 1.0 if curve.metric == "0-1 error" else np.inf


def _mean_parts(parts: Sequence[BiasVariance]) -> BiasVariance:
    """Return the mean of the outputs' errors, variances and biases."""
    names = [item.name for item in fields(BiasVariance) if item.name != "loss"]
    means = {name: float(np.mean([getattr(part, name) for part in parts])) for name in names}
    return BiasVariance(**means, loss=parts[0].loss)


def _merged(found: Sequence[tuple[str, ...]], names: Sequence[str]) -> list[str]:
    """Return the sentences of all outputs: those that all have as they are, the others with the output's name."""
    common = [text for text in found[0] if all(text in own for own in found)]
    named = [
        f"Output {name!r}: {text}" for name, own in zip(names, found, strict=True) for text in own if text not in common
    ]
    return [*common, *named]


def _size_warnings(mean: EnsembleReport, reports: dict[str, EnsembleReport]) -> list[str]:
    """Return a warning for the outputs that need far more members than the mean."""
    size = mean.recommended_size
    if size is None or not mean.recommendation.is_known:
        return []
    wanted = {
        name: report.recommended_size or report.recommendation.max_size
        for name, report in reports.items()
        if report.recommendation.is_known
    }
    many = {name: own for name, own in wanted.items() if own > MANY_TIMES * size}
    if not many:
        return []
    open_ended = {name for name, report in reports.items() if report.recommended_size is None}
    listed = ", ".join(
        f"{name!r} {'more than' if name in open_ended else 'about'} {own}" for name, own in list(many.items())[:5]
    )
    return [
        f"The recommended size of {counted(size, 'member')} is that of the mean over outputs, and "
        f"{counted(len(many), 'needs', 'need', of=f'{len(reports)} outputs')} more than twice "
        f"as many: {listed}. Their reports are in `outputs`."
    ]


def _scale_warnings(reports: dict[str, EnsembleReport]) -> list[str]:
    """Return a warning where one output has nearly all of the summed mean squared error."""
    errors = {name: report.error for name, report in reports.items()}
    total = sum(errors.values())
    if next(iter(reports.values())).task != "regression" or not total > 0:
        return []
    name = max(errors, key=lambda own: errors[own])
    if not errors[name] > DOMINANT * total:
        return []
    return [
        f"Output {name!r} has {100 * errors[name] / total:.3g} % of the mean squared error of all outputs, so the mean "
        "over outputs, as scikit-learn's uniform_average, is about this output alone. Train on targets of one "
        "scale, or read the reports in `outputs`."
    ]


def _named(error: EnsPluginError, name: str) -> EnsPluginError:
    """Return an error of the same kind, whose message begins with the name of the output."""
    text = f"Output {shown(name, 62)}: {error.template}"
    return TooFewMembersError(text, error.finding) if isinstance(error, TooFewMembersError) else type(error)(text)
