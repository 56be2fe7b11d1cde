"""A report from a DataFrame is the local one: to rounding where tallies are exact, within a bound where binned."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import ens_plugin
from ens_plugin import spark
from ens_plugin.errors import WeakEstimateWarning
from tests.spark.cases import COLUMNS, fitted, held_out, in_order, largest_difference

ROUNDING = 1e-12


def compared(session: Any, name: str, frame: pd.DataFrame, n_partitions: int, **options: Any) -> float:
    """Largest difference between the local report and that of a DataFrame with weights."""
    X, y, weight = in_order(frame)
    local = ens_plugin.analyze(fitted(name), X, y, data="holdout", sample_weight=weight, n_jobs=1)
    df = session.createDataFrame(frame).repartition(n_partitions)
    report = spark.analyze(
        fitted(name), df, label_col="y", feature_cols=COLUMNS, row_id_col="row", weight_col="w", **options
    )
    return largest_difference(local, report)


@pytest.mark.parametrize("n_partitions", [1, 2, 7, 64])
def test_votes_give_the_local_report_whatever_the_partitions(session: Any, n_partitions: int) -> None:
    assert compared(session, "votes", held_out("votes"), n_partitions) < ROUNDING


@pytest.mark.parametrize("name", ["shares", "bagging", "three", "values", "lightgbm", "xgboost"])
def test_every_kind_of_ensemble_gives_the_local_report(session: Any, name: str) -> None:
    assert compared(session, name, held_out(name), 3) < ROUNDING


@pytest.mark.parametrize("name", ["votes", "three", "values"])
def test_empty_and_one_row_partitions_add_nothing_but_their_rows(session: Any, name: str) -> None:
    frame = held_out(name, 12)
    with pytest.warns(WeakEstimateWarning) if name != "values" else nullcontext():
        assert compared(session, name, frame, 20) < ROUNDING


@pytest.mark.parametrize("name", ["shares", "three", "lightgbm"])
def test_thousands_of_rows_lose_nothing(session: Any, name: str) -> None:
    assert compared(session, name, held_out(name, 6000), 3) < ROUNDING


def test_rows_need_no_positions_where_all_are_sampled(session: Any) -> None:
    frame = held_out("votes")
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", n_jobs=1)
    df = session.createDataFrame(frame).repartition(5)
    assert largest_difference(local, spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS)) < ROUNDING


def test_sampled_rows_are_the_local_ones_where_not_all_are(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 300)
    assert compared(session, "votes", held_out("votes"), 4) < ROUNDING


def test_metric_of_the_users_own(session: Any) -> None:
    def brier(y: Any, mean: Any) -> float:
        return float(np.mean((mean[:, 1] - y) ** 2))

    frame = held_out("shares")
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("shares"), X, y, data="holdout", metric=brier, n_jobs=1)
    df = session.createDataFrame(frame).repartition(3)
    report = spark.analyze(fitted("shares"), df, label_col="y", feature_cols=COLUMNS, row_id_col="row", metric=brier)
    assert largest_difference(local, report) < ROUNDING


def test_pipeline_takes_words_and_names(session: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Bonn", "Kiel", "Ulm"], 900), "age": rng.normal(size=900)})
    frame["y"] = np.where((frame["town"] == "Kiel") ^ (frame["age"] > 0) ^ (rng.random(900) < 0.2), "yes", "no")
    frame["row"] = np.arange(900)
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(15, random_state=0))
    model.fit(frame[["town", "age"]][:300], frame["y"][:300])
    rest = frame[300:].assign(row=np.arange(600))
    local = ens_plugin.analyze(model, rest[["town", "age"]], rest["y"].to_numpy(), data="holdout", n_jobs=1)
    report = spark.analyze(
        model, session.createDataFrame(rest), label_col="y", feature_cols=["town", "age"], row_id_col="row"
    )
    assert largest_difference(local, report) < ROUNDING


def test_features_may_come_as_one_column_of_arrays(session: Any) -> None:
    frame = held_out("votes")
    local = spark.analyze(fitted("votes"), session.createDataFrame(frame), label_col="y", feature_cols=COLUMNS)
    packed = pd.DataFrame({"features": list(frame[COLUMNS].to_numpy()), "y": frame["y"]})
    report = spark.analyze(fitted("votes"), session.createDataFrame(packed), label_col="y", feature_cols="features")
    assert largest_difference(local, report) < ROUNDING


def test_names_may_hold_any_sign_and_be_those_used_inside(session: Any) -> None:
    frame = held_out("votes", 400)
    names = ["a.b", "c`d", "__weight", "__row", "__target", "e f"]
    X, y, weight = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", n_jobs=1)
    weighted = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", sample_weight=weight, n_jobs=1)
    df = session.createDataFrame(frame).toDF(*names, "y.z", "w`x", "the.row")
    columns = {"label_col": "y.z", "feature_cols": names, "row_id_col": "the.row"}
    assert largest_difference(local, spark.analyze(fitted("votes"), df, **columns)) < ROUNDING
    found = spark.analyze(fitted("votes"), df, weight_col="w`x", **columns)
    assert largest_difference(weighted, found) < ROUNDING


@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ("boolean", "bigint"),
        ("decimal(10,2)", "bigint"),
        ("boolean", "boolean"),
        ("int", "boolean"),
        ("double", "bigint"),
    ],
)
def test_labels_may_be_of_any_type_that_equals_the_models(session: Any, kind: str, classes: str) -> None:
    frame = held_out("votes", 400)
    X, y, _ = in_order(frame)
    model = fitted("votes") if classes == "bigint" else type(fitted("votes"))(25, random_state=0)
    if classes == "boolean":
        # Other rows than those judged below: training rows are no held-out rows.
        model.fit(X[:200] + 0.1, y[:200].astype(bool))
        y = y.astype(bool)
    local = ens_plugin.analyze(model, X, y, data="holdout", n_jobs=1)
    df = session.createDataFrame(frame).selectExpr(*COLUMNS, f"cast(y as {kind}) as y", "row")
    report = spark.analyze(model, df, label_col="y", feature_cols=COLUMNS, row_id_col="row")
    assert largest_difference(local, report) < ROUNDING


@pytest.mark.parametrize("kind", ["decimal(10,2)", "boolean", "float"])
def test_weights_may_be_of_any_type_of_number(session: Any, kind: str) -> None:
    frame = held_out("votes", 400)
    X, y, weight = in_order(frame)
    weight = weight.astype(bool) if kind == "boolean" else weight
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", sample_weight=weight, n_jobs=1)
    df = session.createDataFrame(frame).selectExpr(*COLUMNS, "y", f"cast(w as {kind}) as w", "row")
    report = spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS, row_id_col="row", weight_col="w")
    assert largest_difference(local, report) < ROUNDING
