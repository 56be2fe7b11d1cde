"""The adapter of Spark ML's random forests, for held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.capabilities import Distributable, RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.shared.distributed_bags import DistributedBags
from ens_plugin.adapters.shared.distributions import first_installed
from ens_plugin.adapters.shared.labels import code_dtype, label_codes
from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin
from ens_plugin.adapters.shared.trees.split_values import hold_split_values, show_split_values, splits_by_column
from ens_plugin.adapters.spark_ml.nodes import Tree, read_trees, running_session
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from ens_plugin.records import record

__all__ = ["SparkForest", "SparkForestAdapter"]

_FORESTS = ("RandomForestClassificationModel", "RandomForestRegressionModel")


@record
class SparkForest:
    """Trees of a forest of Spark ML, as arrays that predict without Spark.

    Attributes
    ----------
    name : str
        Class of the model it was read from.
    n_features : int
    n_labels : int or None
        None for regression.
    trees : tuple of Tree
    """

    name: str
    n_features: int
    n_labels: int | None
    trees: tuple[Tree, ...]


class SparkForestAdapter(EnsembleAdapter, VerifiesRows, Distributable, Truncatable):
    """Adapter of Spark ML's RandomForestClassificationModel and RandomForestRegressionModel.

    The trees are read once, from files that the model saves, and predict in Python, to the bit as in Spark.
    Labels are 0, 1, 2, ..., as Spark ML numbers them.  Bags are not available: Spark draws them partition by
    partition and keeps no record.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is one of Spark ML's two forests, or a SparkForest that was read from one."""
        home = type(model).__module__
        return isinstance(model, SparkForest) or (home.startswith("pyspark.ml.") and type(model).__name__ in _FORESTS)

    def __init__(self, model: Any) -> None:
        self.forest = model if isinstance(model, SparkForest) else _read(model)
        super().__init__(model)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; PySpark is not needed for a forest that was read before."""
        forest = self.forest
        is_regressor = forest.n_labels is None
        are_pure = not is_regressor and all(map(_is_pure, forest.trees))
        return EnsembleInfo(
            task="regression" if is_regressor else "classification",
            classes=None if forest.n_labels is None else np.arange(forest.n_labels),
            n_members=len(forest.trees),
            aggregation="mean" if is_regressor else "mean_proba",
            output_kind="values" if is_regressor else "labels" if are_pure else "probabilities",
            bag_provenance="unknown",
            is_row_independent=True,
            distributions=first_installed("pyspark", "pyspark-client", "databricks-connect"),
        )

    def prepare(self, X: Any) -> NDArray[np.float64]:
        """Return X as a matrix of float64, the type of Spark's vectors."""
        try:
            features = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataMismatchError(
                f"X does not hold numbers ({error}); pass the features as they are in the vectors that the "
                f"{self.forest.name} takes."
            ) from error
        if features.ndim != 2 or features.shape[1] != self.forest.n_features:
            raise DataMismatchError(
                f"X has shape {features.shape}; this {self.forest.name} takes vectors of {self.forest.n_features} "
                "features. Pass one row for each vector, with its features in the order of training."
            )
        return features

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the trees for the prepared rows."""
        return outputs_by_member(self._tree_outputs, members or range(self.n_members), features, wanted)

    def _tree_outputs(self, member: int, features: Any) -> NDArray[Any]:
        tree = self.forest.trees[member]
        values: NDArray[Any] = tree.value[_leaves(tree, features)]
        if self.output_kind != "labels":
            return values
        codes: NDArray[Any] = values.argmax(axis=1).astype(code_dtype(values.shape[1]))
        return codes

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError: Spark keeps no record of the bags."""
        raise self._unknown_bags()

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by the values that trees split at and the leaves that rows fill."""
        target = np.asarray(y).reshape(-1)
        target = target if self.classes is None else label_codes(target, self.classes)
        return judge_origin(
            hold_split_values(features, self._split_values(), np.float64),
            self._leaf_counts(features, target),
            features.shape[0],
            lambda: show_split_values(features, self._split_values(), np.float64),
        )

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, self._split_values()

    def _split_values(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Return the position of each column with numerical splits, and all its thresholds."""
        trees = self.forest.trees
        column, value = (np.concatenate([getattr(tree, name) for tree in trees]) for name in ("feature", "threshold"))
        is_number = (column >= 0) & ~np.isnan(value)
        return splits_by_column(column[is_number], value[is_number])

    def _leaf_counts(self, features: Any, target: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each tree, a 1 for each leaf or label with training rows, and the number of given rows there."""
        for tree in self.forest.trees:
            leaves, is_leaf = _leaves(tree, features), tree.feature < 0
            if tree.value.ndim == 1:
                reached = np.bincount(leaves, minlength=is_leaf.size)[is_leaf]
                yield np.ones_like(reached), reached
                continue
            found = np.zeros(tree.value.shape, dtype=np.int64)
            np.add.at(found, (leaves, target), 1)
            yield (tree.value[is_leaf] > 0).astype(np.int64).ravel(), found[is_leaf].ravel()

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Raise BagError: Spark keeps no record of the bags."""
        raise self._unknown_bags()

    def portable(self) -> SparkForest:
        """Return the trees of the forest, which predict without Spark."""
        return self.forest

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: Spark cannot make a smaller forest from the trees of a trained one."""
        raise UnsupportedModelError(
            f"Spark cannot make a smaller {self.forest.name} from the trees of a trained one. Train one with "
            f"numTrees={size}."
        )

    def _unknown_bags(self) -> BagError:
        return BagError(
            f"Which rows the trees of this {self.forest.name} were trained on is not known: Spark draws them "
            'partition by partition and keeps no record. Pass {data="holdout"} with rows the model was not trained on.'
        )


def _read(model: Any) -> SparkForest:
    session, name = running_session(model), type(model).__name__
    # Equal thresholds do not change the predicted label.
    if model.hasParam("thresholds") and model.isSet("thresholds") and len(set(model.getThresholds())) > 1:
        raise UnsupportedModelError(
            f"This {name} has thresholds, so it does not predict its likeliest label, and ens_plugin estimates the "
            "error of that label only. Pass a copy of it without them: copied = model.copy(); "
            "copied.clear(copied.thresholds)."
        )
    n_labels = int(model.numClasses) if name == _FORESTS[0] else None
    return SparkForest(name, int(model.numFeatures), n_labels, read_trees(session, model, n_labels=n_labels))


def _is_pure(tree: Tree) -> bool:
    """Return whether every leaf gives one label probability 1."""
    leaves = tree.value[tree.feature < 0]
    return bool((leaves.max(axis=1) == 1.0).all())


def _leaves(tree: Tree, features: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the leaf that each row reaches, shape (n_rows,)."""
    node = np.zeros(features.shape[0], dtype=np.intp)
    row = np.arange(features.shape[0])
    for _ in range(tree.depth):
        value = features[row, tree.feature[node]]
        # Comparisons with NaN are false: a missing value goes right.
        goes_left = value <= tree.threshold[node]
        if tree.categories:
            goes_left |= tree.category_table.look_up(node, value)
        node = tree.children[node, 1 - goes_left.astype(np.intp)]
    return node
