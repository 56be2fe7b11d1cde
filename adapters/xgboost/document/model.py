"""Reading of a trained XGBoost booster: its trees, and the parameters it was trained with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.document.tree_walk import TreeWalk
from ens_plugin.adapters.xgboost.document.ubjson import decode
from ens_plugin.errors import NotFittedError, UnsupportedModelError
from ens_plugin.records import record

__all__ = ["GROWN_PARALLEL", "LEAF", "Forest", "Shape", "TrainingParameters", "Tree", "read_forest", "read_shape"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

LEAF = -1
# Arrays by node that are read often, so that they get the processor's own order of bytes.
_READ_ARRAYS = ("left_children", "right_children", "split_indices", "split_conditions", "sum_hessian")
# Attribute of a truncated booster: the parallel trees of each class that were grown.
GROWN_PARALLEL = "ens_plugin_num_parallel_tree"


@record
class Tree:
    """One tree of an XGBoost booster, as arrays with one entry for each node.

    Attributes
    ----------
    is_leaf : ndarray of bool, shape (n_nodes,)
    values : ndarray of float32, shape (n_nodes,)
        Of a leaf, its addition to the margin; of other nodes, the threshold.
    covers : ndarray of float32, shape (n_nodes,)
        Summed second derivatives of the in-bag rows that reached the node at training.
    left, right : ndarray of int32, shape (n_nodes,)
        Children of each node; -1 for leaves.
    """

    is_leaf: NDArray[np.bool_]
    values: NDArray[np.float32]
    covers: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]

    @property
    def n_leaves(self) -> int:
        """Return the number of leaves."""
        return int(np.count_nonzero(self.is_leaf))

    @property
    def leaf_values(self) -> FloatArray:
        """Return the amount that each leaf adds to the margin, in the order of the nodes, shape (n_leaves,)."""
        return self.values[self.is_leaf].astype(np.float64)

    @property
    def leaf_covers(self) -> FloatArray:
        """Return the sum of second derivatives of each leaf's in-bag rows, in node order, shape (n_leaves,)."""
        return self.covers[self.is_leaf].astype(np.float64)


@dataclass(frozen=True)
class TrainingParameters:
    """Training parameters that a booster stores; saving and loading it as a file resets them to defaults.

    Attributes
    ----------
    seed : int
    seed_per_iteration : bool
    subsample : float
    sampling_method, updater, device, process_type : str
    bytree, bylevel, bynode : float
        Shares of the columns drawn.
    max_depth, max_leaves : int
        0 for no limit.
    by_loss : bool
        Whether trees grew one leaf at a time, not level by level.
    release : tuple of int
        Version of the library that last saved the booster.
    eta, penalty : float
        Learning rate and L2 penalty of the leaf values.
    alpha, max_delta_step : float
        L1 penalty and largest step of the leaf values; 0 for none.
    is_constrained : bool
        Whether features have monotone constraints.
    """

    seed: int
    seed_per_iteration: bool
    subsample: float
    sampling_method: str
    updater: str
    device: str
    process_type: str
    bytree: float
    bylevel: float
    bynode: float
    max_depth: int
    max_leaves: int
    by_loss: bool
    release: tuple[int, ...]
    eta: float
    penalty: float
    alpha: float
    max_delta_step: float
    is_constrained: bool


