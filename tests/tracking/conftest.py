"""Tracking stores for the tests: an embedded one, and a real server over HTTP."""

from __future__ import annotations

import base64
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import mlflow.lightgbm
import mlflow.sklearn
import mlflow.xgboost
import pytest
import requests
from mlflow.utils.autologging_utils import AUTOLOGGING_INTEGRATIONS

from ens_plugin.report import EnsembleReport
from ens_plugin.tracking.autolog import autolog
from tests.reports import classification_report
from tests.tracking.fits import new_experiment
from tests.tracking.stores import tracking_to

START_TIMEOUT_S = 120
# The server may call a listener of the tests, and asks the database each second whom to call.
WEBHOOKS = {
    "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http",
    "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
    "MLFLOW_WEBHOOK_CACHE_TTL": "1",
    "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": base64.urlsafe_b64encode(bytes(32)).decode(),
}


@pytest.fixture(scope="session")
def embedded_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests of a worker, because creating its tables takes seconds."""
    directory = tmp_path_factory.mktemp("embedded")
    uri = f"sqlite:///{directory}/mlflow.db"
    client = mlflow.MlflowClient(tracking_uri=uri)
    client.create_experiment("tests", artifact_location=(directory / "artifacts").as_uri())
    return uri


@pytest.fixture
def embedded(embedded_uri: str) -> Iterator[mlflow.MlflowClient]:
    yield from _client(embedded_uri)


@pytest.fixture(scope="session")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    port = _unused_port()
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{directory}/mlflow.db",
               "--artifacts-destination", str(directory / "artifacts")]  # fmt: skip
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **WEBHOOKS}
    log = directory / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            _wait_until_healthy(uri, server, log)
            mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests")
            yield uri
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


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

    monkeypatch.setattr("ens_plugin.tracking.fit_report.run_analysis", analysis)
    return asked


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What autolog says, at every level."""
    caplog.set_level(logging.DEBUG, logger="ens_plugin.autolog")
    return caplog


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _client(uri: str) -> Iterator[mlflow.MlflowClient]:
    with tracking_to(uri):
        mlflow.set_experiment("tests")
        yield mlflow.MlflowClient()


def _wait_until_healthy(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if requests.get(f"{uri}/health", timeout=2).ok:
                return
        except requests.exceptions.RequestException:
            time.sleep(0.3)
    pytest.fail(f"mlflow server did not start:\n{log.read_text()[-3000:]}")
