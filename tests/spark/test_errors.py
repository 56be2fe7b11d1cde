"""Bad rows, columns and models: one sentence that names the column and counts its rows, never a Java stack."""

from __future__ import annotations

import re
import sys
import threading
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ens_plugin import CustomEnsemble, spark
from ens_plugin.errors import (
    ClusterError,
    DataMismatchError,
    EnsPluginError,
    InputError,
    NotFittedError,
    UnsupportedModelError,
)
from ens_plugin.spark import analysis as jobs
from ens_plugin.spark import columns as session_module
from tests.extras import needs_pyspark
from tests.spark.cases import COLUMNS, N_ROWS, fitted, held_out, in_order, trained_on


def refused(session: Any, frame: pd.DataFrame, error: type[EnsPluginError], **options: Any) -> str:
    """Message of the refusal, one line without a stack."""
    chosen: dict[str, Any] = {"model": fitted("votes"), "label_col": "y", "feature_cols": COLUMNS, **options}
    df = session.createDataFrame(frame).repartition(3)
    with pytest.raises(error) as caught:
        spark.analyze(chosen.pop("model"), df, **chosen)
    message = str(caught.value)
    assert "\n" not in message
    assert "at org.apache" not in message
    return message


def changed(column: str, value: Any, n_rows: int) -> pd.DataFrame:
    """Held-out rows, the first of which hold another value."""
    frame = held_out("votes", 100).reset_index(drop=True)
    frame[column] = frame[column].astype(float)
    frame.loc[: n_rows - 1, column] = value
    return frame


@pytest.mark.parametrize(
    ("column", "value", "n_rows", "words"),
    [
        ("y", np.nan, 3, "'y' holds 3 missing labels"),
        ("y", np.inf, 2, "'y' holds 2 missing labels"),
        ("y", 7.0, 4, "'y' holds labels that are not the ensemble's in 4 of 100 rows, 7.0 for example"),
        ("w", np.nan, 5, "'w' holds 5 missing or infinite weights"),
        ("w", -1.0, 6, "'w' holds 6 negative weights"),
        ("w", 0.0, 100, "'w' are 0 in every row"),
        ("x2", np.inf, 8, "'x2' in 8 rows, of 100"),
    ],
)
def test_bad_values_are_counted_by_column(session: Any, column: str, value: float, n_rows: int, words: str) -> None:
    assert words in refused(session, changed(column, value, n_rows), InputError, weight_col="w")


def test_missing_values_are_counted_where_a_step_refuses_them(session: Any) -> None:
    X = held_out("votes")[COLUMNS].to_numpy()
    model = make_pipeline(PCA().fit(X), fitted("votes"))
    assert "'x2' in 7 rows, of 100" in refused(session, changed("x2", np.nan, 7), InputError, model=model)


def test_values_of_regression_must_be_finite(session: Any) -> None:
    frame = held_out("values", 50).reset_index(drop=True)
    frame.loc[:1, "y"] = np.nan
    assert "'y' holds 2 missing labels or values" in refused(session, frame, InputError, model=fitted("values"))


def test_single_label_is_refused(session: Any) -> None:
    frame = held_out("votes", 100)
    assert "'y' holds a single label" in refused(session, frame[frame["y"] == 1], InputError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature_cols": [*COLUMNS[:-1], "height"]}, "no column 'height'"),
        ({"label_col": "answer"}, "no column 'answer'"),
        ({"feature_cols": []}, "feature_cols is empty"),
        ({"feature_cols": [*COLUMNS, "y"]}, "Column 'y' holds labels"),
        ({"feature_cols": [*COLUMNS[:-1], "word"]}, "'word' (string)"),
        ({"label_col": "word"}, "'word' is of type string, but the ensemble's labels are 0, 1"),
        ({"weight_col": "word"}, "'word' is of type string, but weights must be numbers"),
        ({"row_id_col": "height"}, "no column 'height'"),
        ({"row_id_col": "word"}, "'word' is of type string, but row_id_col must hold whole numbers. Cast it to bigint"),
        ({"feature_cols": COLUMNS[:-1]}, "X has 5 columns"),
        (
            {"weight_col": "w", "metric": lambda y, p: 0.0},
            "takes no weights: its function has no parameter sample_weight",
        ),
        ({"row_id_col": "y"}, "'y' has 2 row numbers that several rows share"),
        ({"criterion": "agreement", "tolerance": 0.5}, "must be below 0.5"),
    ],
)
def test_columns_that_cannot_be_used_are_named(session: Any, options: dict[str, Any], words: str) -> None:
    frame = held_out("shares", 40).assign(word="a")
    assert words in refused(session, frame, InputError, **{"model": fitted("shares"), **options})


