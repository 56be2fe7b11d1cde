"""What the leaves of a LightGBM forest hold: the values that its target gives, unless a refit replaced them.

All trees of a forest start from the same scores, so that with first derivatives G and second ones H of the rows in a
leaf its value is ``start - G / (H + lambda_l2)``. The tree stores H; the target gives G. Of absolute and quantile
errors, the value is a quantile of the target.

Where nothing is regularised, a leaf's value is the mean of its rows' targets, moved and scaled alike in all leaves, and
an inner node's the mean of its leaves', weighted by their hessians. LightGBM keeps the values of inner nodes when
``refit`` replaces those of the leaves. Where the leaves are regularised, the target shows a refit; a report whose
target is not proved says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from ens_plugin.adapters.lightgbm.document import ModelText, TreeText
from ens_plugin.adapters.members import other_target
from ens_plugin.adapters.trees import LeafSums, target_ranges
from ens_plugin.core.validation import BoolArray, FloatArray, counted
from ens_plugin.errors import BagError

# Of the spread of a tree's values: LightGBM rounds hessians to single precision.
CLOSE = 1e-4
# Values of inner nodes are stored with six digits.
PRINTED = 1e-5
_VALUES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
_LABELS = ("binary", "multiclass", "multiclassova")
_QUANTILES = ("regression_l1", "quantile")
# Objectives whose leaves are fitted anew after growth.
_RENEWED = (*_QUANTILES, "mape")
_REGULARISERS = ("lambda_l1", "lambda_l2", "path_smooth", "max_delta_step")


@dataclass(frozen=True)
class Objective:
    """Objective that a LightGBM model was trained for, read from its text."""

    # LightGBM's own name, ``"custom"`` where the text has none.
    name: str
    # Number of labels; 0 unless the task is classification.
    n_labels: int
    # Factor of the raw score inside the logistic function.
    sigmoid: float
    # Whether square roots of the target were fitted (``reg_sqrt``).
    square_root: bool

    @property
    def is_covered(self) -> bool:
        """Return whether an error curve can be estimated: for mean values, or labels chosen by mean scores."""
        return (self.name in _VALUES and not self.square_root) or self.n_labels > 0

    def inverse_link(self, mean_score: FloatArray) -> FloatArray:
        """Return the predictions for mean raw scores of shape (n_rows, n_labels), or for mean values."""
        if self.name == "binary":
            positive = expit(self.sigmoid * (mean_score[:, 1] - mean_score[:, 0]))
            return np.stack([1.0 - positive, positive], axis=1)
        if self.name == "multiclass":
            return np.asarray(softmax(mean_score, axis=1))
        if self.name == "multiclassova":
            return np.asarray(expit(self.sigmoid * mean_score))
        return mean_score


def read_objective(line: str | None) -> Objective:
    """Return the objective that a line of a model's text states."""
    name, *options = (line or "custom").split()
    values = dict(option.split(":", 1) for option in options if ":" in option)
    n_labels = int(values.get("num_class", "2")) if name in _LABELS else 0
    return Objective(name, n_labels, float(values.get("sigmoid", "1")), "sqrt" in options)


def target_sums(
    model: ModelText,
    objective: Objective,
    tree: int,
    leaves: NDArray[np.integer],
    target: NDArray[np.generic],
    in_bag: BoolArray,
) -> LeafSums:
    """Return sums of the target over the rows of a tree's bag, by leaf, and over all rows."""
    text = model.trees[tree]
    own, n_leaves = leaves[in_bag], text.n_leaves
    if objective.n_labels:
        n_labels = objective.n_labels
        code = own.astype(np.int64) * n_labels + target[in_bag].astype(np.int64)
        counts = np.bincount(target.astype(np.int64), minlength=n_labels)
        return {"by_label": np.bincount(code, minlength=n_leaves * n_labels), "all": counts}
    # LightGBM keeps the target as float32.
    values = target.astype(np.float32).astype(np.float64)
    y, held = values[in_bag], text.floats("leaf_value")[own]
    slack = CLOSE * np.abs(held) + PRINTED * float(np.abs(y).max(initial=0.0))
    sums: LeafSums = {
        "count": np.bincount(own, minlength=n_leaves),
        "total": np.bincount(own, y, n_leaves),
        "below": np.bincount(own, y < held - slack, n_leaves),
        "above": np.bincount(own, y > held + slack, n_leaves),
        "all": np.array([values.size, values.sum()]),
    }
    return sums | target_ranges(own, y, n_leaves)


def judge_leaf_targets(model: ModelText, objective: Objective, sums: dict[int, LeafSums]) -> bool:
    """Return whether the target gives the leaf values of some trees; raise DataMismatchError where it cannot."""
    known = {tree: own for tree, own in sums.items() if model.trees[tree].n_leaves > 1}
    found = [_judged(model, objective, tree, own) for tree, own in known.items()]
    return bool(found) and all(found)


