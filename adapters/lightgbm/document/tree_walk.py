"""The leaves of a LightGBM forest's trees by the compiled walk, which reads them in the text of the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ens_plugin.adapters.lightgbm.document.text import CATEGORICAL, ModelText, TreeText
from ens_plugin.adapters.shared.trees.flat_trees import FlatForest, FlatTree
from ens_plugin.adapters.shared.trees.leaf_walk import LeafWalk, Table, compared_rows
from ens_plugin.core.stopping import StoppingTable
from ens_plugin.core.tallies.bags import Bags

__all__ = ["TreeWalk"]

# Bits of a split's decision type.
DEFAULT_LEFT = 2
MISSING_KIND = 12
MISSING_IS_ZERO = 4
MISSING_IS_NAN = 8
# LightGBM takes numbers up to this size for zero.
ZERO = float(np.float32(1e-35))


class TreeWalk:
    """Leaves that rows reach in all trees, if the compiled walk finds those of LightGBM's ``predict(pred_leaf=True)``.

    Parameters
    ----------
    text : ModelText
    n_features : int
    dtype : dtype
        Of the leaf numbers.
    categories : list of list or None
        Categories of the DataFrame that the model was trained on, by categorical column; None where there were none.
    """

    def __init__(self, text: ModelText, n_features: int, dtype: DTypeLike, categories: list[list[Any]] | None) -> None:
        self._text, self._n_features, self._dtype = text, n_features, np.dtype(dtype)
        self._categories = categories or []
        self._walk = LeafWalk(self._flatten, "LightGBM's predict(pred_leaf=True)")

    def compare(self, table: Any, find_own: Callable[[Any], NDArray[Any]]) -> None:
        """Compare the walk with LightGBM on some rows of a table, and on rows made of thresholds, unless that is done.

        Parameters
        ----------
        table : ndarray, CSR matrix or DataFrame
        find_own : callable
            Returns LightGBM's own leaves of a table, shape (n_rows, n_trees).
        """
        n_rows = table.shape[0]
        if not self._walk.may_compare(n_rows):
            return
        chosen = compared_rows(n_rows)
        some = table.iloc[chosen] if hasattr(table, "iloc") else table[chosen]
        rows = self._as_array(some)
        if rows is not None and self._walk.is_to_compare(n_rows, rows.dtype):
            self._walk.compare(rows, lambda: find_own(some).T, lambda probes: find_own(probes).T)

    def leaves(self, rows: Any, trees: range, wanted: NDArray[np.bool_] | None = None) -> NDArray[Any] | None:
        """Return the leaf of each tree that each row reaches, (n_trees, n_rows); None where the walk is not used.

        Parameters
        ----------
        rows : PreparedRows
        trees : range
        wanted : ndarray of bool, shape (n_trees, n_rows), optional
            True for leaves to find; the others are 0.
        """
        if not self._walk.is_used:
            return None
        return self._walk.read_blocks(self._table(rows), trees, wanted)

    @property
    def is_by_bits(self) -> bool:
        """Return whether the walk finds all leaves again in less time than they are kept in."""
        return self._walk.is_by_bits

    def values(self, rows: Any, of_leaf: list[NDArray[Any]]) -> NDArray[Any] | None:
        """Return the value of the leaf of each tree that each row reaches, (n_trees, n_rows).

        None where the walk is not used, or the trees are too large for it to be fast.

        Parameters
        ----------
        rows : PreparedRows
        of_leaf : list of ndarray
            Values of each tree's leaves, always the same.
        """
        if not self._walk.is_by_bits:
            return None

        return self._walk.read_blocks(self._table(rows), name="values", values=partial(_by_node, of_leaf))

    def value_sums(self, rows: Any, of_leaf: list[NDArray[Any]], bags: Bags | None) -> NDArray[np.float64] | None:
        """Return sums of the leaves' values over the trees of each row, as :meth:`LeafWalk.value_sums`."""
        return self._walk.value_sums(self._table(rows), partial(_by_node, of_leaf), bags)

    def stopped_sums(
        self, rows: Any, of_leaf: list[NDArray[Any]], stops: StoppingTable
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
        """Return sums of the leaves' values, tree by tree until they settle a row, and numbers of trees.

        None where the walk is not used.

        Parameters
        ----------
        rows : PreparedRows
        of_leaf : list of ndarray
            As of :meth:`values`.
        stops : StoppingTable
        """
        if not self._walk.is_used:
            return None
        array = self._as_array(rows.table)
        return None if array is None else self._walk.stopped_sums(partial(_by_node, of_leaf), array, stops)

    def count(
        self, rows: Any, bags: Bags, bag_of: NDArray[Any]
    ) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]] | None:
        """Return how many rows reach each leaf of each tree: of those in the tree's bag, then of all.

        None where the walk is not used, or the trees are too large.

        Parameters
        ----------
        rows : PreparedRows
        bags : Bags
        bag_of : ndarray of int, shape (n_trees,)
            Bag of each tree.
        """
        counted = self._walk.count(self._table(rows), bags, bag_of)
        if counted is None:
            return None
        edges = np.cumsum([tree.n_leaves for tree in self._text.trees])[:-1]
        in_bag, every = (np.split(own, edges) for own in counted)
        return in_bag, every

    def _table(self, rows: Any) -> Table:
        return Table(rows.shape[0], 8 * self._n_features, lambda block: self._as_array(rows[block].table))

    def _as_array(self, table: Any) -> NDArray[Any] | None:
        """Return a table as the numbers that LightGBM makes of it; None where only LightGBM can convert it."""
        if isinstance(table, np.ndarray):
            return table if table.dtype in (np.float32, np.float64) else table.astype(np.float32)
        if hasattr(table, "iloc"):
            return self._frame_as_array(table)
        return table.toarray() if table.dtype in (np.float32, np.float64) else None

    def _frame_as_array(self, frame: Any) -> NDArray[Any] | None:
        is_category = np.array([hasattr(dtype, "categories") for dtype in frame.dtypes])
        numbers = [dtype for dtype, other in zip(frame.dtypes, is_category, strict=True) if not other]
        if is_category.sum() != len(self._categories) or not all(isinstance(dtype, np.dtype) for dtype in numbers):
            return None
        if any(dtype.kind not in "biuf" for dtype in numbers):
            return None
        array = np.empty(frame.shape, np.result_type(np.float32, *numbers))
        array[:, ~is_category] = frame.iloc[:, np.flatnonzero(~is_category)].to_numpy(array.dtype)
        for column, known in zip(np.flatnonzero(is_category), self._categories, strict=True):
            codes = frame.iloc[:, column].cat.set_categories(known).cat.codes.to_numpy()
            array[:, column] = np.where(codes < 0, np.nan, codes)
        return array

    def _flatten(self) -> FlatForest:
        trees = [_flat_tree(tree) for tree in self._text.trees]
        return FlatForest(
            trees=trees,
            numbers=[_leaf_numbers(tree.n_leaves, self._dtype) for tree in self._text.trees],
            n_features=self._n_features,
            # The fraction of a category is cut off.
            least_category=float(np.nextafter(-1.0, 0.0)),
            cleaned=partial(_cleaned, columns=_columns_without_zero(self._text)),
        )


