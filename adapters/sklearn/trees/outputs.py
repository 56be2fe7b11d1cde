"""Outputs of fitted scikit-learn trees, and the choice of trees that are checked against rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from ens_plugin.adapters.base import OutputKind, outputs_by_member
from ens_plugin.adapters.shared.labels import code_dtype
from ens_plugin.adapters.shared.trees import walk_package
from ens_plugin.adapters.shared.trees.split_values import splits_by_column
from ens_plugin.adapters.sklearn.data import draws_by_weight
from ens_plugin.errors import DataMismatchError

__all__ = [
    "TREES",
    "are_plain_trees",
    "are_recognised",
    "checked_members",
    "grow_as_trees",
    "growth_is_known",
    "held_outputs",
    "leaf_labels",
    "leaf_outputs",
    "node_labels",
    "outputs_by_tree",
    "pure_labels",
    "reached_labels",
    "tree_output_kind",
    "tree_splits",
    "voted_labels",
]

TREES = (DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor)
_PREDICTING, _GROWING = ("predict", "predict_proba", "apply"), ("fit", "_fit", "_validate_X_predict")

# With so many leaves beyond one per tree, counts agree by chance with probability below 1e-6, from 30 rows on.
LEAVES_THAT_TELL = 8
# Trees whose thresholds are compared with the rows: those of all would be alike.
COMPARED_TREES = 20
NODES_AT_ONCE = 1024
# For fewer, an order takes longer to find than it saves.
MANY_ROWS, MANY_TREES = 1000, 20


def are_plain_trees(members: Iterable[Any]) -> bool:
    """Return whether all members predict what their leaves hold: trees of scikit-learn's own classes and methods."""
    return all(type(member) in TREES and vars(member).keys().isdisjoint(_PREDICTING) for member in members)


def grow_as_trees(members: Iterable[Any]) -> bool:
    """Return whether all members are trees, or of subclasses that take and route rows as these do.

    So the rows of their bags can be compared with their nodes, however they predict.
    """
    classes = {type(member) for member in members}
    return all(issubclass(cls, TREES) and _grows_as_its_parent(cls) for cls in classes)


def _grows_as_its_parent(cls: type) -> bool:
    parent = next(base for base in cls.__mro__ if base in TREES)
    return all(getattr(cls, name, None) is getattr(parent, name, None) for name in _GROWING)


def tree_output_kind(trees: Iterable[Any], classes: NDArray[Any]) -> OutputKind:
    """Return ``"labels"`` where one label has probability 1, to the bit, in every leaf, else ``"probabilities"``."""
    return "probabilities" if pure_labels(trees, len(classes)) is None else "labels"


def pure_labels(trees: Iterable[Any], n_labels: int) -> list[NDArray[np.unsignedinteger[Any]]] | None:
    """Return the label of each leaf, by node, if every leaf has one label of probability 1, to the bit, else None.

    Those of inner nodes are any labels.  None too if a tree was trained without rows of some label.
    """
    # Of two labels, NumPy reads all nodes in less time than others take to find the leaves.
    in_walk = walk_package.compiled_function("pure_labels") if n_labels > 2 else None
    labels = []
    for tree in trees:
        nodes = tree.tree_
        value = nodes.value[:, 0, :]
        if value.shape[1] != n_labels:
            return None
        own = _pure_labels(value) if in_walk is None else in_walk(value, nodes.children_left, code_dtype(n_labels))
        if own is None:
            return None
        labels.append(own)
    return labels


def _pure_labels(value: NDArray[np.float64]) -> NDArray[np.unsignedinteger[Any]] | None:
    """Return the label of each leaf, by node, from the nodes' probabilities; None if a leaf has several labels."""
    label, n_certain = _certain_labels(value)
    # Inner nodes are mixed, so that every exact 1 is of a leaf; with two children each, they are one fewer.
    return label if n_certain == (value.shape[0] + 1) // 2 else None


def _certain_labels(value: NDArray[np.float64]) -> tuple[NDArray[np.unsignedinteger[Any]], int]:
    """Return a label for each node, the one of probability 1 if there is one, and how many nodes have one."""
    n_nodes, n_labels = value.shape
    if n_labels == 2:
        is_certain = value == 1.0
        return is_certain[:, 1].astype(code_dtype(2)), int(np.count_nonzero(is_certain))
    labels, n_certain = np.empty(n_nodes, code_dtype(n_labels)), 0
    # Few nodes at a time, so that their values are read from memory once.
    for start in range(0, n_nodes, NODES_AT_ONCE):
        part = value[start : start + NODES_AT_ONCE]
        strongest = part.argmax(axis=1)
        labels[start : start + NODES_AT_ONCE] = strongest
        strongest += np.arange(0, part.size, n_labels)
        n_certain += int(np.count_nonzero(part.reshape(-1).take(strongest) == 1.0))
    return labels, n_certain


def leaf_outputs(tree: Any, features: Any) -> NDArray[np.float64]:
    """Return the outputs of the leaves that rows reach: probabilities (n_rows, n_labels) or values (n_rows, 1)."""
    return np.asarray(tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0))


