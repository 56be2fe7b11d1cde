"""The loss of each row under one ensemble, and the difference of two ensembles' errors on the same rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.classification import seed_noise
from ens_plugin.analysis.curves.label_models import counts_hard_votes
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.estimates.grouped_tally import GroupedValues
from ens_plugin.core.tallies.tally import MarginTally, SupportTally, ValueTally, select_rows, tally_values
from ens_plugin.core.uncertainty.comparison_noise import shared_luck_variance, squared_losses_at
from ens_plugin.core.uncertainty.cut_comparison import interval_over_seeds
from ens_plugin.core.uncertainty.paired_losses import (
    OUT_OF_BAG_FACTOR,
    Difference,
    mean_difference,
    row_losses,
    share_difference,
)
from ens_plugin.core.validation import FloatArray

__all__ = ["JudgedRows", "judge_rows", "judged_by_both", "paired_difference"]


class JudgedRows(NamedTuple):
    """The losses of all rows under one ensemble.

    Attributes
    ----------
    losses : ndarray, shape (n_rows,)
        0-1 error of the row's out-of-bag members, combined, or squared error at the ensemble's own size; NaN
        without enough members.
    seed_variance : float
        Variance, over seeds, of the error estimated from these rows, without the part that is independent between rows:
        the part common to rows of one seed, and the noise of extrapolating from fewer members to the ensemble's size.
    shift : float
        Error of all members minus the mean loss, which is that of each row's out-of-bag members; 0 for held-out rows.
    row_factor : float
        Bound on the variance of a mean of the losses, in variances of a mean of as many independent ones.
    """

    losses: FloatArray
    seed_variance: float
    shift: float
    row_factor: float = 1.0


def judge_rows(
    adapter: EnsembleAdapter, evidence: TalliedRows, target: FloatArray, data: str, error: float
) -> JudgedRows:
    """Return the loss of every row, from its out-of-bag members alone.

    Parameters
    ----------
    adapter : EnsembleAdapter
    evidence : TalliedRows
        One entry for each row, all of equal weight.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    data : {"oob", "holdout"}
    error : float
        The report's error at the ensemble's own size.
    """
    tally, factor = evidence.tally, 1.0
    assert not isinstance(tally, GroupedValues)
    if isinstance(tally, ValueTally):
        factor = 1.0 if data == "holdout" else OUT_OF_BAG_FACTOR
        losses, variance = _judged_values(tally, evidence, adapter.n_members, data)
    else:
        # A tie of few out-of-bag members need not be a tie of the whole ensemble; half an error varies less.
        losses = row_losses(tally, target if data == "holdout" else None)
        variance = _label_variance(tally, adapter, evidence, data)
    return JudgedRows(losses, variance, 0.0 if data == "holdout" else error - float(np.nanmean(losses)), factor)


def judged_by_both(candidate: JudgedRows, baseline: JudgedRows) -> NDArray[np.bool_]:
    """Return whether members of both ensembles predict each row, shape (n_rows,)."""
    return np.asarray(np.isfinite(candidate.losses) & np.isfinite(baseline.losses))


def paired_difference(candidate: JudgedRows, baseline: JudgedRows, task: str, level: float) -> Difference:
    """Return the candidate's error minus the baseline's, at their own sizes, on the rows that both predict.

    The interval includes the variance over seeds of both ensembles.

    Parameters
    ----------
    candidate, baseline : JudgedRows
        Of the same rows; at least two are predicted by both.
    task : {"classification", "regression"}
    level : float
        Level of the interval.

    Notes
    -----
    Squared errors out of bag are correlated in pairs: what row i does to the loss of row j goes with what j does to
    that of i.  At most, this doubles the variance over the rows.
    """
    both = judged_by_both(candidate, baseline)
    compare = share_difference if task == "classification" else mean_difference
    found = compare(candidate.losses[both], baseline.losses[both], level)
    reach = math.sqrt(max(candidate.row_factor, baseline.row_factor))
    over_rows = tuple(found.estimate + reach * (end - found.estimate) for end in (found.lower, found.upper))
    seeds = math.sqrt(candidate.seed_variance + baseline.seed_variance)
    lower, upper = interval_over_seeds(found.estimate, (over_rows[0], over_rows[1]), seeds, level)
    shift = candidate.shift - baseline.shift
    return Difference(found.estimate + shift, lower + shift, upper + shift)


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


def _judged_values(tally: ValueTally, evidence: TalliedRows, n_members: int, data: str) -> tuple[FloatArray, float]:
    losses = row_losses(tally) if data == "holdout" else squared_losses_at(tally, n_members)
    block = evidence.sample.block
    rows = tally_values(block)
    slopes = 2.0 * (rows.mean - rows.target)
    return losses, shared_luck_variance(block.outputs, block.counted, slopes, tally.n_rows)
