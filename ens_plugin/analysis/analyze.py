"""The analysis of an ensemble: from a model, X and y to one report, for each output and for several."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import installed_version, model_errors, several_outputs
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import (
    has_own_bags,
    inner_ensemble,
    output_count,
    output_ensemble,
    unwrap,
)
from ens_plugin.analysis.arguments import (
    granted_threads,
    metric_of_label,
    refuse_own_loss,
    resolve_options,
    target_array,
)
from ens_plugin.analysis.checks import (
    alike_findings,
    unequal_bag_doubts,
)
from ens_plugin.analysis.copies import RowLikeness, hash_rows, identical_rows
from ens_plugin.analysis.curves import estimate_regression, largest_shared_size
from ens_plugin.analysis.estimates import Estimates, ResolvedOptions, are_votes
from ens_plugin.analysis.evidence import (
    Evidence,
    Progress,
    TimeLimit,
    progress_bar,
    tally_in_time,
    tally_rows,
)
from ens_plugin.analysis.labels import estimate_labels, label_errors
from ens_plugin.analysis.options import CRITERIA, AnalysisOptions, Metric
from ens_plugin.analysis.proof import proof_positions, prove_model
from ens_plugin.analysis.rows import Rows, compare_with_stored, own_prediction_doubts, read_rows
from ens_plugin.analysis.sizes import (
    rare_label_notes,
    recommended_size,
    with_sizes,
)
from ens_plugin.analysis.steps import cross_fitting_explained, step_findings
from ens_plugin.analysis.weights import (
    RowShares,
    group_chances,
    group_doubts,
    missing_weight,
    refuse_groups_in_bags,
    refuse_unweighable,
    row_shares,
    with_groups,
    with_reach,
)
from ens_plugin.core.alike_rows import are_few
from ens_plugin.core.bags import BagProof
from ens_plugin.core.comparison import OUT_OF_BAG_FACTOR, row_losses, squared_losses_at
from ens_plugin.core.judged_rows import JudgedRows
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import LabelTally, ValueTally
from ens_plugin.core.validation import FloatArray, IntArray, as_array, counted, printable, shown
from ens_plugin.errors import EnsPluginError, InputError, TooFewMembersError, UnsupportedModelError, ends_at_caller
from ens_plugin.findings import Finding, coded, distinct, finding
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import (
    FEWEST_ROWS,
    SQUARED,
    ZERO_ONE,
    ErrorCurve,
    EstimateBasis,
    Later,
    changed,
    with_findings,
    worst_output,
)

if TYPE_CHECKING:
    from ens_plugin.analysis.judged import JudgedMetric
    from ens_plugin.analysis.unlabelled import Agreement
    from ens_plugin.core.weights import RowWeight


UNPROVED_TARGET = finding(
    "unproved-target",
    "y is not proved: the model keeps too little of its target. It was fitted with weights, constraints or penalties "
    "that are not known here, or it is not known into which leaves rows with missing values fell in training. If y is "
    "not exactly the training target, in training order, or the values in the leaves were replaced since, every error "
    "in this report is wrong.",
)
UNCHECKED_ROWS = finding(
    "unproved-rows",
    "Nothing in this model shows whether these rows are its training rows in training order. If they are not, the "
    "error is far too low. Where the model takes oob_score=True, fit with it to have this checked. An adapter of your "
    "own states with Bags.with_proof what it compared.",
)


@dataclass(frozen=True, eq=False)
class KnownRows:
    """What is known of the rows of a report besides their tallies.

    Attributes
    ----------
    sampled_labels : ndarray, shape (n_sampled,) or (n_sampled, 1)
        y of the rows that a metric is computed on, as the user gave it.
    has_own_labels : bool
        Whether all rows have the same labels, which have errors of their own.
    sample_groups : ndarray of int, shape (n_sampled,), or None
    likeness, target
        None where rows were not compared; `target` are label codes or values.
    findings : tuple of Finding
        Those of the checks that need no estimates.
    """

    sampled_labels: NDArray[Any]
    has_own_labels: bool = False
    sample_groups: NDArray[np.integer] | None = None
    likeness: RowLikeness | None = None
    target: NDArray[Any] | None = None
    findings: tuple[Finding, ...] = ()


def build_report(
    adapter: EnsembleAdapter, tallied: Evidence, settings: ResolvedOptions, known: KnownRows
) -> EnsembleReport:
    """Return the report of an analysis, in this order."""
    # The rows that can be used, weighted to represent all; the estimates from them; the errors by label; and all
    # findings.
    usable = _usable_rows(tallied, adapter.n_members)
    shares = row_shares(adapter, tallied, usable, _members_needed(tallied))
    evidence = _evidence(tallied, shares, usable, settings)
    if known.likeness is not None:
        evidence = replace(evidence, cell=known.likeness.cell)
    estimates = _estimates(adapter, evidence, usable, settings, known.sampled_labels, shares)
    recommendation = recommended_size(estimates, adapter, settings)
    weight, used = evidence.weight, evidence.weight.select(usable)
    dropped = round(weight.row_sum((~usable & (weight.total > 0)).astype(np.float64)))
    missing = missing_weight(tallied, adapter.n_members, _members_needed(tallied))
    findings = (
        *known.findings,
        *coded(adapter.doubts(), "of-adapter"),
        *shares.findings,
        *group_doubts(weight, usable, missing),
        *coded(adapter.cautions(settings.data), "note-of-adapter"),
        *(proof_notes(evidence.proof) if settings.data == "oob" else ()),
        *_row_notes(used, dropped, estimates.error_curve, adapter.n_members),
        *estimates.findings,
        *_below_zero_notes(estimates.error_curve),
        *rare_label_notes(recommendation, estimates, shares.labels),
    )
    has_members = np.asarray((tallied.tally.trials >= 1) & (tallied.weight.total > 0))
    report = EnsembleReport(
        task=adapter.info.task,
        model=type(adapter.model).__name__,
        n_members=adapter.n_members,
        n_rows=used.n_rows,
        rows_without_oob=dropped,
        mean_oob_members=used.row_sum(_members_of(evidence, usable)) / used.n_rows,
        aggregation=adapter.info.aggregation,
        bags=_provenance(adapter, evidence.proof) if settings.data == "oob" else "holdout",
        data="oob" if settings.data == "oob" else "holdout",
        error_curve=estimates.error_curve,
        recommendation=recommendation,
        bias_variance=estimates.bias_variance,
        algorithmic_sd=math.nan,
        created=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        versions=_versions(adapter),
        basis=EstimateBasis(
            labels=shares.labels,
            usable_weight=float(tallied.weight.select(usable).total.sum() / tallied.weight.total.sum()),
            n_effective=used.n_effective,
            n_distinct=None if known.likeness is None else known.likeness.count_distinct(has_members),
            n_repeated=_count_repeated(known, evidence, usable),
            baseline_error=estimates.baseline_error,
            n_groups=None if used.groups is None else int(np.unique(used.groups).size),
            findings=findings,
        ),
    )
    by_label = partial(label_errors, estimates, recommendation.size, adapter, tallied.sample, known.sample_groups)
    return changed(
        report,
        algorithmic_sd=Later(estimates.algorithmic_sd),
        criteria=Later(partial(estimates.sizes_by, CRITERIA)),
        label_errors=Later(by_label) if known.has_own_labels else (),
        judged_rows=Later(partial(_judged_rows, report, tallied, estimates, known)),
    )


def _judged_rows(
    report: EnsembleReport, tallied: Evidence, estimates: Estimates, known: KnownRows
) -> JudgedRows | None:
    """Return the loss of each row; None for rows with weights or groups, and for a loss of the ensemble's own."""
    losses: NDArray[np.floating[Any]]
    tally, total = tallied.tally, tallied.weight.total
    is_plain = tallied.weight.rows is None and tallied.weight.groups is None and (total == total[0]).all()
    is_common = report.error_curve.metric in (ZERO_ONE, SQUARED) and math.isfinite(estimates.seed_variance)
    if known.target is None or not (is_plain and is_common):
        return None
    is_held_out, factor = report.data == "holdout", 1.0
    if isinstance(tally, ValueTally):
        factor = 1.0 if is_held_out else OUT_OF_BAG_FACTOR
        losses = row_losses(tally) if is_held_out else squared_losses_at(tally, report.n_members)
    else:
        assert isinstance(tally, LabelTally)
        # A tie of few out-of-bag members need not be a tie of the whole ensemble; half an error varies less.
        errors = np.where(tally.trials > 0, tally.is_wrong, np.nan) if is_held_out else row_losses(tally)
        # Every report keeps them, and 0, a half and 1 need no more than two bytes.
        losses = errors.astype(np.float16)
    shift = 0.0 if is_held_out else report.error - float(np.nanmean(losses, dtype=np.float64))
    digest = hashlib.blake2b(np.ascontiguousarray(known.target).tobytes(), digest_size=16).hexdigest()
    return JudgedRows(losses, estimates.seed_variance, shift, factor, f"{report.data} {digest}")


