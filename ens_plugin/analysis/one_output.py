"""The steps of the analysis of an ensemble of one output: its adapter and options, its tallies, its report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis.arguments import resolve_options
from ens_plugin.analysis.build_report import build_report
from ens_plugin.analysis.checks.distinct_rows import with_distinct_rows
from ens_plugin.analysis.checks.row_order import order_findings
from ens_plugin.analysis.checks.subject_rows import subject_doubts
from ens_plugin.analysis.checks.unequal_bags import unequal_bag_doubts
from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.analysis.label_errors import with_label_errors
from ens_plugin.analysis.model_rows import ModelRows
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.row_blocks import Progress, tally_rows
from ens_plugin.analysis.rows.groups import group_chances, with_reach
from ens_plugin.analysis.rows.stored_outputs import compare_with_stored
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import AnyTally, take_rows
from ens_plugin.report.result import EnsembleReport

__all__ = ["open_model", "report_on_rows", "tally_model_rows", "with_member_findings"]


def open_model(
    model: Any, X: Any, y: ArrayLike, options: AnalysisOptions
) -> tuple[EnsembleAdapter, Any, ResolvedOptions]:
    """Return the adapter of a model, X as it reaches the ensemble, and the checked options.

    Raises
    ------
    EnsPluginError
        If the model is not supported or not fitted, or an option is out of range.
    """
    data = options.data
    ensemble, inner = unwrap(model, X, are_fresh=isinstance(data, str) and data == "holdout")
    adapter = find_adapter(ensemble)
    return adapter, inner, resolve_options(adapter, options, y)


def tally_model_rows(rows: ModelRows, settings: ResolvedOptions, progress: Progress | None = None) -> TalliedRows:
    """Return the tallies of rows, with their groups, chances and proof, one entry for each row.

    Parameters
    ----------
    rows : ModelRows
    settings : ResolvedOptions
    progress : callable or None
        As for :func:`ens_plugin.analysis.row_blocks.tally_rows`.
    """
    evidence = tally_rows(
        rows.adapter,
        rows.features,
        rows.bags,
        rows.target,
        rows.weight,
        with_path=settings.estimator == "path",
        with_metric=settings.metric is not None,
        rng=np.random.default_rng(settings.random_state),
        progress=progress,
    )
    if rows.adapter.classes is not None:
        evidence = evidence.sort_samples()
    chance = rows.chances
    if rows.groups is not None and rows.bags is not None:
        chance = group_chances(rows.groups, evidence.tally.trials, rows.adapter.n_members)
    weight = replace(evidence.weight, groups=rows.groups)
    return replace(evidence, weight=weight, chance=chance, proof=rows.proof)


def with_member_findings(rows: ModelRows, sample: Sample) -> ModelRows:
    """Return training rows with doubts where bags are unequal, and where rows belong together.

    Parameters
    ----------
    rows : ModelRows
        Whether they belong together is looked at without groups only, where they are all of the training rows, and
        by the columns where nothing else is doubted.
    sample : Sample
        Of these rows.
    """
    if rows.bags is None:
        return rows
    rows = replace(rows, doubts=(*rows.doubts, *unequal_bag_doubts(rows.adapter, sample)))
    assert rows.bags is not None
    if rows.groups is not None or rows.positions is not None:
        return rows
    doubts, warnings = order_findings(rows.adapter, sample, rows.bags, sorted_rows=rows.is_sorted)
    if rows.table is not None and not rows.doubts and not doubts:
        doubts = subject_doubts(rows.adapter, sample, rows.table)
    doubts = with_reach((*rows.doubts, *doubts), rows.bags)
    return replace(rows, doubts=doubts, warnings=(*rows.warnings, *warnings))


def report_on_rows(
    rows: ModelRows, evidence: TalliedRows, settings: ResolvedOptions, *, sizes_given: bool
) -> EnsembleReport:
    """Return the report from the tallies of rows, whose features and bags take no part in it.

    Parameters
    ----------
    rows : ModelRows
    evidence : TalliedRows
        :func:`tally_model_rows` of these rows.
    settings : ResolvedOptions
    sizes_given : bool
        Whether the user gave the sizes to tabulate.

    Raises
    ------
    EnsPluginError
        DataMismatchError if out-of-bag outputs that the library stored differ from these; TooFewMembersError or
        InputError if the rows are not enough for the estimates.
    """
    adapter, sampled = rows.adapter, evidence.sample.rows
    if settings.data == "oob" and rows.groups is None:
        compare_with_stored(adapter, evidence.sample, rows.place(sampled))
    report = build_report(
        adapter,
        evidence,
        settings,
        sizes_given=sizes_given,
        sampled_labels=rows.labels.reshape(-1)[evidence.rows_of_metric.rows],
        repeats=rows.likeness.repeats,
        target=rows.target,
    )
    report = with_distinct_rows(report, adapter, evidence, rows.likeness, settings)
    groups = None if rows.groups is None else rows.groups[sampled]
    assert isinstance(evidence.tally, AnyTally)
    report = with_label_errors(report, adapter, evidence.sample, take_rows(evidence.tally, sampled), groups)
    own = None
    if settings.data == "holdout":
        from ens_plugin.analysis.checks.held_out_rows import own_prediction_doubt

        own = own_prediction_doubt(adapter, evidence.sample, evidence.tally, evidence.weight.total)
    doubts = (*rows.doubts, *report.basis.doubts)
    basis = replace(report.basis, doubts=doubts if own is None else (own, *doubts))
    return replace(report, basis=basis, warnings=(*rows.warnings, *report.warnings))
