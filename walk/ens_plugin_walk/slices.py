"""Small trees as the search by bits reads them: their thresholds by column, their splits and their leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST_ROWS", "NO_NODE", "Slices", "address", "slices_of"]

IntArray = NDArray[np.int64]

# First child, in place of a node that no path leads to.
NO_NODE = -1
# Fewer rows take longer than one by one.
FEWEST_ROWS = 64
MOST_LEAVES = 256
# The bits of all thresholds stay in a processor's cache.
MOST_CUTS = 1 << 15
_SPLIT = np.dtype([(name, np.int32) for name in ("place", "first", "cut", "missing")])


class Slices(NamedTuple):
    """The arrays of ``Slices`` in slices.h."""

    cuts: NDArray[Any]
    cut_starts: IntArray
    splits: NDArray[Any]
    split_starts: IntArray
    leaves: NDArray[np.int32]
    leaf_starts: IntArray

    def is_shorter(self, trees: range, n_rows: int) -> bool:
        """Return whether the search by bits takes less time than that node by node."""
        n_splits = int(self.split_starts[trees.stop] - self.split_starts[trees.start])
        # To look for a value among the thresholds of its column takes about as long as to walk a tree.
        n_columns = int(np.count_nonzero(np.diff(self.cut_starts)))
        return n_rows >= FEWEST_ROWS and len(trees) >= n_columns and n_splits >= self.cuts.size

    def addresses(self, first: int) -> tuple[int, ...]:
        """Return the addresses of the arrays, of which those by tree start with tree number `first`."""
        cuts, cut_starts, splits, split_starts, leaves, leaf_starts = self
        by_tree = (split_starts[first:], leaf_starts[first:])
        return tuple(map(address, (cuts, cut_starts, splits, by_tree[0], leaves, by_tree[1])))


def slices_of(nodes: NDArray[Any], roots: IntArray, n_features: int) -> Slices | None:
    """Return the nodes of all trees as slices; None where trees have too many leaves or thresholds.

    Parameters
    ----------
    nodes : ndarray
        As in walk_tree.h, none of which compares with a set of categories.
    roots : ndarray of int, shape (n_trees + 1,)
        Position of the first node of each tree.
    n_features : int
    """
    sizes = np.diff(roots)
    if sizes.max(initial=0) > 2 * MOST_LEAVES - 1:
        return None
    place = np.arange(nodes.size) - np.repeat(roots[:-1], sizes)
    is_split, is_leaf = nodes["first"] > place, nodes["first"] == place
    own = nodes[is_split]
    if np.isnan(own["threshold"]).any():
        return None
    feature = (own["feature"] & np.uint32(0x3FFFFFFF)).astype(np.int32)
    order = np.lexsort((own["threshold"], feature))
    by_column, ascending = feature[order], own["threshold"][order]
    is_new = np.ones(order.size, np.bool_)
    is_new[1:] = (by_column[1:] != by_column[:-1]) | (ascending[1:] != ascending[:-1])
    if np.count_nonzero(is_new) > MOST_CUTS:
        return None
    splits = np.zeros(order.size, _SPLIT)
    splits["place"], splits["first"] = place[is_split], own["first"]
    splits["cut"][order] = np.cumsum(is_new) - 1
    splits["missing"] = np.where(own["feature"] >> np.uint32(31), feature, n_features)
    return Slices(
        cuts=ascending[is_new],
        cut_starts=_starts(np.bincount(by_column[is_new], minlength=n_features)),
        splits=splits,
        split_starts=_starts(np.add.reduceat(is_split, roots[:-1], dtype=np.int64)),
        leaves=place[is_leaf].astype(np.int32),
        leaf_starts=_starts(np.add.reduceat(is_leaf, roots[:-1], dtype=np.int64)),
    )


def _starts(counts: NDArray[Any]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def address(values: NDArray[Any] | None) -> int:
    """Return where an array is in memory; 0 for None."""
    return 0 if values is None else int(values.ctypes.data)