def leaf_labels(tree: Any, features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label codes of the leaves reached by the rows, where every leaf is pure; shape (n_rows,)."""
    return reached_labels(tree, node_labels(tree), features)


def node_labels(tree: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label code of every node, the first of equals, in the order of the nodes; shape (n_nodes,)."""
    value = tree.tree_.value[:, 0, :]
    return np.asarray(value.argmax(axis=1).astype(code_dtype(value.shape[1])))


def reached_labels(
    tree: Any, labels: NDArray[Any], features: Any, out: NDArray[Any] | None = None
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label codes of the leaves that rows reach, from the tree's :func:`node_labels`; shape (n_rows,)."""
    # Clipping never applies; without it, NumPy copies to check that all leaves are there.
    return np.asarray(labels.take(tree.apply(features, check_input=False), out=out, mode="clip"))


def voted_labels(trees: list[Any], labels: list[NDArray[Any]], features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Return the label codes of the leaves that rows reach, from :func:`node_labels`; shape (n_trees, n_rows)."""
    votes = np.empty((len(trees), features.shape[0]), dtype=labels[0].dtype)
    for own, tree, label in zip(votes, trees, labels, strict=True):
        reached_labels(tree, label, features, out=own)
    return votes


def outputs_by_tree(
    trees: list[Any],
    read: Callable[[int, Any], NDArray[Any]],
    features: Any,
    wanted: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Return what :func:`ens_plugin.adapters.base.outputs_by_member` does, of many rows in six sevenths of the time.

    Trees get the rows in the order of the leaves of the first one: rows that are close to each other mostly take the
    same turns, which a processor then foretells.

    Parameters
    ----------
    trees : list of fitted DecisionTree* or ExtraTree*
    read : callable
        ``read(place, rows)`` returns the outputs of one tree.
    features : float32 array or CSR matrix of shape (n_rows, n_features)
    wanted : ndarray of bool, shape (n_trees, n_rows), optional
        True for outputs to compute; the others are zero.
    """
    if not isinstance(features, np.ndarray) or features.shape[0] < MANY_ROWS or len(trees) < MANY_TREES:
        return outputs_by_member(read, range(len(trees)), features, wanted)
    order = np.argsort(trees[0].apply(features, check_input=False))
    rows, own = order, features.take(order, axis=0)
    outputs: NDArray[Any] | None = None
    for place in range(len(trees)):
        if wanted is not None:
            rows = order.compress(wanted[place].take(order))
            own = features.take(rows, axis=0)
        values = read(place, own)
        if outputs is None:
            outputs = np.zeros((len(trees), features.shape[0], *values.shape[1:]), dtype=values.dtype)
        outputs[place, rows] = values
    assert outputs is not None
    return outputs


def held_outputs(trees: list[Any], features: Any) -> NDArray[np.float64]:
    """Return the outputs of the leaves that rows reach in several trees, shape (n_trees, n_rows, n_labels or 1)."""
    outputs = np.empty((len(trees), features.shape[0], trees[0].tree_.value.shape[2]))
    for own, tree in zip(outputs, trees, strict=True):
        tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0, out=own, mode="clip")
    return outputs


def tree_splits(
    trees: Sequence[Any], columns: Sequence[NDArray[np.integer[Any]] | None] | None = None
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield each column that trees split, with the thresholds of some of the trees.

    Parameters
    ----------
    trees : sequence of fitted trees
    columns : sequence of ndarray or None, optional
        For each tree, the columns that it was trained on; None for all columns.
    """
    places = range(0, len(trees), max(len(trees) // COMPARED_TREES, 1))
    splits = []
    for place in places:
        nodes, own = trees[place].tree_, None if columns is None else columns[place]
        is_split = nodes.children_left != -1
        column = nodes.feature[is_split]
        splits.append((column if own is None else own[column], nodes.threshold[is_split]))
    column, threshold = (np.concatenate(parts) for parts in zip(*splits, strict=True))
    return splits_by_column(column, threshold)


def checked_members(n_members: int) -> list[int]:
    """Return the positions of the first, middle and last member, one of which shows rows changed by a warm start."""
    return sorted({0, n_members // 2, n_members - 1})


def growth_is_known(features: Any, model: Any = None) -> bool:
    """Return whether trees that were grown on these rows are certain to route them now as in training.

    Before scikit-learn 1.8 rows with NaN may have been counted in another leaf than ``apply`` finds
    (scikit-learn pull request 32351).

    Parameters
    ----------
    features : prepared rows
    model : fitted ensemble of scikit-learn, optional
        Shows whether the release that trained it, which may be an earlier one than that which loaded it, was before
        1.9.
    """
    release = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    is_recent = release >= (1, 8) and (model is None or draws_by_weight(model))
    return is_recent or not np.isnan(features.sum(dtype=np.float64))


def are_recognised(trees: list[Any], check: Callable[[], object]) -> bool:
    """Return whether `check` proves that rows are those the trees grew on: it passes, and not by chance."""
    if sum(tree.tree_.n_leaves - 1 for tree in trees) < LEAVES_THAT_TELL:
        return False
    try:
        check()
    except DataMismatchError:
        return False
    return True
