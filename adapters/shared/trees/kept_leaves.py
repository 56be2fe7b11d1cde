"""Leaves of the rows that are out of the trees' bags, kept from the proof of the bags for the members' outputs."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.bags import Bags

__all__ = ["ROWS_OF_PIECE", "KeptLeaves"]

# Rows of a piece: few, so that all trees' leaves of them stay in a processor's cache.
ROWS_OF_PIECE = 128


@dataclass(eq=False)
class _Store:
    """Pieces of rows by the position of their first: how many rows each has, and their leaves out of bag by tree."""

    bytes_left: int
    bags: Bags | None = None
    pieces: dict[int, tuple[int, NDArray[Any]]] = field(default_factory=dict)


class KeptLeaves:
    """Leaves of the first rows that fit into a number of bytes, for each tree those of rows out of its bag.

    Parameters
    ----------
    most_bytes : int

    Examples
    --------
    >>> kept = KeptLeaves(1000)
    >>> kept.begin(Bags.from_mask([[True, False, False]]))
    >>> kept.keep(np.array([[7, 8, 9]]))
    >>> kept.of_rows(slice(1, 3)).read(np.array([[False, True]]))
    array([[8, 9]])
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._start = most_bytes, 0
        self._store = _Store(0)

    def of_rows(self, rows: slice) -> KeptLeaves:
        """Return the same leaves, for a contiguous block of these rows."""
        part = KeptLeaves(self._most_bytes)
        part._store, part._start = self._store, self._start + (rows.start or 0)
        return part

    def begin(self, bags: Bags) -> None:
        """Keep leaves out of these bags from now on; all that were kept are dropped."""
        self._store.bytes_left, self._store.bags = self._most_bytes, bags
        self._store.pieces.clear()

    def keep(self, leaves: NDArray[Any]) -> None:
        """Keep the leaves of these rows, shape (n_trees, n_rows), as long as there is room."""
        store = self._store
        if store.bytes_left < 0:
            return
        for first in range(0, leaves.shape[1], ROWS_OF_PIECE):
            part = np.ascontiguousarray(leaves[:, first : first + ROWS_OF_PIECE])
            start = self._start + first
            own = part.reshape(-1).take(self._places(start, part.shape[1]))
            store.bytes_left -= own.nbytes
            if store.bytes_left < 0:
                return
            store.pieces[start] = part.shape[1], own

    def read(self, wanted: NDArray[np.bool_]) -> NDArray[Any] | None:
        """Return the leaves of these rows, which may be any where they are not wanted; None if not all are kept.

        Parameters
        ----------
        wanted : ndarray of bool, shape (n_trees, n_rows)
        """
        store, stop = self._store, self._start + wanted.shape[1]
        if store.bags is None or (wanted & store.bags.in_bag(slice(self._start, stop))).any():
            return None
        starts = sorted(store.pieces)
        first = reached = starts[max(bisect_right(starts, self._start), 1) - 1] if starts else stop
        parts = []
        while reached < stop and reached in store.pieces:
            parts.append(self._piece(reached))
            reached += parts[-1].shape[1]
        if not first <= self._start < stop <= reached:
            return None
        return np.concatenate(parts, axis=1)[:, self._start - first : stop - first]

    def _piece(self, start: int) -> NDArray[Any]:
        """Return the leaves of a piece, 0 in bag, shape (n_trees, n_rows_of_piece)."""
        assert self._store.bags is not None
        height, own = self._store.pieces[start]
        leaves = np.zeros((self._store.bags.n_members, height), own.dtype)
        leaves.reshape(-1)[self._places(start, height)] = own
        return leaves

    def _places(self, start: int, height: int) -> NDArray[np.intp]:
        """Return the places of the cells out of bag among those of some rows, tree by tree."""
        assert self._store.bags is not None
        return np.flatnonzero(~self._store.bags.in_bag(slice(start, start + height)))
