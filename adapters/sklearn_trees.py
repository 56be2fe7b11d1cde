"""Fitted scikit-learn trees: what their leaves say, and whether given rows are the ones they grew on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from ens_plugin.adapters.labels import code_dtype
from ens_plugin.adapters.leaf_counts import target_ranges
from ens_plugin.adapters.scattered import Sums
from ens_plugin.errors import DataMismatchError

__all__ = [
    "are_recognised",
    "check_growth",
    "checked_members",
    "growth_is_known",
    "growth_sums",
    "held_outputs",
    "judge_growth",
    "leaf_labels",
    "leaf_outputs",
    "leaves_are_pure",
    "node_labels",
    "voted_labels",
]

# Counts of that many leaves more than trees agree by chance with a probability below 1e-6, from 30 rows on.
LEAVES_THAT_TELL = 8


def leaves_are_pure(trees: Iterable[Any], n_labels: int) -> bool:
    """Tell whether every leaf of every tree gives one of `n_labels` labels probability 1, to the bit."""
    return all(_is_pure(tree.tree_, n_labels) for tree in trees)


def _is_pure(tree: Any, n_labels: int) -> bool:
    # Inner nodes are mixed, so every exact 1 in the table belongs to a leaf, and no row holds two.
    value = tree.value
    return bool(value.shape[2] == n_labels and np.count_nonzero(value == 1.0) == tree.n_leaves)


def leaf_outputs(tree: Any, features: Any) -> NDArray[np.float64]:
    """Return what the leaves reached by the rows hold: probabilities (n_rows, n_labels) or values (n_rows, 1)."""
    return np.asarray(tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0))


def leaf_labels(tree: Any, features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Label codes of the leaves reached by the rows, where every leaf is pure; shape (n_rows,)."""
    leaves = tree.apply(features, check_input=False)
    value = tree.tree_.value[:, 0, :]
    dtype = code_dtype(value.shape[1])
    if value.shape[1] == 2:
        return np.asarray(value[:, 1].take(leaves).astype(dtype))
    return np.asarray(value.take(leaves, axis=0).argmax(axis=1).astype(dtype))


