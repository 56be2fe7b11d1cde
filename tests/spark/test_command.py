"""``ens-plugin analyze --engine spark``: its options, and the report that it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pytest

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.cli import main
from ens_plugin.cli.inputs import AnalysisRequest
from ens_plugin.cli.spark import feature_columns
from ens_plugin.errors import DataMismatchError
from tests.spark.cases import COLUMNS, fitted, held_out, in_order, largest_difference, trained_on
from tests.spark.conftest import reason_to_skip

ROOT = Path(__file__).parents[2]
REQUEST = AnalysisRequest("m", "d", "y", "w", None, (), (), None, AnalysisOptions(data="holdout"))


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
    session: Any, holdout: bool, model_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = held_out("votes") if holdout else trained_on("votes")
    frame.drop(columns="w").to_parquet(tmp_path / "rows.parquet", index=False)
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout" if holdout else "oob", n_jobs=1)
    options = f"--engine spark --target y --row-id row --format json{' --holdout' * holdout}".split()
    assert run(model_path, "--data", str(tmp_path / "rows.parquet"), *options) == 0
    assert largest_difference(local, EnsembleReport.from_json(capsys.readouterr().out)) < 1e-12


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere.parquet", "does not exist"), ("rows.csv", "is not a Parquet file"), (".", "schema")]
)
def test_table_that_spark_cannot_read(
    session: Any, name: str, words: str, model_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/rows.csv").write_text("x0,y\n1.0,0\n")
    (tmp_path / "empty").mkdir()
    path = str(tmp_path / "empty" if name == "." else tmp_path / "rows" / name)
    assert run(model_path, "--engine", "spark", "--data", path, "--target", "y", "--holdout") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert error.startswith("Error: ")
    assert "cannot be read as parquet by Spark: " in error
    assert words in error
    assert "at org.apache" not in error


@pytest.mark.parametrize("pattern", ["parts", "parts/*.parquet"])
def test_parts_of_a_table_are_read_together(
    session: Any, pattern: str, model_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts").mkdir()
    frame = held_out("votes").drop(columns=["w", "row"])
    for part in range(2):
        frame[part::2].to_parquet(tmp_path / f"parts/{part}.parquet", index=False)
    assert run(model_path, "--engine", "spark", "--data", str(tmp_path / pattern), "--target", "y", "--holdout") == 0
    assert f"{len(frame)} rows" in " ".join(capsys.readouterr().out.split())


def terminal(model_path: str, data: Path, master: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which starts Spark anew."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    options = ["--engine", "spark", "--data", str(data), "--target", "y", "--holdout", "--master", master]
    return subprocess.run(
        [sys.executable, "-m", "ens_plugin", "analyze", model_path, *options], cwd=data.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(data.parent)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.spark
def test_terminal_shows_the_report_and_nothing_of_spark(model_path: str, tmp_path: Path) -> None:
    held_out("votes", 300).drop(columns=["w", "row"]).to_parquet(tmp_path / "rows.parquet", index=False)
    done = terminal(model_path, tmp_path / "rows.parquet", "local[1]")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("RandomForestClassifier, ")
    assert not list(tmp_path.glob("*.log"))


@pytest.mark.spark
def test_master_that_is_none_is_one_sentence_and_spark_says_the_rest_in_a_file(model_path: str, tmp_path: Path) -> None:
    done = terminal(model_path, tmp_path / "rows.parquet", "mars")
    assert (done.returncode, done.stdout) == (2, "")
    error = " ".join(done.stderr.split())
    assert error.startswith("Error: Spark cannot be started with --master mars: Master must ")
    assert "at org.apache" not in error
    [log] = tmp_path.glob("ens-plugin-spark-*.log")
    assert log.name in error
    assert "org.apache.spark.SparkException" in log.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--master", "local[2]"], "Add --engine spark"),
        (["--row-id", "row"], "Add --engine spark"),
        (["--engine", "spark"], "needs --row-id"),
        (["--engine", "spark", "--holdout", "--n-jobs", "2"], "--n-jobs is for --engine local"),
        (["--engine", "spark", "--holdout", "--groups", "patient"], "--groups is for --engine local"),
        (["--engine", "spark", "--holdout", "--unlabelled", "a.csv"], "--unlabelled is for --engine local"),
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
