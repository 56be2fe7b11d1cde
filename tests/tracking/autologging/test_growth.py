"""Ensembles that grow with warm_start: a report when they begin, one when they have grown."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline

from ens_plugin import autolog
from ens_plugin.tracking.uploads import wait_until_sent
from tests.tracking.autologged_fits import X, classifier, messages, patiently, y
from tests.tracking.fits import top_runs
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging")]


@pytest.fixture(autouse=True)
def on() -> None:
    patiently()


def grown(model: Any, *, to: int = 34, rows: Any = X) -> Any:
    """Fit with 25 members, then with three more each time."""
    for size in range(25, to + 1, 3):
        model.set_params(n_estimators=size).fit(rows, y)
    return model


def sizes(client: mlflow.MlflowClient, experiment: str) -> list[float]:
    assert wait_until_sent(60)
    found: list[Run] = top_runs(client, experiment)
    return [run.data.metrics["ens.n_members"] for run in found]


@pytest.mark.slow
def test_only_the_first_and_the_last_size_are_reported(embedded: mlflow.MlflowClient, experiment: str) -> None:
    grown(classifier(warm_start=True))
    assert sizes(embedded, experiment) == [25]
    grown(ExtraTreesClassifier(bootstrap=True, warm_start=True, random_state=0))
    assert sizes(embedded, experiment) == [25, 34, 25]
    autolog()
    assert sizes(embedded, experiment) == [25, 34, 25, 34]
    autolog()
    assert sizes(embedded, experiment) == [25, 34, 25, 34]


def test_in_a_pipeline(embedded: mlflow.MlflowClient, experiment: str) -> None:
    pipeline = make_pipeline(classifier(warm_start=True))
    for size in (25, 28, 31):
        pipeline.set_params(randomforestclassifier__n_estimators=size).fit(X, y)
    autolog(disable=True)
    assert sizes(embedded, experiment) == [25, 31]


def test_in_the_run_of_the_last_fit(embedded: mlflow.MlflowClient, experiment: str) -> None:
    with mlflow.start_run():
        grown(classifier(warm_start=True))
    autolog(disable=True)
    assert wait_until_sent(60)
    (run,) = top_runs(embedded, experiment)
    assert (run.data.metrics["ens.n_members"], run.data.metrics["ens_2.n_members"]) == (25, 34)


def test_a_fit_that_begins_anew_is_reported_at_once(embedded: mlflow.MlflowClient, experiment: str) -> None:
    model = grown(classifier(warm_start=True))
    model.set_params(warm_start=False, n_estimators=26).fit(X, y)
    assert sizes(embedded, experiment) == [25, 26]
    autolog(disable=True)
    assert sizes(embedded, experiment) == [25, 26]


def test_rows_that_were_changed_since_are_not_reported(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    rows = X.copy()
    grown(classifier(warm_start=True), rows=rows)
    rows[0] = 0.0
    autolog(disable=True)
    assert sizes(embedded, experiment) == [25]
    (warning,) = messages(log, logging.WARNING)
    assert "have changed since its last fit" in warning


@pytest.mark.slow
def test_when_the_program_ends(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    code = """
import ens_plugin
from tests.tracking.autologged_fits import classifier
from tests.tracking.autologging.test_growth import grown
ens_plugin.autolog(log_artifacts=False, max_overhead=1e3)
grown(classifier(warm_start=True))
"""
    # MLflow keeps the experiment of the tests before in the environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_EXPERIMENT")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "MLFLOW_TRACKING_URI": uri, "PYTHONPATH": os.getcwd()},
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sizes(mlflow.MlflowClient(tracking_uri=uri), "0") == [25, 34]
