"""The loss of XGBoost's trees: the second derivatives that leaves sum up, and the target that gives their values.

A leaf's value is the sum of its rows' first derivatives, divided by that of the second ones plus the penalty, times the
learning rate.  For absolute and quantile errors, it is the quantile of its rows' y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin.adapters.members import other_target
from ens_plugin.adapters.trees import LeafSums
from ens_plugin.adapters.xgboost.forest import Forest
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.validation import SINGLE_ROUNDING, BoolArray, FloatArray
from ens_plugin.errors import BagError, InputError

WEIGHTS_ALONE = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror")
LOGISTIC = ("binary:logistic", "binary:logitraw", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
SUPPORTED = (*WEIGHTS_ALONE, *LOGISTIC, *SOFTMAX, "count:poisson")
# What XGBoost takes for a second derivative that is smaller.
LEAST = 1e-16
# Relative error of sums after margins were added up in another order, measured over many settings.
LATER_ROUNDS = 2e-5
# From this release on, the second derivatives of these two losses are not the weights.
RANKS = ("reg:absoluteerror", "reg:quantileerror")
RANKS_CHANGED = (3, 3)
# Errors of single precision: of a leaf's value, and of a row's derivative.
CLOSE, ROUNDED = 1e-4, 5e-7
# Largest difference from 1 of a fitted learning rate that is taken as 1.
SAME_RATE = 1e-3
# Learning rate that a booster states after save_model and load_model, whatever it was.
FORGOTTEN_RATE = 0.3
# Fewest leaves to which a learning rate and two penalties are fitted.
FEWEST_LEAVES = 5


@dataclass(frozen=True, eq=False)
class Hessians:
    """Second derivatives of the training loss, by row and group."""

    forest: Forest
    # Training weights; shape (n_rows,).
    weight: FloatArray
    # Margins before the first round; shape (n_rows, n_groups) or (1, n_groups).
    start: FloatArray

    @classmethod
    def of(cls, forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> Hessians:
        """Return the second derivatives of a forest's loss for its training rows."""
        _check_objective(forest)
        weight = np.ones(rows.shape[0]) if rows.weight is None else rows.weight
        positive = float(forest.objective_parameters.get("scale_pos_weight", "1"))
        if positive != 1 and forest.objective in LOGISTIC:
            target = rows.label if y is None else y
            if target is None:
                raise InputError(
                    f"The booster was trained with scale_pos_weight={positive:g}, so its trees weight the "
                    "labels differently; pass y, the training labels."
                )
            weight = np.where(target == 1, weight * positive, weight)
        start = forest.base_margin[None, :] if rows.base_margin is None else rows.base_margin
        return cls(forest, weight, start)

    @property
    def depend_on_margin(self) -> bool:
        """Return whether the derivatives depend on the margins, and so on earlier rounds."""
        return self.forest.objective not in WEIGHTS_ALONE

    def of_group(self, margin: FloatArray, group: int) -> FloatArray:
        """Return the second derivatives of a group at margins of shape (n_rows, n_groups) or (1, n_groups)."""
        objective = self.forest.objective
        if objective in LOGISTIC:
            p = expit(margin[:, 0].astype(np.float32))
            return np.asarray(np.maximum(p * (1 - p), np.float32(LEAST)) * self.weight, dtype=np.float64)
        if objective in SOFTMAX:
            own = softmax(margin.astype(np.float32), axis=1)[:, group]
            return np.asarray(np.maximum(2 * own * (1 - own) * self.weight, LEAST), dtype=np.float64)
        if objective == "count:poisson":
            step = float(self.forest.objective_parameters.get("max_delta_step", "0.7"))
            return np.asarray(np.exp(margin[:, group] + step) * self.weight)
        return self.weight

    def totals(self) -> tuple[FloatArray, float]:
        """Return the sum over all rows of each group before the first round, and how many equal rows are as many."""
        by_group = np.stack([self.of_group(self.start, group) for group in range(self.forest.n_groups)])
        total, squares = by_group.sum(axis=1), (by_group**2).sum(axis=1)
        return total, 1.0 / float((squares / total**2).mean())

    def tolerance(self) -> FloatArray:
        """Return the relative error to allow in each tree's sums of second derivatives, shape (n_trees,)."""
        # The library works in float32: near 0 and 1 a probability's rounding is a large part of p(1 - p), and later
        # rounds start from margins it added up in another order.
        forest = self.forest
        if not self.depend_on_margin:
            return np.full(forest.n_trees, SINGLE_ROUNDING)
        later = np.full(forest.n_trees, LATER_ROUNDS)
        if self.start.shape[0] > 1:
            return later
        curvature = np.ones(forest.n_groups)
        if forest.objective in LOGISTIC:
            curvature = expit(forest.base_margin) * expit(-forest.base_margin)
        elif forest.objective in SOFTMAX:
            p = softmax(forest.base_margin)
            curvature = p * (1 - p)
        first = SINGLE_ROUNDING + np.finfo(np.float32).eps / np.maximum(curvature, 1e-12)
        return np.where(forest.round == 0, first[forest.group], later)