def _evidence(tallied: Evidence, shares: RowShares, usable: NDArray[np.bool_], settings: ResolvedOptions) -> Evidence:
    """Return the tallied rows with the weights by which usable rows represent all, and the groups' own weights."""
    metric = settings.metric
    unweighted = None if metric is None or metric.takes_weights else metric.name
    refuse_unweighable(shares, unweighted_metric=unweighted)
    evidence = shares.evidence
    if evidence.weight.groups is None:
        return evidence
    assert isinstance(evidence.tally, LabelTally | ValueTally)
    weight = with_groups(evidence.weight, evidence.tally, usable, settings.interval_level)
    return replace(evidence, weight=weight)


def _estimates(
    adapter: EnsembleAdapter,
    evidence: Evidence,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
    sampled_labels: NDArray[Any],
    shares: RowShares,
) -> Estimates:
    shared = None if shares.is_even else _shared_size(evidence, usable)
    if adapter.loss_name is not None:
        return _own_loss_estimates(adapter, evidence, sampled_labels, settings, shared)
    return _common_estimates(adapter, evidence, usable, settings, sampled_labels, shared)


def _own_loss_estimates(
    adapter: EnsembleAdapter,
    evidence: Evidence,
    sampled_labels: NDArray[Any],
    settings: ResolvedOptions,
    shared: int | None,
) -> Estimates:
    """Return the estimates of an ensemble that is judged by a loss of its own, or the metric in its place."""
    from ens_plugin.analysis.metric_curves import estimate_own_loss

    rows = evidence.rows_of_metric
    groups = None if evidence.weight.groups is None else evidence.weight.groups[rows.rows]
    return estimate_own_loss(adapter, rows, sampled_labels, settings, limit=shared, groups=groups)


