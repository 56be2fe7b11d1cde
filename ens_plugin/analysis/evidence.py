"""The evidence of an analysis: all that an estimate is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.trees import label_order
from ens_plugin.core.bags import BagProof
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import (
    AnyTally,
    PathTally,
    RowBlock,
    SupportTally,
    select_rows,
)
from ens_plugin.core.weights import RowWeight

if TYPE_CHECKING:
    from ens_plugin.core.grouped_tally import CrossedMargins, GroupedValues
    from ens_plugin.core.validation import FloatArray, IntArray


__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over members by row (tallies), and sampled outputs, from which all estimates are computed.

    Attributes
    ----------
    tally : SupportTally, MarginTally, ValueTally or GroupedValues
        One entry per row, or per group of rows.
    sample : Sample
        The members' outputs for a random subset of the rows; its rows are entries of the tally.
    path : PathTally or None
        For the path estimator.
    weight : RowWeight
        Weights of the entries.
    spreads : ndarray, shape (2, 2), or None
        For soft votes whose entries are groups of rows: see :func:`ens_plugin.analysis.estimates.soft_spreads`.
    crossed : CrossedMargins or None
        For margins whose entries are groups of rows.
    label : ndarray of int, shape (n_entries,), or None
        Label code of each row, of any type of integer, to be compared and to select entries of arrays; None for
        regression, and where entries are groups of rows.
    by_label : ndarray, shape (2, n_labels, n_members + 1), or None
        Where entries are groups of rows: rows with weight by label and number of members, and their weight.
    chance : ndarray, shape (n_entries,), or None
        Chance of each row to be left out of one bag, where they differ and the library keeps them.
    metric_sample : Sample or None
        Like `sample`, but of more rows, for a metric; None without a metric, or if `sample` has enough rows.
    """

    tally: AnyTally | GroupedValues
    sample: Sample
    path: PathTally | None
    weight: RowWeight
    spreads: FloatArray | None = field(default=None, kw_only=True)
    crossed: CrossedMargins | None = field(default=None, kw_only=True)
    label: IntArray | None = field(default=None, kw_only=True)
    by_label: FloatArray | None = field(default=None, kw_only=True)
    chance: FloatArray | None = field(default=None, kw_only=True)
    proof: BagProof = field(default_factory=BagProof, kw_only=True)
    metric_sample: Sample | None = field(default=None, kw_only=True)

    @property
    def rows_of_metric(self) -> Sample:
        """Return the members' outputs for the rows that a metric is computed on."""
        return self.sample if self.metric_sample is None else self.metric_sample

    def part(self, mask: NDArray[np.bool_]) -> Evidence:
        """Return some of the rows, each an entry of the tally; `metric_sample` and `path` remain those of all."""
        assert isinstance(self.tally, AnyTally)
        return replace(
            self,
            tally=select_rows(self.tally, mask),
            sample=self.sample.keep(mask),
            weight=self.weight.select(mask),
            label=None if self.label is None else self.label[mask],
            spreads=None,
            crossed=None,
        )

    def sort_samples(self) -> Evidence:
        """Return the rows with their samples sorted by content; the outputs in the given samples are overwritten."""
        of_labels = label_order()
        if self.metric_sample is None:
            sample = self.sample.sort_by_content(of_labels)
            if isinstance(self.tally, SupportTally) and sample.block.is_vote:
                _keep_counts(sample.block, self.tally, sample.rows)
            return replace(self, sample=sample)
        more = self.metric_sample.sort_by_content(of_labels)
        # The rows of the smaller sample are some of these, and their order is the same among others.
        smaller = more.select(np.flatnonzero(np.isin(more.rows, self.sample.rows)))
        return replace(self, sample=smaller, metric_sample=more)


def _keep_counts(block: RowBlock, tally: SupportTally, rows: IntArray) -> None:
    """Keep with some rows their numbers of members and of votes on two labels, which the tally of all has counted."""
    wrong, trials = tally.wrong[rows], tally.trials[rows]
    second = np.where(block.target == 0, wrong, trials - wrong)
    for name, counts in (("trials", trials), ("support", np.column_stack([trials - second, second]))):
        counts.flags.writeable = False
        vars(block)[name] = counts
