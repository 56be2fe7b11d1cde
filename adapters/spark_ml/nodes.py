"""Reading of Spark ML's trees into arrays: the model saves its nodes, which are read as a table."""

from __future__ import annotations

import tempfile
import uuid
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.unwrap.spark_wrappers import java_reason
from ens_plugin.core.validation import with_article
from ens_plugin.errors import ClusterError
from ens_plugin.records import record

__all__ = ["CategoryTable", "Tree", "read_trees", "running_session"]

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


@record
class Tree:
    """One tree of a forest of Spark ML, as arrays with one entry for each node, the root first.

    Attributes
    ----------
    feature : ndarray of int32
        Column that a node splits by; -1 for leaves.
    threshold : ndarray of float64
        Rows with at most this value go left; where there are categories, NaN.
    children : ndarray of intp, shape (n_nodes, 2)
        Left and right child; of a leaf, the leaf itself.
    value : ndarray of float64, shape (n_nodes,) or (n_nodes, n_labels)
        Output of a leaf: a value, or the probability of every label.
    categories : dict of int to (ndarray of bool, bool)
        For each node that splits by category: which categories go left, and whether any other value does.
    depth : int
        Splits between the root and the deepest leaf.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    children: NDArray[np.intp]
    value: NDArray[np.float64]
    categories: dict[int, tuple[NDArray[np.bool_], bool]]
    depth: int

    @cached_property
    def category_table(self) -> CategoryTable:
        """Return the table of which categories go left at each node."""
        return _category_table(self.categories, self.feature.size)


@record
class CategoryTable:
    """Table of which categories go left at each node of a tree, all nodes in one array.

    Attributes
    ----------
    goes_left : ndarray of bool
        Node by node: whether each category goes left, followed by whether any other value does.
    first : ndarray of intp, shape (n_nodes,)
        Position of a node's first category; of a node without categories, that of an entry that is False.
    n_known : ndarray of intp, shape (n_nodes,)
    """

    goes_left: NDArray[np.bool_]
    first: NDArray[np.intp]
    n_known: NDArray[np.intp]

    def look_up(self, node: NDArray[np.intp], value: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether rows at some nodes go left by category; False where the node has no categories."""
        n_known = self.n_known[node]
        is_known = (value >= 0) & (value < n_known) & (value == np.floor(value))
        return self.goes_left[self.first[node] + np.where(is_known, value, n_known).astype(np.intp)]


def _category_table(categories: dict[int, tuple[NDArray[np.bool_], bool]], n_nodes: int) -> CategoryTable:
    entries = [np.zeros(1, dtype=bool)]
    first, n_known = np.zeros((2, n_nodes), dtype=np.intp)
    end = 1
    for node, (goes_left, others) in categories.items():
        first[node], n_known[node] = end, goes_left.size
        entries.append(np.append(goes_left, others))
        end += goes_left.size + 1
    return CategoryTable(np.concatenate(entries), first, n_known)


def running_session(model: Any) -> Any:
    """Return the active Spark session, also in a thread that did not start it.

    Parameters
    ----------
    model : object
        The model, for the message.

    Raises
    ------
    ClusterError
        If no session is active.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
    except PySparkRuntimeError:
        session = None
    if session is None or SparkContext._active_spark_context is None:
        raise ClusterError(
            f"No Spark session is active, and the trees of {with_article(type(model).__name__)} are in Spark; start "
            "the session first and load the model in it."
        )
    return session


def read_trees(session: Any, model: Any, *, n_labels: int | None) -> tuple[Tree, ...]:
    """Return the trees of a fitted forest of Spark ML.

    The model is saved to a new directory, deleted afterwards, inside the checkpoint directory of the Spark context
    if one is set, else inside a temporary one.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
    model : RandomForestClassificationModel or RandomForestRegressionModel
    n_labels : int or None
        None for regression.

    Raises
    ------
    ClusterError
        If Spark cannot save the model or read it back.
    """
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
