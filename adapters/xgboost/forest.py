"""The trees of an XGBoost model, their learning rate, what they give to rows, and shorter models.

The booster's prediction is the sum of its leaves, each of which holds its value divided by the number of parallel
trees: with fewer trees, each must add more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ens_plugin.adapters.trees import LEAF, splits_by_column
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.validation import CELLS_AT_ONCE, BoolArray, FloatArray, IntArray
from ens_plugin.errors import NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

# What is read of each node, in the types of the library.
_BY_NODE = {
    "left_children": np.intp,
    "right_children": np.intp,
    "split_indices": np.intp,
    "split_type": np.uint8,
    "split_conditions": np.float32,
    "sum_hessian": np.float32,
}
IS_SET = 1
# Attribute of a truncated booster: the parallel trees of each class that were grown.
GROWN_PARALLEL = "ens_plugin_num_parallel_tree"
# Attributes that XGBoost's own slices remove.
_OF_ALL_TREES = ("best_iteration", "best_score")
# Trees that are read together: more would cost memory and time where single trees are read, fewer where all are.
TREES_TOGETHER = 64
_SUM = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
# Rates above this one shrink predictions by less than the noise of most data.
FULL_RATE = 0.99


@dataclass(frozen=True)
class TrainingParameters:
    """Training parameters that a booster stores; saving and loading it as a file resets them to defaults."""

    seed: int
    seed_per_iteration: bool
    subsample: float
    sampling_method: str
    updater: str
    device: str
    process_type: str
    # Shares of the columns drawn.
    bytree: float
    bylevel: float
    bynode: float
    # 0 for no limit.
    max_depth: int
    max_leaves: int
    # Whether trees grew one leaf at a time, not level by level.
    by_loss: bool
    # Of the library that last saved the booster.
    release: tuple[int, ...]
    eta: float
    # L2 and L1 penalty of the leaf values.
    penalty: float
    alpha: float
    max_delta_step: float
    # Whether features have monotone constraints.
    is_constrained: bool


class Forest:
    """The trees of a booster in the order they were grown, with its training parameters and base margin."""

    # The document with the trees is read when it is asked for: boosters of many rounds are only refused. A booster for
    # quantiles has a group for each of them, and one output.

    def __init__(self, booster: Any) -> None:
        try:
            self.n_rounds = int(booster.num_boosted_rounds())
        except xgboost.core.XGBoostError:  # created without rows, so without a number of columns
            self.n_rounds = 0
        if self.n_rounds == 0:
            raise NotFittedError("This booster holds no trees; train it first.")
        self.booster, configuration = booster, json.loads(booster.save_config())
        learner = configuration["learner"]
        kind, parameters = learner["learner_train_param"]["booster"], learner["learner_model_param"]
        if kind != "gbtree":
            raise UnsupportedModelError(
                f"This booster is of kind {kind!r}; ens_plugin covers 'gbtree': linear models have no members, and "
                "dart drops and rescales trees while it trains. Train with booster='gbtree'."
            )
        self.objective: str = learner["objective"]["name"]
        n_targets = max(int(parameters.get("num_target", "1")), 1)
        self.n_groups = max(int(parameters["num_class"]), n_targets)
        self.n_outputs = 1 if self.objective == "reg:quantileerror" else n_targets
        self.n_trees = int(learner["gradient_booster"]["gbtree_model_param"]["num_trees"])
        self.settings = _settings(configuration)

    def with_settings(self, **changes: Any) -> Forest:
        """Return the same trees as if they were trained with other parameters."""
        forest = copy(self)
        forest.settings = replace(self.settings, **changes)
        return forest

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the booster's model document, without weights of its trees."""
        document: dict[str, Any] = json.loads(self.booster.save_raw("json"))
        model = document["learner"]["gradient_booster"]["model"]
        _check_equal_weights(model.pop("weight_drop", []))
        if any(int(tree["tree_param"].get("size_leaf_vector", "1")) > 1 for tree in model["trees"]):
            raise UnsupportedModelError(
                "The trees of this booster have a vector in each leaf (multi_strategy='multi_output_tree'); ens_plugin "
                "covers trees with one value per leaf. Train with multi_strategy='one_output_per_tree'."
            )
        return document

    @cached_property
    def _model(self) -> dict[str, Any]:
        model: dict[str, Any] = self.document["learner"]["gradient_booster"]["model"]
        return model

    @property
    def trees(self) -> list[dict[str, Any]]:
        """Return the trees of the document, whose arrays have one entry for each node."""
        trees: list[dict[str, Any]] = self._model["trees"]
        return trees

    @cached_property
    def nodes(self) -> dict[str, NDArray[Any]]:
        """Return arrays of the document with one entry for each node, of all trees one after the other."""
        return {
            name: np.fromiter(chain.from_iterable(tree[name] for tree in self.trees), kind)
            for name, kind in _BY_NODE.items()
        }

    @cached_property
    def starts(self) -> IntArray:
        """Return the first node of each tree, and their number, shape (n_trees + 1,)."""
        return np.cumsum([0, *(len(tree["left_children"]) for tree in self.trees)])

    @cached_property
    def group(self) -> IntArray:
        """Return the class, or output, that each tree adds to, shape (n_trees,)."""
        return np.asarray(self._model["tree_info"], dtype=np.int64)

    @cached_property
    def round(self) -> IntArray:
        """Return the boosting round of each tree, shape (n_trees,)."""
        starts = self._model.get("iteration_indptr")
        if starts is None:
            per_round = int(self._model["gbtree_model_param"]["num_parallel_tree"]) * self.n_groups
            return np.arange(self.n_trees) // max(per_round, 1)
        return np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    @cached_property
    def reader(self) -> TreeReader:
        """Return the reader of what trees give to rows."""
        return TreeReader(self)

    @property
    def objective_parameters(self) -> dict[str, str]:
        """Return the parameters of the objective."""
        parts = self.document["learner"]["objective"].values()
        return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}

    @cached_property
    def base_margin(self) -> FloatArray:
        """Return the margin of each group before any tree is added; before release 3.1, it is one for all groups."""
        text = self.document["learner"]["learner_model_param"]["base_score"]
        scores = np.array(json.loads(text if text.startswith("[") else f"[{text}]"), dtype=np.float64)
        if self.objective in ("binary:logistic", "reg:logistic"):
            scores = np.log(scores) - np.log1p(-scores)
        elif self.objective in ("count:poisson", "reg:gamma", "reg:tweedie"):
            scores = np.log(scores)
        return np.broadcast_to(scores, (self.n_groups,)).astype(np.float64)

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Return which nodes are leaves."""
        return np.asarray(self.nodes["left_children"] < 0)

    def of_tree(self, values: NDArray[Any], tree: int) -> NDArray[Any]:
        """Return the entries of one tree in an array of all nodes."""
        return values[self.starts[tree] : self.starts[tree + 1]]

    def leaf_values(self, tree: int) -> FloatArray:
        """Return what each leaf of a tree adds to the margin."""
        return self._of_leaves("split_conditions", tree)

    def leaf_covers(self, tree: int) -> FloatArray:
        """Return the summed second derivatives of the rows of the bag that reached each leaf at training."""
        return self._of_leaves("sum_hessian", tree)

    def _of_leaves(self, name: str, tree: int) -> FloatArray:
        values: FloatArray = self.of_tree(self.nodes[name], tree)[self.of_tree(self.is_leaf, tree)].astype(np.float64)
        return values

    @property
    def root_covers(self) -> FloatArray:
        """Return the summed second derivatives of the rows of each tree's bag."""
        return np.asarray(self.nodes["sum_hessian"][self.starts[:-1]], dtype=np.float64)

    def splits(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield each column that trees split by value, in ascending order, with all its thresholds."""
        is_number = ~self.is_leaf & (self.nodes["split_type"] != IS_SET)
        column, threshold = (self.nodes[name][is_number] for name in ("split_indices", "split_conditions"))
        return splits_by_column(column, threshold.astype(np.float64))

    @cached_property
    def depths(self) -> IntArray:
        """Return the depth of each node, 0 for roots."""
        start_of = np.repeat(self.starts[:-1], np.diff(self.starts))
        left, right = (self.nodes[name] + start_of for name in ("left_children", "right_children"))
        depths = np.zeros(self.is_leaf.size, dtype=np.int64)
        # The nodes of one depth in all trees at once.
        level, depth = self.starts[:-1][~self.is_leaf[self.starts[:-1]]], 0
        while level.size:
            depth += 1
            children = np.concatenate([left[level], right[level]])
            depths[children] = depth
            level = children[~self.is_leaf[children]]
        return depths

    @property
    def n_parallel(self) -> int:
        """Return the number of trees of each group in the last round."""
        return int(np.count_nonzero(self.round == self.round[-1])) // self.n_groups

    @property
    def n_left_out(self) -> int:
        """Return the number of trees of each group that the first round grew and truncation removed."""
        grown = self.document["learner"]["attributes"].get(GROWN_PARALLEL)
        return 0 if grown is None else int(grown) - int(np.count_nonzero(self.round == 0)) // self.n_groups


def _check_equal_weights(weights: list[float]) -> None:
    """Raise UnsupportedModelError if dropout gave trees weights, which XGBoost 3.4 stores for 'gbtree' too."""
    if any(weight != 1 for weight in weights):
        raise UnsupportedModelError(
            f"The trees of this booster count with weights from {min(weights):.3g} to {max(weights):.3g}: dart drops "
            "and rescales trees while it trains. Train without rate_drop and one_drop."
        )


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


def learning_rate(forest: Forest) -> float | None:
    """Return the learning rate of the training; None where loading the booster from a file has reset it."""
    return None if forest.settings.subsample == 1 else forest.settings.eta


def shrunken(rate: float) -> Finding:
    """Return the note on a learning rate below 1."""
    return finding(
        "small-learning-rate",
        f"The trees were trained with learning_rate={rate:.3g}. In a single round, every prediction then goes only "
        f"{rate:.3g} of the way from the base score to what the trees found, and no later round makes up for it, so "
        "the error is larger than it has to be. Train with learning_rate=1.",
        learning_rate=rate,
    )


class TreeReader:
    """Reader of the leaves that rows reach: a copy of the booster whose leaves hold their numbers.

    Each tree is a round of its own, and trees that are read together have different outputs.
    """

    def __init__(self, forest: Forest) -> None:
        self._forest, n_trees = forest, forest.n_trees
        self._n_outputs = min(n_trees, TREES_TOGETHER)
        document = _document_of(forest, range(n_trees), 1, [tree % self._n_outputs for tree in range(n_trees)])
        learner = document["learner"]
        parameters = {"base_score": "0E0", "boost_from_average": "0", "num_class": "0"}
        parameters = {**learner["learner_model_param"], **parameters, "num_target": str(self._n_outputs)}
        learner |= {"attributes": {}, "objective": _SUM, "learner_model_param": parameters}
        model = learner["gradient_booster"]["model"]
        model["iteration_indptr"] = list(range(n_trees + 1))
        for number, tree in enumerate(model["trees"]):
            is_leaf, values = (
                forest.of_tree(forest.is_leaf, number),
                forest.of_tree(forest.nodes["split_conditions"], number),
            )
            tree["split_conditions"] = np.where(is_leaf, np.cumsum(is_leaf) - 1, values).tolist()
        # One thread: several blocks of rows are already read in parallel.
        self._booster = xgboost.Booster({"nthread": 1})
        self._booster.load_model(bytearray(json.dumps(document).encode()))

    def leaves(self, rows: Rows, trees: Sequence[int]) -> list[NDArray[np.unsignedinteger]]:
        """Return the leaf that each row reaches in each tree, numbered in the order of the nodes."""
        # In the smallest type: several trees are held at once.
        kinds = [np.min_scalar_type(self._forest.leaf_values(tree).size) for tree in trees]
        found = [np.empty(rows.shape[0], dtype=kind) for kind in kinds]
        n_together = max(CELLS_AT_ONCE // self._n_outputs, 1)
        for start in range(0, rows.shape[0], n_together):
            part = slice(start, start + n_together)
            matrix = rows[part].matrix()
            for places in self._runs(trees):
                first, last = trees[places.start], trees[places.stop - 1]
                read = self._booster.predict(matrix, iteration_range=(first, last + 1)).reshape(-1, self._n_outputs)
                for place in places:
                    found[place][part] = read[:, trees[place] % self._n_outputs]
        return found

    def _runs(self, trees: Sequence[int]) -> Iterator[range]:
        """Yield the places of consecutive trees, which are read at once."""
        start = 0
        for end in range(1, len(trees) + 1):
            if end == len(trees) or trees[end] != trees[end - 1] + 1 or end - start == self._n_outputs:
                yield range(start, end)
                start = end

    def values(self, rows: Rows, trees: Sequence[int]) -> FloatArray:
        """Return what each tree adds to the margin, shape (n_trees, n_rows)."""
        leaves = zip(trees, self.leaves(rows, trees), strict=True)
        return np.stack([self._forest.leaf_values(tree).take(reached) for tree, reached in leaves])


def _document_of(forest: Forest, trees: Sequence[int], n_parallel: int, group: Sequence[int]) -> dict[str, Any]:
    """Return the booster's document with some of its trees, in one round."""
    learner = forest.document["learner"]
    model = learner["gradient_booster"]["model"]
    numbers = {"num_trees": str(len(trees)), "num_parallel_tree": str(n_parallel)}
    kept = {
        **model,
        "gbtree_model_param": {**model["gbtree_model_param"], **numbers},
        "iteration_indptr": [0, len(trees)],
        "tree_info": group,
        "trees": [{**model["trees"][tree], "id": position} for position, tree in enumerate(trees)],
    }
    changed = {**learner, "gradient_booster": {**learner["gradient_booster"], "model": kept}}
    return {**forest.document, "learner": changed}


def form_members(values: NDArray[Any], is_oob: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Return the outputs of members, shape (n_trees, n_rows, n_labels), and which count, as of an adapter's `block`."""
    # Of each row, the k-th out-of-bag trees of all labels are the k-th member that counts.
    fewest = np.argmin(is_oob.sum(axis=1), axis=0)
    counted = np.take_along_axis(is_oob, fewest[None, None, :], axis=0)[0]
    place = np.maximum(np.cumsum(counted, axis=0) - 1, 0)
    out_of_bag = np.argsort(~is_oob, axis=1, kind="stable")
    outputs = np.take_along_axis(np.take_along_axis(values, out_of_bag, axis=1), place[None], axis=1)
    return np.ascontiguousarray(outputs.transpose(1, 2, 0), dtype=np.float64), counted


def truncated_trees(model: Any, forest: Forest, size: int) -> Any:
    """Return a copy of a trained model of one round, with the first `size` parallel trees of every class."""
    part = deepcopy(model)
    is_booster = isinstance(part, xgboost.Booster)
    booster = part if is_booster else part.get_booster()
    # A model document has no training parameters, and loading it resets some of them.
    configuration = booster.save_config()
    booster.load_model(bytearray(json.dumps(_shorter(forest, size)).encode()))
    booster.load_config(configuration)
    if not is_booster:
        setattr(part, _size_parameter(part), size)
        if size < forest.n_parallel:
            vars(part).pop("evals_result_", None)
    return part


def _size_parameter(model: Any) -> str:
    forests = (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor)
    return "n_estimators" if isinstance(model, forests) else "num_parallel_tree"


def _shorter(forest: Forest, size: int) -> dict[str, Any]:
    """Return the booster's document with the first `size` trees of each class, scaled and renumbered."""
    learner, grown = forest.document["learner"], forest.n_parallel
    kept = [first + member for first in range(0, forest.n_trees, grown) for member in range(size)]
    group = learner["gradient_booster"]["model"]["tree_info"]
    document = _document_of(forest, kept, size, [group[tree] for tree in kept])
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree |= _scaled(tree, grown / size)
    document["learner"]["attributes"] = _attributes(forest) if size < grown else learner["attributes"]
    return document


def _scaled(tree: dict[str, Any], factor: float) -> dict[str, list[float]]:
    """Return a tree's values at its nodes, with those of the leaves multiplied by `factor`."""
    values, weights = (np.array(tree[name], dtype=np.float32) for name in ("split_conditions", "base_weights"))
    is_leaf = np.array(tree["left_children"]) == LEAF
    larger = (values.astype(np.float64) * factor).astype(np.float32)
    # `exact` writes a leaf's weight as it is, other methods what the leaf adds.
    scaled = np.where(is_leaf, larger, values), np.where(is_leaf & (weights == values), larger, weights)
    return {"split_conditions": scaled[0].tolist(), "base_weights": scaled[1].tolist()}


def _attributes(forest: Forest) -> dict[str, str]:
    known = forest.document["learner"]["attributes"]
    kept = {name: value for name, value in known.items() if name not in _OF_ALL_TREES}
    # Of one class, the kept trees were drawn first; of more, the removed ones were drawn in between.
    return kept if forest.n_groups == 1 else {GROWN_PARALLEL: str(forest.n_parallel), **kept}