@record
class Forest:
    """The trees of a booster in the order they were grown, with its training parameters and base margin.

    Attributes
    ----------
    document : dict
        The booster's model document.
    trees : list of Tree
    group : ndarray of int, shape (n_trees,)
        Class, or output, that each tree adds to.
    round : ndarray of int, shape (n_trees,)
        Boosting round of each tree.
    n_groups : int
        1 for regression and two labels, else the number of labels.
    objective : str
    objective_parameters : dict of str to str
    base_margin : ndarray, shape (n_groups,)
        Margin of each group before any tree is added.
    settings : TrainingParameters
    """

    document: dict[str, Any]
    trees: list[Tree]
    group: IntArray
    round: IntArray
    n_groups: int
    objective: str
    objective_parameters: dict[str, str]
    base_margin: FloatArray
    settings: TrainingParameters

    @cached_property
    def depths(self) -> list[IntArray]:
        """Return the depth of each node of each tree, 0 for the root, shape (n_nodes,) each."""
        starts = np.cumsum([0, *(tree.is_leaf.size for tree in self.trees)])
        is_leaf = np.concatenate([tree.is_leaf for tree in self.trees])
        left, right = (
            np.concatenate([getattr(tree, side) + start for tree, start in zip(self.trees, starts, strict=False)])
            for side in ("left", "right")
        )
        depths = np.zeros(is_leaf.size, dtype=np.int64)
        # The nodes of one depth in all trees at once.
        level, depth = starts[:-1][~is_leaf[starts[:-1]]], 0
        while level.size:
            depth += 1
            children = np.concatenate([left[level], right[level]])
            depths[children] = depth
            level = children[~is_leaf[children]]
        return np.split(depths, starts[1:-1])

    @property
    def n_rounds(self) -> int:
        """Return the number of boosting rounds."""
        return int(self.round[-1]) + 1

    @property
    def n_parallel(self) -> int:
        """Return the number of trees of each group in the last round."""
        return int(np.count_nonzero(self.round == self.round[-1])) // self.n_groups

    @cached_property
    def walk(self) -> TreeWalk:
        """Return the compiled walk of the trees, which is used once it is compared with XGBoost."""
        learner = self.document["learner"]
        trees = learner["gradient_booster"]["model"]["trees"]
        return TreeWalk(trees, int(learner["learner_model_param"]["num_feature"]))

    @property
    def n_left_out(self) -> int:
        """Return the number of trees of each group that the first round grew and truncation removed."""
        grown = self.document["learner"]["attributes"].get(GROWN_PARALLEL)
        return 0 if grown is None else int(grown) - int(np.count_nonzero(self.round == 0)) // self.n_groups


@dataclass(frozen=True)
class Shape:
    """Objective and numbers of groups, rounds and trees of a booster.

    Attributes
    ----------
    objective : str
    n_groups : int
        1 for regression and two labels, else the number of labels, or of columns of y.
    n_rounds, n_trees : int
    n_outputs : int
        Number of columns of y.
    """

    objective: str
    n_groups: int
    n_rounds: int
    n_trees: int
    n_outputs: int


def read_shape(booster: Any) -> Shape:
    """Return how many trees and rounds a booster has, read in the time that one tree takes.

    Raises
    ------
    NotFittedError
        If the booster holds no trees.
    UnsupportedModelError
        If the booster is not of kind 'gbtree'.
    """
    _check_trained(booster)
    learner = _configuration(booster)["learner"]
    return Shape(
        objective=learner["objective"]["name"],
        n_groups=_n_groups(learner["learner_model_param"]),
        n_rounds=int(booster.num_boosted_rounds()),
        n_trees=int(learner["gradient_booster"]["gbtree_model_param"]["num_trees"]),
        n_outputs=_n_outputs(learner),
    )


def read_forest(booster: Any) -> Forest:
    """Return the trees and training parameters of a booster.

    Raises
    ------
    NotFittedError
        If the booster holds no trees.
    UnsupportedModelError
        If the booster is not of kind 'gbtree', or its trees have weights or several values in a leaf.
    """
    _check_trained(booster)
    configuration = _configuration(booster)
    document = decode(booster.save_raw("ubj"))
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    _check_equal_weights(model.pop("weight_drop", []))
    trees = [_tree(tree) for tree in model["trees"]]
    group = np.asarray(model["tree_info"], dtype=np.int64)
    parameters = learner["learner_model_param"]
    n_groups = _n_groups(parameters)
    objective = learner["objective"]
    return Forest(
        document=document,
        trees=trees,
        group=group,
        round=_rounds(model, n_groups),
        n_groups=n_groups,
        objective=objective["name"],
        objective_parameters={k: v for part in objective.values() if isinstance(part, dict) for k, v in part.items()},
        base_margin=_base_margin(parameters["base_score"], objective["name"], n_groups),
        settings=_settings(configuration),
    )


def _configuration(booster: Any) -> dict[str, Any]:
    configuration: dict[str, Any] = json.loads(booster.save_config())
    kind = configuration["learner"]["learner_train_param"]["booster"]
    if kind != "gbtree":
        raise UnsupportedModelError(
            f"This booster is of kind {kind!r}; ens_plugin covers 'gbtree': linear models have no members, and dart "
            "drops and rescales trees while it trains. Train with booster='gbtree'."
        )
    return configuration


