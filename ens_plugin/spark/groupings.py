"""Groups of tallied rows that are merged, chosen by the kind of ensemble and the number of rows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.core.estimates.grouped_tally import (
    CrossedMargins,
    Groups,
    group_rows,
    margin_codes,
    support_codes,
    vote_codes,
)
from ens_plugin.core.tallies.tally import AnyTally, MarginTally, SupportTally, ValueTally
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["EXACT_ROWS", "Grouping", "block_groups", "choose_grouping", "codes_of", "crossed_of", "tally_of"]

Grouping = Literal["values", "votes", "rows", "shares", "margins"]

# The size of the sample: up to this number every row may be a group of its own at no further cost.
EXACT_ROWS = 20_000
# Relative rounding error of a weighted mean of equal numbers.
ROUNDING = 1e-9


def choose_grouping(adapter: EnsembleAdapter, n_rows: int) -> Grouping:
    """Return the property by which the tallied rows of an ensemble are grouped.

    ``"votes"`` and ``"shares"`` lose nothing, ``"rows"`` keeps each row, ``"values"`` groups by the number of members
    and keeps moments, and ``"margins"`` merges rows with nearly equal margins.
    """
    if adapter.info.task == "regression":
        return "values"
    two_labels = adapter.classes is not None and adapter.classes.size == 2 and adapter.output_kind != "scores"
    if two_labels and adapter.output_kind == "labels":
        return "votes"
    if n_rows <= EXACT_ROWS:
        return "rows"
    return "shares" if two_labels else "margins"


def codes_of(grouping: Grouping, tally: AnyTally, row: IntArray, n_members: int) -> tuple[IntArray, IntArray]:
    """Return the code of the group of each row, and the code of the group of its crossed margin."""
    if grouping == "values":
        code = tally.trials.astype(np.int64)
    elif grouping == "rows":
        code = row
    elif isinstance(tally, SupportTally):
        code = vote_codes(tally, n_members) if grouping == "votes" else support_codes(tally)
    else:
        assert isinstance(tally, MarginTally)
        code = margin_codes(tally.trials, tally.mean, tally.sd)
        return code, margin_codes(tally.trials, tally.cross_mean, tally.cross_sd)
    return code, code


def block_groups(
    grouping: Grouping, tally: AnyTally, code: IntArray, crossed_code: IntArray, weight: FloatArray
) -> tuple[Groups, Groups | None]:
    """Return the groups of the rows of a block that have positive weight.

    Returns
    -------
    groups : Groups
    crossed : Groups or None
        Groups of the crossed margins, where these are grouped separately.
    """
    own = weight > 0
    groups = group_rows(code[own], [column[own] for column in _columns(grouping, tally)], weight[own])
    if grouping != "margins":
        return groups, None
    assert isinstance(tally, MarginTally)
    columns = (tally.trials, tally.cross_mean, tally.cross_sd**2)
    return groups, group_rows(crossed_code[own], [column[own] for column in columns], weight[own])


def _columns(grouping: Grouping, tally: AnyTally) -> tuple[FloatArray, ...]:
    if isinstance(tally, SupportTally):
        return tally.trials, tally.wrong, tally.squares, tally.wrong_labels
    if isinstance(tally, ValueTally):
        return ()
    if grouping == "margins":
        return tally.trials, tally.mean, tally.sd**2, tally.wrong_labels, tally.dissent
    return tally.trials, tally.mean, tally.sd, tally.cross_mean, tally.cross_sd, tally.wrong_labels, tally.dissent


def tally_of(grouping: Grouping, groups: Groups, n_members: int) -> SupportTally | MarginTally:
    """Return a tally in which each group of rows is one entry."""
    means = groups.means()
    if grouping == "votes":
        trials, wrong = (part.astype(np.float64) for part in np.divmod(groups.code, n_members + 1))
        return SupportTally(trials, wrong, wrong, wrong)
    if grouping == "shares" or len(means) == 4:
        return _support_tally(groups, means, cells=grouping == "shares")
    if grouping == "margins":
        trials, mean, variance, wrong_labels, dissent = means
        sd = np.sqrt(variance)
        return MarginTally(_unrounded(trials), mean, sd, mean, sd, wrong_labels, dissent)
    return MarginTally(np.rint(means[0]), *means[1:])


def _support_tally(groups: Groups, means: FloatArray, *, cells: bool) -> SupportTally:
    trials = np.rint(means[0])
    wrong, squares = np.minimum(means[1], trials), np.minimum(means[2], trials)
    if cells:
        # Rounding must not decide a tie.
        wrong = np.where(groups.code % 2 == 1, trials / 2.0, wrong)
    return SupportTally(trials, wrong, squares, means[3])


def crossed_of(groups: Groups, sampled: IntArray) -> CrossedMargins:
    """Return crossed margins in which each group of rows is one entry.

    Parameters
    ----------
    groups : Groups
    sampled : ndarray of int64, shape (n_sampled,)
        Codes of the sampled rows' crossed margins.
    """
    trials, mean, variance = groups.means()
    return CrossedMargins(mean, np.sqrt(variance), _unrounded(trials), groups.row_weight(), groups.find(sampled))


def _unrounded(trials: FloatArray) -> FloatArray:
    """Return mean numbers of members, whole ones without their rounding error, so that 2 is not a little less."""
    whole = np.rint(trials)
    return np.where(np.abs(trials - whole) <= ROUNDING * whole, whole, trials)