@pytest.mark.parametrize("kind", ["decimal(10,0)", "double"])
def test_row_ids_must_be_whole_by_their_type(session: Any, kind: str) -> None:
    df = session.createDataFrame(held_out("votes", 40)).selectExpr(*COLUMNS, "y", f"cast(row as {kind}) as row")
    with pytest.raises(InputError, match=rf"'row' is of type {re.escape(kind)}.*Cast it to bigint"):
        spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS, row_id_col="row")


@pytest.mark.parametrize("behind_a_step", [False, True])
def test_vectors_must_be_the_only_column(session: Any, behind_a_step: bool) -> None:
    from pyspark.ml.feature import VectorAssembler

    df = session.createDataFrame(held_out("votes", 40))
    df = VectorAssembler(inputCols=COLUMNS[:2], outputCol="two").transform(df)
    X = held_out("votes", 40)[COLUMNS].to_numpy()
    model = make_pipeline(PCA().fit(X), fitted("votes")) if behind_a_step else fitted("votes")
    with pytest.raises(InputError, match="vectors beside other columns"):
        spark.analyze(model, df, label_col="y", feature_cols=["two", *COLUMNS[:4]])


def test_names_that_spark_takes_for_the_same_are_refused(session: Any) -> None:
    df = session.createDataFrame(held_out("votes", 40)).toDF(*COLUMNS, "y", "Y", "row")
    with pytest.raises(InputError, match="several columns named 'y'"):
        spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS)


def test_names_that_differ_in_case_are_two_where_the_session_says_so(session: Any) -> None:
    df = session.createDataFrame(held_out("votes", 40)).toDF(*COLUMNS, "y", "Y", "row")
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS).n_rows == 40
    finally:
        session.conf.unset("spark.sql.caseSensitive")


def test_example_of_an_unknown_label_is_one(session: Any) -> None:
    df = session.createDataFrame(held_out("votes", 40)).selectExpr(*COLUMNS, "if(row = 39, 7, y) as y", "row")
    with pytest.raises(InputError, match="not the ensemble's in 1 of 40 rows, 7 for example"):
        spark.analyze(fitted("votes"), df.orderBy("row"), label_col="y", feature_cols=COLUMNS)


def test_frames_of_pandas_are_for_the_local_road(session: Any) -> None:
    with pytest.raises(
        InputError, match=r"got pandas.DataFrame\. Analyse rows on this machine with ens_plugin.analyze"
    ):
        spark.analyze(fitted("votes"), held_out("votes"), label_col="y", feature_cols=COLUMNS)


def test_streams_are_refused(session: Any) -> None:
    df = session.readStream.format("rate").load()
    with pytest.raises(InputError, match="df is a stream"):
        spark.analyze(fitted("votes"), df, label_col="value", feature_cols=["timestamp"])


def test_spark_connect_is_refused_by_its_frame(session: Any) -> None:
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    with pytest.raises(ClusterError, match=r"^Spark Connect .* Use a classic session"):
        spark.analyze(fitted("votes"), remote(), label_col="y", feature_cols=COLUMNS)


@needs_pyspark
def test_spark_connect_is_refused_before_java_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(ClusterError, match="Use a classic session"):
        spark.analyze(fitted("votes"), None, label_col="y", feature_cols=COLUMNS)


def test_outputs_in_row_order_are_refused_however_many_rows_there_are(session: Any) -> None:
    frame = held_out("votes", 40)
    ensemble = CustomEnsemble(np.tile(frame["y"], (5, 1)), None, aggregation="vote")
    assert "CustomEnsemble.from_estimators" in refused(session, frame, UnsupportedModelError, model=ensemble)


