"""Copies of XGBoost boosters of one round with fewer parallel trees.

The booster's prediction is the sum of its leaves, each of which holds its value divided by the number
of parallel trees: with fewer trees, each must add more.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.document.model import GROWN_PARALLEL, LEAF, Forest
from ens_plugin.adapters.xgboost.document.ubjson import encode

__all__ = ["truncated_trees"]

# Attributes that XGBoost's own slices remove.
_OF_ALL_TREES = ("best_iteration", "best_score")


def truncated_trees(model: Any, forest: Forest, size: int) -> Any:
    """Return a copy of a trained model of one round, with the first `size` parallel trees of every class.

    Parameters
    ----------
    model : Booster, XGBClassifier, XGBRegressor or XGBRF*
    forest : Forest
        The trees and document of its booster.
    size : int

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters.xgboost.document.model import read_forest
    >>> X = np.arange(64.0)[:, None]
    >>> options = {"num_parallel_tree": 9, "subsample": 0.5, "learning_rate": 1, "nthread": 1}
    >>> booster = xgboost.train(options, xgboost.DMatrix(X, X[:, 0]), num_boost_round=1)
    >>> len(truncated_trees(booster, read_forest(booster), 4).get_dump())
    4
    """
    part = deepcopy(model)
    is_booster = isinstance(part, xgboost.Booster)
    booster = part if is_booster else part.get_booster()
    # A model document has no training parameters, and loading it resets some of them.
    configuration = booster.save_config()
    booster.load_model(encode(_document(forest, size)))
    booster.load_config(configuration)
    if not is_booster:
        setattr(part, _size_parameter(part), size)
        if size < forest.n_parallel:
            vars(part).pop("evals_result_", None)
    return part


def _size_parameter(model: Any) -> str:
    forests = (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor)
    return "n_estimators" if isinstance(model, forests) else "num_parallel_tree"


def _document(forest: Forest, size: int) -> dict[str, Any]:
    """Return the booster's document with the first `size` trees of each class, scaled and renumbered."""
    learner, grown = forest.document["learner"], forest.n_parallel
    model = learner["gradient_booster"]["model"]
    kept = [first + member for first in range(0, len(forest.trees), grown) for member in range(size)]
    numbers = {"num_trees": str(len(kept)), "num_parallel_tree": str(size)}
    changed_model = {
        **model,
        "gbtree_model_param": {**model["gbtree_model_param"], **numbers},
        "iteration_indptr": [0, len(kept)],
        "tree_info": [model["tree_info"][tree] for tree in kept],
        "trees": [
            {**model["trees"][tree], **_scaled(model["trees"][tree], grown / size), "id": position}
            for position, tree in enumerate(kept)
        ],
    }
    changed = {
        **learner,
        "attributes": _attributes(forest) if size < grown else learner["attributes"],
        "gradient_booster": {**learner["gradient_booster"], "model": changed_model},
    }
    return {**forest.document, "learner": changed}


def _scaled(tree: dict[str, Any], factor: float) -> dict[str, NDArray[np.float32]]:
    """Return a tree's arrays of values at its nodes, with those of the leaves multiplied by `factor`."""
    values, weights = tree["split_conditions"], tree["base_weights"]
    is_leaf = tree["left_children"] == LEAF
    larger = (values.astype(np.float64) * factor).astype(np.float32)
    return {
        "split_conditions": np.where(is_leaf, larger, values),
        # `exact` writes a leaf's weight as it is, other methods what the leaf adds.
        "base_weights": np.where(is_leaf & (weights == values), larger, weights),
    }


def _attributes(forest: Forest) -> dict[str, str]:
    known = forest.document["learner"]["attributes"]
    kept = {name: value for name, value in known.items() if name not in _OF_ALL_TREES}
    # Of one class, the kept trees were drawn first; of more, the removed ones were drawn in between.
    return kept if forest.n_groups == 1 else {GROWN_PARALLEL: str(forest.n_parallel), **kept}
