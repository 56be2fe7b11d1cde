"""Small trees as the search by bits reads them: their thresholds by column, their splits and their leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ens_plugin._kernel import native

__all__ = ["FEWEST_ROWS", "Slices", "address", "is_plain", "mask_of", "neighbours", "slices_of", "whole_numbers"]

IntArray = NDArray[np.int64]

# Fewer rows take longer than one by one.
FEWEST_ROWS = 64
MOST_LEAVES = 256
# The bits of all thresholds stay in a processor's cache.
MOST_CUTS = 1 << 15
_SPLIT = np.dtype([("place", np.uint16), ("first", np.uint16), ("cut", np.int32), ("missing", np.int32)])
_BITS = 8
_WHOLE = frozenset(map(np.dtype, (np.int32, np.int64)))


class Slices(NamedTuple):
    """The arrays of ``Slices`` in slices.h."""

    cuts: NDArray[Any]
    cut_starts: IntArray
    splits: NDArray[Any]
    split_starts: IntArray
    leaves: NDArray[np.int32]
    leaf_starts: IntArray
    codes: NDArray[np.uint8]
    turns: NDArray[np.uint16]
    turn_starts: IntArray

    def is_shorter(self, trees: range, n_rows: int) -> bool:
        """Return whether the search by bits takes less time than that node by node."""
        n_splits = int(self.split_starts[trees.stop] - self.split_starts[trees.start])
        # To look for a value among the thresholds of its column takes about as long as to walk a tree.
        n_columns = int(np.count_nonzero(np.diff(self.cut_starts)))
        return n_rows >= FEWEST_ROWS and len(trees) >= n_columns and n_splits >= self.cuts.size

    def addresses(self, first: int) -> tuple[int, ...]:
        """Return the addresses of the arrays, of which those by tree start with tree number `first`."""
        by_tree = self._replace(
            split_starts=self.split_starts[first:],
            leaf_starts=self.leaf_starts[first:],
            turn_starts=self.turn_starts[_BITS * first :],
        )
        return tuple(map(address, by_tree))

    def code_places(self) -> tuple[IntArray, IntArray]:
        """Return the place of each leaf in an array by code, one tree after the other, and where each tree starts."""
        n_leaves = np.diff(self.leaf_starts)
        starts = _starts(1 << np.ceil(np.log2(n_leaves)).astype(np.int64))
        return np.repeat(starts[:-1], n_leaves) + self.codes, starts


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
    leaves = place[is_leaf].astype(np.int32)
    split_starts, leaf_starts = (
        _starts(np.add.reduceat(own, roots[:-1], dtype=np.int64)) for own in (is_split, is_leaf)
    )
    codes = np.empty(leaves.size, np.uint8)
    turns, turn_starts = np.empty(_BITS * splits.size, np.uint16), np.empty(_BITS * sizes.size + 1, np.int64)
    native.number(
        address(splits), address(split_starts), address(leaves), address(leaf_starts), sizes.size,
        address(codes), address(turns), address(turn_starts),
    )  # fmt: skip
    return Slices(
        cuts=ascending[is_new],
        cut_starts=_starts(np.bincount(by_column[is_new], minlength=n_features)),
        splits=splits,
        split_starts=split_starts,
        leaves=leaves,
        leaf_starts=leaf_starts,
        codes=codes,
        turns=turns[: turn_starts[-1]].copy(),
        turn_starts=turn_starts,
    )


def _starts(counts: NDArray[Any]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def neighbours(values: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of a type whose numbers are next to each other, at addresses that the kernel can read."""
    return np.require(values, dtype, ["C", "A"])


def mask_of(values: Any) -> NDArray[np.bool_]:
    """Return a mask as the kernel reads it: bytes of 0 and 1, where a view as bool may hold any others."""
    mask = neighbours(values, np.bool_)
    numbers = mask.view(np.uint8)
    return mask if numbers.max(initial=0) <= 1 else numbers != 0


def address(values: NDArray[Any] | None) -> int:
    """Return where an array is in memory; 0 for None."""
    return 0 if values is None else native.address(values)


def whole_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers of 4 or 8 bytes; the same array, however far apart its numbers are, if they are."""
    own = np.asarray(values)
    return own if own.dtype in _WHOLE else own.astype(np.int64)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers can be copied as they are; others would be objects that are counted."""
    return dtype.kind in "biuf" and dtype.itemsize in (1, 2, 4, 8)