def _judged(model: ModelText, objective: Objective, index: int, sums: LeafSums) -> bool:
    """Return whether the target gives a tree's leaf values."""
    tree, value = model.trees[index], model.trees[index].floats("leaf_value")
    slack = CLOSE * np.ptp(value) + PRINTED * float(np.abs(value).max())
    if not _has_known_form(model, objective, tree):
        return False
    if not objective.n_labels and _is_weighted(tree):
        lowest, highest = sums["lowest"], sums["highest"]
        if objective.name == "regression" and not any(model.number(name, 0.0) for name in _REGULARISERS):
            _refuse_if((value < lowest - slack) | (value > highest + slack), index)
        return False
    if objective.name in _QUANTILES:
        _refuse_if(_has_other_rank(model, objective, sums), index)
        return True
    values_of = _label_values if objective.n_labels else _mean_values
    differing = [np.abs(value - own).min(axis=0) > slack for own in values_of(model, objective, index, sums)]
    if differing:
        _refuse_if(min(differing, key=np.count_nonzero), index)
    return bool(differing)


def _refuse_if(differing: BoolArray, tree: int) -> None:
    if differing.any():
        raise other_target(differing, tree)


def _has_known_form(model: ModelText, objective: Objective, tree: TreeText) -> bool:
    """Return whether the leaf values follow from the target and the parameters alone."""
    return (
        model.parameters is not None
        and objective.name in (*_LABELS, *_QUANTILES, "regression")
        and not objective.square_root
        and not tree.has_linear_leaves
        and model.number("path_smooth", 0.0) == 0
        and _is_unconstrained(model)
    )


def _is_unconstrained(model: ModelText) -> bool:
    """Return whether leaves are fitted without constraints, by gradients that are not rounded."""
    parameters = model.parameters or {}
    return not parameters.get("monotone_constraints") and parameters.get("use_quantized_grad", "0") == "0"


def _is_weighted(tree: TreeText) -> bool:
    share = tree.floats("leaf_weight") / tree.floats("leaf_count")
    return bool(np.ptp(share) > PRINTED * share.max())


def _label_values(model: ModelText, objective: Objective, index: int, sums: LeafSums) -> Iterator[FloatArray]:
    """Yield the leaf values that follow from the labels, for each way to weigh labels that fits the tree."""
    tree = model.trees[index]
    weight = tree.floats("leaf_weight")
    by_label = sums["by_label"].reshape(weight.size, -1).astype(np.float64)
    counts = sums["all"].astype(np.float64)
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
    """Return label weights that explain the stored weights of a tree's leaves, up to a factor; None if none do."""
    # If there are no more leaves than labels, some weights always fit, so that only equal weights are recognised.
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
    if model.number("boost_from_average", 1.0) != 0:
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
    return float(logit(own)) / objective.sigmoid, 1.0 / (objective.sigmoid * curvature)


def _mean_values(model: ModelText, objective: Objective, index: int, sums: LeafSums) -> Iterator[FloatArray]:
    """Yield the leaf values that follow from the sums of the target."""
    n_rows, total = sums["all"]
    start = total / n_rows if model.number("boost_from_average", 1.0) != 0 else 0.0
    mean = sums["total"] / sums["count"]
    yield _values(model, model.trees[index], start, (mean - start) * model.trees[index].floats("leaf_weight"))


def _values(model: ModelText, tree: TreeText, start: float, step: FloatArray) -> FloatArray:
    """Return the leaf values that sums of negated derivatives give, without and with the penalty of categories."""
    weight = tree.floats("leaf_weight")
    step = np.sign(step) * np.maximum(np.abs(step) - model.number("lambda_l1", 0.0), 0.0)
    extra = (0.0, model.number("cat_l2", 10.0)) if tree.has_categorical_splits else (0.0,)
    values = np.stack([step / (weight + model.number("lambda_l2", 0.0) + more) for more in extra])
    largest = model.number("max_delta_step", 0.0)
    return np.asarray(start + (np.clip(values, -largest, largest) if largest > 0 else values))


def _has_other_rank(model: ModelText, objective: Objective, sums: LeafSums) -> BoolArray:
    """Return which leaf values are not the quantile of their rows' target, give or take one row."""
    share = 0.5 if objective.name == "regression_l1" else model.number("alpha", 0.9)
    count, below, above = (sums[name] for name in ("count", "below", "above"))
    return np.asarray((below > share * count + 1.0) | (above > (1.0 - share) * count + 1.0))


def check_not_refit(model: ModelText, objective: Objective, trees: Sequence[int]) -> None:
    """Raise BagError if leaf values of some trees were replaced after training, where the trees show it."""
    if objective.name in _RENEWED or any(model.number(name, 0.0) for name in _REGULARISERS):
        return
    if not _is_unconstrained(model):
        return
    replaced = [tree for tree in trees if _differs_from_inner_values(model.trees[tree])]
    if replaced:
        raise BagError(
            f"The leaf values of {counted(len(replaced), 'tree')} of {len(trees)} that were checked (tree "
            f"{replaced[0]} is the first) are not those the trees were grown with: refit or set_leaf_output replaced "
            "them. Which rows these came from is not known. "
            'Pass data="holdout" with rows that neither training nor refit used, or pass the model as it was '
            "before refit. (LightGBM before 4.2 grows such trees by itself with use_quantized_grad; train without.)"
        )


def _differs_from_inner_values(tree: TreeText) -> bool:
    """Return whether an inner node does not hold the weighted mean of its leaves' values."""
    # A tree of two leaves has no inner node but the root.
    if tree.n_leaves <= 2 or tree.has_categorical_splits or tree.has_linear_leaves:
        return False
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
