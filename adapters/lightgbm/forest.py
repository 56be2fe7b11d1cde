"""Adapter of LightGBM's random forests and boosters.

A check that a target is the one that the leaves of a LightGBM forest were fitted to. All trees of a forest start from
the same scores, so that with first derivatives G and second ones H of the rows in a leaf its value is ``start - G /
(H + lambda_l2)``. The tree stores H; the target gives G. Of absolute and quantile errors, the value is a quantile of
the target.

A check that a LightGBM forest's leaf values are those that its trees were grown with. Where nothing is regularised, a
leaf's value is the mean of its rows' targets, moved and scaled alike in all leaves, and an inner node's the mean of
its leaves', weighted by their hessians. LightGBM keeps the values of inner nodes when ``refit`` replaces those of the
leaves. Where the leaves are regularised, the target shows a refit (:func:`judge_leaf_targets`); a
report whose target is not proved says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from lightgbm import Booster, LGBMClassifier, LGBMModel
from lightgbm.basic import LightGBMError
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from ens_plugin.adapters.contract import (
    DistributedBags,
    EnsembleAdapter,
    EnsembleInfo,
    ProofStatistics,
    merge_sums,
    outputs_by_member,
)
from ens_plugin.adapters.lightgbm.bags import (
    BAGGING,
    Sampling,
    bags_of_trees,
    draw_rows,
    explained,
    fill_every_leaf,
    judge_counts,
    positive_rows,
    prove_bags,
    read_sampling,
)
from ens_plugin.adapters.lightgbm.document import (
    ModelText,
    TreeText,
    parse_model,
    truncated_forest,
)
from ens_plugin.adapters.lightgbm.library import Objective, PreparedRows, prepare_table, read_objective
from ens_plugin.adapters.members import DrawCounts, check_replaced_methods, counts_from_bags
from ens_plugin.adapters.sklearn.bags import checked_members
from ens_plugin.adapters.sklearn.training import training_target
from ens_plugin.adapters.tree_table import count_rows
from ens_plugin.adapters.trees import (
    COMPARED_ROWS,
    KEPT_BYTES,
    RowOrigin,
    hold_split_values,
    judge_origin,
    show_split_values,
    target_ranges,
)
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding


def fitted_booster(model: Any) -> Any:
    """Return the Booster of a fitted model; raise NotFittedError for one that is not fitted."""
    if isinstance(model, Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.")
    return model.booster_


def check_mode(text: ModelText) -> None:
    """Raise UnsupportedModelError for a model that boosts, and NotFittedError for one without trees."""
    if not text.averages:
        raise UnsupportedModelError(
            "This LightGBM model sums its trees: each corrects those before it, so none of them predicts on its own. "
            f"ens_plugin covers random forests: train with boosting_type='rf', {BAGGING}."
        )
    if not text.trees:
        raise NotFittedError("This LightGBM model has no trees; train it first.")


def labels_of(model: Any, objective: Objective) -> NDArray[Any] | None:
    """Return the labels of a classifier; None for regression."""
    if not isinstance(model, LGBMClassifier):
        return np.arange(objective.n_labels) if objective.n_labels else None
    if len(model.classes_) != objective.n_labels:
        raise UnsupportedModelError(
            f"This {type(model).__name__} was trained with objective {objective.name}, which does not score each "
            f"label (of {len(model.classes_)}). Use objective='binary' or 'multiclass' and at least two labels."
        )
    return np.asarray(model.classes_)


CLOSE = 1e-4
PRINTED = 1e-5  # values of inner nodes are stored with six digits
_LABELS = ("binary", "multiclass", "multiclassova")
_QUANTILES = ("regression_l1", "quantile")


def checked_trees(model: ModelText) -> list[int]:
    """Return the positions of the trees to check against a target: those of the first, middle and last iteration."""
    n_trees = model.trees_per_iteration
    members = checked_members(len(model.trees) // n_trees)
    return [member * n_trees + label for member in members for label in range(n_trees)]


def target_sums(
    model: ModelText,
    objective: Objective,
    tree: int,
    leaves: NDArray[np.integer],
    target: NDArray[np.generic],
    in_bag: BoolArray,
) -> ProofStatistics:
    """Return sums of the target over the rows of a tree's bag, by leaf, and over all rows."""
    text = model.trees[tree]
    own, n_leaves = leaves[in_bag], text.n_leaves
    if objective.n_labels:
        n_labels = objective.n_labels
        code = own.astype(np.int64) * n_labels + target[in_bag].astype(np.int64)
        counts = np.bincount(target.astype(np.int64), minlength=n_labels)
        return ProofStatistics({"by_label": np.bincount(code, minlength=n_leaves * n_labels), "all": counts})
    # LightGBM keeps the target as float32.
    values = target.astype(np.float32).astype(np.float64)
    y, held = values[in_bag], text.floats("leaf_value")[own]
    slack = CLOSE * np.abs(held) + PRINTED * float(np.abs(y).max(initial=0.0))
    added = {
        "count": np.bincount(own, minlength=n_leaves),
        "total": np.bincount(own, y, n_leaves),
        "below": np.bincount(own, y < held - slack, n_leaves),
        "above": np.bincount(own, y > held + slack, n_leaves),
        "all": np.array([values.size, values.sum()]),
    }
    return ProofStatistics(added, target_ranges(own, y, n_leaves))


