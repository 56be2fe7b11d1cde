"""Bad rows, columns and models: one sentence that names the column and counts its rows, never a Java stack."""

from __future__ import annotations

import sys
import threading
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ens_plugin import spark
from ens_plugin.errors import ClusterError, EnsPluginError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.spark import jobs
from tests.spark.cases import COLUMNS, fitted, held_out


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
        ("y", 7.0, 4, "'y' holds labels that the ensemble does not know in 4 of 100 rows, 7.0 for example"),
        ("w", np.nan, 5, "'w' holds 5 missing or infinite weights"),
        ("w", -1.0, 6, "'w' holds 6 negative weights"),
        ("w", 0.0, 100, "'w' is 0 in every row"),
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
        ({"feature_cols": [*COLUMNS, "y"]}, "'y' is among feature_cols"),
        ({"feature_cols": [*COLUMNS[:-1], "word"]}, "'word' (string)"),
        ({"label_col": "word"}, "'word' is of type string, but the ensemble's labels are 0, 1"),
        ({"weight_col": "word"}, "'word' is of type string; weights must be numbers"),
        ({"row_id_col": "height"}, "no column 'height'"),
        ({"row_id_col": "word"}, "'word' is of type string; row_id_col must hold whole numbers"),
        ({"feature_cols": COLUMNS[:-1]}, "X has 5 columns"),
        ({"weight_col": "w", "metric": lambda y, p: 0.0}, "metric(y, mean_output) takes no weights"),
        ({"row_id_col": "y"}, "'y' holds 2 numbers in more than one row"),
        ({"confidence": 2.0}, "confidence must lie"),
    ],
)
def test_columns_that_cannot_be_used_are_named(session: Any, options: dict[str, Any], words: str) -> None:
    frame = held_out("shares", 40).assign(word="a")
    assert words in refused(session, frame, InputError, **{"model": fitted("shares"), **options})


def test_arrays_must_be_of_one_length(session: Any) -> None:
    rows = [[0.0] * 6, [0.0] * 5] * 20
    frame = pd.DataFrame({"features": rows, "y": [0, 1] * 20})
    assert "must all have one length" in refused(session, frame, InputError, feature_cols="features")


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
    words = refused(session, held_out("votes", 50), ClusterError, model=model)
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
