"""The last step of an analysis: a report with estimates and warnings, from the members' tallied outputs."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.capabilities import JudgedByLoss
from ens_plugin.adapters.shared.distributions import installed_version
from ens_plugin.analysis import curves, metric_curves
from ens_plugin.analysis.arguments import clip_sizes_to_oob
from ens_plugin.analysis.criteria import rare_label_caution, with_criteria
from ens_plugin.analysis.curves.classification import estimate_classification
from ens_plugin.analysis.curves.label_models import counts_hard_votes
from ens_plugin.analysis.row_blocks import label_count
from ens_plugin.analysis.rows.groups import group_doubts, missing_weight, refuse_groups_in_bags, with_groups
from ens_plugin.analysis.rows.repeats import RepeatedRows, appended_doubt, copies_findings
from ens_plugin.analysis.rows.shares import RowShares, refuse_unweighable, row_shares
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core import uncertainty
from ens_plugin.core.tallies.tally import AnyTally, select_rows
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.report.estimates import ErrorCurve, EstimateBasis
from ens_plugin.report.result import FEWEST_ROWS, EnsembleReport

if TYPE_CHECKING:
    from ens_plugin.adapters.base import EnsembleAdapter
    from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
    from ens_plugin.analysis.metric_curves.label_metric import TwoErrors
    from ens_plugin.core.tallies.bags import BagProof
    from ens_plugin.core.tallies.row_weight import RowWeight
    from ens_plugin.core.uncertainty.error_draws import ErrorDraws

__all__ = ["UNCHECKED_ROWS", "build_report"]

# Fewer rows of a label do not determine the distribution of its errors.
UNPROVED_TARGET = (
    "y is not proved: the model keeps too little of its target. It was fitted with weights, constraints or penalties "
    "that are not known here, or it is not known into which leaves rows with missing values fell in training. If y is "
    "not exactly the training target, in training order, or the values in the leaves were replaced since, every error "
    "in this report is wrong."
)
UNCHECKED_ROWS = (
    "Nothing in this model shows whether these rows are its training rows in training order. If they are not, the "
    "error is far too low. Where the model takes oob_score=True, fit with it to have this checked. An adapter of your "
    "own states with Bags.with_proof what it compared."
)


def build_report(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    settings: ResolvedOptions,
    *,
    sizes_given: bool,
    sampled_labels: NDArray[Any],
    repeats: RepeatedRows | None = None,
    target: NDArray[Any] | None = None,
) -> EnsembleReport:
    """Return the report of an analysis: the estimates from all usable tallied rows, warnings and doubts.

    Parameters
    ----------
    adapter : EnsembleAdapter
    evidence : TalliedRows
    settings : ResolvedOptions
    sizes_given : bool
        Whether the user gave the sizes to tabulate.
    sampled_labels : ndarray, shape (n_sampled,)
        Target of the rows of the metric, ``evidence.rows_of_metric``, as the user gave it.
    repeats : RepeatedRows, optional
        Repeated rows, where they were searched for; needs `target`, label codes or values of all rows.
    """
    usable = _usable_rows(evidence, adapter.n_members)
    given = evidence.weight
    shares = row_shares(adapter, evidence, usable, _members_needed(evidence))
    metric = settings.metric
    unweighted = None if metric is None or metric.takes_weights else metric.name
    refuse_unweighable(shares, settings.estimator, unweighted_metric=unweighted)
    evidence = shares.evidence
    shared = None if shares.is_even else _shared_size(evidence, usable)
    if evidence.weight.groups is not None:
        assert isinstance(evidence.tally, AnyTally)
        weight = with_groups(evidence.weight, evidence.tally, usable, settings.interval_level)
        evidence = replace(evidence, weight=weight)
    if not sizes_given and settings.estimator == "hypergeometric":
        settings = (
            clip_sizes_to_oob(settings, evidence.tally.trials[usable], evidence.weight.select(usable).rows)
            if shared is None
            else clip_sizes_to_oob(settings, np.array([shared]))
        )
    if isinstance(adapter, JudgedByLoss):
        estimates = _own_loss_estimates(adapter, evidence, sampled_labels, settings, shared)
    else:
        estimates = _common_estimates(
            adapter, evidence, usable, settings, sampled_labels, shared, is_even=shares.is_even
        )
    report = _report(adapter, evidence, usable, estimates, settings, given, shares)
    if repeats is None or target is None:
        return report
    return _with_repeats(report, adapter, evidence, usable, repeats, target)


def _own_loss_estimates(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    sampled_labels: NDArray[Any],
    settings: ResolvedOptions,
    shared: int | None,
) -> Estimates:
    """Return the estimates of an ensemble that is judged by a loss of its own, or the metric in its place."""
    rows = evidence.rows_of_metric
    groups = None if evidence.weight.groups is None else evidence.weight.groups[rows.rows]
    return metric_curves.estimate_own_loss(adapter, rows, sampled_labels, settings, limit=shared, groups=groups)


def _common_estimates(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
    sampled_labels: NDArray[Any],
    shared: int | None,
    *,
    is_even: bool,
) -> Estimates:
    """Return the estimates by the 0-1 or squared error, with the curve of the metric if one was requested."""
    groups = None if evidence.weight.groups is None else evidence.weight.groups[evidence.sample.rows]
    estimates = _estimate(adapter, evidence, usable, settings, is_even=is_even)
    if settings.metric is not None:
        metric_rows = evidence.rows_of_metric
        own_groups = None if evidence.weight.groups is None else evidence.weight.groups[metric_rows.rows]
        estimates = metric_curves.with_metric_curve(
            estimates, settings.metric, adapter, metric_rows, sampled_labels, settings, limit=shared, groups=own_groups,
            label_errors=partial(
                _two_errors, adapter, evidence, usable, settings, estimates.error_draws, is_even=is_even
            ),
        )  # fmt: skip
    n_rows = evidence.weight.select(usable).n_rows
    return with_criteria(estimates, adapter, evidence.sample, groups, n_rows, settings)


def _with_repeats(
    report: EnsembleReport,
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    usable: NDArray[np.bool_],
    repeats: RepeatedRows,
    target: NDArray[Any],
) -> EnsembleReport:
    """Return the report with the number of repeated rows, and doubts where copies may bias the estimates."""
    assert isinstance(evidence.tally, AnyTally)
    used = usable & (evidence.weight.total > 0)
    doubts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if np.any(repeats.copied & used):
        part = repeats.take(np.flatnonzero(used))
        # A loss of its own may be none of single rows: a copy is then taken to be predicted without any.
        losses = (
            (~part.copied).astype(float)
            if isinstance(adapter, JudgedByLoss)
            else uncertainty.row_losses(evidence.tally)[used]
        )
        doubts, warnings = copies_findings(part, losses, target[used], evidence.weight.total[used])
    if repeats.appended and adapter.classes is not None:
        doubts = (*doubts, appended_doubt(repeats.appended, adapter.classes.tolist()[repeats.appended_label]))
    basis = replace(
        report.basis, n_repeated=int(np.count_nonzero(repeats.repeated & used)), doubts=(*report.basis.doubts, *doubts)
    )
    return replace(report, basis=basis, warnings=(*report.warnings, *warnings))


def _usable_rows(evidence: TalliedRows, n_members: int) -> NDArray[np.bool_]:
    """Return which rows have enough out-of-bag members: one for hard votes, else two, which a variance needs."""
    tally, weight = evidence.tally, evidence.weight
    refuse_groups_in_bags(weight, tally.trials >= 2, missing_weight(evidence, n_members, 2))
    few = round(weight.row_sum((tally.trials < 2).astype(np.float64)))
    if few > weight.n_rows / 2 and weight.groups is None:
        _refuse_one_bag(tally.trials, weight, n_members)
        mean = weight.row_sum(tally.trials) / weight.n_rows
        found = counted(few, "has", "have", of=f"{weight.n_rows} rows")
        finding = f"{found} fewer than 2 out-of-bag members (mean {mean:.2f})"
        raise TooFewMembersError(
            f"{finding}: too few to separate one member's error from the ensemble's. Train more members, leave more "
            "rows out of each bag (smaller max_samples), or pass held-out rows with {data='holdout'}.",
            finding,
        )
    usable = (tally.trials >= _members_needed(evidence)) & (weight.total > 0)
    if not usable.any():
        raise InputError("sample_weight is 0 for every row that has out-of-bag members; give some of them weight.")
    return np.asarray(usable)


def _members_needed(evidence: TalliedRows) -> int:
    return 1 if counts_hard_votes(evidence.tally) else 2


def _refuse_one_bag(trials: NDArray[np.float64], weight: RowWeight, n_members: int) -> None:
    n_shared = round(weight.row_sum((trials == 0).astype(np.float64)))
    if n_members < 2 or n_shared == weight.n_rows or not np.isin(trials, (0, n_members)).all():
        return
    raise TooFewMembersError(
        f"All {n_members} members were trained on the same {n_shared} of {weight.n_rows} rows, so the others are out "
        "of bag for all of them. Pass those alone with {data='holdout'} (ens_plugin.in_bag returns which they are), or "
        "train so that every member draws rows of its own: with tree_method='hist' for XGBoost, whose 'approx' draws "
        "once for all parallel trees, or with bagging_freq=1 for LightGBM."
    )


def _shared_size(evidence: TalliedRows, usable: NDArray[np.bool_]) -> int:
    return curves.largest_shared_size(evidence.tally.trials[usable], evidence.sample.keep(usable).rows)


def _estimate(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
    *,
    is_even: bool,
) -> Estimates:
    rows = _usable_part(evidence, usable)
    if adapter.info.task == "regression":
        return curves.estimate_regression(rows, adapter.n_members, settings)
    estimate = estimate_classification if is_even else curves.estimate_by_members
    return estimate(rows, adapter.n_members, settings, has_scores=adapter.output_kind == "scores")


def _usable_part(evidence: TalliedRows, usable: NDArray[np.bool_]) -> TalliedRows:
    """Return the tallies of some of the rows."""
    if usable.all():
        return evidence
    tally, crossed = evidence.tally, evidence.crossed
    if crossed is not None:
        crossed = replace(crossed, sampled=crossed.sampled[usable[evidence.sample.rows]])
    return replace(
        evidence,
        tally=select_rows(tally, usable)
        if isinstance(tally, AnyTally)
        else replace(tally, trials=tally.trials[usable]),
        sample=evidence.sample.keep(usable),
        weight=evidence.weight.select(usable),
        label=None if evidence.label is None else evidence.label[usable],
        crossed=crossed,
    )


def _two_errors(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    usable: NDArray[np.bool_],
    settings: ResolvedOptions,
    whole: ErrorDraws | None,
    *,
    is_even: bool,
) -> TwoErrors | None:
    """Return the errors of the rows of each of two labels; None for more labels, few rows, and rows of a cluster."""
    # Only metrics of labels come here.
    from ens_plugin.analysis.metric_curves.rare_labels import FEWEST_OF_LABEL
    from ens_plugin.analysis.metric_curves.two_errors import two_errors

    if label_count(adapter) != 2 or not isinstance(evidence.tally, AnyTally) or whole is None:
        return None
    rows = _usable_part(evidence, usable)
    if rows.label is None or min(np.bincount(rows.label[rows.sample.rows], minlength=2)) < FEWEST_OF_LABEL:
        return None
    return two_errors(rows, settings, whole, has_scores=adapter.output_kind == "scores", is_even=is_even)


def _report(
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    usable: NDArray[np.bool_],
    estimates: Estimates,
    settings: ResolvedOptions,
    given: RowWeight,
    shares: RowShares,
) -> EnsembleReport:
    weight, used = evidence.weight, evidence.weight.select(usable)
    dropped = round(weight.row_sum((~usable & (weight.total > 0)).astype(np.float64)))
    cautions = _cautions(adapter, evidence.proof, estimates, used, dropped, settings)
    cautions += rare_label_caution(estimates.recommendation, estimates.criteria, shares.labels)
    missing = missing_weight(replace(evidence, weight=given), adapter.n_members, _members_needed(evidence))
    return EnsembleReport(
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
        recommendation=estimates.recommendation,
        criteria=estimates.criteria,
        bias_variance=estimates.bias_variance,
        algorithmic_sd=estimates.algorithmic_sd,
        algorithmic_sd_is_bound=False,
        warnings=(*shares.cautions, *cautions),
        created=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        versions={
            name: installed_version(name) for name in ("ens-plugin", "numpy", "scipy", *adapter.info.distributions)
        },
        basis=EstimateBasis(
            labels=shares.labels,
            usable_weight=float(given.select(usable).total.sum() / given.total.sum()),
            n_effective=used.n_effective,
            n_groups=None if used.groups is None else int(np.unique(used.groups).size),
            doubts=(*adapter.doubts(), *shares.doubts, *group_doubts(weight, usable, missing), *estimates.doubts),
        ),
        fingerprint=tuple(part.hex() for part in adapter.fingerprint()),
    )


def _members_of(evidence: TalliedRows, usable: NDArray[np.bool_]) -> FloatArray:
    """Return the number of members of the usable entries."""
    trials = evidence.tally.trials
    return trials if usable.all() else trials[usable]


def _provenance(adapter: EnsembleAdapter, proof: BagProof) -> str:
    provenance = adapter.info.bag_provenance
    return "recorded" if provenance == "proved" and not proof.target else provenance


def _cautions(
    adapter: EnsembleAdapter,
    proof: BagProof,
    estimates: Estimates,
    used: RowWeight,
    dropped: int,
    settings: ResolvedOptions,
) -> tuple[str, ...]:
    n_effective, n_rows = used.n_effective, used.n_rows
    cautions = list(adapter.cautions(settings.data))
    if settings.data == "oob" and not proof.rows:
        cautions.append(UNCHECKED_ROWS)
    elif settings.data == "oob" and not proof.target:
        cautions.append(UNPROVED_TARGET)
    if n_effective < FEWEST_ROWS:
        cautions.append(f"Only {counted(f'{n_effective:.3g}', 'row')}: every estimate is imprecise. Pass more rows.")
    curve = estimates.error_curve
    if _may_move_error(dropped / (n_rows + dropped), curve, adapter.n_members):
        cautions.append(
            f"{counted(dropped, 'row was', 'rows were')} left out, because of too few out-of-bag members: so many that "
            "the error may be outside the interval if they are not like the others."
        )
    cautions.extend(estimates.cautions)
    raw = curve.asymptote_raw
    if curve.metric_basis is None and -raw > curve.asymptote_interval[1]:
        cautions.append(f"The error of the infinite ensemble was estimated at {raw:.4g} and is reported as 0.")
    return tuple(cautions)


def _may_move_error(share: float, curve: ErrorCurve, n_members: int) -> bool:
    """Return whether a share of the rows, with the largest loss or twice the others', would move the error too far.

    That is beyond its interval.  Where there is none, any row might.
    """
    if share == 0 or not curve.reaches(n_members):
        return share > 0
    error, (low, high) = curve.at(n_members), curve.interval_at(n_members)
    basis = curve.metric_basis
    smallest, largest = (0.0, 1.0) if basis is None else (basis.lowest, basis.highest)
    has_range = curve.metric != "mean squared error" and math.isfinite(largest - smallest)
    change = share * (max(largest - error, error - smallest) if has_range else abs(error))
    return not change <= max(high - error, error - low)