def _common_estimates(
    adapter: EnsembleAdapter,
    evidence: Evidence,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
    sampled_labels: NDArray[Any],
    shared: int | None,
) -> Estimates:
    """Return the estimates by the 0-1 or squared error, with the curve of the metric if one was requested."""
    estimates = _estimate(adapter, evidence, usable, settings)
    if settings.metric is not None:
        from ens_plugin.analysis.metric_curves import with_metric_curve

        metric_rows = evidence.rows_of_metric
        own_groups = None if evidence.weight.groups is None else evidence.weight.groups[metric_rows.rows]
        estimates = with_metric_curve(
            estimates, settings.metric, adapter, metric_rows, sampled_labels, settings, limit=shared, groups=own_groups,
        )  # fmt: skip
    return with_sizes(estimates, adapter, evidence.sample, _sampled_groups(evidence), settings)


def _sampled_groups(evidence: Evidence) -> NDArray[np.integer] | None:
    """Return the cells of the sampled rows where they are few and more than one, else the rows' groups."""
    cell, groups = evidence.sampled_cell, evidence.weight.groups
    if cell is not None and are_few(cell) and np.any(cell != cell[0]):
        return cell
    return None if groups is None else groups[evidence.sample.rows]


def _count_repeated(known: KnownRows, evidence: Evidence, usable: NDArray[np.bool_]) -> int:
    repeats = None if known.likeness is None else known.likeness.repeats
    if repeats is None:
        return 0
    return int(np.count_nonzero(repeats.repeated & usable & (evidence.weight.total > 0)))


def _usable_rows(evidence: Evidence, n_members: int) -> NDArray[np.bool_]:
    """Return which rows have enough out-of-bag members: one for hard votes, else two, which a variance needs."""
    tally, weight = evidence.tally, evidence.weight
    refuse_groups_in_bags(weight, tally.trials >= 2, missing_weight(evidence, n_members, 2))
    few = round(weight.row_sum((tally.trials < 2).astype(np.float64)))
    if few > weight.n_rows / 2 and weight.groups is None:
        _refuse_one_bag(tally.trials, weight, n_members)
        mean = weight.row_sum(tally.trials) / weight.n_rows
        found = counted(few, "has", "have", of=f"{weight.n_rows} rows")
        reason = f"{found} fewer than 2 out-of-bag members (mean {mean:.2f})"
        raise TooFewMembersError(
            f"{reason}: too few to separate one member's error from the ensemble's. Train more members, leave more "
            "rows out of each bag (smaller max_samples), or pass held-out rows with data='holdout'.",
            reason,
        )
    usable = (tally.trials >= _members_needed(evidence)) & (weight.total > 0)
    if not usable.any():
        raise InputError("sample_weight is 0 for every row that has out-of-bag members; give some of them weight.")
    return np.asarray(usable)


