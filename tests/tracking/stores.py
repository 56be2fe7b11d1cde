"""Stores for MLflow, embedded and behind a server, and pointing MLflow at one for the length of a test."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from benchmarks.cost.tracking_server import serving

__all__ = ["DOWN", "MLFLOW_WARNINGS", "embedded_store", "linked_metrics", "new_store", "served_store", "tracking_to"]

DOWN = "http://127.0.0.1:9"  # the discard port: nothing listens there
MLFLOW_WARNINGS = pytest.mark.filterwarnings(r"ignore:::mlflow(\..*)?")


@event.listens_for(Engine, "connect")
def _leave_flushing_to_the_system(connection: Any, _: object) -> None:
    """Turn off SQLite's waits for the disk, which take half of an embedded store's time and which tests do not need."""
    connection.execute("PRAGMA synchronous=OFF")


def new_store(directory: Path) -> str:
    """Put a database of MLflow's into this directory that has its tables and nothing else; return its URI."""
    with closing(sqlite3.connect(directory / "mlflow.db")) as database:
        _tables().backup(database)
    return f"sqlite:///{directory}/mlflow.db"


def embedded_store(directory: Path) -> str:
    """Make a store in this directory with an experiment called ``tests``; return its URI."""
    uri = new_store(directory)
    client = mlflow.MlflowClient(tracking_uri=uri)
    client.create_experiment("tests", artifact_location=(directory / "artifacts").as_uri())
    return uri


@contextmanager
def served_store(directory: Path) -> Iterator[str]:
    """Serve a store in this directory with an experiment called ``tests``; yield the server's URI."""
    new_store(directory)
    with serving(directory) as uri:
        mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests")
        yield uri


@cache
def _tables() -> sqlite3.Connection:
    """A database in memory, made once: MLflow takes seconds to create its tables."""
    kept = sqlite3.connect(":memory:", check_same_thread=False)
    with TemporaryDirectory() as folder:
        mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
        with closing(sqlite3.connect(f"{folder}/mlflow.db")) as database:
            database.backup(kept)
    # Where its artifacts go depends on the store: MLflow adds the experiment again when it opens one.
    kept.execute("delete from experiments")
    kept.commit()
    return kept


@contextmanager
def tracking_to(uri: str | None) -> Iterator[None]:
    """Track to `uri`, or to MLflow's default for None; whatever was set before is set again."""
    before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None  # type: ignore[no-untyped-call]
    _set(uri)
    try:
        yield
    finally:
        while mlflow.active_run() is not None:
            mlflow.end_run()
        _set(before)


def _set(uri: str | None) -> None:
    mlflow.set_tracking_uri(uri)  # type: ignore[arg-type]  # None is how MLflow forgets a URI


def linked_metrics(client: mlflow.MlflowClient, model_id: str) -> dict[str, list[float]]:
    """Values linked to a LoggedModel, by metric."""
    linked: dict[str, list[float]] = {}
    for metric in client.get_logged_model(model_id).metrics or []:
        linked.setdefault(metric.key, []).append(metric.value)
    return linked
