"""Adapter of the forests of Spark ML."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.members import code_dtype, first_installed, label_codes
from ens_plugin.adapters.trees import RowOrigin, compare_split_values, judge_origin, splits_by_column
from ens_plugin.adapters.unwrap import java_reason
from ens_plugin.core.validation import BoolArray, FloatArray
from ens_plugin.errors import BagError, ClusterError, DataMismatchError, UnsupportedModelError

_FORESTS = ("RandomForestClassificationModel", "RandomForestRegressionModel")
NODES = (
    "treeID",
    "nodeData.id",
    "nodeData.prediction",
    "nodeData.impurityStats",
    "nodeData.leftChild",
    "nodeData.rightChild",
    "nodeData.split.featureIndex",
    "nodeData.split.leftCategoriesOrThreshold",
    "nodeData.split.numCategories",
)


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree of a forest of Spark ML, as arrays with one entry for each node, the root first."""

    # Column that a node splits by; -1 for leaves.
    feature: NDArray[np.int32]
    # Rows with at most this value go left; where there are categories, NaN.
    threshold: NDArray[np.float64]
    # Left and right child; of a leaf, the leaf itself; shape (n_nodes, 2).
    children: NDArray[np.intp]
    # Output of a leaf: a value, or the probability of every label; shape (n_nodes,) or (n_nodes, n_labels).
    value: NDArray[np.float64]
    # For each node that splits by category: which categories go left, and whether any other value does.
    categories: dict[int, tuple[NDArray[np.bool_], bool]]
    # Splits between the root and the deepest leaf.
    depth: int

    def leaves(self, features: FloatArray) -> NDArray[np.intp]:
        """Return the leaf that each row reaches, shape (n_rows,)."""
        node, row = np.zeros(features.shape[0], dtype=np.intp), np.arange(features.shape[0])
        for _ in range(self.depth):
            value = features[row, self.feature[node]]
            # Comparisons with NaN are false: a missing value goes right.
            goes_left = value <= self.threshold[node]
            if self.categories:
                goes_left |= self._goes_left_by_category(node, value)
            node = self.children[node, 1 - goes_left.astype(np.intp)]
        return node

    def _goes_left_by_category(self, node: NDArray[np.intp], value: FloatArray) -> BoolArray:
        """Return whether rows at some nodes go left by category; False where the node has no categories."""
        table, first, n_known = self._category_table
        known = n_known[node]
        is_known = (value >= 0) & (value < known) & (value == np.floor(value))
        return table[first[node] + np.where(is_known, value, known).astype(np.intp)]

    @cached_property
    def _category_table(self) -> tuple[BoolArray, NDArray[np.intp], NDArray[np.intp]]:
        """Return whether each category of each node goes left, where a node's begin, and how many it has."""
        # After a node's categories stands whether any other value goes left; the first entry is of other nodes.
        first, n_known = np.zeros((2, self.feature.size), dtype=np.intp)
        entries, end = [np.zeros(1, dtype=bool)], 1
        for node, (goes_left, others) in self.categories.items():
            first[node], n_known[node] = end, goes_left.size
            entries.append(np.append(goes_left, others))
            end += goes_left.size + 1
        return np.concatenate(entries), first, n_known


def running_session(model: Any) -> Any:
    """Return the active Spark session, also in a thread that did not start it."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        session = None
    if session is None or SparkContext._active_spark_context is None:
        raise ClusterError(
            f"No Spark session is active, and the trees of this {type(model).__name__} are in Spark; start "
            "the session first and load the model in it."
        )
    return session


def read_trees(session: Any, model: Any, *, n_labels: int | None) -> tuple[Tree, ...]:
    """Return the trees of a fitted forest of Spark ML."""
    # The model is saved to a new directory, deleted afterwards, inside the checkpoint directory of the Spark context if
    # one is set, else inside a temporary one.
    nodes = _saved_nodes(session, model)
    tree_of = nodes["treeID"].to_numpy()
    edges = np.flatnonzero(np.diff(tree_of, prepend=-1, append=-1))
    return tuple(_tree(nodes.slice(start, end - start), n_labels) for start, end in pairwise(edges))


def _saved_nodes(session: Any, model: Any) -> Any:
    """Return the nodes of all trees as an Arrow table, ordered by tree and by number in the tree."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    path = f"{_scratch_directory(session)}/ens_plugin-{uuid.uuid4().hex}"
    try:
        model.save(path)
        saved = session.read.parquet(f"{path}/data").select(*NODES)
        return saved.orderBy("treeID", "id").toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise ClusterError(
            f"The trees of this {type(model).__name__} are in Spark and could not be saved to {path} and read back: "
            f"{java_reason(error)}. Name a directory that the driver and all executors can reach, with "
            "session.sparkContext.setCheckpointDir(...)."
        ) from error
    finally:
        _delete(session, path)


def _scratch_directory(session: Any) -> str:
    context = session.sparkContext
    chosen = context.getCheckpointDir()
    if chosen is not None:
        return str(chosen)
    return f"file://{tempfile.gettempdir()}" if context.master.startswith("local") else "/tmp"


def _delete(session: Any, path: str) -> None:
    # PySpark has no public way to delete a directory of the cluster's file system.
    context = session.sparkContext
    target = context._jvm.org.apache.hadoop.fs.Path(path)
    target.getFileSystem(context._jsc.hadoopConfiguration()).delete(target, True)


