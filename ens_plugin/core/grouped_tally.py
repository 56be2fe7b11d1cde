"""Tallies with several rows for each entry, so that any number of rows takes bounded space.

Rows whose entries are equal, or share a narrow cell, become one entry with their weighted mean.
Groups of disjoint rows are merged by addition, so partitions of a data set can be tallied separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.losses import LossMoments
from ens_plugin.core.tally import SupportTally
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, IntArray
from ens_plugin.core.votes import share_angle
from ens_plugin.core.weights import RowWeight

__all__ = [
    "GroupedValues",
    "Groups",
    "group_rows",
    "margin_codes",
    "merge_groups",
    "support_codes",
    "vote_codes",
]

ANGLE_CELLS = 257
CELLS_PER_OCTAVE = 16
CELLS_PER_ERROR = 6
CLOSE_ERRORS = 16.0
EXACT_TRIALS = 64


@dataclass(frozen=True, eq=False)
class Groups:
    """Sums over the rows of each group of rows that have the same code; codes are ascending.

    `rows`, `weight` and `squares` are the number of rows, and the sums of their weights and squared weights; `sums`,
    shape (n_columns, n_groups), are the weighted sums of the columns of the tally.
    """

    code: IntArray
    rows: FloatArray
    weight: FloatArray
    squares: FloatArray
    sums: FloatArray

    def means(self) -> FloatArray:
        """Return the weighted mean of each column over each group, shape (n_columns, n_groups)."""
        return np.asarray(self.sums / self.weight)

    def row_weight(self) -> RowWeight:
        """Return the weights of the groups, for use as entries of a tally."""
        return RowWeight(self.weight, self.rows, self.squares)

    def find(self, code: IntArray) -> NDArray[np.intp]:
        """Return the position of the group of each code, shape as `code`; every code must have a group."""
        return np.searchsorted(self.code, code)


@dataclass(frozen=True, eq=False)
class GroupedValues:
    """Tally of a regression ensemble's rows, grouped by the number of members that count for them.

    The moments are of all rows with weight and at least two members; None if there are no such rows.
    """

    trials: FloatArray
    moments: LossMoments | None


def group_rows(code: IntArray, columns: Sequence[FloatArray], weight: FloatArray) -> Groups:
    """Return the groups of rows that have the same code, with weighted sums over the rows of each."""
    sums = np.stack([column * weight for column in columns]) if columns else np.empty((0, code.size))
    return _added_up(code, np.ones(code.size), weight, weight**2, sums)


def merge_groups(parts: Sequence[Groups]) -> Groups:
    """Return the groups of the rows of all parts, which must be disjoint."""
    if len(parts) == 1:
        return parts[0]
    code, rows, weight, squares = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "rows", "weight", "squares")
    )
    return _added_up(code, rows, weight, squares, np.concatenate([part.sums for part in parts], axis=1))


def _added_up(code: IntArray, rows: FloatArray, weight: FloatArray, squares: FloatArray, sums: FloatArray) -> Groups:
    distinct, index = np.unique(code, return_inverse=True)
    added = [np.bincount(index, values, distinct.size).astype(np.float64) for values in (rows, weight, squares, *sums)]
    return Groups(
        distinct, added[0], added[1], added[2], np.stack(added[3:]) if len(sums) else sums[:, : distinct.size]
    )


def vote_codes(tally: SupportTally, n_members: int) -> IntArray:
    """Return codes of rows with hard votes, equal for equal counts of members and of wrong votes.

    ``divmod(code, n_members + 1)`` recovers the counts.
    """
    return np.asarray(tally.trials * (n_members + 1) + tally.wrong, dtype=np.int64)


def support_codes(tally: SupportTally) -> IntArray:
    """Return codes of rows with soft votes, equal for equal numbers of members and wrong shares in one narrow cell.

    Cells are those into which :func:`ens_plugin.core.votes.group_counts` groups the rows anyway, so
    that grouping by code loses nothing.  A share of exactly one half has a cell of its own, the only one with odd
    codes.
    """
    trials = np.maximum(tally.trials, 1.0)
    cell = np.floor(share_angle(np.clip(tally.wrong, 0.0, trials), trials))
    tied = tally.wrong * 2.0 == tally.trials
    return np.asarray((tally.trials * ANGLE_CELLS + cell) * 2.0 + tied, dtype=np.int64)


def margin_codes(trials: FloatArray, mean: FloatArray, sd: FloatArray) -> IntArray:
    """Return codes of rows by cells of their number of members, and of the spread and mean of their margins.

    Cells of spread are 1/16 octave wide, those of means 1/6 standard error; beyond 16 errors from 0, they widen.
    """
    near = np.floor(CELLS_PER_OCTAVE * np.log2(np.maximum(trials / EXACT_TRIALS, 1.0)))
    count = np.where(trials <= EXACT_TRIALS, trials, EXACT_TRIALS + 1.0 + near).astype(np.int64)
    octave = np.floor(np.log2(np.maximum(sd, NEGLIGIBLE)) * CELLS_PER_OCTAVE)
    spread = np.exp2(octave / CELLS_PER_OCTAVE)
    error = spread / np.sqrt(np.maximum(_least_trials(count), 1.0))
    place = np.floor(np.arcsinh(mean / (error * CLOSE_ERRORS)) * (CLOSE_ERRORS * CELLS_PER_ERROR))
    return np.asarray((count << 40) + ((octave.astype(np.int64) + 2**13) << 20) + (place.astype(np.int64) + 2**19))


def _least_trials(count: IntArray) -> FloatArray:
    """Return the least number of members that a row of each cell of numbers can have, shape as `count`."""
    beyond = np.exp2((count - EXACT_TRIALS - 1.0) / CELLS_PER_OCTAVE) * EXACT_TRIALS
    return np.where(count <= EXACT_TRIALS, count, beyond)
