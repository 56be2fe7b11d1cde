"""Every tree of a model as arrays, in one form for all libraries, and the proof of its rows by its leaves.

A library's adapter makes a :class:`TreeTable` of the trees that it reads from the library.  What is common to all trees
reads the table and knows no library: the values that rows get, the proof of the rows that trees were trained on, the
search for damage, and the thresholds that recognise training rows.

In each tree, rows start at node 0.  At a node with children, the value in the column ``feature`` is compared with
``threshold``, or looked for in a set of categories; a leaf, whose ``left`` is negative, gives its value to the row.
The library itself finds the leaf that a row reaches.

>>> root, leaf, other = range(3)
>>> tree = FlatTree(
...     left=np.array([leaf, -1, -1]),
...     right=np.array([other, -1, -1]),
...     feature=np.array([4, 0, 0]),
...     threshold=np.array([0.5, 0.0, 0.0]),
... )
>>> table = TreeTable([tree], values=[np.array([0.0, -1.0, 2.0])], covers=[np.array([9, 6, 3])])
>>> table.leaf_values
[array([-1.,  2.])]
>>> dict(table.splits())
{4: array([0.5])}

Where a library stores a cover in each leaf, how many rows of the tree's bag reached it at training or the sum of their
second derivatives, covers prove the rows that trees were trained on.  Bags that are drawn again are right if their rows
give the cover of every leaf: exactly where it is a count, else within the rounding of the library.

Wrong bags would give all covers by chance.  How likely that is depends on what a cover tells of the rows behind it, so
each library brings its own bound for a tree.  LightGBM's counts tell how many rows each bag has, so a wrong bag is a
random one of as many rows (``lightgbm/bags.py``).  XGBoost's sums do not tell how many rows they are of, and rows with
small derivatives are lost in the rounding, so a wrong bag is any set of coin tosses (``xgboost/bags.py``).  What the
bounds of all trees amount to is the same: :func:`chance_of_draws`.

scikit-learn's forests are not proved by these functions.  The library itself draws their bags again from the seeds of
the trees, so no draw is searched for, no chance is to be bounded, and three trees are enough.  Their leaves may count
fewer rows than their bags have, because rows of weight zero are drawn and not counted; and what they store beside the
counts proves the target (``sklearn/bags.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

# Child of a node that has none.
LEAF = -1
# Fewest leaves beyond one per tree, of all trees together, so that other rows do not agree by chance: counts of 30 rows
# or more agree with probability below 1e-6.
LEAVES_THAT_TELL = 8
# Leaves, labels or sets of categories that a document may state: more are damage.
MOST_STATED = 2**20
# Largest chance of wrong bags that are taken for proved, and of fresh rows that are taken for training rows.
MAX_CHANCE = 1e-9


class FlatTree(NamedTuple):
    """A tree as arrays with one entry for each node, of which the first is the root.

    Attributes
    ----------
    left, right : ndarray of int, shape (n_nodes,)
        Children of each node; negative for leaves.
    feature : ndarray of int, shape (n_nodes,)
        Column that each node compares.
    threshold : ndarray of float64, shape (n_nodes,)
        What values are compared with; NaN for a split by category.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Every tree of a model as arrays with one entry for each node, of which the first is the root.

    Attributes
    ----------
    trees : sequence of FlatTree
        Links, columns and thresholds.
    values : sequence of ndarray, shape (n_nodes,) each
        What the library stores in each leaf as its value; any number for other nodes.
    covers : sequence of ndarray, shape (n_nodes,) each
        What the library counted in each leaf of the rows of the tree's bag, at training: their number, or the sum of
        their second derivatives.
    """

    trees: Sequence[FlatTree]
    values: Sequence[NDArray[Any]]
    covers: Sequence[NDArray[Any]]

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
        column, threshold = (
            np.concatenate([np.asarray(getattr(tree, name)) for tree in self.trees])
            for name in ("feature", "threshold")
        )
        is_number = ~np.concatenate(self.is_leaf) & ~np.isnan(threshold)
        return splits_by_column(column[is_number], threshold[is_number])


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


def proved_trees(table: TreeTable, sums: NDArray[Any], tolerance: FloatArray | float = 0.0) -> BoolArray:
    """Return for which trees the rows of the bag give the cover of every leaf, shape (n_trees,).

    Parameters
    ----------
    table : TreeTable
    sums : ndarray, shape (n_leaves,)
        Of the rows in the bag of each tree, one tree after the other.
    tolerance : ndarray, shape (n_trees,), or float
        Relative error to allow in the sums.
    """
    allowed = np.broadcast_to(tolerance, table.n_leaves.shape)[table.tree_of_leaf]
    agree = gives_cover(sums, table.every_cover, allowed)
    return np.logical_and.reduceat(agree, table.edges[:-1])


def gives_cover(sums: NDArray[Any], covers: NDArray[Any], tolerance: FloatArray | float) -> BoolArray:
    """Return which leaves have a cover that is the sum over the rows of a bag, within a relative error."""
    return np.asarray(np.abs(sums - covers) <= tolerance * np.maximum(sums, covers))


def count_rows(
    table: TreeTable, bags: Bags, bag_of: IntArray, blocks: Iterable[tuple[slice, NDArray[Any]]]
) -> tuple[IntArray, IntArray]:
    """Return how many rows reach each leaf, of those in the tree's bag, then of all, one tree after the other.

    Parameters
    ----------
    table : TreeTable
    bags : Bags
    bag_of : ndarray of int, shape (n_trees,)
        Position of each tree's bag.
    blocks : iterable of (slice, ndarray of shape (n_trees, n_rows_of_block))
        Leaves of some rows at a time.
    """
    in_bag, every = np.zeros((2, int(table.edges[-1])), dtype=np.int64)
    for rows, leaves in blocks:
        is_in = bags.in_bag(rows)
        for tree, (start, stop) in enumerate(pairwise(table.edges.tolist())):
            counts, reached = count_leaves(leaves[tree], is_in[bag_of[tree]], stop - start)
            in_bag[start:stop] += counts
            every[start:stop] += reached
    return in_bag, every


def count_leaves(leaves: NDArray[Any], in_bag: NDArray[np.bool_], n_leaves: int) -> tuple[IntArray, IntArray]:
    """Return the number of rows that reach each leaf of a tree: of those in its bag, then of all."""
    # The smallest type for twice a leaf's number: arithmetic on bytes takes an eighth of the time of words.
    code = leaves.astype(np.min_scalar_type(2 * n_leaves))
    code *= 2
    code += in_bag
    counts = np.bincount(code, minlength=2 * n_leaves)
    return counts[1::2], counts[::2] + counts[1::2]


def chance_of_draws(log_chance: FloatArray, draw_of: IntArray, n_tried: int) -> float:
    """Return a bound on the chance that wrong draws pass for all trees, after so many were tried; it may be above 1.

    Draws are independent, so their chances multiply.  Trees grown on the same draw are not, and only the strongest
    counts.
    """
    strongest = np.zeros(int(draw_of.max(initial=-1)) + 1)
    np.minimum.at(strongest, draw_of, log_chance)
    return float(n_tried * np.exp(strongest.sum()))