def judge_leaf_targets(model: ModelText, objective: Objective, sums: dict[int, ProofStatistics]) -> bool:
    """Raise DataMismatchError unless the leaf values of some trees can come from the target."""
    found = [_judged(model, objective, tree, own) for tree, own in sums.items() if model.trees[tree].n_leaves > 1]
    return bool(found) and all(found)


def _judged(model: ModelText, objective: Objective, index: int, sums: ProofStatistics) -> bool:
    tree, value = model.trees[index], model.trees[index].floats("leaf_value")
    # The slack is for what LightGBM rounds: hessians to float32, and the text's own digits.
    slack = CLOSE * np.ptp(value) + PRINTED * float(np.abs(value).max())
    if not _has_known_form(model, objective, tree):
        return False
    if objective.n_labels:
        expected = list(_label_values(model, objective, index, sums))
    elif _is_weighted(tree):
        lowest, highest = sums.least["lowest"], -sums.least["highest"]
        if not _penalties(model) and objective.name == "regression":
            _refuse_if((value < lowest - slack) | (value > highest + slack), index)
        return False
    elif objective.name in _QUANTILES:
        _refuse_if(_has_other_rank(model, objective, sums), index)
        return True
    else:
        expected = list(_mean_values(model, tree, sums))
    if not expected:
        return False
    differing = [np.abs(value - own).min(axis=0) > slack for own in expected]
    _refuse_if(min(differing, key=np.count_nonzero), index)
    return True


def _refuse_if(differing: BoolArray, tree: int) -> None:
    if differing.any():
        raise DataMismatchError(
            f"y is not the target the model was trained on: {np.count_nonzero(differing)} of {differing.size} leaves "
            f"of tree {tree} hold values that y of the rows in them cannot give. X and y must be the exact training "
            'rows in training order; for rows the model was not trained on pass data="holdout".'
        )


def _parameter(model: ModelText, name: str, default: float) -> float:
    return float((model.parameters or {}).get(name, default))


def _penalties(model: ModelText) -> bool:
    return any(_parameter(model, name, 0.0) != 0 for name in ("lambda_l1", "lambda_l2", "max_delta_step"))


def _has_known_form(model: ModelText, objective: Objective, tree: TreeText) -> bool:
    """Return whether the leaf values follow from the target and the parameters alone."""
    parameters = model.parameters
    return (
        parameters is not None
        and objective.name in (*_LABELS, *_QUANTILES, "regression")
        and not objective.square_root
        and not tree.has_linear_leaves
        and _parameter(model, "path_smooth", 0.0) == 0
        and not parameters.get("monotone_constraints")
        and parameters.get("use_quantized_grad", "0") == "0"
    )


def _is_weighted(tree: TreeText) -> bool:
    share = tree.floats("leaf_weight") / tree.floats("leaf_count")
    return bool(np.ptp(share) > PRINTED * share.max())


