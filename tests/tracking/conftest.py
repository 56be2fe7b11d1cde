"""Tracking stores for the tests: an embedded one, and a real server over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import mlflow.lightgbm
import mlflow.sklearn
import mlflow.xgboost
import numpy as np
import pytest
from mlflow.utils.autologging_utils import AUTOLOGGING_INTEGRATIONS

from ens_plugin import EnsembleReport, autolog
from ens_plugin.analysis.proof import prove_model
from tests.reports import classification_report
from tests.tracking.fits import new_experiment
from tests.tracking.stores import tracking_to


@pytest.fixture
def embedded(embedded_uri: str) -> Iterator[mlflow.MlflowClient]:
    yield from _client(embedded_uri)


@pytest.fixture
def served(server_uri: str) -> Iterator[mlflow.MlflowClient]:
    yield from _client(server_uri)


@pytest.fixture
def autologging() -> Iterator[None]:
    """Switch off after a test the autologging that it switched on, ours and MLflow's."""
    yield
    autolog(disable=True)
    for flavour in (mlflow.sklearn, mlflow.xgboost, mlflow.lightgbm):
        flavour.autolog(disable=True)
        # A later mlflow.autolog() would leave a flavour alone that was ever configured by itself.
        AUTOLOGGING_INTEGRATIONS[flavour.FLAVOR_NAME] = {}


@pytest.fixture
def experiment(embedded: mlflow.MlflowClient) -> Iterator[str]:
    """An experiment of the test's own in the embedded store."""
    with new_experiment(embedded) as made:
        yield made


@pytest.fixture
def canned_report(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the analysis by a fixed report; return the list of models that it is called with."""
    report = replace(classification_report(), created="2026-01-02T03:04:05+00:00")
    models: list[Any] = []

    def analysis(model: Any, X: Any, *rows: Any, **options: Any) -> EnsembleReport:
        models.append(model)
        return replace(report, proof=prove_model(model, X, np.arange(8)))

    monkeypatch.setattr("ens_plugin.tracking.autologging.run_analysis", analysis)
    return models


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Capture the messages of autologging, at every level."""
    caplog.set_level(logging.DEBUG, logger="ens_plugin.autolog")
    return caplog


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of its own, and Weights & Biases without a server; a run that stays open is finished."""
    import wandb

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    # The library reads its variables once in a process.
    settings = wandb.setup().settings
    before = settings.mode, settings.root_dir
    settings.mode, settings.root_dir = "offline", str(tmp_path)
    yield tmp_path
    if wandb.run is not None:
        wandb.run.finish()
    settings.mode, settings.root_dir = before


def _client(uri: str) -> Iterator[mlflow.MlflowClient]:
    with tracking_to(uri):
        mlflow.set_experiment("tests")
        yield mlflow.MlflowClient()