def node_labels(tree: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Label code of every node, the first of equals, to be looked up by leaf; shape (n_nodes,)."""
    value = tree.tree_.value[:, 0, :]
    return np.asarray(value.argmax(axis=1).astype(code_dtype(value.shape[1])))


def voted_labels(trees: list[Any], labels: list[NDArray[Any]], features: Any) -> NDArray[np.unsignedinteger[Any]]:
    """Label codes of the leaves that rows reach in several trees, from :func:`node_labels`; (n_trees, n_rows)."""
    votes = np.empty((len(trees), features.shape[0]), dtype=labels[0].dtype)
    for own, tree, label in zip(votes, trees, labels, strict=True):
        label.take(tree.apply(features, check_input=False), out=own, mode="clip")
    return votes


def held_outputs(trees: list[Any], features: Any) -> NDArray[np.float64]:
    """Return what the leaves hold that rows reach in several trees, shape (n_trees, n_rows, n_labels or 1)."""
    said = np.empty((len(trees), features.shape[0], trees[0].tree_.value.shape[2]))
    for own, tree in zip(said, trees, strict=True):
        tree.tree_.value[:, 0, :].take(tree.apply(features, check_input=False), axis=0, out=own, mode="clip")
    return said


def checked_members(n_members: int) -> list[int]:
    """First, middle and last: rows that changed between calls of fit (warm_start) show in one of them."""
    return sorted({0, n_members // 2, n_members - 1})


def growth_is_known(features: Any) -> bool:
    """Tell whether trees route these rows, if they grew on them, now as they did then.

    Before scikit-learn 1.8 rows with NaN may have been counted in another leaf than ``apply`` finds
    (scikit-learn pull request 32351).
    """
    release = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    return release >= (1, 8) or not np.isnan(features.sum(dtype=np.float64))


def are_recognised(trees: list[Any], check: Callable[[], None]) -> bool:
    """Tell whether `check`, that rows are the ones these trees grew on, passes, and not by chance."""
    if sum(tree.tree_.n_leaves - 1 for tree in trees) < LEAVES_THAT_TELL:
        return False
    try:
        check()
    except DataMismatchError:
        return False
    return True


def check_growth(
    tree: Any, features: Any, drawn: NDArray[np.integer[Any]], target: NDArray[Any] | None, member: int
) -> None:
    """Raise DataMismatchError unless `tree` can have been grown on the rows it is said to have drawn.

    The drawn rows must fall into the leaves as often as the tree counted at training; and every
    leaf's value must be one that the targets of its rows can give.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    features : float32 array or CSR matrix of shape (n_rows, n_features)
        What the tree's own ``apply`` takes.
    drawn : ndarray of int, shape (n_drawn,)
        Rows the member drew, repeated or not.
    target : ndarray of shape (n_rows,) or None
        Label codes (classification) or values (regression).
    member : int
        Position of the tree, for the message.
    """
    in_bag = np.flatnonzero(np.bincount(drawn))
    judge_growth(tree, growth_sums(tree, features[in_bag], None if target is None else target[in_bag]), member)


def growth_sums(tree: Any, features: Any, target: NDArray[Any] | None) -> Sums:
    """Sum up, by node, rows of a tree's bag.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    features : float32 array or CSR matrix of shape (n_rows, n_features)
    target : ndarray of shape (n_rows,) or None

    Returns
    -------
    Sums
        ``rows`` that end in each node; of the target, ``strangers``, rows with a label that their leaf gives no
        probability, or its ``lowest`` and negated ``highest`` value.
    """
    leaves = tree.apply(features, check_input=False)
    n_nodes = tree.tree_.node_count
    added: dict[str, NDArray[Any]] = {"rows": np.bincount(leaves, minlength=n_nodes)}
    if target is None or getattr(tree, "monotonic_cst", None) is not None:
        return Sums(added)
    if hasattr(tree, "classes_"):
        strange = tree.tree_.value[leaves, 0, target] == 0
        added["strangers"] = np.bincount(leaves[strange], minlength=n_nodes)
        return Sums(added)
    return Sums(added, target_ranges(leaves, target, n_nodes))


def judge_growth(tree: Any, sums: Sums, member: int) -> None:
    """Raise DataMismatchError unless `tree` can have been grown on the rows that were summed up, all of its bag.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    sums : Sums
    member : int
        Position of the tree, for the message.
    """
    nodes, counts = tree.tree_, sums.added["rows"]
    is_leaf = nodes.children_left == -1
    # Rows of weight zero are drawn but not counted (scikit-learn before 1.9), so a count may fall short.
    excess = is_leaf & (nodes.n_node_samples > counts)
    if excess.any():
        raise DataMismatchError(
            f"These are not the rows the model was trained on: in {np.count_nonzero(excess)} of {nodes.n_leaves} "
            f"leaves of tree {member}, fewer rows of X arrive than the tree counted at training. X and y must be the "
            'exact training rows in training order; for rows the model never saw pass data="holdout".'
        )
    complete = is_leaf & (counts > 0) & (nodes.n_node_samples == counts)
    impossible = int(np.count_nonzero(complete & _is_impossible(nodes.value, sums)))
    if impossible:
        raise DataMismatchError(
            f"y is not the target the model was trained on: {impossible} of {nodes.n_leaves} leaves of tree {member} "
            "hold a value that y of the rows in them cannot give. X and y must be the exact training rows in "
            'training order; for rows the model never saw pass data="holdout".'
        )


def _is_impossible(value: NDArray[np.float64], sums: Sums) -> NDArray[np.bool_]:
    """Nodes with a value that the targets of their rows cannot give."""
    if "strangers" in sums.added:
        return np.asarray(sums.added["strangers"] > 0)
    if "lowest" not in sums.least:
        return np.zeros(value.shape[0], dtype=bool)
    lowest, highest = sums.least["lowest"], -sums.least["highest"]
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    slack = 1e-6 * np.where(np.isfinite(largest), largest, 0.0)
    return np.asarray((value[:, 0, 0] < lowest - slack) | (value[:, 0, 0] > highest + slack))