def _n_outputs(learner: dict[str, Any]) -> int:
    """Return the number of columns of y; of a booster for quantiles, which has a target for each of them, 1."""
    if learner["objective"]["name"] == "reg:quantileerror":
        return 1
    return max(int(learner["learner_model_param"].get("num_target", "1")), 1)


def _n_groups(parameters: dict[str, str]) -> int:
    return max(int(parameters["num_class"]), int(parameters.get("num_target", "1")), 1)


def _check_trained(booster: Any) -> None:
    try:
        n_rounds = booster.num_boosted_rounds()
    except xgboost.core.XGBoostError as error:  # created without rows, so without a number of columns
        raise NotFittedError("This booster holds no trees; train it first.") from error
    if n_rounds == 0:
        raise NotFittedError("This booster holds no trees; train it first.")


def _check_equal_weights(weights: list[float]) -> None:
    """Raise UnsupportedModelError if dropout gave trees weights, which XGBoost 3.4 stores for 'gbtree' too."""
    if any(weight != 1 for weight in weights):
        raise UnsupportedModelError(
            f"The trees of this booster count with weights from {min(weights):.3g} to {max(weights):.3g}: dart drops "
            "and rescales trees while it trains. Train without rate_drop and one_drop."
        )


def _tree(tree: dict[str, Any]) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", "1")) > 1:
        raise UnsupportedModelError(
            "The trees of this booster have a vector in each leaf (multi_strategy='multi_output_tree'); ens_plugin "
            "covers trees with one value per leaf. Train with multi_strategy='one_output_per_tree'."
        )
    for name in _READ_ARRAYS:
        tree[name] = tree[name].astype(tree[name].dtype.newbyteorder("="))
    return Tree(
        is_leaf=tree["left_children"] == LEAF,
        values=tree["split_conditions"],
        covers=tree["sum_hessian"],
        left=tree["left_children"],
        right=tree["right_children"],
    )


def _rounds(model: dict[str, Any], n_groups: int) -> IntArray:
    n_trees = len(model["trees"])
    starts = model.get("iteration_indptr")
    if starts is None:
        per_round = int(model["gbtree_model_param"]["num_parallel_tree"]) * n_groups
        return np.arange(n_trees) // max(per_round, 1)
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _base_margin(text: str, objective: str, n_groups: int) -> FloatArray:
    """Return the base score of each group as a margin; before release 3.1, it is one number for all groups."""
    scores = np.array(json.loads(text if text.startswith("[") else f"[{text}]"), dtype=np.float64)
    if objective in ("binary:logistic", "reg:logistic"):
        scores = np.log(scores) - np.log1p(-scores)
    elif objective in ("count:poisson", "reg:gamma", "reg:tweedie"):
        scores = np.log(scores)
    return np.broadcast_to(scores, (n_groups,)).astype(np.float64)


def _settings(configuration: dict[str, Any]) -> TrainingParameters:
    learner = configuration["learner"]
    general, booster = learner["generic_param"], learner["gradient_booster"]
    tree = booster["tree_train_param"]
    training = booster["gbtree_train_param"]
    constraints = tree["monotone_constraints"].strip("()[] ")
    return TrainingParameters(
        seed=int(general["seed"]),
        seed_per_iteration=general["seed_per_iteration"] in ("1", "true"),
        subsample=float(tree["subsample"]),
        sampling_method=tree["sampling_method"],
        updater=training["updater_seq"] if "updater_seq" in training else training["updater"],
        device=general.get("device", "cpu"),
        process_type=training["process_type"],
        bytree=float(tree["colsample_bytree"]),
        bylevel=float(tree["colsample_bylevel"]),
        bynode=float(tree["colsample_bynode"]),
        max_depth=int(tree["max_depth"]),
        max_leaves=int(tree["max_leaves"]),
        by_loss=tree["grow_policy"] == "lossguide",
        release=tuple(configuration["version"]),
        eta=float(tree["eta"]),
        penalty=float(tree["lambda"]),
        alpha=float(tree["alpha"]),
        max_delta_step=float(tree["max_delta_step"]),
        is_constrained=bool(constraints),
    )