def _members_needed(evidence: Evidence) -> int:
    return 1 if evidence.label is not None and are_votes(evidence.sample.block) else 2


def _refuse_one_bag(trials: NDArray[np.float64], weight: RowWeight, n_members: int) -> None:
    n_shared = round(weight.row_sum((trials == 0).astype(np.float64)))
    if n_members < 2 or n_shared == weight.n_rows or not np.isin(trials, (0, n_members)).all():
        return
    raise TooFewMembersError(
        f"All {n_members} members were trained on the same {n_shared} of {weight.n_rows} rows, so the others are out "
        "of bag for all of them. Pass those alone with data='holdout' (ens_plugin.in_bag returns which they are), or "
        "train so that every member draws rows of its own: with tree_method='hist' for XGBoost, whose 'approx' draws "
        "once for all parallel trees, or with bagging_freq=1 for LightGBM."
    )


def _shared_size(evidence: Evidence, usable: NDArray[np.bool_]) -> int:
    return largest_shared_size(evidence.tally.trials[usable], evidence.sample.keep(usable).rows)


def _estimate(
    adapter: EnsembleAdapter,
    evidence: Evidence,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
) -> Estimates:
    rows = evidence.part(usable)
    if adapter.info.task == "regression":
        return estimate_regression(rows, adapter.n_members, settings)
    return estimate_labels(rows, adapter.n_members, settings, has_scores=adapter.output_kind == "scores")


def _members_of(evidence: Evidence, usable: NDArray[np.bool_]) -> FloatArray:
    trials = evidence.tally.trials
    return trials if usable.all() else trials[usable]


def _versions(adapter: EnsembleAdapter) -> dict[str, str]:
    """Return the versions of the distributions that computed a report."""
    names = ("ens-plugin", "numpy", "scipy", *adapter.info.distributions)
    return {name: installed_version(name) for name in names}


def _provenance(adapter: EnsembleAdapter, proof: BagProof) -> str:
    provenance = adapter.info.bag_provenance
    return "recorded" if provenance == "proved" and not proof.target else provenance


def proof_notes(proof: BagProof) -> tuple[Finding, ...]:
    """Return a note on what the model does not prove of training rows."""
    if proof.rows and proof.target:
        return ()
    return (UNPROVED_TARGET,) if proof.rows else (UNCHECKED_ROWS,)


def _row_notes(used: RowWeight, dropped: int, curve: ErrorCurve, n_members: int) -> tuple[Finding, ...]:
    """Return notes on few rows, and on rows left out that may move the error."""
    notes: list[Finding] = []
    n_effective, n_rows = used.n_effective, used.n_rows
    if n_effective < FEWEST_ROWS:
        sentence = f"Only {counted(f'{n_effective:.3g}', 'row')}: every estimate is imprecise. Pass more rows."
        notes.append(finding("few-rows", sentence, n_effective=n_effective))
    if _may_move_error(dropped / (n_rows + dropped), curve, n_members):
        sentence = (
            f"{counted(dropped, 'row was', 'rows were')} left out, because of too few out-of-bag members: so many that "
            "the error may be outside the interval if they are not like the others."
        )
        notes.append(finding("dropped-rows", sentence, n_dropped=dropped))
    return tuple(notes)


def _below_zero_notes(curve: ErrorCurve) -> tuple[Finding, ...]:
    raw = curve.asymptote_raw
    if curve.metric_basis is not None or not -raw > curve.asymptote_interval[1]:
        return ()
    sentence = f"The error of the infinite ensemble was estimated at {raw:.4g} and is reported as 0."
    return (finding("error-below-zero", sentence, estimate=raw),)


def _may_move_error(share: float, curve: ErrorCurve, n_members: int) -> bool:
    """Return whether a share of the rows, with the largest loss or twice the others', would move the error too far."""
    # That is beyond its interval. Where there is none, any row might.
    if share == 0 or not curve.reaches(n_members):
        return share > 0
    error, (low, high) = curve.at(n_members), curve.interval_at(n_members)
    basis = curve.metric_basis
    smallest, largest = (0.0, 1.0) if basis is None else (basis.lowest, basis.highest)
    has_range = curve.metric != SQUARED and math.isfinite(largest - smallest)
    change = share * (max(largest - error, error - smallest) if has_range else abs(error))
    return not change <= max(high - error, error - low)


