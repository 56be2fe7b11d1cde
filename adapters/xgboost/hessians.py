"""The second derivatives of XGBoost's losses, whose sums its trees store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.errors import BagError, InputError
from ens_plugin.records import record

__all__ = ["Hessians", "hessian_of_a_row"]

FloatArray = NDArray[np.float64]

WEIGHTS_ALONE = ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror")
LOGISTIC = ("binary:logistic", "binary:logitraw", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
SUPPORTED = (*WEIGHTS_ALONE, *LOGISTIC, *SOFTMAX, "count:poisson")
LEAST = 1e-16
FIRST_ROUND = 1e-6
LATER_ROUNDS = 2e-5
ROUNDING = 1.2e-7
# From this release on, the second derivatives of these two losses are not the weights.
RANKS = ("reg:absoluteerror", "reg:quantileerror")
RANKS_CHANGED = (3, 3)


@record
class Hessians:
    """Second derivatives of the training loss, by row and group.

    Attributes
    ----------
    forest : Forest
    weight : ndarray, shape (n_rows,)
        Training weights.
    start : ndarray, shape (n_rows, n_groups) or (1, n_groups)
        Margins before the first round.
    """

    forest: Forest
    weight: FloatArray
    start: FloatArray

    @classmethod
    def of(cls, forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> Hessians:
        """Return the second derivatives of a forest's loss for its training rows.

        Raises
        ------
        BagError
            If the second derivatives of the objective are not implemented.
        InputError
            If `y` is needed and not given.
        """
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

    @property
    def are_alike(self) -> bool:
        """Return whether all rows have the same derivatives, those of the one round that there is."""
        is_first = self.forest.n_rounds == 1 and self.start.shape[0] == 1
        return is_first and bool((self.weight == self.weight[0]).all())

    def at(self, rows: slice, margin: FloatArray) -> FloatArray:
        """Return the second derivatives of the loss for a block of rows at some margins, (n_rows, n_groups)."""
        weight = self.weight[rows, None]
        objective = self.forest.objective
        if objective in LOGISTIC:
            p = expit(margin.astype(np.float32))
            return np.maximum(p * (1 - p), np.float32(LEAST)) * weight
        if objective in SOFTMAX:
            p = softmax(margin.astype(np.float32), axis=1)
            return np.maximum(2 * p * (1 - p) * weight, LEAST)
        if objective == "count:poisson":
            step = float(self.forest.objective_parameters.get("max_delta_step", "0.7"))
            return np.asarray(np.exp(margin + step) * weight)
        return np.broadcast_to(weight, (weight.shape[0], self.forest.n_groups))

    def first(self, rows: slice) -> FloatArray:
        """Return the margins of a block of rows before the first round, shape (n_rows, n_groups)."""
        start = self.start if self.start.shape[0] == 1 else self.start[rows]
        return np.broadcast_to(start, (self.weight[rows].size, self.forest.n_groups))

    def tolerance(self) -> FloatArray:
        """Return the relative error to allow in each tree's sums of second derivatives, shape (n_trees,).

        The library works in float32: near 0 and 1 a probability's rounding is a large part of p(1 - p),
        and later rounds start from margins it added up in another order.
        """
        forest = self.forest
        if not self.depend_on_margin:
            return np.full(len(forest.trees), FIRST_ROUND)
        later = np.full(len(forest.trees), LATER_ROUNDS)
        if self.start.shape[0] > 1:
            return later
        curvature = np.ones(forest.n_groups)
        if forest.objective in LOGISTIC:
            curvature = expit(forest.base_margin) * expit(-forest.base_margin)
        elif forest.objective in SOFTMAX:
            p = softmax(forest.base_margin)
            curvature = p * (1 - p)
        first = FIRST_ROUND + ROUNDING / np.maximum(curvature, 1e-12)
        return np.where(forest.round == 0, first[forest.group], later)


def hessian_of_a_row(forest: Forest) -> FloatArray | None:
    """Return the second derivative of a row of weight 1 before the first round, by group; None if unavailable."""
    try:
        _check_objective(forest)
    except BagError:
        return None
    one = Hessians(forest, np.ones(1), forest.base_margin[None, :])
    by_row: FloatArray = np.asarray(one.at(slice(0, 1), one.first(slice(0, 1))), dtype=np.float64)
    return by_row.reshape(-1)


def _check_objective(forest: Forest) -> None:
    objective = forest.objective
    changed = objective in RANKS and forest.settings.release >= RANKS_CHANGED
    if objective in SUPPORTED and not changed:
        return
    raise BagError(
        f"The bags of a booster cannot be proved for objective {objective!r} (XGBoost "
        f"{'.'.join(map(str, forest.settings.release))}): which sums its leaves store is not known here. "
        f'Pass {{data="holdout"}} with rows the model was not trained on, or train with one of the objectives for '
        f"which it is known: {', '.join(SUPPORTED)}."
    )
