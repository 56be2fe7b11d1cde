"""The leaves of an XGBoost booster's trees by the compiled walk, which reads them in the model document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ens_plugin.adapters.shared.trees.flat_trees import FlatForest, FlatTree
from ens_plugin.adapters.shared.trees.leaf_walk import LeafWalk, Table, compared_rows
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.stopping import StoppingTable
from ens_plugin.core.tallies.bags import Bags

__all__ = ["TreeWalk"]

IS_SET = 1


class TreeWalk:
    """Leaves that rows reach in all trees, if the compiled walk finds those of ``predict(pred_leaf=True)``.

    Leaves are numbered from 0 in the order of the nodes.

    Parameters
    ----------
    trees : list of dict
        As in the model document.
    n_features : int
    """

    def __init__(self, trees: list[dict[str, Any]], n_features: int) -> None:
        self._trees, self._n_features = trees, n_features
        self._walk = LeafWalk(self._flatten, "XGBoost's predict(pred_leaf=True)")

    def compare(self, rows: Rows, find_own: Callable[[Rows], NDArray[Any]]) -> None:
        """Compare the walk with XGBoost on some of the rows, and on rows made of thresholds, unless that is done.

        Parameters
        ----------
        rows : Rows
        find_own : callable
            Returns the node that XGBoost itself finds for each row in each tree, shape (n_rows, n_trees).
        """
        if not self._walk.is_to_compare(rows.shape[0], np.float32):
            return
        some = rows[compared_rows(rows.shape[0])]
        array = _as_array(some)
        if array is None:
            return

        def own(probes: NDArray[Any]) -> NDArray[Any]:
            return self._numbers_of(find_own(some.with_table(probes)))

        self._walk.compare(array, lambda: self._numbers_of(find_own(some)), own)

    def leaves(self, rows: Rows, trees: Sequence[int], wanted: NDArray[np.bool_] | None = None) -> NDArray[Any] | None:
        """Return the leaf of each tree that each row reaches, (n_trees, n_rows); None where the walk is not used.

        Parameters
        ----------
        rows : Rows
        trees : sequence of int
        wanted : ndarray of bool, shape (n_trees, n_rows), optional
            True for leaves to find; the others are 0.
        """
        if not self._walk.is_used:
            return None
        parts, done = [], 0
        for run in _runs(trees):
            own = None if wanted is None else wanted[done : done + len(run)]
            found = self._walk.read_blocks(self._table(rows), run, own)
            if found is None:
                return None
            parts.append(found)
            done += len(run)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def is_by_bits(self) -> bool:
        """Return whether the walk finds all leaves again in less time than they are kept in."""
        return self._walk.is_by_bits

    @property
    def move_values(self) -> Callable[..., None] | None:
        """Return what copies rows' values in order to other places, as ``row_queues.move_values``; None without it."""
        if not self._walk.is_used:
            return None
        from ens_plugin_walk import move_values

        move: Callable[..., None] = move_values
        return move

    def values(self, rows: Rows, of_leaf: Callable[[], Sequence[NDArray[Any]]]) -> NDArray[Any] | None:
        """Return the value of the leaf of each tree that each row reaches, (n_trees, n_rows).

        None where the walk is not used, or the trees are too large for it to be fast.

        Parameters
        ----------
        rows : Rows
        of_leaf : callable
            Returns the values of each tree's leaves, always the same.
        """
        if not self._walk.is_by_bits:
            return None

        return self._walk.read_blocks(self._table(rows), name="values", values=partial(self._by_node, of_leaf))

    def value_sums(
        self, rows: Rows, of_leaf: Callable[[], Sequence[NDArray[Any]]], bags: Bags | None
    ) -> NDArray[np.float64] | None:
        """Return sums of the leaves' values over the trees of each row, as :meth:`LeafWalk.value_sums`."""
        return self._walk.value_sums(self._table(rows), partial(self._by_node, of_leaf), bags)

    def stopped_sums(
        self, rows: Rows, of_leaf: Callable[[], Sequence[NDArray[Any]]], stops: StoppingTable
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
        """Return sums of the leaves' values, tree by tree until they settle a row, and numbers of trees.

        None where the walk is not used.

        Parameters
        ----------
        rows : Rows
        of_leaf : callable
            As of :meth:`values`.
        stops : StoppingTable
        """
        if not self._walk.is_used:
            return None
        array = _as_array(rows)
        return None if array is None else self._walk.stopped_sums(partial(self._by_node, of_leaf), array, stops)

    def count(self, rows: Rows, bags: Bags) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return how many rows reach each leaf of all trees: of those in the tree's bag, then of all.

        None where the walk is not used, or the trees are too large.
        """
        return self._walk.count(self._table(rows), bags, np.arange(len(self._trees)))

    def count_and_sum(
        self,
        rows: Rows,
        of_leaf: Callable[[], Sequence[NDArray[Any]]],
        bags: Bags,
        sums: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return :meth:`count`, and write :meth:`value_sums` to `sums`; None where that cannot be."""
        return self._walk.count_and_sum(self._table(rows), partial(self._by_node, of_leaf), bags, sums)

    def _by_node(self, of_leaf: Callable[[], Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
        numbers = self._walk.forest.numbers
        return [own.take(number) for own, number in zip(of_leaf(), numbers, strict=True)]

    def _table(self, rows: Rows) -> Table:
        return Table(rows.shape[0], 4 * self._n_features, lambda block: _as_array(rows[block]))

    def _numbers_of(self, nodes: NDArray[Any]) -> NDArray[Any]:
        numbers = self._walk.forest.numbers
        return np.stack([own.take(found.astype(np.intp)) for own, found in zip(numbers, nodes.T, strict=True)])

    def _flatten(self) -> FlatForest:
        # Of all trees at once, because thousands of small arrays take longer than the numbers in them.
        names = ("left_children", "split_conditions", "default_left", "split_type")
        left, conditions, default_left, kind = (np.concatenate([tree[name] for tree in self._trees]) for name in names)
        sizes = [tree["left_children"].size for tree in self._trees]
        parts = [slice(stop - size, stop) for size, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
        thresholds, missing_left = _thresholds(conditions), default_left != 0
        is_set = (kind == IS_SET) & (left >= 0)
        has_sets = bool(is_set.any())
        trees = []
        for tree, own in zip(self._trees, parts, strict=True):
            flat = FlatTree(
                tree["left_children"], tree["right_children"], tree["split_indices"], thresholds[own], missing_left[own]
            )
            trees.append(_with_sets(flat, tree, is_set[own]) if has_sets else flat)
        numbers = _leaf_numbers(left < 0, np.array(sizes))
        return FlatForest(trees=trees, numbers=[numbers[own] for own in parts], n_features=self._n_features)


def _thresholds(conditions: NDArray[Any]) -> NDArray[np.float64]:
    """Return the largest value that goes left at each node: the one before the condition, below which values do."""
    condition = np.asarray(conditions, np.float32)
    before = np.where(np.isneginf(condition), np.float32(np.nan), np.nextafter(condition, np.float32(-np.inf)))
    return np.asarray(before, np.float64)


def _with_sets(numerical: FlatTree, tree: dict[str, Any], is_set: NDArray[np.bool_]) -> FlatTree:
    """Return a tree with its splits by sets of categories; the same tree if it has none."""
    if not is_set.any():
        return numerical
    left, right = numerical.left, numerical.right
    # XGBoost's sets hold the categories that go right.
    sets = np.full(left.size, -1, np.int32)
    sets[tree["categories_nodes"]] = np.arange(len(tree["categories_nodes"]))
    starts, words = _packed_sets(tree)
    return FlatTree(
        left=np.where(is_set, right, left),
        right=np.where(is_set, left, right),
        feature=tree["split_indices"],
        threshold=numerical.threshold,
        missing_left=numerical.missing_left ^ is_set,
        sets=np.where(is_set, sets, -1),
        set_starts=starts,
        set_words=words,
    )


def _packed_sets(tree: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the sets of categories of a tree as bits, and the word at which each starts."""
    starts, words = [0], []
    for first, size in zip(tree["categories_segments"], tree["categories_sizes"], strict=True):
        categories = np.asarray(tree["categories"][int(first) : int(first) + int(size)], np.int64)
        own = np.zeros(int(categories.max(initial=-1)) // 32 + 1, np.uint32)
        np.bitwise_or.at(own, categories // 32, np.uint32(1) << (categories % 32).astype(np.uint32))
        words.append(own)
        starts.append(starts[-1] + own.size)
    return np.array(starts, np.int64), np.concatenate(words)


def _leaf_numbers(is_leaf: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the number of each leaf in its tree, of trees of these sizes one after the other; 0 for other nodes."""
    n_before = np.cumsum(is_leaf, dtype=np.int64) - is_leaf
    starts = np.cumsum(sizes) - sizes
    numbers = np.where(is_leaf, n_before - np.repeat(n_before[starts], sizes), 0)
    return numbers.astype(np.min_scalar_type(int(numbers.max())))


def _runs(trees: Sequence[int]) -> Iterator[range]:
    """Yield the tree numbers as ranges of consecutive numbers."""
    if isinstance(trees, range) and trees.step == 1:
        yield trees
        return
    first = 0
    for place in range(1, len(trees) + 1):
        if place == len(trees) or trees[place] != trees[place - 1] + 1:
            yield range(trees[first], trees[place - 1] + 1)
            first = place


def _as_array(rows: Rows) -> NDArray[np.float32] | None:
    """Return rows as the numbers that XGBoost makes of them, missing ones NaN; None where only it can convert them."""
    with np.errstate(over="ignore"):  # XGBoost refuses what is infinite as float32
        array = _float_table(rows.table)
    if array is None:
        return None
    if not np.isnan(rows.missing):
        array = np.where(array == np.float32(rows.missing), np.float32(np.nan), array)
    return None if np.isinf(array).any() else array


def _float_table(table: Any) -> NDArray[np.float32] | None:
    if hasattr(table, "iloc"):
        is_plain = all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in table.dtypes)
        return table.to_numpy(np.float32) if is_plain else None
    if issparse(table):
        sparse: Any = table
        array = np.full(sparse.shape, np.nan, np.float32)
        array[np.repeat(np.arange(sparse.shape[0]), np.diff(sparse.indptr)), sparse.indices] = sparse.data
        return array
    return np.asarray(table, np.float32)