def unit_hessians(forest: Forest) -> Hessians:
    """Return the second derivatives of one row of weight 1 before the first round."""
    _check_objective(forest)
    return Hessians(forest, np.ones(1), forest.base_margin[None, :])


def _check_objective(forest: Forest) -> None:
    objective = forest.objective
    changed = objective in RANKS and forest.settings.release >= RANKS_CHANGED
    if objective in SUPPORTED and not changed:
        return
    raise BagError(
        f"The bags of a booster cannot be proved for objective {objective!r} (XGBoost "
        f"{'.'.join(map(str, forest.settings.release))}): which sums its leaves store is not known here. "
        f'Pass data="holdout" with rows the model was not trained on, or train with one of the objectives for '
        f"which it is known: {', '.join(SUPPORTED)}."
    )


def is_checkable(forest: Forest) -> bool:
    """Return whether the target gives the values of leaves, as far as is known: in one round, without constraints."""
    known = forest.objective in (*LOGISTIC, *SOFTMAX, *RANKS, "reg:squarederror")
    # The exact method leaves out the step that puts quantiles into the leaves.
    is_other = forest.objective in RANKS and "grow_colmaker" in forest.settings.updater
    return known and not is_other and forest.n_rounds == 1 and not forest.settings.is_constrained


def target_sums(
    forest: Forest, hessians: Hessians, tree: int, leaf: NDArray[np.integer], in_bag: BoolArray, y: FloatArray
) -> LeafSums:
    """Return sums of the target's derivatives over the rows of a tree's bag, by leaf; for quantiles, of their ranks."""
    values, group = forest.leaf_values(tree), forest.group[tree]
    start, weight = hessians.start, hessians.weight[in_bag]
    margin = start[in_bag] if start.shape[0] > 1 else np.broadcast_to(start, (weight.size, start.shape[1]))
    leaf, y = leaf[in_bag], y[in_bag]
    if forest.objective in RANKS:
        return _rank_sums(values, leaf, weight, y - margin[:, 0], forest.settings.eta / forest.n_parallel)
    if forest.objective in LOGISTIC:
        gradient = expit(margin[:, 0]) - y
    elif forest.objective in SOFTMAX:
        gradient = softmax(margin, axis=1)[:, group] - (y == group)
    else:
        gradient = margin[:, 0] - y
    # The largest rounding error in each row's derivative, in units of the tolerance.
    rounded = ROUNDED / CLOSE * (np.abs(margin).max(axis=1) + np.abs(y))
    sums = {"total": gradient * weight, "size": (np.abs(gradient) + rounded) * weight}
    return {name: np.bincount(leaf, own, values.size) for name, own in sums.items()}


