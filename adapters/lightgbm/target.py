"""A check that a target is the one that the leaves of a LightGBM forest were fitted to.

All trees of a forest start from the same scores, so that with first derivatives G and second ones H of the rows in
a leaf its value is ``start - G / (H + lambda_l2)``.  The tree stores H; the target gives G.  Of absolute and quantile
errors, the value is a quantile of the target.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ens_plugin.adapters.lightgbm.document.text import ModelText, TreeText
from ens_plugin.adapters.lightgbm.objective import Objective
from ens_plugin.adapters.shared.distributed_bags import ProofStatistics
from ens_plugin.adapters.shared.trees.leaf_counts import target_ranges
from ens_plugin.adapters.sklearn.trees.outputs import checked_members
from ens_plugin.errors import DataMismatchError

__all__ = ["checked_trees", "judge_leaf_targets", "target_sums"]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

CLOSE = 1e-4
PRINTED = 1e-5
EVEN = 1e-5
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
    """Return sums of the target over the rows of a tree's bag, by leaf, and over all rows.

    Parameters
    ----------
    model : ModelText
    objective : Objective
    tree : int
    leaves : ndarray of int, shape (n_rows,)
        Leaves that the rows reach.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    in_bag : ndarray of bool, shape (n_rows,)

    Returns
    -------
    ProofStatistics
        Of labels, rows ``by_label`` of each leaf, one array after the other, and of ``all``; of values ``count``,
        ``total``, rows ``below`` and ``above`` the leaf's value, the ``lowest`` and negated ``highest`` of each leaf,
        and of ``all`` rows the number and the sum.
    """
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
    """Raise DataMismatchError unless the leaf values of some trees can come from the target.

    Parameters
    ----------
    model : ModelText
    objective : Objective
    sums : dict of int to ProofStatistics
        By tree, as of :func:`target_sums`, of all rows.

    Returns
    -------
    bool
        Whether the target is proved.

    Raises
    ------
    DataMismatchError
        If a tree can be checked, and contradicts the target.
    """
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
            'rows in training order; for rows the model was not trained on pass {data="holdout"}.'
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
    return bool(np.ptp(share) > EVEN * share.max())


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
    if np.ptp(share) <= EVEN * share.max():
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
