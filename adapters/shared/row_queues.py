"""Values of each row that move up to places of the row, in order; ens-plugin-walk does the same in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["move_values", "move_values_by_label"]

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
    move_values_by_label(values[None], taken[None], outputs[None], filled, None if leaves is None else leaves[None])


def move_values_by_label(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Do what :func:`move_values` does, for several labels whose outputs are filled in the same places.

    Parameters
    ----------
    values, taken, outputs, leaves : ndarray, shape (n_labels, n_members, ...)
        As of :func:`move_values`.
    filled : ndarray of bool, shape (n_members, n_rows)
    """
    n_members, n_rows = filled.shape
    moved = np.zeros((ROWS_TOGETHER, n_members))
    for start in range(0, n_rows, ROWS_TOGETHER):
        rows = slice(start, min(start + ROWS_TOGETHER, n_rows))
        # By row, so that the values of one row come after those of another.
        places = _by_row(filled[:, rows])
        # Positions are found without a branch, which a mask as an index takes for each value.
        wanted, into = np.count_nonzero(places, axis=1), np.flatnonzero(places)
        order = np.arange(into.size)
        for label, own_values in enumerate(values):
            own = _by_row(taken[label][:, rows])
            at = np.flatnonzero(own).take(order + _skipped(np.count_nonzero(own, axis=1), wanted))
            known = _row_values(own_values, None if leaves is None else leaves[label][:, rows], rows, at)
            moved.reshape(-1)[into] = known
            outputs[label][:, rows] = moved[: len(own)].T


def _by_row(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row next to each other; a copy of their own first, whose columns are close."""
    return np.ascontiguousarray(np.ascontiguousarray(values).T)


def _skipped(n_taken: NDArray[np.intp], n_wanted: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many values of the rows before are taken but not wanted, for each value that is wanted."""
    spare = n_taken - n_wanted
    return np.repeat(np.cumsum(spare) - spare, n_wanted)


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
