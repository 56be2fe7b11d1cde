"""Whether a target is the one that XGBoost's leaves were fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin.adapters.scattered import Sums
from ens_plugin.adapters.xgboost_hessians import LOGISTIC, SOFTMAX, Hessians
from ens_plugin.adapters.xgboost_leaves import read_leaves
from ens_plugin.adapters.xgboost_model import Forest
from ens_plugin.adapters.xgboost_rows import Rows
from ens_plugin.core.bags import Bags
from ens_plugin.errors import DataMismatchError

__all__ = ["check_target", "judge_target", "target_sums", "telling_trees"]

FloatArray = NDArray[np.float64]

CLOSE = 1e-4


def check_target(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, y: FloatArray) -> None:
    """Raise DataMismatchError unless y gives the leaf values of the first, middle and last tree of one round.

    A leaf's value is its rows' summed first derivative over their second plus the penalty, times the
    learning rate, which is fitted.  Nothing is checked where the penalty is not known (a booster saved
    and loaded) or leaf values have another form (L1 penalty, constraints, quantiles, several rounds).
    """
    judge_target(forest, target_sums(forest, rows, hessians, bags, y))


def target_sums(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, y: FloatArray) -> dict[int, Sums]:
    """Add up by leaf, for each of the :func:`telling_trees`, first derivatives of rows in the bag, and their sizes.

    Returns
    -------
    dict of Sums
        By tree; ``total`` and ``size``, each of shape (n_leaves,).
    """
    chosen = telling_trees(forest)
    if not chosen:
        return {}
    gradient = _gradient(forest, hessians, y, rows.shape[0])
    sums = {}
    for member, reached in zip(chosen, read_leaves(forest, rows, chosen), strict=True):
        n_leaves, seen = forest.trees[member].n_leaves, bags.member(member)
        own = gradient[seen, forest.group[member]]
        sums[member] = Sums(
            {
                "total": np.bincount(reached[seen], weights=own, minlength=n_leaves).astype(np.float64),
                "size": np.bincount(reached[seen], weights=np.abs(own), minlength=n_leaves).astype(np.float64),
            }
        )
    return sums


def telling_trees(forest: Forest) -> list[int]:
    """Return the first, middle and last tree of one round, or none where their leaf values cannot be checked."""
    settings = forest.settings
    known = forest.objective in (*LOGISTIC, *SOFTMAX, "reg:squarederror")
    if not known or forest.n_rounds > 1 or not settings.plain_leaves or settings.subsample == 1:
        return []
    n_trees = len(forest.trees)
    return sorted({0, n_trees // 2, n_trees - 1})


def judge_target(forest: Forest, sums: dict[int, Sums]) -> None:
    """Raise DataMismatchError unless the sums of all rows, as of :func:`target_sums`, give the leaf values."""
    settings = forest.settings
    for member, of_tree in sums.items():
        tree, total, size = forest.trees[member], of_tree.added["total"], of_tree.added["size"]
        weight = tree.leaf_covers + settings.penalty
        leaves = np.flatnonzero((size > 0) & (weight > 0))
        expected, slack = -total[leaves] / weight[leaves], size[leaves] / weight[leaves]
        values = tree.leaf_values[leaves]
        rate = float(values @ expected) / max(float(expected @ expected), 1e-300)
        differing = np.abs(values - rate * expected) > CLOSE * abs(rate) * slack + 1e-30
        if differing.any():
            raise DataMismatchError(
                f"y is not the target the model was trained on: {np.count_nonzero(differing)} of {leaves.size} leaves "
                f"of tree {member} hold a value that y of the rows in them does not give. X and y must be the exact "
                'training rows in training order; for rows the model never saw pass data="holdout".'
            )


def _gradient(forest: Forest, hessians: Hessians, y: FloatArray, n_rows: int) -> FloatArray:
    """First derivatives before the first round, shape (n_rows, n_groups)."""
    margin, weight = hessians.first(slice(0, n_rows)), hessians.weight[:, None]
    if forest.objective in LOGISTIC:
        return np.asarray((expit(margin) - y[:, None]) * weight)
    if forest.objective in SOFTMAX:
        return np.asarray((softmax(margin, axis=1) - (y[:, None] == np.arange(forest.n_groups))) * weight)
    return np.asarray((margin - y[:, None]) * weight)
