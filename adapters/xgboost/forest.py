"""The trees of an XGBoost model, their learning rate, what they give to rows, and shorter models.

The booster's prediction is the sum of its leaves, each of which holds its value divided by the number of parallel
trees: with fewer trees, each must add more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ens_plugin.adapters.tree_table import LEAF, splits_by_column
from ens_plugin.adapters.trees import move_values
from ens_plugin.adapters.xgboost.document import decode, encode
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.tally import count_members
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray
from ens_plugin.errors import NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

# Of all trees at once, because thousands of small arrays take longer than the numbers in them.
_BY_NODE = ("left_children", "right_children", "split_indices", "split_conditions", "sum_hessian", "split_type")
IS_SET = 1
# Attribute of a truncated booster: the parallel trees of each class that were grown.
GROWN_PARALLEL = "ens_plugin_num_parallel_tree"
# Attributes that XGBoost's own slices remove.
_OF_ALL_TREES = ("best_iteration", "best_score")
# Trees of one copy of a model: the outputs of some rows stay in a processor's cache.
TREES_TOGETHER = 256
# Rows up to which a copy takes longer than the booster's own ``predict(pred_leaf=True)``, which reads all trees.
FEW_ROWS = 128
_SUM = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}
# Rates above this one shrink predictions by less than the noise of most data.
FULL_RATE = 0.99
# Of the fit of a learning rate: trees that are read, and the precision of what they store.
MOST_TREES = 20
LARGEST_RESIDUAL = 1e-4
SMALLEST_SINGULAR = 1e-3


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
    """The trees of a booster in the order they were grown, with its training parameters and base margin.

    The document with the trees is read when it is asked for: boosters of many rounds are only refused.

    Attributes
    ----------
    objective : str
    n_groups : int
        1 for regression and two labels, else the number of labels, or of columns of y.
    n_outputs : int
        Number of columns of y; of a booster for quantiles, which has a target for each of them, 1.
    n_rounds, n_trees : int
    settings : TrainingParameters
    """

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
        document: dict[str, Any] = decode(self.booster.save_raw("ubj"))
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
        # In the processor's own order of bytes.
        found = {name: np.concatenate([tree[name] for tree in self.trees]) for name in _BY_NODE}
        return {name: own.astype(own.dtype.newbyteorder("="), copy=False) for name, own in found.items()}

    @cached_property
    def starts(self) -> IntArray:
        """Return the first node of each tree, and their number, shape (n_trees + 1,)."""
        return np.cumsum([0, *(tree["left_children"].size for tree in self.trees)])

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
    """Return the learning rate that the trees of one round were trained with; None where it is not known."""
    # A node that was split keeps its value as it was before the learning rate, and leaves keep theirs after it. With
    # the values w of a node and w_l, w_r of the leaves below it, their summed second derivatives H and the penalty
    # lambda, w_l (H_l + lambda) + w_r (H_r + lambda) = rate * w (H + lambda), which is linear in rate, rate * lambda
    # and lambda. Of leaves that do not follow these sums, the booster's own statement counts, unless loading from a
    # file has reset it.
    trees = forest.trees
    read = np.unique(np.linspace(0, len(trees) - 1, MOST_TREES).astype(np.intp))
    fitted = _fitted_rate(np.concatenate([_equations(trees[number]) for number in read]))
    if fitted is not None:
        return fitted * forest.n_parallel
    return None if forest.settings.subsample == 1 else forest.settings.eta


def _fitted_rate(equations: FloatArray) -> float | None:
    """Return the rate that solves all equations; None where none does, or several do."""
    table, known = equations[:, :-1], equations[:, -1]
    scale = np.linalg.norm(table, axis=0)
    if len(table) <= scale.size or not scale.all():
        return None
    solution, _, _, singular = np.linalg.lstsq(table / scale, known, rcond=None)
    residual = np.linalg.norm(table / scale @ solution - known)
    if singular[-1] < SMALLEST_SINGULAR * singular[0] or residual > LARGEST_RESIDUAL * np.linalg.norm(known):
        return None
    return float(solution[0] / scale[0])


def _equations(tree: Mapping[str, Any]) -> FloatArray:
    """Return, for each node with two leaves, the coefficients of rate, rate * lambda and lambda, and the right side."""
    left, right = (np.asarray(tree[f"{side}_children"]) for side in ("left", "right"))
    value, weight = np.asarray(tree["split_conditions"], float), np.asarray(tree["base_weights"], float)
    hessian = np.asarray(tree["sum_hessian"], float)
    split = np.flatnonzero(left != LEAF)
    split = split[(left[left[split]] == LEAF) & (left[right[split]] == LEAF)]
    below = value[left[split]], value[right[split]]
    known = below[0] * hessian[left[split]] + below[1] * hessian[right[split]]
    return np.stack([weight[split] * hessian[split], weight[split], -below[0] - below[1], known], axis=1)


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
    """Reader of what trees of a forest give to rows: each tree is an output of its own in a copy of the booster."""

    def __init__(self, forest: Forest, trees: Sequence[int]) -> None:
        self._forest, self._trees = forest, trees

    @cached_property
    def _boosters(self) -> list[Any]:
        parts = range(0, len(self._trees), TREES_TOGETHER)
        return [_of_single_trees(self._forest, self._trees[start : start + TREES_TOGETHER]) for start in parts]

    def values(self, rows: Rows) -> NDArray[np.float32]:
        """Return what each tree adds to the margin, shape (n_trees, n_rows)."""
        if rows.shape[0] <= FEW_ROWS:
            nodes = self._forest.booster.predict(rows.matrix(), pred_leaf=True).reshape(rows.shape[0], -1)
            of_all = nodes[:, self._trees].astype(np.intp) + self._forest.starts[self._trees]
            return np.asarray(self._forest.nodes["split_conditions"][of_all.T])
        return self._read(rows, np.empty((len(self._trees), rows.shape[0]), dtype=np.float32))

    def leaves(self, rows: Rows) -> list[NDArray[np.unsignedinteger]]:
        """Return the leaf that each row reaches in each tree, numbered in the order of the nodes."""
        nodes = self._read(rows, np.empty((len(self._trees), rows.shape[0]), dtype=np.int32), pred_leaf=True)
        is_leaf = [self._forest.of_tree(self._forest.is_leaf, tree) for tree in self._trees]
        # In the smallest type: several trees are held at once.
        numbers = [(np.cumsum(own) - 1).astype(np.min_scalar_type(own.size)) for own in is_leaf]
        return [own.take(reached) for own, reached in zip(numbers, nodes, strict=True)]

    def _read(self, rows: Rows, found: NDArray[Any], **options: Any) -> NDArray[Any]:
        matrix = rows.matrix()
        for place, booster in enumerate(self._boosters):
            own = found[place * TREES_TOGETHER : (place + 1) * TREES_TOGETHER]
            own[:] = booster.predict(matrix, **options).reshape(rows.shape[0], -1).T
        return found


def _of_single_trees(forest: Forest, trees: Sequence[int]) -> Any:
    """Return a copy of the booster with some trees, of which each is an output."""
    parameters = {"base_score": "0E0", "boost_from_average": "0", "num_class": "0", "num_target": str(len(trees))}
    document = _document_of(forest, trees, 1, list(range(len(trees))))
    learner = document["learner"]
    learner |= {"attributes": {}, "objective": _SUM}
    learner["learner_model_param"] = {**learner["learner_model_param"], **parameters}
    # One thread: several blocks of rows are already read in parallel.
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(encode(document))
    return booster


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
    fewest = np.argmin([count_members(own) for own in is_oob], axis=0)
    counted = np.logical_or.reduce([own & (fewest == label) for label, own in enumerate(is_oob)])
    outputs = np.empty((is_oob.shape[1], is_oob.shape[0], is_oob.shape[2]))
    move_values(values, is_oob, outputs.transpose(1, 0, 2), counted)
    return outputs.transpose(0, 2, 1), counted


def truncated_trees(model: Any, forest: Forest, size: int) -> Any:
    """Return a copy of a trained model of one round, with the first `size` parallel trees of every class."""
    part = deepcopy(model)
    is_booster = isinstance(part, xgboost.Booster)
    booster = part if is_booster else part.get_booster()
    # A model document has no training parameters, and loading it resets some of them.
    configuration = booster.save_config()
    booster.load_model(encode(_shorter(forest, size)))
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