def open_model(
    model: Any, X: Any, y: ArrayLike, options: AnalysisOptions, limit: TimeLimit | None = None
) -> tuple[EnsembleAdapter, Any, ResolvedOptions]:
    """Return the adapter of a model, X as it reaches the ensemble, and the checked options."""
    data = options.data
    ensemble, inner = unwrap(model, X, are_fresh=isinstance(data, str) and data == "holdout")
    adapter = find_adapter(ensemble)
    settings = resolve_options(adapter, options, y)
    if limit is not None and settings.metric is not None:
        settings = replace(settings, metric=settings.metric.after(limit.check))
    return adapter, inner, settings


def tally_model_rows(
    rows: Rows, settings: ResolvedOptions, progress: Progress | None = None, limit: TimeLimit | None = None
) -> tuple[Rows, Evidence]:
    """Return the rows that there is time for, and their tallies, with their groups, chances and proof, by row."""
    adapter, bags, of_rows = rows.adapter, rows.bags, (rows.target, rows.weight)
    with_metric, rng = settings.metric is not None, np.random.default_rng(settings.random_state)
    if limit is None or bags is None:
        evidence = tally_rows(
            adapter, rows.features, bags, *of_rows, with_metric=with_metric, rng=rng, progress=progress
        )
    else:
        places, evidence = tally_in_time(
            adapter, rows.features, bags, *of_rows, with_metric=with_metric, rng=rng, limit=limit
        )
        rows = rows.take(places)
    if rows.adapter.classes is not None:
        evidence = evidence.sort_samples()
    if limit is not None and with_metric:
        evidence = evidence.with_few_rows_of_metric()
    # Held-out rows are in no bag, however many members an adapter has predict them.
    chance = np.broadcast_to(np.float64(1.0), rows.target.size) if rows.bags is None else rows.chances
    if rows.groups is not None and rows.bags is not None:
        chance = group_chances(rows.groups, evidence.tally.trials, rows.adapter.n_members)
    weight = replace(evidence.weight, groups=rows.groups)
    return rows, replace(evidence, weight=weight, chance=chance, proof=rows.proof)


def with_member_findings(rows: Rows, sample: Sample) -> Rows:
    """Return training rows with doubts where bags are unequal, and where rows belong together."""
    if rows.bags is None:
        return rows
    rows = replace(rows, findings=(*rows.findings, *unequal_bag_doubts(rows.adapter, sample)))
    alike = rows.alike()
    if alike is None:
        return rows
    assert rows.bags is not None
    findings = (*rows.findings, *alike_findings(rows.adapter, sample, alike))
    return replace(rows, findings=with_reach(findings, rows.bags))


def report_on_rows(rows: Rows, evidence: Evidence, settings: ResolvedOptions) -> EnsembleReport:
    """Return the report from the tallies of rows, whose features and bags take no part in it."""
    adapter, sampled = rows.adapter, evidence.sample.rows
    if settings.data == "oob" and rows.groups is None:
        compare_with_stored(adapter, evidence.sample, rows.place(sampled))
    own: tuple[Finding, ...] = ()
    if settings.data == "holdout":
        own = own_prediction_doubts(adapter, evidence.sample, evidence.tally, evidence.weight.total)
    known = KnownRows(
        sampled_labels=rows.labels.reshape(-1)[evidence.rows_of_metric.rows],
        has_own_labels=True,
        sample_groups=None if rows.groups is None else rows.groups[sampled],
        likeness=rows.likeness,
        target=rows.target,
        findings=(*own, *rows.findings),
    )
    return build_report(adapter, evidence, settings, known)


