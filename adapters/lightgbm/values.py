"""A check that a LightGBM forest's leaf values are those that its trees were grown with.

Where nothing is regularised, a leaf's value is the mean of its rows' targets, moved and scaled alike
in all leaves, and an inner node's the mean of its leaves', weighted by their hessians.  LightGBM keeps
the values of inner nodes when ``refit`` replaces those of the leaves.  Where the leaves are regularised, the target
shows a refit (:mod:`ens_plugin.adapters.lightgbm.target`); a report whose target is not proved says so.
"""

from __future__ import annotations

import numpy as np

from ens_plugin.adapters.lightgbm.document.text import ModelText, TreeText
from ens_plugin.adapters.lightgbm.objective import Objective
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError

__all__ = ["check_not_refit"]

# Values of inner nodes are stored with six digits.
PRINTED = 1e-5
SPREAD = 1e-4
_RENEWED = ("regression_l1", "quantile", "mape")
_REGULARISERS = ("lambda_l1", "lambda_l2", "path_smooth", "max_delta_step")


def check_not_refit(model: ModelText, objective: Objective) -> None:
    """Raise BagError if leaf values were replaced after training, where the trees show it.

    Raises
    ------
    BagError
        If inner nodes do not hold the means of their leaves.
    """
    checkable = _checkable_trees(model, objective)
    replaced = [index for index in checkable if _differs_from_inner_values(model.trees[index])]
    if replaced:
        raise BagError(
            f"The leaf values of {counted(len(replaced), 'tree')} (tree {replaced[0]} is the first) are not those the "
            "trees were grown with: refit or set_leaf_output replaced them. Which rows these came from is not known. "
            'Pass {data="holdout"} with rows that neither training nor refit used, or pass the model as it was '
            "before refit. (LightGBM before 4.2 grows such trees by itself with use_quantized_grad; train without.)"
        )


def _checkable_trees(model: ModelText, objective: Objective) -> list[int]:
    # A tree of two leaves has no inner node but the root.
    return [
        index for index, tree in enumerate(model.trees) if tree.n_leaves > 2 and _is_checkable(model, objective, tree)
    ]


def _is_checkable(model: ModelText, objective: Objective, tree: TreeText) -> bool:
    """Return whether an inner node of the tree holds the weighted mean of its leaves' values."""
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
    pairs = list(zip(tree.integers("left_child").tolist(), tree.integers("right_child").tolist(), strict=True))
    # Sums of weights and of weighted values, in lists: of so few numbers, arrays take twice the time.
    of_leaf = list(zip(weight.tolist(), (weight * value).tolist(), strict=True))
    sums = [(0.0, 0.0)] * inner.size
    # A split leaf keeps its number and its node has a larger number, so children always follow their parent.
    for node in reversed(range(inner.size)):
        left, right = (sums[child] if child >= 0 else of_leaf[~child] for child in pairs[node])
        sums[node] = left[0] + right[0], left[1] + right[1]
    below = np.array(sums)
    # LightGBM 4.0 does not store the mean of the bag at the root.
    gap = np.abs(below[1:, 1] / below[1:, 0] - inner[1:])
    return bool(np.any(gap > SPREAD * np.ptp(value) + PRINTED * np.abs(inner[1:])))
