"""A check for damage in the document of an XGBoost model, which XGBoost itself reads without a check."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.trees.child_links import are_sound
from ens_plugin.adapters.xgboost.document.ubjson import decode
from ens_plugin.core.validation import counted

__all__ = ["UBJSON_START", "find_damage"]

UBJSON_START = b"{L"
MAX_LABELS = 2**20
DELETED = 2**31 - 1  # as the root's parent and as the feature of a node that was pruned away
# The types that XGBoost writes and reads, by the name of the array.
INTEGERS = {"left_children": "i4", "right_children": "i4", "parents": "i4", "split_indices": "i4"}
OTHERS = {"default_left": "u1", "split_conditions": "f4", "base_weights": "f4"}
OPTIONAL = {"split_type": "u1", "loss_changes": "f4", "sum_hessian": "f4"}
CATEGORIES = {"categories": "i4", "categories_nodes": "i4", "categories_segments": "i8", "categories_sizes": "i8"}


class _DamageError(ValueError):
    pass


def find_damage(document: bytes) -> str | None:
    """Return the damage that makes the document of a model unsafe for XGBoost to read.

    Parameters
    ----------
    document : bytes
        JSON or UBJSON, as ``Booster.save_model`` writes it.

    Returns
    -------
    str or None
        None where nothing is wrong.

    Examples
    --------
    >>> find_damage(b'{"learner": {}}')
    "'learner_model_param' is missing"
    """
    is_binary = document.startswith(UBJSON_START)
    try:
        model = decode(document) if is_binary else json.loads(document)
        _check_learner(model["learner"], is_binary)
    except KeyError as error:
        return f"{error.args[0]!r} is missing"
    except (_DamageError, ValueError, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    except (TypeError, AttributeError, IndexError):
        return "its parts are not of the kind expected"
    return None


def _check_learner(learner: dict[str, Any], is_binary: bool) -> None:
    parameters = learner["learner_model_param"]
    n_features, n_labels = int(parameters["num_feature"]), int(parameters["num_class"])
    n_targets = int(parameters.get("num_target", "1"))
    if not (0 <= n_features < DELETED and 0 <= n_labels <= MAX_LABELS and 0 <= n_targets <= MAX_LABELS):
        raise _DamageError(
            f"it has {counted(n_features, 'feature')}, {counted(n_labels, 'label')} and {counted(n_targets, 'target')}"
        )
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        return
    if booster["name"] == "dart":
        _check_weights(booster)
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    trees, n_groups = model["trees"], max(n_labels, n_targets, 1)
    if int(model["gbtree_model_param"]["num_trees"]) != len(trees):
        raise _DamageError(f"it has {counted(len(trees), 'tree')}, not the number it states")
    group = _numbers(model, "tree_info", "i4", len(trees), is_binary)
    if group.size and (group.min() < 0 or group.max() >= n_groups):
        raise _DamageError("it has trees of a label that it does not have")
    if "iteration_indptr" in model:
        _check_rounds(_numbers(model, "iteration_indptr", "i4", None, is_binary), len(trees))
    for index, tree in enumerate(trees):
        try:
            _check_tree(tree, n_features, is_binary)
        except _DamageError as error:
            raise _DamageError(f"tree {index} {error}") from None


def _check_weights(booster: dict[str, Any]) -> None:
    n_trees = len(booster["gbtree"]["model"]["trees"])
    if np.asarray(booster["weight_drop"], dtype=np.float64).shape != (n_trees,):
        raise _DamageError("it does not have one weight for each tree")


def _check_rounds(starts: NDArray[Any], n_trees: int) -> None:
    if starts.size == 0 or starts[0] != 0 or starts[-1] != n_trees or (np.diff(starts) < 0).any():
        raise _DamageError("its rounds do not contain each of its trees once")


def _check_tree(tree: dict[str, Any], n_features: int, is_binary: bool) -> None:
    parameters = tree["tree_param"]
    n_nodes, n_values = int(parameters["num_nodes"]), int(parameters.get("size_leaf_vector", "1"))
    if n_nodes < 1 or not 0 <= n_values <= MAX_LABELS:
        raise _DamageError(
            f"states that it has {counted(n_nodes, 'node')} and {counted(n_values, 'value')} in a leaf, which is "
            "impossible"
        )
    of_tree = int(parameters["num_feature"])
    if not 0 <= of_tree <= n_features:
        raise _DamageError(f"has {counted(of_tree, 'feature')}, and the model {n_features}")
    left, right, parents, features = (_numbers(tree, name, kind, n_nodes, is_binary) for name, kind in INTEGERS.items())
    for name, kind in OTHERS.items():
        size = n_nodes * max(n_values, 1) if name == "base_weights" else n_nodes
        _numbers(tree, name, kind, size, is_binary)
    for name, kind in OPTIONAL.items():
        if name in tree:
            _numbers(tree, name, kind, n_nodes, is_binary)
    if not are_sound(left, right) or ((left < 0) != (right < 0)).any() or min(left.min(), right.min()) < -1:
        raise _DamageError("does not lead from its root to each leaf once")
    _check_parents(left, right, parents)
    split = features[left >= 0]
    if split.size and (split.min() < 0 or split.max() >= n_features):
        raise _DamageError("splits on a feature that the model does not have")
    if "leaf_weights" in tree:
        _check_leaf_vectors(tree, left, n_values, is_binary)
    if "categories" in tree:
        _check_categories(tree, n_nodes, is_binary)


def _check_parents(left: NDArray[Any], right: NDArray[Any], parents: NDArray[Any]) -> None:
    for children in (left, right):
        inner = np.flatnonzero(children >= 0)
        if (parents[children[inner]] != inner).any():
            raise _DamageError("has a node that states another parent than the one that leads to it")
    if ((parents < -1) | ((parents >= parents.size) & (parents != DELETED))).any():
        raise _DamageError("has a parent that it does not have")


def _check_leaf_vectors(tree: dict[str, Any], left: NDArray[Any], n_values: int, is_binary: bool) -> None:
    _numbers(tree, "leaf_weights", "f4", int((left < 0).sum()) * n_values, is_binary)


def _check_categories(tree: dict[str, Any], n_nodes: int, is_binary: bool) -> None:
    values, nodes, starts, sizes = (_numbers(tree, name, kind, None, is_binary) for name, kind in CATEGORIES.items())
    if not nodes.size == starts.size == sizes.size:
        raise _DamageError("does not have one set of categories for each node that splits by category")
    if nodes.size == 0:
        return
    if nodes.min() < 0 or nodes.max() >= n_nodes or (np.diff(nodes) <= 0).any():
        raise _DamageError("has categories of nodes that it does not have")
    if starts.min() < 0 or sizes.min() < 0 or (starts + sizes).max() > values.size:
        raise _DamageError("has sets of categories out of range")
    if values.size and (values.min() < 0 or values.max() >= 2**24):
        raise _DamageError("has categories out of range")


def _numbers(part: dict[str, Any], name: str, kind: str, size: int | None, is_binary: bool) -> NDArray[Any]:
    """Return an array of the document after checking its type (in JSON only its kind), and its size if given."""
    values = np.asarray(part[name])
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    wanted = np.dtype(kind)
    has_kind = values.dtype == wanted if is_binary and isinstance(part[name], np.ndarray) else _fits(values, wanted)
    if values.ndim != 1 or (values.size and not has_kind):
        raise _DamageError(f"has values in {name} that are not of the kind expected")
    if size is not None and values.size != size:
        raise _DamageError(f"has {counted(values.size, 'value')} in {name} instead of {size}")
    return values


def _fits(values: NDArray[Any], wanted: np.dtype[Any]) -> bool:
    if wanted.kind == "f":
        return values.dtype.kind in "iuf"
    if values.dtype.kind == "b":
        return wanted == np.dtype("u1")
    limits = np.iinfo(wanted)
    return values.dtype.kind in "iu" and bool(values.min() >= limits.min and values.max() <= limits.max)
