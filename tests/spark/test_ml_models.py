"""Forests that Spark trained: their members predict as in Spark, and the report is the local one."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import ens_plugin
from ens_plugin import spark
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import ClusterError, InputError, NotFittedError, UnsupportedModelError
from tests.extras import INSTALL
from tests.spark.cases import largest_difference

ROUNDING = 1e-12
NUMBERS = [f"x{index}" for index in range(4)]
LABELS = {"two": "two", "three": "three", "values": "value"}


@cache
def table() -> pd.DataFrame:
    """Four numbers, a category, and three targets that depend on them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1500, 4)), columns=NUMBERS)
    frame["kind"] = rng.integers(0, 7, 1500).astype(float)
    shift = np.array([1, -1, 0.5, 0, 2, -2, 0.3])[frame["kind"].astype(int)]
    frame["value"] = frame["x0"] + frame["x1"] * frame["x2"] + shift + rng.normal(size=1500) / 2
    frame["two"] = (frame["value"] > 0).astype(float)
    frame["three"] = np.digitize(frame["value"], [-1, 1]).astype(float)
    return frame


def forest(target: str, **settings: Any) -> Any:
    from pyspark.ml.classification import RandomForestClassifier
    from pyspark.ml.regression import RandomForestRegressor

    maker = RandomForestRegressor if target == "values" else RandomForestClassifier
    return maker(labelCol=LABELS[target], numTrees=7, maxDepth=6, seed=1, **settings)


@cache
def fitted_pipeline(target: str) -> Any:
    """Fitted on the first 500 rows; the category is known as one, and one of its values is not there."""
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import VectorAssembler, VectorIndexer
    from pyspark.sql import SparkSession

    train = table()[:500].query("kind != 6")
    stages = [
        VectorAssembler(inputCols=[*NUMBERS, "kind"], outputCol="together"),
        VectorIndexer(inputCol="together", outputCol="features", maxCategories=8, handleInvalid="keep"),
        forest(target),
    ]
    return Pipeline(stages=stages).fit(SparkSession.getActiveSession().createDataFrame(train))


def held_out(session: Any) -> Any:
    return session.createDataFrame(table()[500:]).repartition(3)


