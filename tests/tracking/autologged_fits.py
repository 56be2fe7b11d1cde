"""A small classifier, and functions that read the runs and messages that its fits leave."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from tests.tracking.fits import top_runs

__all__ = ["PATIENT", "X", "classifier", "has_report", "messages", "only_run", "y"]

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
