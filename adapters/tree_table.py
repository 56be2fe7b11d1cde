"""Every tree of a model as arrays, in one form for all libraries.

A library's adapter makes a :class:`TreeTable` of the trees that it reads from the library.  What is common to all trees
reads the table and knows no library: the compiled search for leaves, the values that rows get, the proof of the rows
that trees were trained on, the search for damage, and the thresholds that recognise training rows.

In each tree, rows start at node 0.  At a node with children, a row goes to ``left`` where its value in the column
``feature`` is at most ``threshold``, or is in the node's set of categories; a missing value goes where ``missing_left``
says.  At a leaf, whose ``left`` is negative, the row gets the leaf's value.

>>> from ens_plugin._kernel.tree import FlatTree
>>> root, leaf, other = range(3)
>>> tree = FlatTree(
...     left=np.array([leaf, -1, -1]),
...     right=np.array([other, -1, -1]),
...     feature=np.array([4, 0, 0]),
...     threshold=np.array([0.5, 0.0, 0.0]),
...     missing_left=np.array([True, False, False]),
... )
>>> table = TreeTable(
...     [tree],
...     numbers=[np.array([0, 0, 1])],
...     values=[np.array([0.0, -1.0, 2.0])],
...     covers=[np.array([9, 6, 3])],
...     n_features=5,
... )
>>> table.leaf_values
[array([-1.,  2.])]
>>> dict(table.splits())
{4: array([0.5])}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel.tree import FlatTree
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["LEAF", "TreeTable", "damage_of_tree", "splits_by_column"]

# Child of a node that has none.
LEAF = -1


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Every tree of a model as arrays with one entry for each node, of which the first is the root.

    Attributes
    ----------
    trees : sequence of FlatTree
        Links, columns, thresholds, directions of missing values and sets of categories.
    numbers : sequence of ndarray of unsigned int, shape (n_nodes,) each
        The library's own number of each node that is a leaf, of the same type for all trees.  Numbers ascend with
        nodes.
    values : sequence of ndarray, shape (n_nodes,) or (n_nodes, n_labels) each
        What the library stores in each leaf as its value; any number for other nodes.
    covers : sequence of ndarray, shape (n_nodes,) each
        What the library counted in each leaf of the rows of the tree's bag, at training: their number, or the sum of
        their second derivatives.
    n_features : int
    least_category : float
        The smallest number that is a category; smaller ones go right.
    """

    trees: Sequence[FlatTree]
    numbers: Sequence[NDArray[Any]]
    values: Sequence[NDArray[Any]]
    covers: Sequence[NDArray[Any]]
    n_features: int
    least_category: float = 0.0

    @cached_property
    def is_leaf(self) -> list[NDArray[np.bool_]]:
        """Return which nodes of each tree are leaves."""
        return [np.asarray(tree.left) < 0 for tree in self.trees]

    @cached_property
    def n_leaves(self) -> IntArray:
        """Return the number of leaves of each tree, shape (n_trees,)."""
        return np.array([np.count_nonzero(own) for own in self.is_leaf], dtype=np.int64)

    @cached_property
    def edges(self) -> IntArray:
        """Return where the leaves of each tree start among those of all trees, and their number, (n_trees + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_leaves)])

    @cached_property
    def tree_of_leaf(self) -> IntArray:
        """Return the tree of each leaf, the leaves of all trees in one array."""
        return np.repeat(np.arange(self.n_leaves.size), self.n_leaves)

    @cached_property
    def leaf_values(self) -> list[NDArray[Any]]:
        """Return the value of each leaf, in the order of the nodes."""
        return [values[own] for values, own in zip(self.values, self.is_leaf, strict=True)]

    @cached_property
    def leaf_covers(self) -> list[NDArray[Any]]:
        """Return the cover of each leaf, in the order of the nodes."""
        return [covers[own] for covers, own in zip(self.covers, self.is_leaf, strict=True)]

    @cached_property
    def every_cover(self) -> NDArray[Any]:
        """Return the covers of the leaves of all trees in one array."""
        return np.concatenate(self.leaf_covers)

    def sums_by_tree(self, of_leaf: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over the leaves of each tree, shape (n_trees,), of numbers for the leaves of all trees."""
        return np.asarray(np.add.reduceat(of_leaf, self.edges[:-1]))

    def splits(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield each column that trees split by value, in ascending order, with all its thresholds."""
        parts = [_number_splits(tree, is_leaf) for tree, is_leaf in zip(self.trees, self.is_leaf, strict=True)]
        column, threshold = (np.concatenate(own) for own in zip(*parts, strict=True))
        return splits_by_column(column, threshold)


def _number_splits(tree: FlatTree, is_leaf: NDArray[np.bool_]) -> tuple[NDArray[Any], FloatArray]:
    is_number = ~is_leaf if tree.sets is None else ~is_leaf & (np.asarray(tree.sets) < 0)
    return np.asarray(tree.feature)[is_number], np.asarray(tree.threshold)[is_number]


def splits_by_column(column: NDArray[Any], threshold: NDArray[Any]) -> Iterator[tuple[int, FloatArray]]:
    """Yield each column that trees split, in ascending order, with all its thresholds in the order given."""
    order = np.argsort(column, kind="stable")
    found, starts = np.unique(column[order], return_index=True)
    for own, thresholds in zip(found, np.split(threshold[order], starts[1:]), strict=False):
        yield int(own), thresholds


def damage_of_tree(
    left: NDArray[Any],
    right: NDArray[Any],
    feature: NDArray[Any],
    n_features: int,
    threshold: NDArray[Any] | None = None,
    value: NDArray[Any] | None = None,
) -> str | None:
    """Return in words what makes a tree unsafe to predict with, or useless, or None.

    With damaged links, prediction may never end, or may read memory outside the tree.

    Parameters
    ----------
    left, right, feature : ndarray of int, shape (n_nodes,)
        Any numbers, as a file has them; nodes without children have -1 as both.
    n_features : int
    threshold, value : ndarray with n_nodes rows, optional
        Only of libraries whose own trees always hold numbers.
    """
    is_leaf = left == LEAF
    if not _are_sound(left, right) or (is_leaf != (right == LEAF)).any() or min(left.min(), right.min()) < LEAF:
        return "does not lead from its root to each leaf once"
    column = feature[~is_leaf]
    if column.size and (column.min() < 0 or column.max() >= n_features):
        return "splits on a feature that the model does not have"
    if threshold is not None and np.isnan(threshold[~is_leaf]).any():
        return "has a threshold that is no number"
    if value is not None and not np.isfinite(value).all():
        return "has values that are not finite"
    return None


def _are_sound(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Return whether the path of any row from node 0 along the child links ends at a leaf.

    Where no node is the child of two nodes, and the root is the child of none, every path from the root ends.
    """
    children = np.concatenate([left, right])
    children = children[children >= 0]
    if children.size == 0:
        return True
    return bool(
        children.min() > 0 and children.max() < left.size and np.bincount(children, minlength=left.size).max() <= 1
    )
