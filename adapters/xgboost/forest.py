"""The trees of an XGBoost model: leaves, sums, labels, shorter models, and rows as they take them.

Reading of the leaf of each tree that a row reaches, by a copy of the model with leaf numbers as leaf values.
``predict(pred_leaf=True)`` returns the same in about four times the time, and of all trees only. The copy's leaves of
several trees add up to one output: as float32 holds whole numbers of 24 bits, one output has room for the leaves of
four trees of 64 leaves.

Copies of XGBoost boosters of one round with fewer parallel trees. The booster's prediction is the sum of its leaves,
each of which holds its value divided by the number of parallel trees: with fewer trees, each must add more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy.sparse import issparse

from ens_plugin.adapters.members import as_pandas, check_no_text
from ens_plugin.adapters.tree_table import LEAF, FlatTree, TreeTable
from ens_plugin.adapters.trees import KeptLeaves, move_values
from ens_plugin.adapters.xgboost.document import decode, encode
from ens_plugin.core.tally import count_members
from ens_plugin.core.validation import FloatArray, IntArray, counted
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

IS_SET = 1
# Attribute of a truncated booster: the parallel trees of each class that were grown.
GROWN_PARALLEL = "ens_plugin_num_parallel_tree"


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


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of a booster in the order they were grown, with its training parameters and base margin.

    Attributes
    ----------
    document : dict
        The booster's model document.
    table : TreeTable
        The trees, with what a leaf adds to the margin as its value, and as its cover the summed second derivatives of
        the rows of the bag that reached the node at training.
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
    table: TreeTable
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
        trees, is_leaf = self.table.trees, np.concatenate(self.table.is_leaf)
        starts = np.cumsum([0, *(own.size for own in self.table.is_leaf)])
        left, right = (
            np.concatenate([getattr(tree, side) + start for tree, start in zip(trees, starts, strict=False)])
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

    @property
    def n_trees(self) -> int:
        """Return the number of trees."""
        return len(self.table.trees)

    @cached_property
    def member_values(self) -> list[NDArray[np.float64]]:
        """Return the margin of each leaf, as if its tree were the whole booster, without the base margin."""
        return [values * self.n_parallel for values in self.table.leaf_values]

    @cached_property
    def member_margins(self) -> list[NDArray[np.float64]]:
        """Return the margin of each leaf, as if its tree were the whole booster, with the base margin."""
        pairs = zip(self.member_values, self.group, strict=True)
        return [values + self.base_margin[group] for values, group in pairs]

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
    """Return how many trees and rounds a booster has, read in the time that one tree takes."""
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
    """Return the trees and training parameters of a booster."""
    _check_trained(booster)
    configuration = _configuration(booster)
    document = decode(booster.save_raw("ubj"))
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    _check_equal_weights(model.pop("weight_drop", []))
    for tree in model["trees"]:
        _check_leaves(tree)
    group = np.asarray(model["tree_info"], dtype=np.int64)
    parameters = learner["learner_model_param"]
    n_groups = _n_groups(parameters)
    objective = learner["objective"]
    return Forest(
        document=document,
        table=_table(model["trees"]),
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


def _check_leaves(tree: dict[str, Any]) -> None:
    if int(tree["tree_param"].get("size_leaf_vector", "1")) > 1:
        raise UnsupportedModelError(
            "The trees of this booster have a vector in each leaf (multi_strategy='multi_output_tree'); ens_plugin "
            "covers trees with one value per leaf. Train with multi_strategy='one_output_per_tree'."
        )


def _table(trees: list[dict[str, Any]]) -> TreeTable:
    # Of all trees at once, because thousands of small arrays take longer than the numbers in them.
    names = ("left_children", "right_children", "split_indices", "split_conditions", "sum_hessian", "split_type")
    left, right, column, condition, cover, kind = (_joined(trees, name) for name in names)
    # A leaf's value stands where other nodes have a condition, below which values go left.
    value = condition.astype(np.float64)
    threshold = np.where((kind == IS_SET) & (left >= 0), np.nan, value)
    sizes = [tree["left_children"].size for tree in trees]
    parts = [slice(stop - size, stop) for size, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
    values, covers = ([own[part] for part in parts] for own in (value, cover.astype(np.float64)))
    flat_trees = [FlatTree(left[own], right[own], column[own], threshold[own]) for own in parts]
    return TreeTable(flat_trees, values, covers)


def _joined(trees: list[dict[str, Any]], name: str) -> NDArray[Any]:
    """Return an array of all trees one after the other, in the processor's own order of bytes."""
    found = np.concatenate([tree[name] for tree in trees])
    return found.astype(found.dtype.newbyteorder("="), copy=False)


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