def _numbers(tree: TreeText, key: str, dtype: DTypeLike) -> NDArray[Any]:
    return np.fromstring(tree.lines[key], dtype, sep=" ")


def _by_node(of_leaf: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.concatenate([np.zeros(own.size - 1), own]) for own in of_leaf]


def _flat_tree(tree: TreeText) -> FlatTree:
    """Return a tree with its splits first, then its leaves."""
    n_leaves = tree.n_leaves
    of_leaf = np.zeros(n_leaves)
    if n_leaves == 1:
        return FlatTree(of_leaf - 1, of_leaf - 1, of_leaf, of_leaf, of_leaf)
    kind = _numbers(tree, "decision_type", np.int32)
    threshold = _numbers(tree, "threshold", np.float64)
    is_set = (kind & CATEGORICAL) != 0
    has_default = (kind & MISSING_KIND) != 0
    missing_left = np.where(has_default, (kind & DEFAULT_LEFT) != 0, threshold >= 0) & ~is_set
    left, right = (
        np.concatenate([np.where(child < 0, n_leaves - 2 - child, child), of_leaf - 1])
        for child in (_numbers(tree, key, np.int32) for key in ("left_child", "right_child"))
    )
    numerical = FlatTree(
        left=left,
        right=right,
        feature=np.concatenate([_numbers(tree, "split_feature", np.int32), of_leaf]),
        threshold=np.concatenate([threshold, of_leaf]),
        missing_left=np.concatenate([missing_left, of_leaf]),
    )
    if not is_set.any():
        return numerical
    return numerical._replace(
        sets=np.concatenate([np.where(is_set, threshold, -1), of_leaf - 1]).astype(np.int32),
        set_starts=_numbers(tree, "cat_boundaries", np.int64),
        set_words=_numbers(tree, "cat_threshold", np.uint32),
    )


def _leaf_numbers(n_leaves: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros(n_leaves - 1, dtype), np.arange(n_leaves, dtype=dtype)])


def _columns_without_zero(text: ModelText) -> NDArray[np.intp]:
    """Return the columns in which zero is a missing value; raise ValueError if it is one in some of the splits only."""
    kinds, columns = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for tree in text.trees:
        if tree.n_leaves > 1:
            kind = _numbers(tree, "decision_type", np.int32)
            is_number = kind & CATEGORICAL == 0
            kinds.append(kind[is_number] & MISSING_KIND)
            columns.append(_numbers(tree, "split_feature", np.int32)[is_number])
    column, is_zero = np.concatenate(columns), np.concatenate(kinds) == MISSING_IS_ZERO
    found = np.unique(column[is_zero])
    if np.isin(column[~is_zero], found).any():
        raise ValueError("zero is missing in some splits of a column only")
    return found.astype(np.intp)


def _cleaned(rows: NDArray[Any], columns: NDArray[np.intp]) -> NDArray[Any]:
    """Return rows with numbers next to zero as zero, or as NaN in columns where zero is missing."""
    is_zero = np.abs(rows) <= ZERO
    if not columns.size and not rows[is_zero].any():
        return rows
    rows = np.where(is_zero, rows.dtype.type(0), rows)
    for column in columns:
        rows[is_zero[:, column], column] = np.nan
    return rows
