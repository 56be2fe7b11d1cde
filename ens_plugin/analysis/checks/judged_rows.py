"""The loss of each row under one ensemble, and what the seed does to their mean: for comparing two ensembles."""

from __future__ import annotations

from typing import NamedTuple

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.classification import seed_noise
from ens_plugin.analysis.curves.label_models import counts_hard_votes
from ens_plugin.analysis.row_blocks import TalliedRows
from ens_plugin.core.estimates.grouped_tally import GroupedValues
from ens_plugin.core.tallies.tally import MarginTally, SupportTally, ValueTally, select_rows, tally_values
from ens_plugin.core.uncertainty.comparison_noise import shared_luck_variance, squared_losses_at
from ens_plugin.core.uncertainty.paired_losses import row_losses
from ens_plugin.core.validation import FloatArray

__all__ = ["JudgedRows", "judge_rows"]


class JudgedRows(NamedTuple):
    """The losses of all rows under one ensemble.

    Attributes
    ----------
    losses : ndarray, shape (n_rows,)
        0-1 loss of the row's out-of-bag members, combined, or squared error at the ensemble's own size; NaN
        without enough members.
    seed_variance : float
        Variance, over seeds, of the error estimated from these rows, without what the rows' own losses show: what rows
        have in common under a seed, and the noise of going from fewer members to the ensemble's own size.
    """

    losses: FloatArray
    seed_variance: float


def judge_rows(adapter: EnsembleAdapter, evidence: TalliedRows, target: FloatArray, data: str) -> JudgedRows:
    """Return the loss of every row, from its out-of-bag members alone.

    Parameters
    ----------
    adapter : EnsembleAdapter
    evidence : TalliedRows
        One entry for each row, all of equal weight.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    data : {"oob", "holdout"}
    """
    tally = evidence.tally
    assert not isinstance(tally, GroupedValues)
    if isinstance(tally, ValueTally):
        return _judged_values(tally, evidence, adapter.n_members, data)
    # A tie of the few out-of-bag members is none of the ensemble's own; half an error varies less.
    labels = target if data == "holdout" else None
    return JudgedRows(row_losses(tally, labels), _label_variance(tally, adapter, evidence, data))


def _label_variance(
    tally: SupportTally | MarginTally, adapter: EnsembleAdapter, evidence: TalliedRows, data: str
) -> float:
    usable = tally.trials >= (1 if counts_hard_votes(tally) else 2)
    used = select_rows(tally, usable)
    assert not isinstance(used, ValueTally)
    return seed_noise(
        used,
        evidence.sample.keep(usable),
        adapter.n_members,
        has_scores=adapter.output_kind == "scores",
        extrapolates=data == "oob",
    )


def _judged_values(tally: ValueTally, evidence: TalliedRows, n_members: int, data: str) -> JudgedRows:
    losses = row_losses(tally) if data == "holdout" else squared_losses_at(tally, n_members)
    block = evidence.sample.block
    rows = tally_values(block)
    slopes = 2.0 * (rows.mean - rows.target)
    return JudgedRows(losses, shared_luck_variance(block.outputs, block.seen, slopes, tally.trials.size))
