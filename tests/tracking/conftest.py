"""Tracking stores for the tests: an embedded one, and a real server over HTTP."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import mlflow
import mlflow.lightgbm
import mlflow.sklearn
import mlflow.xgboost
import pytest
from mlflow.utils.autologging_utils import AUTOLOGGING_INTEGRATIONS

from benchmarks.tracking_server import serving
from ens_plugin import EnsembleReport, autolog
from tests.reports import classification_report
from tests.tracking.fits import new_experiment
from tests.tracking.stores import new_store, tracking_to

# The server may call a listener of the tests, and asks the database each second whom to call.
WEBHOOKS = {
    "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
    "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
    "MLFLOW_WEBHOOK_CACHE_TTL": "1",
    "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": base64.urlsafe_b64encode(bytes(32)).decode(),
}


@pytest.fixture(scope="session")
def embedded_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests of a worker."""
    directory = tmp_path_factory.mktemp("embedded")
    uri = new_store(directory)
    client = mlflow.MlflowClient(tracking_uri=uri)
    client.create_experiment("tests", artifact_location=(directory / "artifacts").as_uri())
    return uri


@pytest.fixture
def embedded(embedded_uri: str) -> Iterator[mlflow.MlflowClient]:
    yield from _client(embedded_uri)


@pytest.fixture(scope="session")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    new_store(directory)
    with serving(directory, WEBHOOKS) as uri:
        mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests")
        yield uri


@pytest.fixture
def served(server_uri: str) -> Iterator[mlflow.MlflowClient]:
    yield from _client(server_uri)


@pytest.fixture
def autologging() -> Iterator[None]:
    """Whatever a test switches on is switched off after it, ours and MLflow's."""
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
    """A report that is there already, where it does not matter what it says; the models one was asked for."""
    report = replace(classification_report(), created="2026-01-02T03:04:05+00:00")
    asked: list[Any] = []

    def analysis(model: Any, *rows: Any, **options: Any) -> EnsembleReport:
        asked.append(model)
        return report

    monkeypatch.setattr("ens_plugin.tracking.autolog.fit_report.run_analysis", analysis)
    return asked


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What autolog says, at every level."""
    caplog.set_level(logging.DEBUG, logger="ens_plugin.autolog")
    return caplog


def _client(uri: str) -> Iterator[mlflow.MlflowClient]:
    with tracking_to(uri):
        mlflow.set_experiment("tests")
        yield mlflow.MlflowClient()
