from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from ens_plugin.cli.console import browse_hint, use_store
from tests.tracking.stores import tracking_to


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with tracking_to(None):
        yield


def test_the_embedded_database_is_the_default() -> None:
    assert use_store(None) == "sqlite:///mlflow.db"
    assert mlflow.get_tracking_uri() == "sqlite:///mlflow.db"


def test_artifacts_of_earlier_runs_are_no_file_store(tmp_path: Path) -> None:
    (tmp_path / "mlruns" / "1" / "models").mkdir(parents=True)
    assert use_store(None) == "sqlite:///mlflow.db"


def test_an_existing_file_store_is_left_to_mlflow(tmp_path: Path) -> None:
    (tmp_path / "mlruns" / "0").mkdir(parents=True)
    (tmp_path / "mlruns" / "0" / "meta.yaml").touch()
    assert not use_store(None).startswith("sqlite")


def test_what_is_configured_is_used_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://configured:5000")
    assert use_store(None) == "http://configured:5000"
    assert use_store("sqlite:///given.db") == "sqlite:///given.db"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://host:5000/", "Open http://host:5000/#/experiments/7/runs"),
        ("databricks", "Open experiment 7 in your Databricks workspace."),
    ],
)
def test_servers_are_opened_directly(uri: str, expected: str) -> None:
    assert browse_hint(uri, "7") == expected


def test_a_database_needs_the_ui_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "env/bin/python")
    monkeypatch.setattr("ens_plugin.cli.console.find_spec", lambda name: object())
    hint = browse_hint("sqlite:///mlflow.db", "1").splitlines()
    assert hint[0].split(maxsplit=1)[1] == "env/bin/python -m mlflow ui --backend-store-uri sqlite:///mlflow.db"
    assert hint[1].endswith("http://127.0.0.1:5000/#/experiments/1/runs")


def test_without_mlflows_server_the_hint_begins_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.cli.console.find_spec", lambda name: None)
    first, second, _ = browse_hint("sqlite:///mlflow.db", "1").splitlines()
    assert first == "First pip install 'ens-plugin[mlflow]', for MLflow's server"
    assert second.startswith("Run   ")
    assert "pip install" not in browse_hint("http://host:5000", "1")


@pytest.mark.parametrize("uri", ["https://me:p@ss/word@host:5000", "postgresql://me:p@ss/word@host/db?token=word"])
def test_the_hint_holds_no_credentials(uri: str) -> None:
    hint = browse_hint(uri, "1")
    assert not [secret for secret in ("me:", "p@ss", "word") if secret in hint]


@pytest.mark.skipif(sys.platform == "win32", reason="other quotation marks there")
@pytest.mark.parametrize("uri", ["sqlite:///my runs/a.db", "sqlite:///a&b(c).db", "sqlite:///$(date).db"])
def test_the_command_has_each_argument_in_one(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setattr(sys, "executable", "my environment/bin/python")
    hint = browse_hint(uri, "7").splitlines()
    command = next(line for line in hint if line.startswith("Run")).removeprefix("Run").strip()
    echoed = subprocess.run(["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    assert echoed.stdout.splitlines() == ["my environment/bin/python", "-m", "mlflow", "ui", "--backend-store-uri", uri]
