"""What adapters of tree libraries share: thresholds by column, damage, and the proof of bags by drawn trees.

Where a library stores a cover in each leaf, how many rows of the tree's bag reached it at training or the sum of their
second derivatives, covers prove the rows that trees were trained on.  Bags that are drawn again are right if their rows
give the cover of every leaf: exactly where it is a count, else within the rounding of the library.

Bags follow from one seed, so a wrong seed, other rows or another order make all trees wrong, and some trees prove them
all: :func:`members_to_check` draws as many as chance cannot satisfy.  How likely wrong bags are to fit depends on what
a cover tells of the rows behind it, so each library brings its own bound for a tree.  LightGBM's counts tell how many
rows each bag has, so a wrong bag is a random one of as many rows (``lightgbm/bags.py``).  XGBoost's sums do not tell
how many rows they are of, and rows with small derivatives are lost in the rounding, so a wrong bag is any set of coin
tosses (``xgboost/bags.py``).  What the bounds of the checked trees amount to is the same: :func:`chance_of_draws`, and
bags for which it is above 1e-9 are refused.

scikit-learn's forests are not proved by these functions.  The library itself draws their bags again from the seeds of
the trees, so no draw is searched for, and 16 trees spread over the forest are compared.  Their leaves may count
fewer rows than their bags have, because rows of weight zero are drawn and not counted; and what they store beside the
counts proves the target (``sklearn/bags.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray, IntArray

# Child of a node that has none.
LEAF = -1
# Fewest leaves beyond one per tree, of all trees together, so that other rows do not agree by chance: counts of 30 rows
# or more agree with probability below 1e-6.
LEAVES_THAT_TELL = 8
# Leaves, labels or sets of categories that a document may state: more are damage.
MOST_STATED = 2**20
# Largest chance of wrong bags that are taken for proved, and of fresh rows that are taken for training rows.
MAX_CHANCE = 1e-9
# Members that were grown on other rows than the rest, a share s of all, are all missed with a chance of (1 - s)^16.
FEWEST_CHECKED = 16
# Rows by trees up to which all are checked, because it takes a hundredth of a second.
CELLS_CHECKED = 20_000


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
    """Return whether the path of any row from node 0 along the child links ends at a leaf."""
    # Where no node is the child of two nodes, and the root is the child of none, every path from the root ends.
    children = np.concatenate([left, right])
    children = children[children >= 0]
    if children.size == 0:
        return True
    return bool(
        children.min() > 0 and children.max() < left.size and np.bincount(children, minlength=left.size).max() <= 1
    )


def members_to_check(n_members: int, n_cells: int, log_chance: Callable[[int], float], draw_of: IntArray) -> IntArray:
    """Return the members, in ascending order, whose trees prove the bags of all, drawn at random.

    Enough that wrong bags would fit them with a chance of about ``MAX_CHANCE`` squared, which leaves room for a search
    among many draws; 16 at least; and as many as take little time.

    Parameters
    ----------
    n_members : int
    n_cells : int
        Rows by trees of one member.
    log_chance : callable
        Returns the logarithm of the chance that a wrong bag fits a member, about (:func:`likely_chance`).
    draw_of : ndarray of int, shape (n_members,)
        The draw of rows that each member was grown on: trees of one draw resemble each other, and only one counts.
    """
    order = np.random.default_rng(n_members).permutation(n_members)
    fewest, strongest = max(FEWEST_CHECKED, CELLS_CHECKED // n_cells), dict[int, float]()
    for place, member in enumerate(order.tolist()):
        if place >= fewest and sum(strongest.values()) < 2.0 * np.log(MAX_CHANCE):
            return np.sort(order[:place])
        draw = int(draw_of[member])
        strongest[draw] = min(strongest.get(draw, 0.0), log_chance(member))
    return np.sort(order)


def likely_chance(counts: NDArray[Any], share: float) -> float:
    """Return about the logarithm of the chance that a random bag has these numbers of rows in a tree's leaves."""
    # A binomial number of mean c and variance c (1 - p) has its likeliest value with a chance of about 1 / sqrt(1 + 2
    # pi c (1 - p)); the number of all rows in the bag is taken as known.
    spread = np.log1p(2.0 * np.pi * (1.0 - share) * np.append(counts, counts.sum()))
    return float(0.5 * (spread[-1] - spread[:-1].sum()))


def chance_of_draws(log_chance: FloatArray, draw_of: IntArray, n_tried: int) -> float:
    """Return a bound on the chance that wrong draws pass for all trees, after so many were tried; it may be above 1."""
    # Draws are independent, so their chances multiply. Trees grown on the same draw are not, and only the strongest
    # counts.
    strongest = np.zeros(int(draw_of.max(initial=-1)) + 1)
    np.minimum.at(strongest, draw_of, log_chance)
    return float(n_tried * np.exp(strongest.sum()))
