"""Recognition of training rows that are passed as held out, by what fitted models store of their training rows.

Models store neighbours, support vectors, rows of Gaussian processes, or the values that trees split at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import BaseDecisionTree

from ens_plugin.adapters.shared.trees.split_values import are_too_many
from ens_plugin.adapters.sklearn.growth import leaf_counts
from ens_plugin.adapters.sklearn.recognition.known_rows import hold_node_values
from ens_plugin.adapters.sklearn.trees.outputs import tree_splits

__all__ = ["hold_kept_rows", "keep_rows", "split_columns", "tree_cells"]

# scikit-learn publishes support vectors and the rows of Gaussian processes; nearest neighbours store theirs privately.
KEPT = ("_fit_X", "support_vectors_", "X_train_")
CHECKED_MEMBERS = 10


def hold_kept_rows(members: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether more of the training rows that members store are among given rows than chance explains.

    Parameters
    ----------
    members : sequence of (model, rows)
        Fitted models, each with the rows as it takes them; some of the models are checked.
    """
    checked = members[:: max(len(members) // CHECKED_MEMBERS, 1)]
    tables = [(model, _table(model, rows)) for model, rows in checked]
    known = [(model, table) for model, table in tables if table is not None]
    trees = [(model, table.astype(np.float32)) for model, table in known if isinstance(model, BaseDecisionTree)]
    if trees and hold_node_values(trees):
        return True
    kept = [(_kept(model), table) for model, table in known]
    return bool(known) and are_too_many(
        [_matches(own, table) for own, table in kept if own is not None], known[0][1].shape[0]
    )


def keep_rows(models: Sequence[Any]) -> bool:
    """Return whether any of the fitted models stores training rows, or is a decision tree."""
    return any(isinstance(model, BaseDecisionTree) or _kept(model) is not None for model in models)


def tree_cells(
    members: Sequence[tuple[Any, Any]], target: NDArray[Any], classes: NDArray[Any] | None
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield, for every tree, which cells held a training row, and the number of given rows in each cell.

    A cell is a leaf, or one label in a leaf.

    Parameters
    ----------
    members : sequence of (model, rows)
    target : ndarray of shape (n_rows,)
        Label codes or values.
    classes : ndarray of shape (n_labels,) or None
    """
    for model, rows in members:
        table = _table(model, rows) if isinstance(model, BaseDecisionTree) else None
        if table is None or (classes is not None and not np.array_equal(getattr(model, "classes_", ()), classes)):
            continue
        counted, found = leaf_counts(model, table.astype(np.float32), target)
        yield np.minimum(counted, 1), found


def split_columns(models: Sequence[Any], rows: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
    """Return rows as a table, and the thresholds of the columns that the trees among the models split."""
    trees = [model for model in models if isinstance(model, BaseDecisionTree)]
    table = _table(trees[0], rows) if trees else None
    return rows if table is None else table, () if table is None else tree_splits(trees)


def _table(model: Any, rows: Any) -> NDArray[np.float64] | None:
    """Return rows as float64; None where they are no table of numbers, or have other columns than the model."""
    if rows.shape[1:] != (getattr(model, "n_features_in_", None),):
        return None
    try:
        return np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _kept(model: Any) -> NDArray[np.float64] | None:
    """Return the training rows that a model stores; None where it stores none as an array."""
    for name in KEPT:
        rows = getattr(model, name, None)
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] == getattr(model, "n_features_in_", None):
            return np.ascontiguousarray(rows, dtype=np.float64)
    return None


def _matches(kept: NDArray[np.float64], table: NDArray[np.float64]) -> tuple[int, int, float]:
    """Return how many distinct rows a model stores, how many are in the table, and a fresh row's chance to be one."""
    found, counts = np.unique(_as_bytes(table), return_counts=True)
    different = np.unique(_as_bytes(kept))
    chance = 1.0 - np.count_nonzero(counts == 1) / len(table)
    return different.size, int(np.isin(different, found).sum()), float(chance)


def _as_bytes(table: NDArray[np.float64]) -> NDArray[np.void]:
    # Adding zero makes negative zeros positive.
    rows = np.ascontiguousarray(table + 0.0)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
