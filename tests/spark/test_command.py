"""``ens-plugin analyze --engine spark``: its options, and the report that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.cli import main
from ens_plugin.commands.request import AnalysisRequest
from ens_plugin.commands.spark import feature_columns
from ens_plugin.errors import DataMismatchError
from ens_plugin.report import EnsembleReport
from tests.spark.cases import COLUMNS, fitted, held_out, in_order, largest_difference, trained_on

REQUEST = AnalysisRequest("m", "d", "y", True, 0.99, 0.01, 20001, "auto", "w", 0, None, None)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["analyze", *arguments])
    return int(stopped.value.code or 0)


@pytest.fixture
def model_path(tmp_path: Path) -> str:
    joblib.dump(fitted("votes"), tmp_path / "forest.joblib")
    return str(tmp_path / "forest.joblib")


@pytest.mark.parametrize("holdout", [True, False])
def test_parquet_by_path_gives_the_local_report(
    session: Any,
    holdout: bool,
    model_path: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    frame = held_out("votes") if holdout else trained_on("votes")
    frame.drop(columns="w").to_parquet(tmp_path / "rows.parquet", index=False)
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout" if holdout else "oob", n_jobs=1)
    options = ["--holdout"] if holdout else []
    path = str(tmp_path / "rows.parquet")
    code = run(
        model_path,
        "--engine",
        "spark",
        "--data",
        path,
        "--target",
        "y",
        "--row-id",
        "row",
        "--format",
        "json",
        *options,
    )
    out = capsys.readouterr().out
    assert code == 0
    assert largest_difference(local, EnsembleReport.from_json(out)) < 1e-12


def test_table_that_spark_cannot_read(
    session: Any,
    model_path: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(tmp_path / "nowhere.parquet")
    assert run(model_path, "--engine", "spark", "--data", path, "--target", "y", "--holdout") == 2
    assert "cannot be read as parquet by Spark" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--master", "local[2]"], "add --engine spark"),
        (["--row-id", "row"], "add --engine spark"),
        (["--engine", "spark"], "needs --row-id"),
        (["--engine", "spark", "--holdout", "--n-jobs", "2"], "--n-jobs is for --engine local"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], words: str, model_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(model_path, "--data", "rows.parquet", "--target", "y", *options) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_features_are_the_models_own_in_its_order() -> None:
    model = fitted("votes")
    names = [*COLUMNS, "row", "w", "y"]
    assert feature_columns(names, model, REQUEST, "row") == COLUMNS
    with pytest.raises(DataMismatchError, match="6 features"):
        feature_columns(names, model, REQUEST, None)


def test_features_of_a_model_with_names_come_in_its_order() -> None:
    X = pd.DataFrame(in_order(trained_on("votes"))[0], columns=COLUMNS)
    model = type(fitted("votes"))(3, random_state=0).fit(X, in_order(trained_on("votes"))[1])
    assert feature_columns(["w", "y", *reversed(COLUMNS)], model, REQUEST, None) == COLUMNS
