"""A check for damage in the trees of a scikit-learn model that was read from a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from ens_plugin.adapters.shared.held_objects import parts
from ens_plugin.adapters.shared.trees.child_links import are_sound
from ens_plugin.core.validation import counted

__all__ = ["find_damage"]

LEAF = -1


def find_damage(held: Any) -> str | None:
    """Return the damage that makes a tree, or an estimator that holds trees, unsafe to predict with.

    scikit-learn copies the nodes of a tree from a file without a check: with damaged nodes, prediction may never
    end, or may read memory outside the tree.

    Parameters
    ----------
    held : object
        Any object inside a model.  Of an estimator, only the number of features of its trees is checked.

    Returns
    -------
    str or None
        None where nothing is wrong.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> find_damage(tree.tree_) is None
    True
    >>> tree.tree_.children_left[0] = 0
    >>> find_damage(tree.tree_)
    'a tree does not lead from its root to each leaf once'
    """
    return _damage_of_tree(held) if _is_tree(held) else _damage_of_estimator(held)


def _is_tree(held: Any) -> bool:
    return type(held).__module__ == "sklearn.tree._tree" and hasattr(type(held), "children_left")


def _damage_of_tree(tree: Any) -> str | None:
    # The arrays below are views of memory for node_count nodes, which is therefore checked first.
    if not 1 <= tree.node_count <= tree.capacity:
        return f"a tree states {counted(tree.node_count, 'node')}, and holds {tree.capacity}"
    left, right, features = tree.children_left, tree.children_right, tree.feature
    if not are_sound(left, right) or ((left == LEAF) != (right == LEAF)).any() or min(left.min(), right.min()) < LEAF:
        return "a tree does not lead from its root to each leaf once"
    split = features[left != LEAF]
    if split.size and (split.min() < 0 or split.max() >= tree.n_features):
        return "a tree splits on a feature that it does not have"
    if np.isnan(tree.threshold[left != LEAF]).any() or not np.isfinite(tree.value).all():
        return "a tree holds values that are no numbers"
    return None


def _damage_of_estimator(held: Any) -> str | None:
    """Return what is wrong with the number of features of an estimator: trees inside an ensemble do not check it."""
    attributes = getattr(held, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    n_features: Any = attributes.get("n_features_in_")
    tree: Any = attributes.get("tree_")
    if _is_tree(tree) and tree.n_features != n_features:
        return f"a tree of {counted(tree.n_features, 'feature')} is in an estimator of {n_features!r:.40}"
    members = attributes.get("estimators_")
    if n_features is None or members is None or "estimators_features_" in attributes:
        return None
    for member in parts(members):
        inner: Any = getattr(member, "tree_", None)
        if _is_tree(inner) and inner.n_features != n_features:
            return f"a tree of {counted(inner.n_features, 'feature')} is a member of an ensemble of {n_features!r:.40}"
    return None
