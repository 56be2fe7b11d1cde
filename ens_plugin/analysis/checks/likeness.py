"""Which rows of an analysis belong together, are probably copies of each other, or have equal features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.checks.distinct_rows import row_cells
from ens_plugin.analysis.rows.groups import encode_groups
from ens_plugin.analysis.rows.hashes import HashedRows
from ens_plugin.analysis.rows.repeats import RepeatedRows, find_repeats, identical_rows

__all__ = ["RowLikeness", "row_likeness"]


@dataclass(frozen=True, eq=False)
class RowLikeness:
    """What is known of rows that are like each other.

    Attributes
    ----------
    groups : ndarray of int64, shape (n_rows,), or None
        Groups of rows that belong together, where they were named.
    repeats : RepeatedRows or None
        Copies among training rows, where no groups were named.
    cell : ndarray of int64, shape (n_rows,), or None
        Equal for rows of equal features; None where the rows are not a table.
    """

    groups: NDArray[np.int64] | None
    repeats: RepeatedRows | None
    cell: NDArray[np.int64] | None

    def take(self, rows: NDArray[np.intp]) -> RowLikeness:
        """Return what is known of some of the rows."""
        return RowLikeness(
            None if self.groups is None else self.groups[rows],
            None if self.repeats is None else self.repeats.take(rows),
            None if self.cell is None else self.cell[rows],
        )


def row_likeness(groups: Any, rows: HashedRows | None, target: NDArray[Any], data: str) -> RowLikeness:
    """Return the groups that the user named, or copies found among training rows, and rows of equal features."""
    cell = row_cells(rows)
    if isinstance(groups, str) and groups == "identical":
        return RowLikeness(identical_rows(rows, target), None, cell)
    if groups is not None:
        return RowLikeness(encode_groups(groups, target.size), None, cell)
    return RowLikeness(None, None if data == "holdout" else find_repeats(rows, target), cell)
