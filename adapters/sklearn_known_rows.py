"""Training rows of scikit-learn's ensembles that were put in another order, or are some of them only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter, draw_bags
from ens_plugin.core.known_rows import are_known, may_be_known

__all__ = ["are_outputs_of_known_rows", "are_shuffled_rows"]

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
    asked = _asked(features.shape[0])
    rows = features[asked]
    # Member by member: the outputs of all for many labels may not fit into memory.
    outputs = (adapter.member_outputs(member, rows) for member in range(adapter.n_members))
    return _are_left_out(adapter, outputs, target[asked], draw, n_trained)


def are_outputs_of_known_rows(
    adapter: EnsembleAdapter,
    outputs: NDArray[Any],
    target: NDArray[Any],
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    """Do what :func:`are_shuffled_rows` does with what the members said about the rows.

    Parameters
    ----------
    adapter, target, draw, n_trained
        As there.
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    """
    asked = _asked(target.size)
    return _are_left_out(adapter, (own[asked] for own in outputs), target[asked], draw, n_trained)


def _asked(n_rows: int) -> NDArray[np.intp]:
    """Some of the rows, spread over all."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, ASKED_ROWS)).astype(np.intp))


def _are_left_out(
    adapter: EnsembleAdapter,
    outputs: Iterable[NDArray[Any]],
    target: NDArray[Any],
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    left_out = 1.0 - np.unique(draw(0)).size / n_trained
    if left_out == 0.0:
        return False
    is_wrong = _other_value if adapter.task == "regression" else _other_label
    wrong = np.stack([is_wrong(own, target) for own in outputs])
    return may_be_known(wrong, left_out, n_trained) and are_known(wrong, draw_bags(draw, adapter.n_members, n_trained))


def _other_value(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    # A leaf's mean of equal values is that value but for rounding.
    return np.asarray(np.abs(outputs - target) > 1e-9 * np.abs(target))


def _other_label(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    labels = outputs if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.asarray(labels != target)