@ends_at_caller
def analyze(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    data: Literal["oob", "holdout"] = AnalysisOptions.data,
    unlabelled: Any = AnalysisOptions.unlabelled,
    sample_weight: ArrayLike | None = AnalysisOptions.sample_weight,
    groups: ArrayLike | None = AnalysisOptions.groups,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = AnalysisOptions.n_jobs,
) -> EnsembleReport:
    """Return a report on how a trained ensemble's error depends on its size, with a recommended size.

    Nothing is trained.  On the training rows, each row is judged only by its out-of-bag
    members: those that were not trained on it.

    Parameters
    ----------
    model : fitted ensemble
        A scikit-learn forest or bagging ensemble, a LightGBM forest in ``rf`` mode or an XGBoost booster of
        parallel trees, also inside a Pipeline or a search, or a :class:`ens_plugin.CustomEnsemble`, or
        anything a registered adapter accepts.
    X : array-like of shape (n_rows, n_features)
        With ``data="oob"``, exactly the training rows in training order; with ``data="holdout"``,
        rows that no member was trained on.  None for a CustomEnsemble made from arrays of outputs.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        True labels or values of these rows.  For a model of several outputs, a column for each: the report is of
        the worst output, and ``report.outputs`` has one for each, by the names of the columns of a DataFrame.
    data : {"oob", "holdout"}, default="oob"
        What `X` and `y` are: ``"oob"``, the training rows, each judged by the members that were not trained on it;
        ``"holdout"``, rows that no member was trained on, each judged by all members.
    unlabelled : array-like of shape (n_other_rows, n_features), optional
        Other rows that no member was trained on, without labels.  The agreement of labels, and the size by it, are then
        those on these rows, as :func:`ens_plugin.agreement` has them: they need no labels, and all members predict each
        row.  Errors, and sizes by them, stay those of `X` and `y`.  Only for labels, of one output.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in the evaluation; rows count by weight in every interval.  Weights
        with which rows were drawn into bags are read from the model.
    groups : array-like of shape (n_rows,), or "identical", optional
        Rows that belong together: repeated measurements of one patient, copies of one row.  A row then counts as
        in bag if any row of its group was drawn, the estimates hold for rows of new groups, and intervals treat
        each group as one independent draw.  ``"identical"`` puts rows with the same features and target into one
        group.  None treats rows as independent; an error or a doubt reports many rows that are copies or nearly so.
    metric : str, scorer or callable, optional
        The name of a scorer of scikit-learn (``"roc_auc"``, ``"average_precision"``, ``"neg_log_loss"``), or a scorer
        made by ``sklearn.metrics.make_scorer``: the curve has its values, with its own sign, greater is better.  Or a
        function ``metric(y, mean_output) -> float``, lower is better: y has the labels as they are given here, and
        column j of the mean output (probabilities of shape (n_rows, n_labels), or values) belongs to the j-th label
        of the model's ``classes_``.  Weights are passed as ``sample_weight`` where the function has that parameter.
        None means 0-1 error or mean squared error.
    positive_label : label, optional
        The label of two that a scorer is about, such as ``"f1"`` or ``"average_precision"``.  By default 1, as of
        scikit-learn, or the rarer label where neither is 1, which the report states.
    criterion : {"auto", "agreement", "error", "probability", "metric"}, default="auto"
        In which respect the recommended size has to be enough.  ``"error"``: the error, 0-1 or squared, is within
        `tolerance` of that of infinitely many members.  ``"probability"``: so is the mean Brier score of the
        probabilities, which keeps rankings and rare labels.  ``"agreement"``: so many labels are those of the infinite
        ensemble (2013).  ``"metric"``: `metric` is, at this size and all larger ones.  ``"auto"``: ``"metric"`` if
        `metric` is given; else error and probabilities both, and of values the error.  The size in each respect is in
        ``report.criteria``.
    tolerance : float, optional
        What an ensemble may lose against infinitely many members.  An error, and a Brier score: as a share of that of
        infinitely many.  An agreement: the share of labels that may differ, 0.01 by default.  A metric: the difference
        itself for scores with a largest value, such as ``"roc_auc"``, by default 1 % of what the infinite ensemble has
        above chance; else relative to the value of the infinite ensemble, 0.01 by default.  By default an accuracy may
        lose the largest of 2 % of the error, 0.2 percentage points and 0.3 of its standard errors; a Brier score the
        larger of 1 %, and 0.2 % of that of always predicting the base rates; a mean squared error 1 %.
    max_size : int, default=20001
        Largest size to consider.
    interval_level : float, default=0.95
        Level of all intervals.
    random_state : int or None, default=0
        Seed of the subsets and draws behind intervals.  Same input, same seed: same report.
    n_jobs : int or None, default=None
        Number of threads, in joblib's convention.  The result does not depend on it.

    Returns
    -------
    EnsembleReport

    Raises
    ------
    EnsPluginError
        One of its subclasses in :mod:`ens_plugin.errors`: the model is not fitted or not supported, was
        trained without bootstrap, the rows are not the training rows, labels are unknown or missing,
        members or rows are too few, rows are copies of each other or were resampled by an earlier step of a
        pipeline, nearly every bag holds rows of too many groups, an option is out of range.  Of several outputs, the
        message names the one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(400, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> report.recommended_size < 400
    True
    """
    options = AnalysisOptions(
        data=data,
        unlabelled=unlabelled,
        sample_weight=sample_weight,
        groups=groups,
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        tolerance=tolerance,
        max_size=max_size,
        interval_level=interval_level,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    return run_analysis(model, X, y, options, progress=partial(progress_bar, what="rows"))


def run_analysis(
    model: Any,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    *,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
) -> EnsembleReport:
    """Return the report of :func:`analyze`; ``progress(blocks, total)`` wraps the iterable of blocks to show progress.

    With a `limit`, the report is on the training rows that members have predicted before the time is over.
    """
    with model_errors(model), cross_fitting_explained(model, X, y):
        if (n_outputs := output_count(inner_ensemble(model), default=_column_count(y))) < 2:
            return _analyzed(model, X, y, options, progress, limit)[0]
        if options.unlabelled is not None:
            _refuse_outputs(model, "The agreement on rows without labels")
        ensemble, rows = unwrap(model, X, are_fresh=isinstance(options.data, str) and options.data == "holdout")
        report, positions = analyze_outputs(ensemble, n_outputs, rows, y, options, progress, limit)
        return _with_step_findings(changed(report, proof=prove_model(model, X, positions)), model, X, y)


def _with_step_findings(report: EnsembleReport, model: Any, X: Any, y: Any) -> EnsembleReport:
    """Return a report of training rows with what is found about the steps before the ensemble; others as they are."""
    return with_findings(report, step_findings(model, X, y)) if report.data == "oob" else report


def _column_count(y: Any) -> int:
    target = as_array(y, "y")
    return target.shape[1] if target.ndim == 2 else 1


def analyze_rows(
    model: Any, X: Any, y: ArrayLike, *, data: Literal["oob", "holdout"], metric: Metric | None = None
) -> tuple[EnsembleReport, JudgedRows | JudgedMetric]:
    """Return the report of :func:`analyze`, and the loss of each row or, with a metric, the rows it is computed on."""
    with model_errors(model), cross_fitting_explained(model, X, y):
        _refuse_outputs(model, "The comparison of models row by row")
        report, rows = _analyzed(model, X, y, AnalysisOptions(data=data, metric=metric), judges=True)
    assert rows is not None
    return report, rows


def _analyzed(
    model: Any,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
    judges: bool = False,
) -> tuple[EnsembleReport, JudgedRows | JudgedMetric | None]:
    opened = open_model(model, X, y, options, limit)
    adapter, _, settings = opened
    if judges:
        refuse_own_loss(adapter, "The comparison of models row by row")
    with granted_threads(options.n_jobs):
        # First, because it refuses rows for less than the time of an analysis.
        of_others = None if options.unlabelled is None else _agreement_beside(model, options, X)
        report, rows, evidence = _reported(model, X, y, opened, options, progress, limit)
        report = changed(report, proof=prove_model(model, X, rows.place(proof_positions(evidence.sample)), adapter))
        if of_others is not None:
            from ens_plugin.analysis.unlabelled import with_agreement

            report = with_agreement(report, of_others)
        if not judges:
            return report, None
        if settings.metric is None:
            return report, report.judged_rows
        from ens_plugin.analysis.judged import judge_metric

        return report, judge_metric(adapter, evidence, rows.labels.reshape(-1), settings.metric, report.error)


def _reported(
    model: Any,
    X: Any,
    y: ArrayLike,
    opened: tuple[EnsembleAdapter, Any, ResolvedOptions],
    options: AnalysisOptions,
    progress: Progress | None,
    limit: TimeLimit | None,
) -> tuple[EnsembleReport, Rows, Evidence]:
    """Return the report of an opened model, its rows without features and bags, and what the report is from."""
    adapter, inner, settings = opened
    rows = read_rows(adapter, inner, y, options, settings.metric)
    rows, evidence = tally_model_rows(rows, settings, progress, limit)
    rows = with_member_findings(rows, evidence.sample).without_features()
    return _with_step_findings(report_on_rows(rows, evidence, settings), model, X, y), rows, evidence


def _agreement_beside(model: Any, options: AnalysisOptions, X: Any) -> Agreement:
    from ens_plugin.analysis.unlabelled import agreement_beside

    return agreement_beside(model, options, X if options.data == "oob" else None)


@ends_at_caller
def in_bag(model: Any, X: Any, y: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Return which training rows each member of an ensemble was trained on.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`analyze`.
    X : array-like of shape (n_rows, n_features)
        The training rows, in training order.
    y : array-like of shape (n_rows,), optional
        The training target, for a sharper check that these are the training rows.

    Returns
    -------
    ndarray of bool, shape (n_members, n_rows)
        For XGBoost, one row per tree in the booster's order, whatever the rounds and classes.

    Raises
    ------
    BagError
        If the bags cannot be recovered, or there are none (no bootstrap).
    DataMismatchError
        If these are not the training rows in training order, as far as this can be checked.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> ens_plugin.in_bag(forest, X).shape
    (10, 150)
    """
    labels = None if y is None else target_array(y)
    with model_errors(model), cross_fitting_explained(model, X, y):
        ensemble, rows = unwrap(model, X)
        if output_count(ensemble) > 1 and not has_own_bags(ensemble):
            ensemble = output_ensemble(ensemble, 0)
            labels = labels[:, 0] if labels is not None and labels.ndim == 2 else labels
        adapter = find_adapter(ensemble)
        features = adapter.prepare(rows)
        return adapter.bags(rows, features, labels).in_bag()


def _refuse_outputs(model: Any, what: str) -> None:
    ensemble = inner_ensemble(model)
    if (n_outputs := output_count(ensemble)) > 1:
        raise UnsupportedModelError(several_outputs(type(ensemble).__name__, n_outputs, what))


# Times the size that the worst output needs, from which on another output's need is warned of.
MANY_TIMES = 2.0


def analyze_outputs(
    ensemble: Any,
    n_outputs: int,
    X: Any,
    y: Any,
    options: AnalysisOptions,
    progress: Progress | None = None,
    limit: TimeLimit | None = None,
) -> tuple[EnsembleReport, IntArray]:
    """Return the report of the worst output, with that of each in ``outputs``, and the rows that prove the model."""
    # An output's report is that of the same members predicting it alone.
    names, columns = _columns(ensemble, n_outputs, y)
    options = replace(options, groups=_group_codes(options, ensemble, X, columns))
    reports, positions = dict[str, EnsembleReport](), dict[str, IntArray]()
    for output, name in enumerate(names):
        try:
            model = output_ensemble(ensemble, output)
            opened = open_model(model, X, columns[output], options, limit)
            with granted_threads(options.n_jobs):
                reports[name], read, evidence = _reported(model, X, columns[output], opened, options, progress, limit)
            positions[name] = read.place(proof_positions(evidence.sample))
        except EnsPluginError as error:
            raise _named(error, name) from error
    worst = worst_output(reports)
    findings = (*_size_notes(worst, reports), *_merged([report.findings for report in reports.values()], names))
    basis = replace(reports[worst].basis, findings=distinct(findings))
    report = changed(reports[worst], model=type(ensemble).__name__, basis=basis, outputs=reports)
    return report, positions[worst]


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


def _merged(found: Sequence[tuple[Finding, ...]], names: Sequence[str]) -> list[Finding]:
    """Return the findings on all outputs: those that all have as they are, the others with the output's name."""
    in_all = set.intersection(*({each.sentence for each in own} for own in found))
    common = [each for each in found[0] if each.sentence in in_all]
    named = [
        each.with_sentence(f"Output {name!r}: {each}")
        for name, own in zip(names, found, strict=True)
        for each in own
        if each.sentence not in in_all
    ]
    return [*common, *named]


def _size_notes(worst: str, reports: dict[str, EnsembleReport]) -> list[Finding]:
    """Return a note on the outputs that need far more members than the worst one."""
    size = reports[worst].recommended_size
    if size is None:
        return []
    wanted = {name: report.recommended_size or report.recommendation.max_size for name, report in reports.items()}
    many = {name: own for name, own in wanted.items() if own > MANY_TIMES * size}
    if not many:
        return []
    open_ended = {name for name, report in reports.items() if report.recommended_size is None}
    listed = ", ".join(
        f"{name!r} {'more than' if name in open_ended else 'about'} {own}" for name, own in list(many.items())[:5]
    )
    sentence = (
        f"The recommended size of {counted(size, 'member')} is that of the output {worst!r}, and "
        f"{counted(len(many), 'needs', 'need', of=f'{len(reports)} outputs')} more than twice "
        f"as many: {listed}. Their reports are in `outputs`."
    )
    return [finding("demanding-outputs", sentence, n_outputs=len(many))]


def _named(error: EnsPluginError, name: str) -> EnsPluginError:
    """Return an error of the same kind, whose message begins with the name of the output."""
    text = f"Output {shown(name, 62)}: {error}"
    return TooFewMembersError(text, error.finding) if isinstance(error, TooFewMembersError) else type(error)(text)
