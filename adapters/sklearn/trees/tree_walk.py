"""The leaves and outputs of many scikit-learn trees at a time, by the compiled walk where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import outputs_by_member
from ens_plugin.adapters.shared.trees.flat_trees import FlatForest, FlatTree
from ens_plugin.adapters.shared.trees.leaf_walk import LeafWalk, compared_rows

__all__ = ["TreeWalk"]

Columns = Sequence[NDArray[np.integer[Any]] | None]


class TreeWalk:
    """Outputs of an ensemble of trees for prepared rows, if the compiled walk finds the leaves that ``apply`` finds.

    Parameters
    ----------
    trees : list of fitted DecisionTree* or ExtraTree*
    n_features : int
        Columns of the prepared rows.
    labels : list of ndarray of int, or None
        Label code of every node of each tree, to return labels; None to return probabilities, or values of regression.
    columns : sequence of (ndarray of int or None), optional
        Columns of the rows that each tree was trained on; None for all.
    """

    def __init__(
        self,
        trees: list[Any],
        n_features: int,
        labels: list[NDArray[np.unsignedinteger[Any]]] | None,
        columns: Columns | None = None,
    ) -> None:
        self._trees, self._labels = trees, labels
        self._columns = [None] * len(trees) if columns is None else columns
        self._n_features = n_features
        self._walk = LeafWalk(self._flatten, "scikit-learn's apply")

    def compare(self, features: Any) -> None:
        """Compare the walk with ``apply`` on some of the rows, and on rows made of thresholds, unless that is done."""
        if not isinstance(features, np.ndarray) or not self._walk.is_to_compare(features.shape[0], np.float32):
            return
        rows = features[compared_rows(features.shape[0])]
        self._walk.compare_trees(rows, self._own_leaves)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any] | None:
        """Return the outputs of the trees as of ``EnsembleAdapter.outputs``; None where the walk is not used."""
        if not self._walk.is_used or not isinstance(features, np.ndarray):
            return None
        if self._labels is not None:
            labels = self._labels
            return self._walk.entries("labels", lambda: labels, features, members, wanted)
        if self._trees[0].tree_.value.shape[2] == 1:
            return self._walk.entries("values", self._values, features, members, wanted)
        return self._probabilities(features, members or range(len(self._trees)), wanted)

    def leaves(self, features: Any, wanted: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the wanted leaves of prepared rows in all trees, shape (n_trees, n_rows)."""
        if self._walk.is_used and isinstance(features, np.ndarray):
            return self._walk.leaves(features, None, wanted)
        return outputs_by_member(self._own_leaves, range(len(self._trees)), features, wanted)

    def leaves_of(self, member: int, features: Any) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
        """Return what finds the leaves of rows in one tree, of rows such as these; None where the walk is not used."""
        if not self._walk.is_used or not isinstance(features, np.ndarray):
            return None
        # In the type of positions, which sums by leaf need.
        return lambda rows: self._walk.leaves(rows, range(member, member + 1))[0].astype(np.intp)

    def _probabilities(
        self, features: NDArray[Any], members: range, wanted: NDArray[np.bool_] | None
    ) -> NDArray[np.float64]:
        leaves = self._walk.leaves(features, members, wanted)
        n_labels = self._trees[0].tree_.value.shape[2]
        outputs = (np.empty if wanted is None else np.zeros)((*leaves.shape, n_labels))
        for place, member in enumerate(members):
            value = self._trees[member].tree_.value[:, 0, :]
            if wanted is None:
                value.take(leaves[place], axis=0, out=outputs[place], mode="clip")
            else:
                rows = np.flatnonzero(wanted[place])
                outputs[place, rows] = value.take(leaves[place].take(rows), axis=0)
        return outputs

    def _values(self) -> list[NDArray[np.float64]]:
        return [tree.tree_.value[:, 0, 0] for tree in self._trees]

    def _own_leaves(self, place: int, rows: NDArray[Any]) -> NDArray[Any]:
        # The estimator's own apply takes three times as long, to check what prepare has checked.
        own = self._columns[place]
        return np.asarray(self._trees[place].tree_.apply(rows if own is None else rows[:, own]))

    def _flatten(self) -> FlatForest:
        sizes = [tree.tree_.node_count for tree in self._trees]
        numbers = np.arange(max(sizes), dtype=np.min_scalar_type(max(sizes) - 1))
        return FlatForest(
            trees=[_flat_tree(tree.tree_, own) for tree, own in zip(self._trees, self._columns, strict=True)],
            numbers=[numbers[:size] for size in sizes],
            n_features=self._n_features,
        )


def _flat_tree(nodes: Any, columns: NDArray[np.integer[Any]] | None) -> FlatTree:
    left, feature = nodes.children_left, nodes.feature
    return FlatTree(
        left=left,
        right=nodes.children_right,
        feature=feature if columns is None else columns.take(np.maximum(feature, 0)),
        threshold=nodes.threshold,
        missing_left=nodes.missing_go_to_left,
    )
