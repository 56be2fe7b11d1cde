"""Sums over the trees out of whose bags rows are, kept from the proof of the bags for the tallies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.tallies.bags import Bags

__all__ = ["KeptSums"]


@dataclass(eq=False)
class _Store:
    """The bags that the sums are of; None before they are computed."""

    bags: Bags | None = None


class KeptSums:
    """Sums of the values of leaves over trees, which the compiled walk computes while it counts rows for the proof.

    Parameters
    ----------
    of_leaf : callable
        Returns the values of each tree's leaves.
    n_rows : int
    """

    def __init__(self, of_leaf: Callable[[], Sequence[NDArray[Any]]], n_rows: int) -> None:
        self._of_leaf, self._rows = of_leaf, slice(0, n_rows)
        self._sums = np.empty((5, n_rows))
        self._store = _Store()

    def of_rows(self, rows: slice) -> KeptSums:
        """Return the same sums, for a contiguous block of these rows."""
        part = object.__new__(KeptSums)
        part._of_leaf, part._store, part._sums = self._of_leaf, self._store, self._sums[:, rows]
        start = self._rows.start + (rows.start or 0)
        part._rows = slice(start, start + part._sums.shape[1])
        return part

    def begin(self, bags: Bags | None) -> None:
        """Drop all sums; those of these bags are to be computed by :meth:`count` for all rows, or none."""
        self._store.bags = bags

    def count(self, forest: Forest, rows: Rows, bags: Bags) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return how many of these rows reach each leaf, as ``TreeWalk.count``, and keep their sums."""
        counted = forest.walk.count_and_sum(rows, self._of_leaf, bags, self._sums)
        if counted is None:
            self._store.bags = None
        return counted

    def read(self, bags: Bags | None) -> NDArray[np.float64] | None:
        """Return the sums of these rows out of the given bags, shape (5, n_rows); None if those are not kept."""
        known = self._store.bags
        if bags is None or known is None or self._rows.start % 8:
            return None
        own = known.part(self._rows).bits
        # Mostly they are the same bits in memory, which need not be compared.
        is_same = own.__array_interface__ == bags.bits.__array_interface__ or np.array_equal(own, bags.bits)
        return self._sums if is_same else None
