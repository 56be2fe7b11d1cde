"""Values of each row that move up to places of the row, in order; ens-plugin-walk does the same in compiled code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["move_values"]

# Rows that are moved together: few, so that all members' values of them stay in a processor's cache.
ROWS_TOGETHER = 128


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
        own, places = (np.ascontiguousarray(mask[:, rows].T) for mask in (taken, filled))
        n_wanted = np.count_nonzero(places, axis=1)
        own &= np.cumsum(own, axis=1, dtype=np.int32) <= n_wanted[:, None]
        # Positions are found without a branch, which a mask as an index takes for each value.
        known = _row_values(values, None if leaves is None else leaves[:, rows], rows, np.flatnonzero(own))
        moved.reshape(-1)[np.flatnonzero(places)] = known
        outputs[:, rows] = moved[: len(own)].T


def _row_values(
    values: NDArray[np.float64], leaves: NDArray[np.uint8] | None, rows: slice, at: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return values at some places of a table of some rows by member."""
    if leaves is None:
        return np.ascontiguousarray(values[:, rows].T).take(at)
    n_members, n_leaves = values.shape
    dtype = np.min_scalar_type(n_members * n_leaves - 1)
    places = np.add(leaves.T, np.arange(0, n_members * n_leaves, n_leaves, dtype=dtype), order="C")
    return values.take(places.take(at))
