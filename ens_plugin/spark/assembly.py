"""Conversion of the merged sums over all rows to tallied rows, from which a report is built."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.row_blocks import label_count
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.estimates.grouped_tally import GroupedValues
from ens_plugin.core.tallies.growth_path import PathTally
from ens_plugin.core.tallies.row_weight import RowWeight
from ens_plugin.core.tallies.samples.content_order import content_order
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import AnyTally, MarginTally, RowBlock, SupportTally, concatenate
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.spark.groupings import Grouping, crossed_of, tally_of
from ens_plugin.spark.parts import KeptRows, Part

__all__ = ["in_content_order", "in_row_order", "refuse_alike_rows", "tallied_rows"]

LEAST_VARIETY = 0.25


def tallied_rows(adapter: EnsembleAdapter, part: Part, grouping: Grouping) -> TalliedRows:
    """Return the tallied rows of the whole DataFrame from the sums over them.

    Parameters
    ----------
    adapter : EnsembleAdapter
    part : Part
        Sums over all rows, with the kept rows in the order that the estimates need.
    grouping : str
        As of :func:`ens_plugin.spark.groupings.choose_grouping`.
    """
    groups, kept = part.groups, part.kept
    assert groups is not None
    assert kept is not None
    assert part.idle is not None
    weight = _with_idle(groups.row_weight(), part.idle)
    tally: AnyTally | GroupedValues
    if grouping == "values":
        tally = GroupedValues(np.append(groups.code.astype(np.float64), np.flatnonzero(part.idle)), part.moments)
    else:
        tally = concatenate([tally_of(grouping, groups, adapter.n_members), _idle_tally(grouping, adapter, part.idle)])
    return TalliedRows(
        tally=tally,
        sample=_sample(adapter, kept, groups.find(kept.code)),
        path=None if part.path is None else PathTally(part.path[0][:, None], part.path[1][:, None]),
        weight=weight,
        spreads=part.spreads if grouping == "shares" else None,
        crossed=None
        if part.crossed is None or not _has_rivals(adapter)
        else crossed_of(part.crossed, kept.crossed_code),
        by_label=part.by_label,
    )


def in_row_order(kept: KeptRows) -> KeptRows:
    """Return the kept rows in an order that does not depend on how the rows were partitioned."""
    return kept.take(np.argsort(kept.row, kind="stable"))


def in_content_order(adapter: EnsembleAdapter, kept: KeptRows) -> KeptRows:
    """Return the kept rows in an order that depends on the members' outputs alone, which estimates of labels need."""
    return kept.take(content_order(_kept_block(adapter, kept)))


def refuse_alike_rows(kept: KeptRows, name: str | None) -> None:
    """Raise InputError where a sample has too few different rows, because equal rows are sampled together.

    Parameters
    ----------
    kept : KeptRows
        The sampled rows, where not all rows of the data are sampled.
    name : str or None
        Column with the rows' numbers; None where a hash of their content is used.
    """
    _, copies = np.unique(kept.row, return_counts=True)
    n_rows = int(copies.sum())
    # Kish's effective number of different rows.
    if n_rows and n_rows**2 / float((copies.astype(np.float64) ** 2).sum()) >= LEAST_VARIETY * n_rows:
        return
    numbered = "Without row_id_col, rows of equal content" if name is None else f"Rows of equal numbers in {name!r}"
    raise InputError(
        f"{numbered} are sampled together, so a sample of {counted(n_rows, 'row')} has only {copies.size} different "
        "ones. Give every row a number of its own, for example with df.withColumn('row', "
        "pyspark.sql.functions.monotonically_increasing_id()), and pass row_id_col='row'."
    )


def _has_rivals(adapter: EnsembleAdapter) -> bool:
    """Return whether there are several labels besides the true one, the strongest of which is its rival."""
    return adapter.classes is not None and adapter.classes.size > 2


def _with_idle(weight: RowWeight, idle: FloatArray) -> RowWeight:
    """Return weights with entries added for the rows of weight 0."""
    counts = idle[idle > 0]
    assert weight.rows is not None
    assert weight.squares is not None
    nothing = np.zeros(counts.size)
    return RowWeight(
        np.append(weight.total, nothing), np.append(weight.rows, counts), np.append(weight.squares, nothing)
    )


def _idle_tally(grouping: Grouping, adapter: EnsembleAdapter, idle: FloatArray) -> AnyTally:
    trials = np.flatnonzero(idle).astype(np.float64)
    nothing = np.zeros(trials.size)
    two_labels = adapter.classes is not None and adapter.classes.size == 2 and adapter.output_kind != "scores"
    if two_labels:
        return SupportTally(trials, nothing, nothing, nothing)
    return MarginTally(trials, nothing, nothing, nothing, nothing, nothing, nothing)


def _sample(adapter: EnsembleAdapter, kept: KeptRows, entries: NDArray[np.intp]) -> Sample:
    return Sample(_kept_block(adapter, kept), entries, kept.weight)


def _kept_block(adapter: EnsembleAdapter, kept: KeptRows) -> RowBlock:
    counted = np.unpackbits(kept.counted, axis=0, count=adapter.n_members).view(np.bool_)
    return RowBlock(kept.outputs, counted, kept.target, label_count(adapter))