def _tree(nodes: Any, n_labels: int | None) -> Tree:
    """Return one tree from the table of its nodes, which are in the order of their numbers."""
    feature = nodes["featureIndex"].to_numpy().astype(np.int32)
    children = np.column_stack([nodes["leftChild"].to_numpy(), nodes["rightChild"].to_numpy()]).astype(np.intp)
    children = np.where(feature[:, None] < 0, np.arange(feature.size)[:, None], children)
    splits, n_categories = nodes["leftCategoriesOrThreshold"].to_pylist(), nodes["numCategories"].to_numpy()
    is_continuous = (feature >= 0) & (n_categories < 0)
    threshold = np.full(feature.size, np.nan)
    threshold[is_continuous] = [splits[node][0] for node in np.flatnonzero(is_continuous)]
    return Tree(
        feature=feature,
        threshold=threshold,
        children=children,
        value=_values(nodes, n_labels),
        categories={
            int(node): _categories(splits[node], int(n_categories[node])) for node in np.flatnonzero(n_categories >= 0)
        },
        depth=_depth(feature, children),
    )


def _values(nodes: Any, n_labels: int | None) -> NDArray[np.float64]:
    if n_labels is None:
        return np.asarray(nodes["prediction"].to_numpy(), dtype=np.float64)
    counts = np.asarray(nodes["impurityStats"].combine_chunks().flatten(), dtype=np.float64).reshape(-1, n_labels)
    total = counts.sum(axis=1, keepdims=True)
    # As in Spark: a leaf without weight has probability 0 for every label.
    shares: NDArray[np.float64] = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    return shares


def _categories(left: list[float], n_categories: int) -> tuple[NDArray[np.bool_], bool]:
    goes_left = np.zeros(n_categories, dtype=bool)
    goes_left[np.asarray(left, dtype=np.intp)] = True
    # Spark stores the smaller set of categories; all other values are routed to the other side.
    return goes_left, 2 * len(left) > n_categories


def _depth(feature: NDArray[np.int32], children: NDArray[np.intp]) -> int:
    depth = 0
    level = np.zeros(1, dtype=np.intp)
    while True:
        level = level[feature[level] >= 0]
        if not level.size:
            return depth
        level, depth = children[level].ravel(), depth + 1


@dataclass(frozen=True, eq=False)
class SparkForest:
    """Trees of a forest of Spark ML, as arrays that predict without Spark."""

    # Class of the model it was read from.
    name: str
    n_features: int
    # None for regression.
    n_labels: int | None
    trees: tuple[Tree, ...]


class SparkForestAdapter(EnsembleAdapter):
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
        leaf_values = [tree.value[tree.feature < 0] for tree in forest.trees]
        # Every leaf gives one label probability 1.
        are_pure = not is_regressor and all((own.max(axis=1) == 1.0).all() for own in leaf_values)
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
        values: NDArray[Any] = tree.value[tree.leaves(features)]
        if self.output_kind != "labels":
            return values
        codes: NDArray[Any] = values.argmax(axis=1).astype(code_dtype(values.shape[1]))
        return codes

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> NoReturn:
        """Raise BagError: Spark keeps no record of the bags."""
        raise BagError(
            f"Which rows the trees of this {self.forest.name} were trained on is not known: Spark draws them "
            'partition by partition and keeps no record. Pass data="holdout" with rows the model was not trained on.'
        )

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the values that trees split at and the leaves that rows fill."""
        target = None if y is None else np.asarray(y).reshape(-1)
        if target is not None and self.classes is not None:
            target = label_codes(target, self.classes)
        is_shown, would_show = compare_split_values(features, self._split_values(), np.float64)
        return judge_origin(is_shown, self._leaf_counts(features, target), features.shape[0], would_show)

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, self._split_values()

    def _split_values(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Return the position of each column with numerical splits, and all its thresholds."""
        trees = self.forest.trees
        column, value = (np.concatenate([getattr(tree, name) for tree in trees]) for name in ("feature", "threshold"))
        is_number = (column >= 0) & ~np.isnan(value)
        return splits_by_column(column[is_number], value[is_number])

    def _leaf_counts(self, features: Any, target: NDArray[Any] | None) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each tree, a 1 for each leaf or label with training rows, and the number of given rows there."""
        for tree in self.forest.trees:
            leaves, is_leaf = tree.leaves(features), tree.feature < 0
            if target is None or tree.value.ndim == 1:
                reached = np.bincount(leaves, minlength=is_leaf.size)[is_leaf]
                yield np.ones_like(reached), reached
                continue
            found = np.zeros(tree.value.shape, dtype=np.int64)
            np.add.at(found, (leaves, target), 1)
            yield (tree.value[is_leaf] > 0).astype(np.int64).ravel(), found[is_leaf].ravel()

    def portable(self) -> SparkForest:
        """Return the trees of the forest, which predict without Spark."""
        return self.forest

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: Spark cannot make a smaller forest from the trees of a trained one."""
        raise UnsupportedModelError(
            f"Spark cannot make a smaller {self.forest.name} from the trees of a trained one. Train one with "
            f"numTrees={size}."
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