def _label_values(model: ModelText, objective: Objective, index: int, sums: ProofStatistics) -> Iterator[FloatArray]:
    """Yield the leaf values that follow from the labels, for each way to weigh labels that fits the tree."""
    tree = model.trees[index]
    weight = tree.floats("leaf_weight")
    by_label = sums.added["by_label"].reshape(weight.size, -1).astype(np.float64)
    counts = sums.added["all"].astype(np.float64)
    factor = _label_weights(by_label, weight)
    if factor is None:
        return
    label = 1 if objective.n_labels == 2 and model.trees_per_iteration == 1 else index % model.trees_per_iteration
    share = by_label[:, label] * factor[label] / (by_label @ factor)
    for own in (counts * factor, counts):
        p = own[label] / own.sum()
        start, slope = _start(model, objective, p)
        # Without boost_from_average, labels start with equal probabilities.
        yield _values(model, tree, start, slope * (share - _started(model, objective, p)) * weight)


def _label_weights(by_label: FloatArray, weight: FloatArray) -> FloatArray | None:
    """Return label weights that explain the stored weights of a tree's leaves, up to a factor; None if none do.

    If there are no more leaves than labels, some weights always fit, so that only equal weights are recognised.
    """
    total = by_label.sum(axis=1)
    share = weight / total
    if np.ptp(share) <= PRINTED * share.max():
        return np.ones(by_label.shape[1])
    held = by_label.sum(axis=0) > 0
    if np.count_nonzero(held) >= weight.size:
        return None
    factor = np.zeros(by_label.shape[1])
    factor[held] = np.linalg.lstsq(by_label[:, held], weight, rcond=None)[0]
    is_exact = np.abs(by_label @ factor - weight) <= CLOSE * weight
    return factor if bool(is_exact.all()) and bool((factor[held] >= 0).all()) else None


def _started(model: ModelText, objective: Objective, p: float) -> float:
    """Return the probability of a label before the first tree."""
    if _parameter(model, "boost_from_average", 1.0) != 0:
        return p
    return 1.0 / objective.n_labels if objective.name == "multiclass" else 0.5


def _start(model: ModelText, objective: Objective, p: float) -> tuple[float, float]:
    """Return a label's score before the first tree, and how steeply its score rises with its share of a leaf's rows."""
    own = _started(model, objective, p)
    curvature = max(own * (1.0 - own), 1e-300)
    if objective.name == "multiclass":
        n_labels = objective.n_labels
        start = float(np.log(max(own, 1e-300))) if own == p else 0.0
        return start, (n_labels - 1) / n_labels / curvature
    start = float(logit(own)) / objective.sigmoid
    return start, 1.0 / (objective.sigmoid * curvature)


def _mean_values(model: ModelText, tree: TreeText, sums: ProofStatistics) -> Iterator[FloatArray]:
    n_rows, total = sums.added["all"]
    weight = tree.floats("leaf_weight")
    start = total / n_rows if _parameter(model, "boost_from_average", 1.0) != 0 else 0.0
    mean = sums.added["total"] / sums.added["count"]
    yield _values(model, tree, start, (mean - start) * weight)


def _values(model: ModelText, tree: TreeText, start: float, step: FloatArray) -> FloatArray:
    """Return the leaf values that sums of negated derivatives give, without and with the penalty of categories."""
    weight = tree.floats("leaf_weight")
    step = np.sign(step) * np.maximum(np.abs(step) - _parameter(model, "lambda_l1", 0.0), 0.0)
    extra = (0.0, _parameter(model, "cat_l2", 10.0)) if tree.has_categorical_splits else (0.0,)
    values = np.stack([step / (weight + _parameter(model, "lambda_l2", 0.0) + more) for more in extra])
    largest = _parameter(model, "max_delta_step", 0.0)
    return np.asarray(start + (np.clip(values, -largest, largest) if largest > 0 else values))


