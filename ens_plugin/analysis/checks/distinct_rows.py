"""Similar rows: in one group, copies of each other, or with equal features, for which members predict the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.criteria import choose_criterion, probability_size
from ens_plugin.analysis.curves.size_reasons import agreement_reason, as_told
from ens_plugin.analysis.rows.groups import encode_groups
from ens_plugin.analysis.rows.repeats import RepeatedRows, find_repeats, identical_rows
from ens_plugin.core import estimates
from ens_plugin.core.likeness.equal_outputs import are_alike, output_cells
from ens_plugin.core.likeness.repeated_rows import numbered
from ens_plugin.core.uncertainty.intervals import size_interval
from ens_plugin.core.validation import counted
from ens_plugin.records import record

if TYPE_CHECKING:
    from ens_plugin.adapters.base import EnsembleAdapter
    from ens_plugin.analysis.curves.estimates import ResolvedOptions
    from ens_plugin.analysis.rows.hashes import HashedRows
    from ens_plugin.analysis.tallied_rows import TalliedRows
    from ens_plugin.core.estimates.cell_votes import CellVotes
    from ens_plugin.report.estimates import SizeRecommendation
    from ens_plugin.report.result import EnsembleReport

__all__ = ["RowLikeness", "row_cells", "row_likeness", "with_distinct_rows"]

# Rows that are looked at for those which no member tells apart.
ALIKE_ROWS = 2_000


def row_cells(rows: HashedRows | None) -> NDArray[np.int32] | None:
    """Return a number for each row, from 0 without gaps, equal for rows with equal features.

    Parameters
    ----------
    rows : HashedRows or None
        None where the rows are not a table.

    Returns
    -------
    ndarray of int32, shape (n_rows,), or None

    Examples
    --------
    >>> from ens_plugin.analysis.rows.hashes import hash_rows
    >>> row_cells(hash_rows(None, np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0]]))).tolist()
    [0, 1, 0]
    """
    return None if rows is None else numbered(rows.hashes)


@record
class RowLikeness:
    """Groups, copies and equal features among the rows of an analysis.

    Attributes
    ----------
    groups : ndarray of int64, shape (n_rows,), or None
        Group of each row, where the user gave groups.
    repeats : RepeatedRows or None
        Copies among training rows, where the user gave no groups.
    cell : ndarray of int32, shape (n_rows,), or None
        A number for each row, the same for rows with equal features; None where the rows are not a table, and where
        all of them differ.
    all_differ : bool
        Whether the rows are a table in which no two have equal features.
    """

    groups: NDArray[np.int64] | None
    repeats: RepeatedRows | None
    cell: NDArray[np.int32] | None
    all_differ: bool = False

    def take(self, rows: NDArray[np.intp]) -> RowLikeness:
        """Return the groups, copies and equal features of some of the rows."""
        return RowLikeness(
            None if self.groups is None else self.groups[rows],
            None if self.repeats is None else self.repeats.take(rows),
            None if self.cell is None else self.cell[rows],
            self.all_differ,
        )


def row_likeness(groups: Any, rows: HashedRows | None, target: NDArray[Any], data: str) -> RowLikeness:
    """Return the groups given by the user, or copies found among training rows, and rows of equal features."""
    cell = row_cells(rows)
    all_differ = cell is not None and int(cell.max()) + 1 == cell.size
    cell = None if all_differ else cell
    if isinstance(groups, str) and groups == "identical":
        return RowLikeness(identical_rows(rows, target), None, cell, all_differ)
    if groups is not None:
        return RowLikeness(encode_groups(groups, target.size), None, cell, all_differ)
    return RowLikeness(None, None if data == "holdout" else find_repeats(rows, target), cell, all_differ)


def with_distinct_rows(
    report: EnsembleReport,
    adapter: EnsembleAdapter,
    evidence: TalliedRows,
    likeness: RowLikeness,
    settings: ResolvedOptions,
) -> EnsembleReport:
    """Return the report with the number of distinct rows, and with another recommended size if they are few.

    That size is computed from the members' votes on each distinct row, not from a distribution fitted to all rows.

    Parameters
    ----------
    report : EnsembleReport
    adapter : EnsembleAdapter
    evidence : TalliedRows
        One entry for each row.
    likeness : RowLikeness
        Of the same rows; without a table of them, the report is left as it is.
    settings : ResolvedOptions

    Returns
    -------
    EnsembleReport
        With ``basis.n_distinct``, and with few cells another recommendation, and a doubt where the size cannot be
        estimated.  Rows that no member tells apart make cells too, without being counted as equal.
    """
    if likeness.cell is None and not likeness.all_differ:
        return _with_alike_rows(report, evidence, settings)
    used = (evidence.tally.trials >= 1) & (evidence.weight.total > 0)
    if likeness.cell is None:
        report = replace(report, basis=replace(report.basis, n_distinct=int(np.count_nonzero(used))))
        return _with_alike_rows(report, evidence, settings)
    cell = likeness.cell[used]
    n_distinct = int(np.count_nonzero(np.bincount(cell)))
    basis = replace(report.basis, n_distinct=n_distinct)
    if report.task != "classification" or not estimates.has_few_cells(cell):
        return _with_alike_rows(replace(report, basis=basis), evidence, settings)
    weight = evidence.weight.select(used)
    sample = evidence.sample.keep(used)
    cells = estimates.gather_cells(sample, cell, weight.total, weight.n_effective)
    by_agreement = _by_agreement(report, cells, settings)
    by_probability = probability_size(adapter, sample, cell[sample.rows], by_agreement.agreement, settings)
    note = (
        f"The size rests on the members' outputs for {counted(n_distinct, 'different row')} of features "
        f"among {cell.size}."
    )
    found_sizes = (found for found in (by_agreement, by_probability) if found is not None)
    by_name = {found.criterion: _with_note(as_told(found, settings.interval_level), note) for found in found_sizes}
    criteria = tuple(
        replace(by_name.get(found.criterion, found), agreement=by_agreement.agreement) for found in report.criteria
    )
    advice = choose_criterion(criteria, settings)
    if advice.criterion == "agreement" and advice.interval[1] is None:
        basis = replace(basis, doubts=(*basis.doubts, _doubt(advice, n_distinct)))
    return replace(report, recommendation=advice, criteria=criteria, basis=basis)


def _with_alike_rows(report: EnsembleReport, evidence: TalliedRows, settings: ResolvedOptions) -> EnsembleReport:
    """Return the report with another agreement if no member tells most rows with close votes from several others."""
    if report.task != "classification":
        return report
    sample = evidence.sample.keep((evidence.tally.trials >= 1) & (evidence.weight.total > 0))
    if not are_alike(sample):
        return report
    part = sample.some_rows(ALIKE_ROWS)
    cell = output_cells(part.block)
    if cell is None:
        return report
    part = replace(part, rows=np.arange(cell.size))
    by_agreement = _by_agreement(
        report, estimates.gather_cells(part, cell, part.weight, evidence.weight.n_effective), settings
    )
    note = f"The size rests on the members' outputs for {counted(int(cell.max()) + 1, 'kind')} of rows."
    by_agreement = _with_note(as_told(by_agreement, settings.interval_level), note)
    criteria = tuple(
        replace(by_agreement if found.criterion == "agreement" else found, agreement=by_agreement.agreement)
        for found in report.criteria
    )
    return replace(report, recommendation=choose_criterion(criteria, settings), criteria=criteria)


def _with_note(advice: SizeRecommendation, note: str) -> SizeRecommendation:
    """Return the recommendation with how its size was estimated, which changes nothing about its use."""
    return replace(advice, reason=f"{advice.reason} {note}".strip())


def _by_agreement(report: EnsembleReport, cells: CellVotes, settings: ResolvedOptions) -> SizeRecommendation:
    confidence, max_size = settings.confidence, settings.max_size
    before = next(found for found in report.criteria if found.criterion == "agreement")
    size = estimates.cell_size(cells, confidence, max_size)
    draws = estimates.cell_size_draws(cells, confidence, max_size, settings.random_state)
    low, high = size_interval(draws, settings.interval_level, max_size)
    # The expected agreement can need a larger size than nearly all draws.
    low = min(low, size or max_size)
    high = None if high is None or size is None else max(high, size)
    agreement = float(estimates.cell_agreement(cells, [report.n_members])[0])
    return replace(
        before,
        size=size,
        agreement=agreement,
        interval=(low, high),
        reason=agreement_reason(size, agreement, report.n_members, settings),
        values=estimates.cell_agreement(cells, before.sizes),
    )


def _doubt(advice: SizeRecommendation, n_distinct: int) -> str:
    return (
        f"The recommended size is not known: there {'is' if n_distinct == 1 else 'are'} only "
        f"{counted(n_distinct, 'different row')} of features, and the members are so evenly split over one of them "
        f"that any size from {advice.interval[0]} to more than {advice.max_size} may be needed. Train more members."
    )
