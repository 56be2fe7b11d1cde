"""The learning rate of a booster, as its trees show it: files of models do not keep the training parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ens_plugin.adapters.xgboost.document.model import LEAF, Forest
from ens_plugin.core.validation import FloatArray

__all__ = ["FULL_RATE", "learning_rate", "shrunken"]

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


def shrunken(rate: float) -> str:
    """Return the warning of a learning rate below 1."""
    return (
        f"The trees were trained with learning_rate={rate:.3g}. In a single round, every prediction then goes only "
        f"{rate:.3g} of the way from the base score to what the trees found, and no later round makes up for it, so "
        "the error is larger than it has to be. Train with learning_rate=1."
    )