# Rates above this one shrink predictions by less than the noise of most data.
FULL_RATE = 0.99
MOST_TREES = 20
LARGEST_RESIDUAL = 1e-4
SMALLEST_SINGULAR = 1e-3


def learning_rate(forest: Forest) -> float | None:
    """Return the learning rate that the trees of one round were trained with; None where it is not known.

    A node that was split keeps its value as it was before the learning rate, and leaves keep theirs after it.  With
    the values w of a node and w_l, w_r of the leaves below it, their summed second derivatives H and the penalty
    lambda, w_l (H_l + lambda) + w_r (H_r + lambda) = rate * w (H + lambda), which is linear in rate,
    rate * lambda and lambda.  Of leaves that do not follow these sums, the booster's own statement counts, unless
    loading from a file has reset it.
    """
    trees = forest.document["learner"]["gradient_booster"]["model"]["trees"]
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


EXACT_BITS = np.finfo(np.float32).nmant + 1
OUTPUT_BYTES = 2_000_000
# The library's own copy of a block takes eight bytes for each value in it.
MOST_ROWS = 16_384
# Rows whose codes stay in a processor's cache while they become leaves.
UNPACKED_ROWS = 200
_OBJECTIVE = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}


class LeafReader:
    """Reader of the leaves that rows reach in some trees of a forest, or in all, in the order given.

    Leaves are numbered from 0 in the order of the nodes.

    Attributes
    ----------
    dtype : dtype
        The smallest unsigned integer type that holds a leaf's number.
    """

    def __init__(self, forest: Forest, chosen: Sequence[int] | None = None) -> None:
        trees = range(forest.n_trees) if chosen is None else chosen
        self._forest, self._trees = forest, trees
        self._n_trees = len(trees)
        n_leaves = int(forest.table.n_leaves[trees].max())
        self._bits = max((n_leaves - 1).bit_length(), 1)
        self._shared = max(EXACT_BITS // self._bits, 1)
        self.dtype = np.min_scalar_type(n_leaves - 1)
        self._n_outputs = -(-self._n_trees // self._shared)

    def read(self, rows: Rows, wanted: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the leaf of every tree that each row reaches, unsigned int, shape (n_trees, n_rows)."""
        found = None
        if rows.kept is not None and wanted is not None and self._trees == range(self._forest.n_trees):
            found = rows.kept.read(wanted)
        return self._read_copy(rows) if found is None else found

    @cached_property
    def _booster(self) -> Any:
        return self._copy(self._forest, self._trees)

    def _read_copy(self, rows: Rows) -> NDArray[Any]:
        """Return the leaves that the copy of the model finds."""
        leaves = np.empty((self._n_trees, rows.shape[0]), dtype=self.dtype)
        step = min(max(OUTPUT_BYTES // (4 * self._n_outputs), 64), MOST_ROWS)
        for start in range(0, rows.shape[0], step):
            block = slice(start, min(start + step, rows.shape[0]))
            outputs = self._booster.predict(rows[block].matrix()).reshape(block.stop - start, -1)
            self._unpack(outputs, leaves[:, block])
        return leaves

    def _unpack(self, outputs: NDArray[np.float32], leaves: NDArray[Any]) -> None:
        """Write the leaves of some rows, shape (n_trees, n_rows), whose codes the copy returned by row."""
        for start in range(0, len(outputs), UNPACKED_ROWS):
            rows = slice(start, start + UNPACKED_ROWS)
            codes = np.ascontiguousarray(outputs[rows].astype(np.uint32).T)
            for place in range(self._shared):
                own = leaves[place :: self._shared, rows]
                np.bitwise_and(codes[: len(own)], np.uint32(2**self._bits - 1), out=own, casting="unsafe")
                codes >>= np.uint32(self._bits)

    def _copy(self, forest: Forest, chosen: Sequence[int]) -> Any:
        """Return a booster of the chosen trees with leaf numbers as values, several trees to one output."""
        learner = forest.document["learner"]
        model = learner["gradient_booster"]["model"]
        trees = []
        for position, member in enumerate(chosen):
            tree = model["trees"][member]
            is_leaf = forest.table.is_leaf[member]
            numbers = (np.cumsum(is_leaf) - 1) * 2.0 ** (self._bits * (position % self._shared))
            conditions = np.where(is_leaf, numbers, tree["split_conditions"]).astype(np.float32)
            trees.append({**tree, "id": position, "split_conditions": conditions})
        changed_model = {
            **model,
            "gbtree_model_param": {
                **model["gbtree_model_param"],
                "num_trees": str(self._n_trees),
                "num_parallel_tree": "1",
            },
            "iteration_indptr": [0, self._n_trees],
            "tree_info": [position // self._shared for position in range(self._n_trees)],
            "trees": trees,
        }
        parameters = {
            **learner["learner_model_param"],
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_target": str(self._n_outputs),
        }
        changed = {
            **learner,
            "attributes": {},
            "gradient_booster": {**learner["gradient_booster"], "model": changed_model},
            "learner_model_param": parameters,
            "objective": _OBJECTIVE,
        }
        # One thread: several blocks of rows are already read in parallel.
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(encode({**forest.document, "learner": changed}))
        return booster


def read_leaves(forest: Forest, rows: Rows, chosen: Sequence[int]) -> NDArray[Any]:
    """Return the leaves that rows reach in some trees, kept or newly read, shape (len(chosen), n_rows)."""
    if rows.leaves is not None:
        return np.asarray(rows.leaves[chosen])
    return LeafReader(forest, chosen).read(rows)


def form_members(
    margins: NDArray[np.float64],
    is_oob: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the outputs of members, shape (n_trees, n_rows, n_labels), and which count, as of an adapter's `block`."""
    fewest = np.argmin([count_members(own) for own in is_oob], axis=0)
    counted = np.logical_or.reduce([own & (fewest == label) for label, own in enumerate(is_oob)])
    outputs = np.empty((is_oob.shape[1], is_oob.shape[0], is_oob.shape[2]))
    move_values(margins, is_oob, outputs.transpose(1, 0, 2), counted, leaves)
    return outputs.transpose(0, 2, 1), counted


# Attributes that XGBoost's own slices remove.
_OF_ALL_TREES = ("best_iteration", "best_score")


def truncated_trees(model: Any, forest: Forest, size: int) -> Any:
    """Return a copy of a trained model of one round, with the first `size` parallel trees of every class."""
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
    kept = [first + member for first in range(0, forest.n_trees, grown) for member in range(size)]
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


class Rows:
    """A table that can be sliced by rows, and from which :meth:`matrix` makes a DMatrix for a booster.

    Attributes
    ----------
    shape : tuple of int
    weight, base_margin, label : ndarray or None
        From a DMatrix; None where it has none.
    leaves : ndarray of unsigned int, shape (n_trees, n_rows), or None
        Leaves that the rows reach, where they are kept.
    kept : KeptLeaves or None
        Leaves of trees out of whose bags the rows are, where some are kept.
    """

    def __init__(self, X: Any, booster: Any, missing: float = np.nan) -> None:
        self.missing = missing
        self.names, self.types = booster.feature_names, booster.feature_types
        self.weight: FloatArray | None = None
        self.base_margin: FloatArray | None = None
        self.label: FloatArray | None = None
        self.leaves: NDArray[Any] | None = None
        self.kept: KeptLeaves | None = None
        if isinstance(X, xgboost.DMatrix):
            self._take_along(X)
            _check_names(X.feature_names, self.names)
        self.table = _sliceable(X)
        self.shape: tuple[int, int] = (int(self.table.shape[0]), int(self.table.shape[1]))
        _check_columns(self, booster)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Rows:
        part = object.__new__(Rows)
        part.missing, part.names, part.types = self.missing, self.names, self.types
        part.table = self.table.iloc[rows] if hasattr(self.table, "iloc") else self.table[rows]
        part.shape = (int(part.table.shape[0]), self.shape[1])
        part.weight, part.base_margin, part.label = (
            None if values is None else values[rows] for values in (self.weight, self.base_margin, self.label)
        )
        part.leaves = None if self.leaves is None else self.leaves[:, rows]
        part.kept = self.kept.of_rows(rows) if self.kept is not None and isinstance(rows, slice) else None
        return part

    def with_weight(self, weight: FloatArray) -> Rows:
        """Return the same rows with training weights, as a DMatrix rounds them."""
        part = self[:]
        part.weight = weight.astype(np.float32).astype(np.float64)
        return part

    def matrix(self) -> Any:
        """Return the rows as a DMatrix, without weights or margins."""
        try:
            if hasattr(self.table, "iloc"):
                # A frame marks which of its columns are categories; the library recodes them for the model.
                return xgboost.DMatrix(self.table, missing=self.missing, nthread=1, enable_categorical=True)
            return xgboost.DMatrix(
                self.table,
                missing=self.missing,
                nthread=1,
                feature_names=self.names,
                feature_types=self.types,
                enable_categorical=self.types is not None,
            )
        except (xgboost.core.XGBoostError, TypeError, ValueError) as error:
            raise InputError(
                f"X cannot be used ({_first_line(error)}); pass the rows as the model's predict takes them."
            ) from error

    def _take_along(self, matrix: Any) -> None:
        weight, margin, label = matrix.get_weight(), matrix.get_base_margin(), matrix.get_label()
        n_rows = matrix.num_row()
        if weight.size:
            self.weight = weight.astype(np.float64)
        if margin.size:
            self.base_margin = margin.reshape(n_rows, -1).astype(np.float64)
        if label.size == n_rows:
            self.label = label.astype(np.float64)


def _sliceable(X: Any) -> Any:
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        return X.to_frame() if getattr(X, "ndim", 2) == 1 else X
    if issparse(X):
        sparse: Any = X
        return sparse.tocsr()
    if isinstance(X, xgboost.DMatrix):
        return X.get_data()
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"X cannot be used: it must be a table of numbers with one row per case, got shape {array.shape} of "
            f"{array.dtype}."
        )
    return array


def _check_columns(rows: Rows, booster: Any) -> None:
    expected = booster.num_features()
    if rows.shape[1] != expected:
        raise DataMismatchError(
            f"X has {counted(rows.shape[1], 'column')}, but the booster was trained on {expected}; pass the columns it "
            "was trained on, in the same order."
        )
    if hasattr(rows.table, "iloc"):
        _check_names([_trained_name(name) for name in rows.table.columns], rows.names)
        check_no_text(rows.table)


def _trained_name(column: Any) -> str:
    """Return the name of a column as XGBoost keeps it: it joins the levels of a MultiIndex by spaces."""
    return " ".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _check_names(found: Any, expected: Any) -> None:
    if found is None or expected is None or list(found) == list(expected):
        return
    raise DataMismatchError(
        f"The columns of X are not the ones the booster was trained on: {list(found)[:5]} instead of "
        f"{list(expected)[:5]}; pass X[booster.feature_names]."
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
