"""A check that a target is the one that XGBoost's leaves were fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin.adapters.shared.distributed_bags import ProofStatistics
from ens_plugin.adapters.xgboost.document.leaves import read_leaves
from ens_plugin.adapters.xgboost.document.model import Forest, Tree
from ens_plugin.adapters.xgboost.hessians import LOGISTIC, SOFTMAX, Hessians
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import DataMismatchError

__all__ = ["check_target", "checkable_trees", "judge_target", "target_sums"]

FloatArray = NDArray[np.float64]

CLOSE = 1e-4
ROUNDING = 5e-7
# Largest difference from 1 of a fitted learning rate that is taken as 1.
SAME_RATE = 1e-3
# Learning rate that a booster states after save_model and load_model, whatever it was.
FORGOTTEN_RATE = 0.3
FEWEST_LEAVES = 5
RANKS = ("reg:absoluteerror", "reg:quantileerror")


def check_target(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, y: FloatArray) -> bool:
    """Raise DataMismatchError unless y gives the leaf values of the first, middle and last tree of one round.

    A leaf's value is the sum of its rows' first derivatives, divided by that of the second ones plus the penalty, times
    the learning rate.  For absolute and quantile errors, it is the quantile of its rows' y.

    Returns
    -------
    bool
        Whether y is proved.  It is not if leaf values have another form (constraints, several rounds), nor if the
        parameters are lost (a booster saved and loaded) and the values determine y only up to its scale.
    """
    return judge_target(forest, target_sums(forest, rows, hessians, bags, y))


def target_sums(
    forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, y: FloatArray
) -> dict[int, ProofStatistics]:
    """Return sums of the target over the rows of the bag, by leaf of each of the :func:`checkable_trees`.

    Returns
    -------
    dict of int to ProofStatistics
        By tree, each of shape (n_leaves,): of first derivatives ``total`` and ``size``; of ranks ``weight``, that of
        rows ``below`` and ``above`` the leaf's value, and negated ``heaviest``.
    """
    chosen = checkable_trees(forest)
    if not chosen:
        return {}
    leaves = zip(chosen, read_leaves(forest, rows, chosen), strict=True)
    if forest.objective in RANKS:
        rest = y - hessians.first(slice(0, rows.shape[0]))[:, 0]
        rate = forest.settings.eta / forest.n_parallel
        return {
            member: _rank_sums(forest.trees[member], reached[in_bag], hessians.weight[in_bag], rest[in_bag], rate)
            for member, reached in leaves
            for in_bag in (bags.member(member),)
        }
    gradient, largest = _gradient(forest, hessians, y, rows.shape[0]), _largest(forest, hessians, y, rows.shape[0])
    sums = {}
    for member, reached in leaves:
        n_leaves, in_bag = forest.trees[member].n_leaves, bags.member(member)
        # By a column first: an index of both axes takes several times as long.
        own, leaf = gradient[:, forest.group[member]][in_bag], reached[in_bag]
        sums[member] = ProofStatistics(
            {
                "total": np.bincount(leaf, weights=own, minlength=n_leaves).astype(np.float64),
                "size": np.bincount(leaf, np.abs(own) + largest[in_bag], n_leaves).astype(np.float64),
            }
        )
    return sums


def checkable_trees(forest: Forest) -> list[int]:
    """Return the positions of the first, middle and last tree of one round; none if their leaves cannot be checked."""
    known = forest.objective in (*LOGISTIC, *SOFTMAX, *RANKS, "reg:squarederror")
    # The exact method leaves out the step that puts quantiles into the leaves.
    is_other = forest.objective in RANKS and "grow_colmaker" in forest.settings.updater
    if not known or is_other or forest.n_rounds > 1 or forest.settings.is_constrained:
        return []
    n_trees = len(forest.trees)
    return sorted({0, n_trees // 2, n_trees - 1})


def judge_target(forest: Forest, sums: dict[int, ProofStatistics]) -> bool:
    """Raise DataMismatchError unless sums of the target's derivatives, or ranks, by leaf give the leaf values.

    Returns
    -------
    bool
        As of :func:`check_target`.
    """
    if not sums:
        return False
    differing = {member: _differing_leaves(forest, member, own) for member, own in sums.items()}
    if not any(own.any() for own in differing.values()):
        return True
    if _may_be_forgotten(forest):
        is_proved = False if forest.objective in RANKS else _proved_by_fit(forest, sums)
        if is_proved is not None:
            return is_proved
    member, own = next((member, own) for member, own in differing.items() if own.any())
    raise DataMismatchError(
        f"y is not the target the model was trained on: {np.count_nonzero(own)} of {own.size} leaves of tree {member} "
        "hold a value that y of the rows in them does not give. X and y must be the exact training rows in training "
        'order; for rows the model was not trained on pass {data="holdout"}.'
    )


def _may_be_forgotten(forest: Forest) -> bool:
    """Return whether the booster may have lost its learning rate and penalties, as after a load."""
    settings = forest.settings
    return settings.subsample == 1 or bool(np.isclose(settings.eta, FORGOTTEN_RATE))


def _differing_leaves(forest: Forest, member: int, sums: ProofStatistics) -> NDArray[np.bool_]:
    """Return which leaves have other values than the target and the booster's stated parameters give."""
    settings, tree = forest.settings, forest.trees[member]
    rate = settings.eta / forest.n_parallel
    if forest.objective in RANKS:
        return _has_other_rank(forest, sums)
    total, size = sums.added["total"], sums.added["size"]
    weight = tree.leaf_covers + settings.penalty
    total = np.sign(total) * np.maximum(np.abs(total) - settings.alpha, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(weight > 0, -total / weight, 0.0)
        slack = np.where(weight > 0, size / weight, np.inf)
    if settings.max_delta_step > 0:
        step = np.clip(step, -settings.max_delta_step, settings.max_delta_step)
    return np.asarray(np.abs(tree.leaf_values - rate * step) > CLOSE * rate * slack + 1e-30)


def _proved_by_fit(forest: Forest, sums: dict[int, ProofStatistics]) -> bool | None:
    """Return whether a learning rate and penalties exist that prove y; None where y is another target."""
    parts = [(forest.trees[member], own.added["total"], own.added["size"]) for member, own in sums.items()]
    values = np.concatenate([tree.leaf_values for tree, _, _ in parts])
    covers = np.concatenate([tree.leaf_covers for tree, _, _ in parts])
    total, size = (np.concatenate([own[place] for own in parts]) for place in (1, 2))
    # value * (cover + penalty) = -rate * (total - alpha * sign(total)), where alpha does not make it zero
    held = values != 0.0
    values, covers, total, size = values[held], covers[held], total[held], size[held]
    table = np.stack([-total, np.sign(total), -values], axis=1)
    fitted = np.linalg.lstsq(table, values * covers, rcond=None)[0]
    rate = float(fitted[0])
    is_exact = bool((np.abs(table @ fitted - values * covers) <= CLOSE * abs(rate) * size + 1e-30).all())
    if rate <= 0.0 or float(total @ values) > 0.0:
        return None
    if not is_exact or values.size < FEWEST_LEAVES:
        return False
    # Labels have a fixed scale; of a target that was scaled about the base score, the fitted rate is not 1.
    return forest.objective != "reg:squarederror" or abs(rate * forest.n_parallel - 1.0) < SAME_RATE


def _rank_sums(
    tree: Tree, reached: NDArray[np.integer], weight: FloatArray, rest: FloatArray, rate: float
) -> ProofStatistics:
    """Return by leaf the weight of all rows, and of those whose target is below and above the leaf's value."""
    held = tree.leaf_values[reached] / rate
    slack = CLOSE * np.maximum(np.abs(held), np.abs(rest).max())
    parts = {"weight": weight, "below": weight * (rest < held - slack), "above": weight * (rest > held + slack)}
    heaviest = np.zeros(tree.n_leaves)
    np.minimum.at(heaviest, reached, -weight)
    added = {name: np.bincount(reached, own, tree.n_leaves) for name, own in parts.items()}
    return ProofStatistics(added, {"heaviest": heaviest})


def _has_other_rank(forest: Forest, sums: ProofStatistics) -> NDArray[np.bool_]:
    """Return which leaves have a value that is not the quantile of their rows' targets, to within one row."""
    share = 0.5 if forest.objective == "reg:absoluteerror" else _quantile(forest)
    weight, one = sums.added["weight"], -sums.least["heaviest"] * (1.0 + CLOSE)
    too_low = sums.added["above"] > (1.0 - share) * weight + one
    return np.asarray(too_low | (sums.added["below"] > share * weight + one))


def _quantile(forest: Forest) -> float:
    return float(forest.objective_parameters["quantile_alpha"].strip("[]() "))


def _largest(forest: Forest, hessians: Hessians, y: FloatArray, n_rows: int) -> FloatArray:
    """Return the largest rounding error in each row's derivative, in units of the tolerance, shape (n_rows,)."""
    margin = np.abs(hessians.first(slice(0, n_rows))).max(axis=1)
    return np.asarray(ROUNDING / CLOSE * (margin + np.abs(y)) * hessians.weight)


def _gradient(forest: Forest, hessians: Hessians, y: FloatArray, n_rows: int) -> FloatArray:
    """Return the first derivatives of the loss before the first round, shape (n_rows, n_groups)."""
    margin, weight = hessians.first(slice(0, n_rows)), hessians.weight[:, None]
    if forest.objective in LOGISTIC:
        return np.asarray((expit(margin) - y[:, None]) * weight)
    if forest.objective in SOFTMAX:
        return np.asarray((softmax(margin, axis=1) - (y[:, None] == np.arange(forest.n_groups))) * weight)
    return np.asarray((margin - y[:, None]) * weight)