@pytest.mark.parametrize("row_id_col", [None, "row"])
@pytest.mark.parametrize("name", ["votes", "shares", "values"])
def test_rows_too_alike_to_be_sampled_are_refused(session: Any, name: str, row_id_col: str | None) -> None:
    """Without any row in the sample the analysis would never end."""
    df = session.createDataFrame(held_out(name, 2)).crossJoin(session.range(0, 50_000, 1, 2))
    if name != "values":
        df = df.selectExpr(*COLUMNS, "row", "row % 2 as y")
    words = "Rows of equal numbers in 'row'" if row_id_col else "Without row_id_col, rows of equal content"
    with pytest.raises(InputError, match=f"{words} are sampled together, .*monotonically_increasing_id"):
        spark.analyze(fitted(name), df, label_col="y", feature_cols=COLUMNS, row_id_col=row_id_col)


def test_what_fails_in_the_first_pass_is_one_sentence(session: Any) -> None:
    from pyspark.sql.functions import udf

    df = session.createDataFrame(held_out("votes", 40)).withColumn("y", udf(lambda label: label // 0, "int")("y"))
    with pytest.raises(ClusterError, match=r"^The Spark job failed: ZeroDivisionError: .*zero\. The log"):
        spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Job aborted\n"
            "\tat org.apache.spark.X(X.scala:1)\nCaused by: java.io.FileNotFoundException: File a does not exist.\n"
            "\tat org.apache.spark.Y(Y.scala:1)\n",
            "The Spark job failed: java.io.FileNotFoundException: File a does not exist. The log of the executors",
        ),
        (": org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n", "died each time"),
        ("Traceback:\n  File x\nModuleNotFoundError: No module named 'ens_plugin'\n", "executors have no ens_plugin"),
        ("Something else", "The Spark job failed: Something else. The log of the executors"),
    ],
)
def test_java_stacks_become_their_cause(message: str, words: str) -> None:
    explained = session_module._explained(message)
    assert words in explained
    assert "\n" not in explained


def test_arrays_must_be_of_one_length(session: Any) -> None:
    rows = [[0.0] * 6, [0.0] * 5] * 20
    frame = pd.DataFrame({"features": rows, "y": [0, 1] * 20})
    assert "feature_cols differ in length" in refused(session, frame, InputError, feature_cols="features")


def test_empty_table_is_refused(session: Any) -> None:
    df = session.createDataFrame(held_out("votes", 10)).where("y > 5")
    with pytest.raises(InputError, match="no rows"):
        spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS)


def test_model_that_cannot_be_pickled_is_refused_before_the_job(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = copy(fitted("votes"))
    model.lock = threading.Lock()
    monkeypatch.setattr(jobs, "gather", pytest.fail)
    words = refused(session, held_out("votes", 50), UnsupportedModelError, model=model)
    assert "cannot be pickled" in words


def test_model_must_be_fitted(session: Any) -> None:
    refused(session, held_out("votes", 50), NotFittedError, model=type(fitted("votes"))())


def _break(X: Any) -> Any:
    raise RuntimeError("the sensor is off")


@pytest.mark.slow
def test_step_that_breaks_gives_its_reason(session: Any) -> None:
    model = make_pipeline(FunctionTransformer(_break), fitted("votes"))
    words = refused(session, held_out("votes", 50), DataMismatchError, model=model)
    assert "The steps before the ensemble refuse X" in words
    assert "the sensor is off" in words


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ClusterError, match=r"pip install 'ens-plugin\[spark\]'"):
        spark.analyze(fitted("votes"), None, label_col="y", feature_cols=COLUMNS)


def test_without_java_it_says_what_to_install(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match="Java is not installed"):
        spark.analyze(fitted("votes"), None, label_col="y", feature_cols=COLUMNS)


@pytest.mark.parametrize("kind", ["forest", "bagging"])
def test_training_rows_passed_as_held_out_are_refused(session: Any, kind: str) -> None:
    frame = trained_on("votes")
    X, y, _ = in_order(frame)
    maker = RandomForestClassifier if kind == "forest" else BaggingClassifier
    model = maker(n_estimators=100, random_state=0).fit(X, y)
    assert "rows that the model was trained on" in refused(session, frame, DataMismatchError, model=model)
    fresh = session.createDataFrame(held_out("votes"))
    assert spark.analyze(model, fresh, label_col="y", feature_cols=COLUMNS).n_rows == N_ROWS