def collected(df: Any, label: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vectors and labels, both at once: rows come in another order each time."""
    from pyspark.ml.functions import vector_to_array

    rows = df.select(vector_to_array("features"), label).collect()
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


@pytest.mark.parametrize("target", ["two", "three", "values"])
def test_members_predict_to_the_bit_what_spark_predicts(session: Any, target: str) -> None:
    from pyspark.ml.linalg import Vectors

    pipeline = fitted_pipeline(target)
    model = pipeline.stages[-1]
    rows = collected(pipeline.transform(held_out(session)), "value")[0][:300]
    rows[::7, 3] = np.nan
    rows[::5, 4], rows[1::5, 4], rows[2::5, 4] = 17.0, 2.5, np.nan
    adapter = find_adapter(model)
    assert any(tree.categories for tree in adapter.forest.trees)  # type: ignore[attr-defined]
    df = session.createDataFrame([(Vectors.dense(row),) for row in rows], ["features"])
    outputs = adapter.outputs(adapter.prepare(rows))
    for member, tree in enumerate(model.trees):
        answers = tree.transform(df).select("prediction" if target == "values" else "probability").collect()
        wanted = [row[0] if target == "values" else row[0].toArray() for row in answers]
        np.testing.assert_array_equal(outputs[member], wanted)


@pytest.mark.parametrize("target", ["two", "three", "values"])
def test_pipeline_of_spark_gives_the_report_of_its_vectors(session: Any, target: str) -> None:
    pipeline, df = fitted_pipeline(target), held_out(session)
    report = spark.analyze(pipeline, df, label_col=LABELS[target])
    X, y = collected(pipeline.transform(df), LABELS[target])
    local = ens_plugin.analyze(pipeline.stages[-1], X, y, data="holdout", n_jobs=1)
    assert report.model == f"RandomForest{'Regression' if target == 'values' else 'Classification'}Model"
    assert largest_difference(local, report) < ROUNDING


def test_error_at_its_own_size_is_what_spark_measures(session: Any) -> None:
    from pyspark.ml.evaluation import RegressionEvaluator

    pipeline, df = fitted_pipeline("values"), held_out(session)
    report = spark.analyze(pipeline, df, label_col="value")
    measured = RegressionEvaluator(labelCol="value", metricName="mse").evaluate(pipeline.transform(df))
    assert report.error_curve.at(7) == pytest.approx(measured, rel=ROUNDING)


# PySpark's searches leave their thread pool to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_best_model_of_a_search_is_judged(session: Any) -> None:
    from pyspark.ml.evaluation import MulticlassClassificationEvaluator
    from pyspark.ml.tuning import ParamGridBuilder, TrainValidationSplit

    ready = fitted_pipeline("two").transform(held_out(session)).select("features", "two")
    search = TrainValidationSplit(
        estimator=forest("two"),
        estimatorParamMaps=ParamGridBuilder().build(),
        evaluator=MulticlassClassificationEvaluator(labelCol="two"),
        seed=0,
    ).fit(ready)
    found, own = (spark.analyze(model, ready, label_col="two") for model in (search, search.bestModel))
    assert largest_difference(found, own) == 0
    del search
    gc.collect()


def test_any_model_takes_a_column_of_vectors(session: Any) -> None:
    from sklearn.ensemble import RandomForestClassifier

    pipeline, df = fitted_pipeline("two"), held_out(session)
    transformed = pipeline.transform(df)
    X, y = collected(transformed, "two")
    # Other rows than those judged below: training rows are no held-out rows.
    model = RandomForestClassifier(15, random_state=0).fit(X[:500] + 0.1, y[:500])
    report = spark.analyze(model, transformed, label_col="two", feature_cols="features")
    local = ens_plugin.analyze(model, X, y, data="holdout", n_jobs=1)
    assert largest_difference(local, report) < ROUNDING


@pytest.mark.parametrize("target", ["two", "values"])
def test_models_of_xgboost_spark_are_judged_by_their_booster(session: Any, target: str) -> None:
    pytest.importorskip("xgboost", reason=f"needs xgboost: {INSTALL['xgboost']}")
    from xgboost.spark import SparkXGBClassifier, SparkXGBRegressor

    maker = SparkXGBRegressor if target == "values" else SparkXGBClassifier
    estimator = maker(
        features_col=NUMBERS,
        label_col=LABELS[target],
        n_estimators=1,
        num_parallel_tree=15,
        subsample=0.6,
        learning_rate=1.0,
    )
    model = estimator.fit(session.createDataFrame(table()[:500]))
    report = spark.analyze(model, held_out(session), label_col=LABELS[target])
    rest = table()[500:]
    local = ens_plugin.analyze(model, rest[NUMBERS], rest[LABELS[target]].to_numpy(), data="holdout", n_jobs=1)
    assert largest_difference(local, report) < ROUNDING


def test_missing_value_that_the_booster_does_not_know_is_refused(session: Any) -> None:
    pytest.importorskip("xgboost", reason=f"needs xgboost: {INSTALL['xgboost']}")
    from xgboost.spark import SparkXGBRegressor

    estimator = SparkXGBRegressor(
        features_col=NUMBERS, label_col="value", n_estimators=1, num_parallel_tree=3, missing=0.0
    )
    model = estimator.fit(session.createDataFrame(table()[:500]))
    with pytest.raises(UnsupportedModelError, match="treats 0 as a missing value"):
        spark.analyze(model, held_out(session), label_col="value")


def test_stages_before_the_forest_need_spark(session: Any) -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"\(VectorAssembler, VectorIndexerModel\), so only ens_plugin\.spark\.analyze"
    ):
        ens_plugin.analyze(fitted_pipeline("two"), np.zeros((3, 5)), [0, 1, 0], data="holdout")


def test_estimators_are_refused_as_not_fitted(session: Any) -> None:
    from pyspark.ml import Pipeline

    for estimator in (forest("two"), Pipeline(stages=[forest("two")])):
        with pytest.raises(NotFittedError, match=rf"This {type(estimator).__name__} has not been fitted"):
            spark.analyze(estimator, held_out(session), label_col="two")


def test_thresholds_are_refused(session: Any) -> None:
    model = fitted_pipeline("two").stages[-1].copy()
    model.setThresholds([0.3, 0.7])
    with pytest.raises(UnsupportedModelError, match="thresholds"):
        find_adapter(model)
    model.clear(model.thresholds)
    assert find_adapter(model).n_members == 7
    model.setThresholds([0.5, 0.5])
    assert find_adapter(model).n_members == 7


def test_forest_is_read_in_threads_that_did_not_start_spark(session: Any) -> None:
    pipeline, df = fitted_pipeline("two"), held_out(session)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(spark.analyze, pipeline, df, label_col="two").result()
    assert largest_difference(found, spark.analyze(pipeline, df, label_col="two")) == 0


def test_directory_that_cannot_be_written_is_refused_with_the_cause(session: Any, tmp_path: Path) -> None:
    session.sparkContext.setCheckpointDir(str(tmp_path / "scratch"))
    directory = Path(session.sparkContext.getCheckpointDir().removeprefix("file:"))
    directory.rmdir()
    directory.write_text("")
    with pytest.raises(
        ClusterError, match=r"read back: \S+Exception: [^:].*not a directory.* Name a directory"
    ) as caught:
        find_adapter(fitted_pipeline("two").stages[-1])
    assert "\n" not in str(caught.value)
    directory.unlink()
    assert find_adapter(fitted_pipeline("two").stages[-1]).n_members == 7


def test_null_vectors_are_counted(session: Any) -> None:
    model, df = fitted_pipeline("two").stages[-1], fitted_pipeline("two").transform(held_out(session))
    some = df.selectExpr("if(x0 > 1, null, features) as features", "two")
    n_null = int((table()[500:]["x0"] > 1).sum())
    with pytest.raises(InputError, match=f"'features' in {n_null} rows, of 1000"):
        spark.analyze(model, some, label_col="two")


def test_boosted_trees_of_spark_are_refused(session: Any) -> None:
    from pyspark.ml.classification import GBTClassifier

    ready = fitted_pipeline("two").transform(held_out(session)).select("features", "two")
    model = GBTClassifier(labelCol="two", maxIter=2, maxDepth=2).fit(ready)
    with pytest.raises(UnsupportedModelError, match="correct one another"):
        spark.analyze(model, ready, label_col="two")


def test_rows_that_a_stage_refuses(session: Any) -> None:
    with pytest.raises(InputError, match="VectorAssembler before the ensemble refuses"):
        spark.analyze(fitted_pipeline("two"), held_out(session).drop("x1"), label_col="two")


def test_nothing_is_left_on_the_disk(session: Any, tmp_path: Path) -> None:
    session.sparkContext.setCheckpointDir(str(tmp_path))
    find_adapter(fitted_pipeline("two").stages[-1])
    assert [path for path in tmp_path.rglob("*") if "ens_plugin" in path.name] == []
