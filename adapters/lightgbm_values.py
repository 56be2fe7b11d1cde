"""Whether a LightGBM forest's leaf values are those that its trees were grown with, and grown from y.

Where nothing is regularised, a leaf's value is the mean of its rows' targets, moved and scaled alike
in all leaves, and an inner node's the mean of its leaves', weighted by their hessians.  LightGBM keeps
the values of inner nodes when ``refit`` replaces those of the leaves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.leaf_counts import target_ranges
from ens_plugin.adapters.lightgbm_objective import Objective
from ens_plugin.adapters.lightgbm_text import ModelText, TreeText
from ens_plugin.adapters.scattered import Sums
from ens_plugin.errors import BagError, DataMismatchError

__all__ = ["check_leaf_sums", "check_leaf_target", "check_not_refit", "may_be_refit", "target_sums"]

FloatArray = NDArray[np.float64]

# Inner values are printed with six digits.
PRINTED = 1e-5
SPREAD = 1e-4
_RENEWED = ("regression_l1", "quantile", "mape")
_REGULARISERS = ("lambda_l1", "lambda_l2", "path_smooth", "max_delta_step")


def check_not_refit(model: ModelText, objective: Objective) -> None:
    """Refuse leaf values that were replaced after training, where the trees tell.

    Raises
    ------
    BagError
        If inner nodes do not hold the means of their leaves.
    """
    telling = _telling_trees(model, objective)
    replaced = [index for index in telling if _differs_from_inner_values(model.trees[index])]
    if replaced:
        raise BagError(
            f"The leaf values of {len(replaced)} trees (tree {replaced[0]} is the first) are not those the trees were "
            "grown with: refit or set_leaf_output replaced them, from rows that the counts of the trees do not tell "
            'about. Pass data="holdout" with rows that neither training nor refit saw, or pass the model as it was '
            "before refit. (LightGBM before 4.2 grows such trees by itself with use_quantized_grad; train without.)"
        )


def may_be_refit(model: ModelText, objective: Objective) -> bool:
    """Whether leaf values may have been replaced after training without a trace in the trees."""
    return not _telling_trees(model, objective) and any(tree.n_leaves > 1 for tree in model.trees)


def _telling_trees(model: ModelText, objective: Objective) -> list[int]:
    # A tree of two leaves has no inner node but the root.
    return [
        index for index, tree in enumerate(model.trees) if tree.n_leaves > 2 and _is_telling(model, objective, tree)
    ]


def check_leaf_target(
    model: ModelText, objective: Objective, tree_index: int, leaves: NDArray[np.integer], target: FloatArray
) -> None:
    """Refuse a target that cannot have given a tree its leaf values.

    Parameters
    ----------
    model : ModelText
    objective : Objective
    tree_index : int
    leaves : ndarray of int, shape (n_in_bag,)
        Leaves that the rows in the tree's bag reach.
    target : ndarray, shape (n_in_bag,)
        Target of these rows: values, or 1 for the label that the tree speaks for and 0 for others.

    Raises
    ------
    DataMismatchError
        If the tree can tell, and tells otherwise.
    """
    check_leaf_sums(model, objective, tree_index, target_sums(leaves, target, model.trees[tree_index].n_leaves))


def target_sums(leaves: NDArray[np.integer], target: FloatArray, n_leaves: int) -> Sums:
    """Sum up, by leaf, the target of rows in a tree's bag; arguments as of :func:`check_leaf_target`."""
    added = {"count": np.bincount(leaves, minlength=n_leaves), "total": np.bincount(leaves, target, n_leaves)}
    return Sums(added, target_ranges(leaves, target, n_leaves))


def check_leaf_sums(model: ModelText, objective: Objective, tree_index: int, sums: Sums) -> None:
    """Refuse a target whose sums over a tree's bag cannot have given the tree its leaf values.

    Raises
    ------
    DataMismatchError
        If the tree can tell, and tells otherwise.
    """
    tree = model.trees[tree_index]
    if objective.name not in ("regression", "binary", "multiclass", "multiclassova") or objective.square_root:
        return
    if not _is_telling(model, objective, tree):
        return
    value = tree.floats("leaf_value")
    slack = SPREAD * np.ptp(value) + PRINTED * np.abs(value).max()
    if _is_weighted(tree):
        impossible = objective.n_labels == 0 and _is_out_of_range(value, sums, slack)
    else:
        mean = sums.added["total"] / sums.added["count"]
        expected = mean if objective.n_labels == 0 else _line(mean, value)
        impossible = bool(np.abs(value - expected).max() > slack)
    if impossible:
        raise DataMismatchError(
            f"y is not the target the model was trained on: leaves of tree {tree_index} hold values that y of the rows "
            "in them cannot give. X and y must be the exact training rows in training order; for rows the model never "
            'saw pass data="holdout".'
        )


def _is_telling(model: ModelText, objective: Objective, tree: TreeText) -> bool:
    """Whether an inner node of the tree holds the weighted mean of its leaves' values."""
    parameters = model.parameters or {}
    return (
        tree.n_leaves > 1
        and not tree.has_categorical_splits
        and not tree.has_linear_leaves
        and objective.name not in _RENEWED
        and all(float(parameters.get(name, "0")) == 0 for name in _REGULARISERS)
        and not parameters.get("monotone_constraints")
        and parameters.get("use_quantized_grad", "0") == "0"
    )


def _differs_from_inner_values(tree: TreeText) -> bool:
    value, weight, inner = (tree.floats(key) for key in ("leaf_value", "leaf_weight", "internal_value"))
    children = np.stack([tree.integers("left_child"), tree.integers("right_child")], axis=1)
    below = np.zeros((inner.size, 2))
    # A split leaf keeps its number and its node comes later, so children of a node always follow it.
    for node in reversed(range(inner.size)):
        for child in children[node]:
            below[node] += below[child] if child >= 0 else (weight[~child], weight[~child] * value[~child])
    # LightGBM 4.0 does not store the mean of the bag at the root.
    gap = np.abs(below[1:, 1] / below[1:, 0] - inner[1:])
    return bool(np.any(gap > SPREAD * np.ptp(value) + PRINTED * np.abs(inner[1:])))


def _is_weighted(tree: TreeText) -> bool:
    share = tree.floats("leaf_weight") / tree.floats("leaf_count")
    return bool(np.ptp(share) > 1e-5 * share.max())


def _is_out_of_range(value: FloatArray, sums: Sums, slack: float) -> bool:
    lowest, highest = sums.least["lowest"], -sums.least["highest"]
    return bool(np.any((value < lowest - slack) | (value > highest + slack)))


def _line(mean: FloatArray, value: FloatArray) -> FloatArray:
    """Fitted values of the line through the leaves, which must not fall: more of a label, a higher score."""
    deviation = mean - mean.mean()
    slope = max(float(deviation @ value) / max(float(deviation @ deviation), 1e-300), 0.0)
    return np.asarray(value.mean() + slope * deviation)
