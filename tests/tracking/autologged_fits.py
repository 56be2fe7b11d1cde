"""A small classifier, ways to switch autologging on, and the runs and messages that its fits leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, autolog
from ens_plugin.tracking.uploads import wait_until_sent
from tests.tracking.fits import top_runs

__all__ = [
    "PATIENT",
    "X",
    "classifier",
    "has_report",
    "in_order",
    "logged_report",
    "messages",
    "only_run",
    "patiently",
    "y",
]

CANCER = load_breast_cancer(return_X_y=True)
X, y = CANCER[0][:200, :6], CANCER[1][:200]
PATIENT = 1e3  # max_overhead, where a slow machine must not change what is logged when


def classifier(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 25, "random_state": 0, **options})


def only_run(client: mlflow.MlflowClient, experiment: str) -> Run:
    (run,) = top_runs(client, experiment)
    return run


def has_report(run: Run, prefix: str = "ens") -> bool:
    return f"{prefix}.n_members" in run.data.metrics


def messages(log: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return the messages of autologging at one level."""
    return [
        record.getMessage() for record in log.records if record.name == "ens_plugin.autolog" and record.levelno == level
    ]


def patiently(**options: Any) -> None:
    """Switch autologging on without files, and with time enough on a slow machine."""
    autolog(**{"log_artifacts": False, "max_overhead": PATIENT, **options})


def in_order(ours_first: bool, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    for step in (ours, theirs) if ours_first else (theirs, ours):
        step()


def logged_report(client: mlflow.MlflowClient, experiment: str) -> EnsembleReport:
    """Read the report of the only run back from its files."""
    assert wait_until_sent(60)
    file = client.download_artifacts(only_run(client, experiment).info.run_id, "ensemble/report.json")
    return EnsembleReport.from_json(Path(file).read_text(encoding="utf-8"))