def _has_other_rank(model: ModelText, objective: Objective, sums: ProofStatistics) -> BoolArray:
    """Return which leaf values are not the quantile of their rows' target, give or take one row."""
    share = 0.5 if objective.name == "regression_l1" else _parameter(model, "alpha", 0.9)
    count, below, above = (sums.added[name] for name in ("count", "below", "above"))
    return np.asarray((below > share * count + 1.0) | (above > (1.0 - share) * count + 1.0))


_RENEWED = ("regression_l1", "quantile", "mape")
_REGULARISERS = ("lambda_l1", "lambda_l2", "path_smooth", "max_delta_step")


def check_not_refit(model: ModelText, objective: Objective) -> None:
    """Raise BagError if leaf values were replaced after training, where the trees show it."""
    checkable = _checkable_trees(model, objective)
    replaced = [index for index in checkable if _differs_from_inner_values(model.trees[index])]
    if replaced:
        raise BagError(
            f"The leaf values of {counted(len(replaced), 'tree')} (tree {replaced[0]} is the first) are not those the "
            "trees were grown with: refit or set_leaf_output replaced them. Which rows these came from is not known. "
            'Pass data="holdout" with rows that neither training nor refit used, or pass the model as it was '
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
    return bool(np.any(gap > CLOSE * np.ptp(value) + PRINTED * np.abs(inner[1:])))


class DrawnRows(DistributedBags):
    """Bags of a LightGBM forest, drawn by row position and proved by the leaf counts of every tree."""

    def __init__(
        self,
        text: ModelText,
        sampling: Sampling,
        objective: Objective,
        n_rows: int,
        candidate: int,
        leaves_of: Callable[[Any], NDArray[Any]],
    ) -> None:
        limits = sampling.limits()
        if candidate >= len(limits):
            raise BagError(
                f"No value of bagging_fraction that the model may have drawn its bags with ({len(limits)} tried) "
                "gives the numbers of rows in its leaves. Pass the training rows, in training order."
            )
        self._text, self._sampling, self._objective, self._n_rows = text, sampling, objective, n_rows
        self._limits, self._n_tried = limits[candidate], len(limits)
        self._leaves_of = leaves_of
        self._bag_of = bags_of_trees(text, sampling)

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions, drawn for these rows alone."""
        return Bags.from_mask(self._rounds(rows, target)[self._bag_of[:: self._text.trees_per_iteration]])

    def _rounds(self, rows: NDArray[np.int64], target: NDArray[Any]) -> NDArray[np.bool_]:
        limit = np.where(target > 0, self._limits[-1], self._limits[0])
        n_rounds = int(self._bag_of[-1]) + 1
        return draw_rows(self._sampling.seed, limit, n_rounds, self._n_rows, rows, self._n_drawn(n_rounds))

    def _n_drawn(self, n_rounds: int) -> int:
        """Return the number of rounds up to a bag with every row, after which LightGBM draws no more."""
        pairs = zip(self._bag_of.tolist(), self._text.table.leaf_covers, strict=True)
        complete = [int(bag) + 1 for bag, counts in pairs if counts.sum() == self._n_rows]
        return min([n_rounds, *complete])

    def sums(self, rows: NDArray[np.int64], features: Any, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return row counts by leaf of every tree, and sums of the target by leaf of three iterations."""
        leaves = self._leaves_of(features)
        bag_of = np.arange(len(leaves)) // self._text.trees_per_iteration
        found, reached = count_rows(self._text.table, bags, bag_of, [(slice(0, bags.n_rows), leaves)])
        parts = [ProofStatistics({"found": found, "reached": reached})]
        for tree in checked_trees(self._text):
            own = bags.member(tree // self._text.trees_per_iteration)
            parts.append(target_sums(self._text, self._objective, tree, leaves[tree], target, own).named(tree))
        return merge_sums(parts)

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing leaf counts with those of the trees, and the target with leaf values."""
        counts = sums.added["found"], sums.added["reached"]
        failure = judge_counts(self._text.table, self._bag_of, *counts, self._n_tried)
        if failure is not None:
            raise explained(failure, self._sampling)
        by_tree = {tree: sums.of_tree(tree) for tree in checked_trees(self._text)}
        return BagProof(target=judge_leaf_targets(self._text, self._objective, by_tree))


# Leaves that LightGBM returns in one call, and from how many trees: few enough to stay in the cache.  Each
# call reads the rows again, which for wide or unconverted tables costs more than it saves.
WALKED_CELLS = 500_000
WALKED_TREES = 16
MOST_FEATURES = 64
# LightGBM takes a quarter longer for blocks of 1000 rows than for those of 10 000.
COUNTED_BYTES = 24_000_000


class LightGBMForestAdapter(EnsembleAdapter):
    """Adapter of LightGBM's Booster, LGBMClassifier and LGBMRegressor in ``rf`` mode.

    A member is one iteration: a tree, or one tree for each label.  Members are averaged by their raw
    scores, as in LightGBM.  Bags are drawn again from the seed in the model, and used only when
    they fit the leaf counts of every tree.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a Booster or a scikit-learn interface of LightGBM."""
        return isinstance(model, (Booster, LGBMModel))

    def __init__(self, model: Any) -> None:
        self._booster = fitted_booster(model)
        # One tree is enough to refuse a boosted model, which may have many.
        check_mode(parse_model(self._booster.model_to_string(num_iteration=1)))
        # Without num_iteration, the text holds the iterations that predict uses: those up to the best one.
        self._text: ModelText = parse_model(self._booster.model_to_string())
        self._objective: Objective = read_objective(self._text.header.get("objective"))
        self._is_linear = any(tree.has_linear_leaves for tree in self._text.trees)
        self._leaf_dtype = np.min_scalar_type(max(tree.n_leaves for tree in self._text.trees) - 1)
        self._n_compared = 0
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is one iteration."""
        classes = labels_of(self.model, self._objective)
        return EnsembleInfo(
            task="regression" if classes is None else "classification",
            classes=classes,
            n_members=len(self._text.trees) // self._text.trees_per_iteration,
            aggregation="mean" if classes is None else "mean_score",
            output_kind="values" if classes is None else "scores",
            bag_provenance="proved",
            is_row_independent=not self._is_linear,
            member_batch_size=WALKED_TREES,
            distributions=("lightgbm",),
        )

    def prepare(self, X: Any) -> PreparedRows:
        """Return X as a table, after comparing the members' mean with LightGBM's ``predict`` on the first rows."""
        rows = PreparedRows(prepare_table(self._booster, X))
        if self._objective.is_covered and self._n_compared < COMPARED_ROWS and rows.shape[0]:
            self._compare_with_predict(rows)
            self._n_compared += rows.shape[0]
        return rows

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError if a subclass or a patch predicts something else than LightGBM's own class."""
        check_replaced_methods(self.model, features, "lightgbm")

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the raw scores or values of the iterations for the prepared rows."""
        self._check_covered()
        chosen = members or range(self.n_members)
        if self._is_linear:
            return outputs_by_member(self._linear_outputs, chosen, features, wanted)
        is_kept = members is None and features.leaves is not None
        return self._scores(chosen, features.leaves if is_kept else self._leaves(features.table, chosen))

    def _linear_outputs(self, member: int, features: PreparedRows) -> NDArray[np.float64]:
        return np.asarray(self._predict(features.table, raw_score=True, start_iteration=member, num_iteration=1))

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each iteration, redrawn from the seed and proved by the leaf counts of all trees."""
        sampling = read_sampling(self._text.parameters)
        check_not_refit(self._text, self._objective)
        n_rows = features.shape[0]
        target = training_target(y, self.classes, n_rows)
        positive = positive_rows(sampling, target)
        self._keep_leaves(features)
        bags = prove_bags(self._text, sampling, n_rows, positive, partial(self._count, features))
        is_proved = target is not None and self._check_target(features, bags, target)
        return bags.with_proof(BagProof(target=is_proved))

    def verify_rows(self, features: PreparedRows, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the leaves they fill and the values that trees split at."""
        return judge_origin(
            self._are_training_rows(features, y),
            self._leaf_counts(features),
            features.shape[0],
            lambda: show_split_values(features.table, self._text.table.splits(), np.float64),
        )

    def column_splits(self, features: PreparedRows) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features.table, self._text.table.splits()

    def _are_training_rows(self, features: PreparedRows, y: ArrayLike | None) -> bool:
        self._keep_leaves(features)
        if self._fill_leaves(features, y):
            return True
        # LightGBM takes thresholds from all rows of training: if all trees share a bag, its other rows are held out.
        has_bags = self._trees_in_turn() < self.n_members
        return has_bags and hold_split_values(features.table, self._text.table.splits(), np.float64)

    def _leaf_counts(self, features: PreparedRows) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the numbers of training and given rows in the leaves of each tree, if `features` stores these."""
        if features.leaves is None:
            return
        for counts, leaves in zip(self._text.table.leaf_covers, features.leaves, strict=True):
            if counts.size > 1:
                yield counts, np.bincount(leaves, minlength=counts.size)

    def _fill_leaves(self, features: PreparedRows, y: ArrayLike | None) -> bool:
        if self._is_linear and features.leaves is None:
            features = PreparedRows(features.table, self._leaves(features.table))
        try:
            sampling = read_sampling(self._text.parameters)
            positive = positive_rows(sampling, training_target(y, self.classes, features.shape[0]))
            prove_bags(self._text, sampling, features.shape[0], positive, partial(self._count, features))
        except (BagError, DataMismatchError):
            return fill_every_leaf(self._text.table, features.shape[0], partial(self._count, features))
        return True

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, 0 or 1 times, with the proof of :meth:`bags`."""
        return counts_from_bags(self.bags(X, features, y), "without_replacement")

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are drawn from the model's seed, for some rows at a time by position."""
        sampling = read_sampling(self._text.parameters)
        check_not_refit(self._text, self._objective)
        return DrawnRows(self._text, sampling, self._objective, n_rows, candidate, self._kept_leaves)

    def _kept_leaves(self, features: PreparedRows) -> NDArray[Any]:
        self._keep_leaves(features)
        return self._leaves(features.table) if features.leaves is None else features.leaves

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning of trees that share their bag."""
        together = self._trees_in_turn()
        if together == 1:
            return ()
        sentence = (
            f"Each {together} trees in turn share a bag (bagging_freq={together}) and resemble each other. The "
            "curve takes them for independent: it is too flat, and the recommended size too small, by a factor of "
            f"up to {together}. Train with bagging_freq=1."
        )
        return (finding("shared-bags", sentence, n_trees=together),)

    def _trees_in_turn(self) -> int:
        """Return the number of consecutive trees that share a bag."""
        return min(int((self._text.parameters or {}).get("bagging_freq", "1")), self.n_members)

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities for mean raw scores of shape (n_rows, n_labels), as ``predict`` does."""
        return self._objective.inverse_link(mean_output)

    def truncated(self, size: int) -> Any:
        """Return a forest of the first `size` iterations."""
        return truncated_forest(self.model, self._booster, size)

    def _scores(self, members: range, leaves: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of the leaves that rows reach, (n_members, n_rows) or (n_members, n_rows, n_labels)."""
        n_trees = self._text.trees_per_iteration
        values = self._text.table.leaf_values[members.start * n_trees : members.stop * n_trees]
        by_tree = np.empty(leaves.shape)
        for own, value, reached in zip(by_tree, values, leaves, strict=True):
            # Clipping never applies; without it, NumPy copies to check that all leaves are there.
            value.take(reached, out=own, mode="clip")
        return self._by_member(by_tree)

    def _by_member(self, by_tree: NDArray[np.float64]) -> NDArray[np.float64]:
        n_trees = self._text.trees_per_iteration
        return by_tree if n_trees == 1 else by_tree.reshape(-1, n_trees, by_tree.shape[1]).transpose(0, 2, 1)

    def _check_covered(self) -> None:
        if not self._objective.is_covered:
            name = self._objective.name + (" with reg_sqrt" if self._objective.square_root else "")
            raise UnsupportedModelError(
                f"The objective of this forest is {name}, whose prediction is not the mean of its trees' values. The "
                "error curve is known for means of values and for labels only. Train with a regression objective "
                "without link, or with binary or multiclass; ens_plugin.in_bag works for this model as it is."
            )

    def _compare_with_predict(self, rows: PreparedRows) -> None:
        chosen = spread_rows(rows.shape[0], COMPARED_ROWS)
        some = rows[chosen]
        outputs = self.outputs(some)
        if self._objective.name == "binary":
            outputs = both_scores(outputs)
        ours = self.inverse_link(outputs.mean(axis=0))
        ours = ours[:, 1] if self._objective.name == "binary" else ours
        own = np.asarray(self._predict(some.table))
        scale = float(np.abs(own).max())
        worst = float(np.abs(ours - own).max())
        if worst > PRINTED * scale:
            raise UnsupportedModelError(
                f"The mean over all members differs by {worst:.3g} from what LightGBM {_release()} predicts itself "
                f"(values up to {scale:.3g}), so the members' outputs are not known. Please report this with the "
                "model's parameters. Until then, pass outputs of your own as an ens_plugin.CustomEnsemble."
            )

    def _predict(self, table: Any, **options: Any) -> Any:
        try:
            return self._booster.predict(table, num_threads=effective_n_jobs(None), **options)
        except (LightGBMError, ValueError, TypeError) as error:
            raise InputError(
                f"LightGBM cannot predict these rows: {error}. Pass the columns that the model was trained on."
            ) from error

    def _leaves(self, table: Any, members: range | None = None) -> NDArray[Any]:
        """Return the leaf that each row reaches in every tree, or in those of some members, (n_trees, n_rows).

        LightGBM finds them for some rows and trees at a time.
        """
        members, n_trees = members or range(self.n_members), self._text.trees_per_iteration
        is_narrow = isinstance(table, np.ndarray) and table.shape[1] <= MOST_FEATURES
        at_once = max(WALKED_TREES // n_trees, 1) if is_narrow else len(members)
        leaves = np.empty((len(members) * n_trees, table.shape[0]), dtype=self._leaf_dtype)
        start = 0
        for part in PreparedRows(table).blocks(max(WALKED_CELLS // (at_once * n_trees), 1)):
            rows = slice(start, start + part.shape[0])
            for first in range(0, len(members), at_once):
                chosen = members[first : first + at_once]
                walked = self._predict(
                    part.table, pred_leaf=True, start_iteration=chosen.start, num_iteration=len(chosen)
                )
                own = slice(first * n_trees, (first + len(chosen)) * n_trees)
                leaves[own, rows] = walked.reshape(part.shape[0], -1).astype(self._leaf_dtype).T
            start = rows.stop
        return leaves

    def _keep_leaves(self, features: PreparedRows) -> None:
        n_bytes = len(self._text.trees) * features.shape[0] * self._leaf_dtype.itemsize
        if features.leaves is None and not self._is_linear and n_bytes <= KEPT_BYTES:
            features.leaves = self._leaves(features.table)

    def _count(self, features: PreparedRows, bags: Bags, bag_of: IntArray) -> tuple[IntArray, IntArray]:
        return count_rows(self._text.table, bags, bag_of, self._leaf_blocks(features))

    def _leaf_blocks(self, features: PreparedRows) -> Iterator[tuple[slice, NDArray[Any]]]:
        # Bags are unpacked by whole bytes.
        rows_at_once = max(COUNTED_BYTES // len(self._text.trees) // 8, 1) * 8
        start = 0
        for block in features.blocks(rows_at_once):
            rows = slice(start, start + block.shape[0])
            yield rows, self._leaves(block.table) if block.leaves is None else block.leaves
            start = rows.stop

    def _check_target(self, features: PreparedRows, bags: Bags, target: NDArray[Any]) -> bool:
        n_trees, sums = self._text.trees_per_iteration, {}
        for tree in checked_trees(self._text):
            member = tree // n_trees
            if features.leaves is not None:
                leaves = features.leaves[tree]
            else:
                leaves = self._leaves(features.table, range(member, member + 1))[tree % n_trees]
            sums[tree] = target_sums(self._text, self._objective, tree, leaves, target, bags.member(member))
        return judge_leaf_targets(self._text, self._objective, sums)


def _release() -> str:
    from lightgbm import __version__

    return str(__version__)
