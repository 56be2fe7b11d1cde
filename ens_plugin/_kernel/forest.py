"""Trees of a library as nodes in one format, and the leaves that rows reach in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.tree import FlatTree

__all__ = [
    "FEWEST_ROWS",
    "Forest",
    "Slices",
    "address",
    "is_plain",
    "mask_of",
    "neighbours",
    "slices_of",
    "whole_numbers",
]

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

    The nodes, as in walk_tree.h, compare with no set of categories; `roots`, shape (n_trees + 1,), are the positions of
    the first node of each tree.
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


_NODES = {
    np.dtype(real): np.dtype([("threshold", real), ("feature", np.uint32), ("first", np.int32)])
    for real in (np.float32, np.float64)
}
# The nodes of one tree in their own order, as of ``Link`` in native.c.
_LINK = np.dtype([("threshold", np.float64), ("left", np.int32), ("right", np.int32), ("rest", np.int64)])
_FLAGS = frozenset(map(np.dtype, (np.bool_, np.uint8)))
MOST_FEATURES = MOST_NODES = 2**30


class Forest:
    """Nodes of several trees in breadth-first order, for features of one type, float32 or float64.

    Thresholds are rounded down to that type, which changes no comparison.  Numbers below `least_category` go right at a
    split by category.  `visit` is called with the position of each tree as soon as it is read, while its arrays are in
    a processor's cache.  A ValueError is raised if the links of a tree do not lead from its root to leaves, or it
    compares a column that is not there.
    """

    def __init__(
        self,
        trees: Sequence[FlatTree],
        n_features: int,
        dtype: Any,
        least_category: float = 0.0,
        visit: Callable[[int], object] | None = None,
    ) -> None:
        self.dtype, self.n_features = np.dtype(dtype), n_features
        self._least_category = least_category
        if not least_category > -1:
            raise ValueError(f"the least category is above -1, got {least_category}")
        if not 0 < n_features <= MOST_FEATURES:
            raise ValueError(f"a forest has 1 to {MOST_FEATURES} columns, got {n_features}")
        sizes = [len(tree.left) for tree in trees]
        if max(sizes, default=0) > MOST_NODES:
            raise ValueError(f"a tree has up to {MOST_NODES} nodes")
        self._roots = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        self._nodes = np.empty(self._roots[-1], _NODES[self.dtype])
        self._order = np.empty(self._roots[-1], np.int32)
        self._set_starts, self._set_words = _joined_sets(trees)
        n_sets = 0 if self._set_starts is None else self._set_starts.size - 1
        space = np.empty(max(sizes, default=0), _LINK)
        # Whether some split sends no value to the left.
        self._is_endless = native.put_trees(
            _columns_of(trees), visit, address(self._roots), n_features, n_sets, self.dtype == np.float64,
            address(self._nodes), address(self._order), address(space),
        )  # fmt: skip

    @property
    def n_trees(self) -> int:
        """Return the number of trees."""
        return self._roots.size - 1

    def table(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return what :meth:`read` returns for each leaf: one number for each node of each tree, all of one type."""
        sizes = [len(own) for own in values]
        if sizes != np.diff(self._roots).tolist() or not is_plain(np.result_type(*values)):
            raise ValueError("a table has one number of up to 8 bytes for each node")
        table = np.empty(self._order.size, np.result_type(*values))
        own = tuple(np.asarray(of_tree, table.dtype) for of_tree in values)
        kind, n_bytes = table.dtype.kind, table.itemsize
        native.fill_tables(own, kind, n_bytes, address(self._roots), address(self._order), address(table))
        return table

    def read(
        self,
        features: NDArray[Any],
        table: NDArray[Any],
        trees: range | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Return the entry of a :meth:`table` for the leaf that each row reaches in each tree, shape (n_trees, n_rows).

        NaN is a missing value.  The trees are a range in steps of 1; entries that are not `wanted` are 0.
        """
        chosen = range(self.n_trees) if trees is None else trees
        rows = self.checked_rows(features)
        if not 0 <= chosen.start <= chosen.stop <= self.n_trees or chosen.step != 1:
            raise ValueError(f"{chosen} is no range of {self.n_trees} trees")
        shape = (len(chosen), rows.shape[0])
        is_wanted = None if wanted is None else neighbours(wanted, np.bool_)
        if is_wanted is not None and is_wanted.shape != shape:
            raise ValueError(f"wanted has shape {is_wanted.shape}, not {shape}")
        if not self._fits(table) or not is_plain(table.dtype):
            raise ValueError("the table is not one of this forest")
        outputs = (np.empty if is_wanted is None else np.zeros)(shape, table.dtype)
        roots = self._roots[chosen.start : chosen.stop]
        of_rows = (address(rows), address(is_wanted), shape[1], self.n_features, self.dtype == np.float64)
        slices = self._slices
        if slices is not None and slices.is_shorter(chosen, shape[1]):
            output = (address(roots), address(table), address(outputs), table.dtype.itemsize)
            native.slice(
                *of_rows, slices.addresses(chosen.start), len(chosen), output, (0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0)
            )
            return outputs
        native.walk(
            *of_rows, address(self._nodes), address(roots), len(chosen),
            address(self._set_words), address(self._set_starts), self._least_category, self._is_endless,
            address(table), address(outputs), table.dtype.itemsize,
        )  # fmt: skip
        return outputs

    def stopping(
        self, table: NDArray[np.float64], checkpoints: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any]
    ) -> Stopping:
        """Return what adds up the trees' values in turn until a row is settled.

        The :meth:`table` holds the value of each leaf.  At each checkpoint, a number of trees, sums up to `lower`, or
        from `upper` on, settle a row; the checkpoints ascend, and the last is of all trees.
        """
        places = np.array(checkpoints, np.int64)
        bounds = [neighbours(own, np.float64) for own in (lower, upper)]
        if table.dtype != np.float64 or not self._fits(table):
            raise ValueError("the table is not one of values of this forest")
        if places.ndim != 1 or any(own.shape != places.shape for own in bounds):
            raise ValueError("each checkpoint has two bounds")
        if not places.size or places[-1] != self.n_trees or places[0] < 1 or (places[1:] <= places[:-1]).any():
            raise ValueError(f"the checkpoints do not ascend to the {self.n_trees} trees")
        arrays = (self._nodes, self._roots, self._set_words, self._set_starts, table, places, *bounds)
        nodes, roots, words, starts, *of_stops = map(address, arrays)
        forest = (self.n_features, self.dtype == np.float64, nodes, roots, self.n_trees, words, starts)
        return Stopping(self, arrays, (*forest, self._least_category), (*of_stops, places.size))

    def value_sums(
        self, features: NDArray[Any], table: NDArray[np.float64], bits: NDArray[np.uint8] | None
    ) -> NDArray[np.float64]:
        """Return what ``tallies.value_sums`` does, shape (4, n_rows), from the values of the leaves that rows reach.

        `bits`, shape (n_trees, ceil(n_rows / 8)), are the rows that do not count by tree, as ``np.packbits`` packs
        them.
        """
        return self._sums(features, table, bits, None)[0]

    def count_and_sum(
        self, features: NDArray[Any], table: NDArray[np.float64], bits: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return what :meth:`count` does, of trees with a bag each, and :meth:`value_sums` out of these bags.

        Both together take less time, because the rows that reach each node are found once.  `bits` are the bags.
        """
        found = np.zeros(0 if self._slices is None else self._slices.leaves.size, np.int64)
        sums, out_of_bag = self._sums(features, table, bits, found)
        return *self._by_node(np.stack([found - out_of_bag, found])), sums

    def _sums(
        self,
        features: NDArray[Any],
        table: NDArray[np.float64],
        bits: NDArray[np.uint8] | None,
        found: NDArray[np.int64] | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return sums of values, and how many rows that count reach each leaf; add to `found` how many rows do."""
        rows, slices = self.checked_rows(features), self._slices
        if slices is None:
            raise ValueError("these trees are too large to add up their leaves")
        out = None if bits is None else neighbours(bits, np.uint8)
        if out is not None and out.shape != (self.n_trees, -(-rows.shape[0] // 8)):
            raise ValueError(f"the bits of {rows.shape[0]} rows have shape {out.shape}")
        if table.dtype != np.float64 or table.shape != self._nodes.shape:
            raise ValueError("the table is not one of values of this forest")
        places, starts = slices.code_places()
        values, reached = np.zeros(starts[-1]), np.zeros(starts[-1], np.int64)
        values[places] = table[np.repeat(self._roots[:-1], np.diff(slices.leaf_starts)) + slices.leaves]
        sums, n_bytes = np.empty((4, rows.shape[0])), 0 if out is None else out.shape[1]
        native.slice(
            address(rows), 0, rows.shape[0], self.n_features, self.dtype == np.float64, slices.addresses(0),
            self.n_trees, (0, 0, 0, 0), (0, 0, 0, 0, address(found)),
            (address(values), address(starts), address(out), n_bytes, address(sums),
             0 if found is None else address(reached)),
        )  # fmt: skip
        return sums, reached[places]

    @property
    def counts_leaves(self) -> bool:
        """Return whether :meth:`count` is fast: trees are small and not few, and none has sets of categories."""
        return self._slices is not None and self._slices.is_shorter(range(self.n_trees), FEWEST_ROWS)

    def count(
        self, features: NDArray[Any], bits: NDArray[np.uint8], bag_of: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many rows reach each leaf: of those in the tree's bag, then of all.

        Both are by node, one tree after the other; 0 for nodes that are no leaves.  `bits`, shape (n_bags, ceil(n_rows
        / 8)), are the bags as ``np.packbits`` packs them, and `bag_of` is the bag of each tree.
        """
        rows, slices = self.checked_rows(features), self._slices
        bags, own = neighbours(bits, np.uint8), np.array(bag_of, np.int64)
        if slices is None:
            raise ValueError("these trees are too large to count their leaves")
        if bags.ndim != 2 or bags.shape[1] != -(-rows.shape[0] // 8):
            raise ValueError(f"the bits of bags of {rows.shape[0]} rows have shape {bags.shape}")
        if own.shape != (self.n_trees,) or (own < 0).any() or (own >= bags.shape[0]).any():
            raise ValueError(f"each of {self.n_trees} trees has one of {bags.shape[0]} bags")
        counts = np.zeros((2, slices.leaves.size), np.int64)
        native.slice(
            address(rows), 0, rows.shape[0], self.n_features, self.dtype == np.float64, slices.addresses(0),
            self.n_trees, (0, 0, 0, 0),
            (address(bags), address(own), bags.shape[1], address(counts[0]), address(counts[1])),
            (0, 0, 0, 0, 0, 0),
        )  # fmt: skip
        return self._by_node(counts)

    def _by_node(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return counts of leaves by node, one tree after the other; 0 for nodes that are no leaves."""
        assert self._slices is not None
        starts = np.repeat(self._roots[:-1], np.diff(self._slices.leaf_starts))
        by_node = np.zeros((2, self._order.size), np.int64)
        # A leaf that several nodes lead to is as many leaves to the kernel.
        for nodes, of_leaf in zip(by_node, counts, strict=True):
            np.add.at(nodes, starts + self._order[starts + self._slices.leaves], of_leaf)
        return by_node[0], by_node[1]

    @cached_property
    def _slices(self) -> Slices | None:
        return None if self._set_starts is not None else slices_of(self._nodes, self._roots, self.n_features)

    def checked_rows(self, features: NDArray[Any]) -> NDArray[Any]:
        """Return features in the type and order of this forest; raise ValueError for another number of columns."""
        rows: NDArray[Any] = neighbours(features, self.dtype)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"the features have shape {rows.shape}, and the trees {self.n_features} columns")
        return rows

    def _fits(self, table: NDArray[Any]) -> bool:
        return table.shape == self._nodes.shape and table.flags.c_contiguous and table.flags.aligned


def _columns_of(trees: Sequence[FlatTree]) -> tuple[tuple[NDArray[Any], ...], ...]:
    """Return the arrays of each tree in types that the kernel reads, with sets numbered among those of all trees."""
    columns, first_set = [], 0
    for tree in trees:
        own: tuple[NDArray[Any], ...] = (
            whole_numbers(tree.left),
            whole_numbers(tree.right),
            whole_numbers(tree.feature),
            np.asarray(tree.threshold, np.float64),
            _flags(tree.missing_left),
        )
        if tree.sets is not None:
            own = (*own, np.where(tree.sets < 0, -1, tree.sets + first_set).astype(np.int32))
        columns.append(own)
        first_set += 0 if tree.set_starts is None else len(tree.set_starts) - 1
    return tuple(columns)


def _flags(values: NDArray[Any]) -> NDArray[Any]:
    own = np.asarray(values)
    return own if own.dtype in _FLAGS else own.astype(np.bool_)


class Stopping(NamedTuple):
    """Sums of the trees' values in turn until they settle a row, from :meth:`Forest.stopping`.

    The forest and the arrays are kept because their addresses are, among the kernel's arguments.
    """

    forest: Forest
    arrays: tuple[NDArray[Any] | None, ...]
    of_forest: tuple[Any, ...]
    of_stops: tuple[int, ...]

    def sums(self, features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the sum of each row's trees, added in order, and their number; NaN is a missing value."""
        rows = self.forest.checked_rows(features)
        n_rows = rows.shape[0]
        totals, queries = np.empty(n_rows), np.empty(n_rows, np.int64)
        native.stop(address(rows), n_rows, self.of_forest, self.of_stops, address(totals), address(queries))
        return totals, queries


def _joined_sets(trees: Sequence[FlatTree]) -> tuple[NDArray[np.int64] | None, NDArray[np.uint32] | None]:
    """Return the sets of all trees in one array of words, and where each starts; None where there are none."""
    starts, words, n_words, n_sets = [np.zeros(1, np.int64)], [], 0, 0
    for tree in trees:
        if tree.sets is None and tree.set_starts is None and tree.set_words is None:
            continue
        if tree.sets is None or tree.set_starts is None or tree.set_words is None:
            raise ValueError("a tree with sets has their numbers, their starts and their words")
        own = np.asarray(tree.set_starts, np.int64)
        is_line = own.ndim == np.ndim(tree.set_words) == 1 and own.size > 0
        if not is_line or own[0] != 0 or own[-1] != len(tree.set_words) or (own[1:] < own[:-1]).any():
            raise ValueError("the starts of sets do not divide their words")
        if (np.asarray(tree.sets) >= own.size - 1).any() or n_sets + own.size > np.iinfo(np.int32).max:
            raise ValueError(f"a split by category has one of {own.size - 1} sets")
        n_sets += own.size - 1
        starts.append(own[1:] + n_words)
        words.append(np.asarray(tree.set_words, np.uint32))
        n_words += len(tree.set_words)
    if not words:
        return None, None
    return np.concatenate(starts), np.concatenate(words)