def judge_target(forest: Forest, sums: dict[int, LeafSums]) -> bool:
    """Raise DataMismatchError unless sums of the target's derivatives, or ranks, by leaf give the leaf values."""
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
    raise other_target(own, member)


def _may_be_forgotten(forest: Forest) -> bool:
    """Return whether the booster may have lost its learning rate and penalties, as after a load."""
    settings = forest.settings
    return settings.subsample == 1 or bool(np.isclose(settings.eta, FORGOTTEN_RATE))


def _differing_leaves(forest: Forest, member: int, sums: LeafSums) -> NDArray[np.bool_]:
    """Return which leaves have other values than the target and the booster's stated parameters give."""
    if forest.objective in RANKS:
        return _has_other_rank(forest, sums)
    settings, rate = forest.settings, forest.settings.eta / forest.n_parallel
    total, size = sums["total"], sums["size"]
    weight = forest.leaf_covers(member) + settings.penalty
    total = np.sign(total) * np.maximum(np.abs(total) - settings.alpha, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(weight > 0, -total / weight, 0.0)
        slack = np.where(weight > 0, size / weight, np.inf)
    if settings.max_delta_step > 0:
        step = np.clip(step, -settings.max_delta_step, settings.max_delta_step)
    return np.asarray(np.abs(forest.leaf_values(member) - rate * step) > CLOSE * rate * slack + 1e-30)


def _proved_by_fit(forest: Forest, sums: dict[int, LeafSums]) -> bool | None:
    """Return whether a learning rate and penalties exist that prove y; None where y is another target."""
    values, covers = (np.concatenate([own(tree) for tree in sums]) for own in (forest.leaf_values, forest.leaf_covers))
    total, size = (np.concatenate([own[name] for own in sums.values()]) for name in ("total", "size"))
    # value * (cover + penalty) = -rate * (total - alpha * sign(total)), where alpha does not make it zero
    held = values != 0.0
    values, covers, total, size = values[held], covers[held], total[held], size[held]
    terms = np.stack([-total, np.sign(total), -values], axis=1)
    fitted = np.linalg.lstsq(terms, values * covers, rcond=None)[0]
    rate = float(fitted[0])
    is_exact = bool((np.abs(terms @ fitted - values * covers) <= CLOSE * abs(rate) * size + 1e-30).all())
    if rate <= 0.0 or float(total @ values) > 0.0:
        return None
    if not is_exact or values.size < FEWEST_LEAVES:
        return False
    # Labels have a fixed scale; of a target that was scaled about the base score, the fitted rate is not 1.
    return forest.objective != "reg:squarederror" or abs(rate * forest.n_parallel - 1.0) < SAME_RATE


def _rank_sums(
    values: FloatArray, reached: NDArray[np.integer], weight: FloatArray, rest: FloatArray, rate: float
) -> LeafSums:
    """Return by leaf the weight of all rows, and of those whose target is below and above the leaf's value."""
    held = values[reached] / rate
    slack = CLOSE * np.maximum(np.abs(held), np.abs(rest).max())
    parts = {"weight": weight, "below": weight * (rest < held - slack), "above": weight * (rest > held + slack)}
    heaviest = np.zeros(values.size)
    np.maximum.at(heaviest, reached, weight)
    return {**{name: np.bincount(reached, own, values.size) for name, own in parts.items()}, "heaviest": heaviest}


def _has_other_rank(forest: Forest, sums: LeafSums) -> NDArray[np.bool_]:
    """Return which leaves have a value that is not the quantile of their rows' targets, to within one row."""
    quantile = forest.objective_parameters.get("quantile_alpha", "0.5")
    share = 0.5 if forest.objective == "reg:absoluteerror" else float(quantile.strip("[]() "))
    weight, one = sums["weight"], sums["heaviest"] * (1.0 + CLOSE)
    too_low = sums["above"] > (1.0 - share) * weight + one
    return np.asarray(too_low | (sums["below"] > share * weight + one))
