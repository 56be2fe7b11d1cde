"""Values of each row that move up to places of the row, in order; ens-plugin-walk does the same in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["move_values"]

# Rows that are moved together: few, so that all members' values of them stay in a processor's cache; no power of 2,
# because parts of a column that are so far apart push one another out of it.
ROWS_TOGETHER = 120


def move_values(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number.

    Parameters
    ----------
    values : ndarray of float64, shape (n_members, n_rows), or (n_members, n_leaves) with `leaves`
    taken : ndarray of bool, shape (n_members, n_rows)
    outputs : ndarray of float64, shape (n_members, n_rows)
        Written.
    filled : ndarray of bool, shape (n_members, n_rows)
        A row has at least as many values taken as outputs filled.
    leaves : ndarray of uint8, shape (n_members, n_rows), optional
        Leaf of each member that each row reaches, whose value is the row's.

    Examples
    --------
    >>> outputs = np.zeros((3, 1))
    >>> taken, filled = np.array([[[False], [True], [True]], [[True], [False], [True]]])
    >>> move_values(np.array([[1.0], [2.0], [3.0]]), taken, outputs, filled)
    >>> outputs[[0, 2], 0].tolist()
    [2.0, 3.0]
    """
    n_members, n_rows = taken.shape
    moved = np.zeros((ROWS_TOGETHER, n_members))
    for start in range(0, n_rows, ROWS_TOGETHER):
        rows = slice(start, min(start + ROWS_TOGETHER, n_rows))
        # By row, so that the values of one row come after those of another.
        own, places = (_by_row(mask[:, rows]) for mask in (taken, filled))
        # Positions are found without a branch, which a mask as an index takes for each value.
        at = _first_of_rows(np.flatnonzero(own), *(np.count_nonzero(mask, axis=1) for mask in (own, places)))
        known = _row_values(values, None if leaves is None else leaves[:, rows], rows, at)
        moved.reshape(-1)[np.flatnonzero(places)] = known
        outputs[:, rows] = moved[: len(own)].T


def _by_row(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row next to each other; a copy of their own first, whose columns are close."""
    return np.ascontiguousarray(np.ascontiguousarray(values).T)


def _first_of_rows(at: NDArray[np.intp], n_taken: NDArray[np.intp], n_wanted: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first places of each row that are wanted, of those that are taken, one row after the other."""
    starts = np.cumsum(n_taken - n_wanted) - (n_taken - n_wanted)
    return np.asarray(at.take(np.arange(n_wanted.sum()) + np.repeat(starts, n_wanted)))


def _row_values(
    values: NDArray[np.float64], leaves: NDArray[np.uint8] | None, rows: slice, at: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return values at some places of a table of some rows by member."""
    if leaves is None:
        return _by_row(values[:, rows]).take(at)
    n_members, n_leaves = values.shape
    dtype = np.min_scalar_type(n_members * n_leaves - 1)
    places = np.add(
        np.ascontiguousarray(leaves).T, np.arange(0, n_members * n_leaves, n_leaves, dtype=dtype), order="C"
    )
    return values.take(places.take(at))
