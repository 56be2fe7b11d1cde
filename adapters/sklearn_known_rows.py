"""Training rows of scikit-learn's ensembles that were put in another order, or are some of them only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter, draw_bags
from ens_plugin.core.known_rows import are_known, may_be_known

__all__ = ["are_shuffled_rows"]

ASKED_ROWS = 2_000


def are_shuffled_rows(
    adapter: EnsembleAdapter,
    features: Any,
    target: NDArray[Any],
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    """Tell whether every row that many members are wrong about is a training row that these members left out.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows, n_rows of them
    target : ndarray, shape (n_rows,)
        Label codes or values.
    draw : callable
        ``draw(member)`` returns the training rows that a member drew.
    n_trained : int
        Training rows.
    """
    n_rows = features.shape[0]
    asked = np.unique(np.linspace(0, n_rows - 1, min(n_rows, ASKED_ROWS)).astype(np.intp))
    left_out = 1.0 - np.unique(draw(0)).size / n_trained
    if left_out == 0.0:
        return False
    wrong = _wrong_members(adapter, features[asked], target[asked])
    return may_be_known(wrong, left_out, n_trained) and are_known(wrong, draw_bags(draw, adapter.n_members, n_trained))


def _wrong_members(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> NDArray[np.bool_]:
    is_wrong = _other_value if adapter.task == "regression" else _other_label
    # Member by member: the outputs of all for many labels may not fit into memory.
    return np.stack([is_wrong(adapter.member_outputs(member, features), target) for member in range(adapter.n_members)])


def _other_value(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    # A leaf's mean of equal values is that value but for rounding.
    return np.asarray(np.abs(outputs - target) > 1e-9 * np.abs(target))


def _other_label(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    labels = outputs if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.asarray(labels != target)
