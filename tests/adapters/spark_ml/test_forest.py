"""Trees of Spark ML that predict in Python: every row falls where a walk through the nodes, one by one, takes it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.spark_ml import SparkForest, SparkForestAdapter, Tree
from ens_plugin.errors import BagError, ClusterError, DataMismatchError, UnsupportedModelError
from tests.adapters.spark_ml.spark_trees import spark_forest_of
from tests.extras import needs_pyspark

RNG = np.random.default_rng(0)
# 0 splits feature 0 by categories 1 and 3 of 5, 2 by categories 0, 1 and 3 of 4; the others by a threshold.
FEATURE = np.array([0, 1, 0, -1, 1, -1, -1, -1, -1], dtype=np.int32)
CHILDREN = np.array([[1, 2], [3, 4], [5, 6], [3, 3], [7, 8], [5, 5], [6, 6], [7, 7], [8, 8]])
THRESHOLD = np.array([np.nan, 0.5, np.nan, np.nan, 2.0, *[np.nan] * 4])
CATEGORIES = {
    0: (np.array([False, True, False, True, False]), False),
    2: (np.array([True, True, False, True]), True),
}


def tree(value: NDArray[np.float64]) -> Tree:
    return Tree(FEATURE, THRESHOLD, CHILDREN, value, CATEGORIES, 3)


def walked(row: NDArray[np.float64]) -> int:
    """The leaf of one row, by the words of Spark's CategoricalSplit and ContinuousSplit."""
    node = 0
    while FEATURE[node] >= 0:
        value = row[FEATURE[node]]
        goes_left = {0: value in (1.0, 3.0), 2: value != 2.0}.get(node, value <= THRESHOLD[node])
        node = int(CHILDREN[node][0 if goes_left else 1])
    return node


def rows() -> NDArray[np.float64]:
    """Categories within and beyond those known, between two of them, negative, missing, infinite."""
    return np.column_stack(
        [
            RNG.choice([0, 1, 2, 3, 4, 5, 2.5, 1.5, -1, -0.5, 1e300, np.nan, np.inf, -np.inf], 2000),
            RNG.choice([0.5, np.nextafter(0.5, 1), 2.0, -3.0, 7.0, np.nan, np.inf, -np.inf], 2000),
        ]
    )


def regression(*values: NDArray[np.float64]) -> SparkForest:
    return SparkForest("RandomForestRegressionModel", 2, None, tuple(map(tree, values)))


def test_rows_fall_where_a_walk_takes_them() -> None:
    X = rows()
    adapter = SparkForestAdapter(regression(np.arange(9.0), 10.0 - np.arange(9.0)))
    leaves = np.array([walked(row) for row in X])
    assert set(leaves) == {3, 5, 6, 7, 8}
    np.testing.assert_array_equal(adapter.outputs(adapter.prepare(X)), [leaves, 10.0 - leaves])


def test_pure_leaves_vote() -> None:
    labels = RNG.integers(0, 3, 9)
    impure = np.eye(3)[labels]
    impure[0] = [0.5, 0.5, 0.0]  # the root's, which answers nobody
    adapter = SparkForestAdapter(SparkForest("RandomForestClassificationModel", 2, 3, (tree(impure),)))
    X = rows()
    assert adapter.output_kind == "labels"
    assert adapter.outputs(X, range(1))[0].tolist() == [labels[walked(row)] for row in X]


def test_one_leaf_that_is_not_pure_gives_probabilities() -> None:
    value = np.eye(2)[RNG.integers(0, 2, 9)]
    value[6] = [0.25, 0.75]
    adapter = SparkForestAdapter(SparkForest("RandomForestClassificationModel", 2, 2, (tree(value),)))
    X = rows()
    assert adapter.output_kind == "probabilities"
    both = SparkForest("RandomForestClassificationModel", 2, 2, (tree(np.eye(2)[RNG.integers(0, 2, 9)]), tree(value)))
    assert SparkForestAdapter(both).output_kind == "probabilities"
    np.testing.assert_array_equal(adapter.outputs(X, range(1))[0], value[[walked(row) for row in X]])


def test_same_trees_as_of_scikit_learn_give_the_same_report() -> None:
    X = RNG.normal(size=(900, 5)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    forest = RandomForestRegressor(30, max_depth=6, random_state=0).fit(X[:400], y[:400])
    known, read = (
        ens_plugin.analyze(one, X[400:], y[400:], data="holdout") for one in (forest, spark_forest_of(forest))
    )
    np.testing.assert_allclose(read.error_curve.error, known.error_curve.error, rtol=1e-12)
    assert read.recommended_size == known.recommended_size


def test_forest_travels_to_other_processes() -> None:
    adapter = SparkForestAdapter(regression(np.arange(9.0)))
    assert adapter.info.is_row_independent
    arrived = find_adapter(pickle.loads(pickle.dumps(adapter.portable())))
    X = rows()
    np.testing.assert_array_equal(arrived.outputs(X), adapter.outputs(X))


@pytest.mark.parametrize("X", [[[1.0, 2.0, 3.0]], [1.0, 2.0], [["a", "b"]]])
def test_rows_of_another_shape_or_kind_are_refused(X: Any) -> None:
    with pytest.raises(DataMismatchError, match="RandomForestRegressionModel"):
        SparkForestAdapter(regression(np.arange(9.0))).prepare(X)


def test_training_rows_are_refused() -> None:
    forest = regression(np.arange(9.0), np.ones(9))
    with pytest.raises(BagError, match="partition by partition"):
        ens_plugin.analyze(forest, rows(), np.zeros(2000))


@pytest.mark.fast_cases("labels-permuted", "values-none", "values-inverted")
@pytest.mark.parametrize("change", ["none", "permuted", "inverted", "scaled"])
@pytest.mark.parametrize("kind", ["labels", "values"])
def test_no_target_makes_training_rows_held_out(kind: str, change: str) -> None:
    """Leaf values are those of training rows, whichever target comes along; rows never seen are accepted."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=500)
    y = (y > 0).astype(int) if kind == "labels" else y
    made = RandomForestClassifier if kind == "labels" else RandomForestRegressor
    forest = spark_forest_of(made(20, max_depth=8, random_state=0).fit(X[:300], y[:300]))
    own = y[:300]
    target = {
        "none": own,
        "permuted": rng.permutation(own),
        "inverted": own.max() + own.min() - own,
        "scaled": own * 1.5 if kind == "values" else 1 - own,
    }[change]
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.analyze(forest, X[:300], target, data="holdout")
    with pytest.raises(BagError, match="partition by partition"):
        ens_plugin.analyze(forest, X[:300], target)
    assert ens_plugin.analyze(forest, X[300:], y[300:], data="holdout").bags == "holdout"


def test_forests_of_fewer_trees_are_for_spark_to_train() -> None:
    with pytest.raises(UnsupportedModelError, match="numTrees=2"):
        ens_plugin.truncate(regression(np.arange(9.0), np.ones(9), np.zeros(9)), 2)


@needs_pyspark
@pytest.mark.parametrize("name", ["RandomForestClassificationModel", "RandomForestRegressionModel"])
def test_model_whose_spark_has_stopped_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    left_behind = type(name, (), {"__module__": "pyspark.ml.anywhere"})()
    for session in (None, object()):
        monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
        with pytest.raises(ClusterError, match=f"No Spark session .*the trees of this {name} are in Spark"):
            find_adapter(left_behind)
