"""The proof of the rows that trees were trained on, for all libraries whose leaves store sums over their bags.

A library stores a cover in each leaf: how many rows of the tree's bag reached it at training, or the sum of their
second derivatives.  Bags that are drawn again are right if their rows give the cover of every leaf: exactly where it is
a count, else within the rounding of the library.

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

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.tree_table import TreeTable
from ens_plugin.adapters.trees import count_leaves
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

__all__ = ["MAX_CHANCE", "chance_of_draws", "count_rows", "gives_cover", "proved_trees"]

# Largest chance that bags that are taken for proved are wrong ones.
MAX_CHANCE = 1e-9


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


def chance_of_draws(log_chance: FloatArray, draw_of: IntArray, n_tried: int) -> float:
    """Return a bound on the chance that wrong draws pass for all trees, after so many were tried; it may be above 1.

    Draws are independent, so their chances multiply.  Trees grown on the same draw are not, and only the strongest
    counts.
    """
    strongest = np.zeros(int(draw_of.max(initial=-1)) + 1)
    np.minimum.at(strongest, draw_of, log_chance)
    return float(n_tried * np.exp(strongest.sum()))
