"""Servers that do not answer, errors without credentials, and blocks that keep MLflow quiet."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable

import mlflow
import pytest
import requests
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from ens_plugin.errors import TrackingError
from ens_plugin.tracking.connection import (
    PROGRESS_VARIABLE,
    check_server,
    no_progress_bars,
    tracking_errors,
    without_credentials,
)
from tests.tracking.servers import answering
from tests.tracking.stores import DOWN


def test_a_dead_server_is_named_with_what_to_do() -> None:
    with pytest.raises(TrackingError, match=r"127\.0\.0\.1:9 cannot be reached.*sqlite:///mlflow\.db"):
        check_server(DOWN)


@pytest.mark.parametrize("status", [500, 503])
def test_a_broken_server_is_asked_three_times(status: int) -> None:
    paths: list[str] = []
    with (
        answering(status, threading.Event(), paths) as uri,
        pytest.raises(TrackingError, match=f"fails with status {status}"),
    ):
        check_server(uri)
    assert len(paths) == 3


@pytest.mark.parametrize("status", [200, 401, 404])
def test_any_other_answer_is_a_sign_of_life(status: int) -> None:
    paths: list[str] = []
    with answering(status, threading.Event(), paths) as uri:
        check_server(uri + "/")
    assert paths == ["/api/2.0/mlflow/experiments/search?max_results=1"]


@pytest.mark.parametrize("uri", ["sqlite:///none.db", "databricks", "file:///nowhere", "postgresql://nowhere/db"])
def test_other_stores_are_not_asked(uri: str) -> None:
    check_server(uri)


def test_a_users_own_patience_replaces_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    check_server(DOWN)


@pytest.mark.parametrize(
    "raised",
    [MlflowException("no such run\nmore"), requests.ConnectionError("refused"), PermissionError("not allowed")],
)
def test_what_mlflow_raises_becomes_a_tracking_error(raised: Exception) -> None:
    first_line = str(raised).splitlines()[0]
    with pytest.raises(TrackingError, match=first_line) as caught, tracking_errors(DOWN):
        raise raised
    assert caught.value.__cause__ is raised
    assert "more" not in str(caught.value)
    assert " log to " not in str(caught.value), "who reads has nothing to log"


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.get_registered_model("chrun"),
        lambda client: client.get_model_version("chrun", "1"),
        lambda client: client.get_run("0" * 32),
    ],
)
def test_what_is_not_there_is_looked_for_under_another_name(ask: Callable[[mlflow.MlflowClient], object]) -> None:
    with pytest.raises(TrackingError, match="Check the name, version or run id") as refused, tracking_errors(DOWN):
        ask(mlflow.MlflowClient())
    assert "set_tracking_uri" not in str(refused.value)


def test_a_refusal_points_at_permissions() -> None:
    with pytest.raises(TrackingError, match="your permissions there, or use another store"), tracking_errors(DOWN):
        raise MlflowException("no", error_code=PERMISSION_DENIED)


def test_defects_are_not_dressed_up_as_tracking_errors() -> None:
    with pytest.raises(ZeroDivisionError), tracking_errors(DOWN):
        raise ZeroDivisionError


SECRETS = ("p@ss", "pa/ss", "p:a@s/s", "p?a@ss", "p#a@ss", "p@?ss", "p%40ss", "[p@ss", "p&t=1@ss", "üp@ss", "p@@ss/@")
SECRETS += ("p ss",)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "form", ["https://{}@host:5000/team", "http://me:{}@host", "postgresql+psycopg2://me:{}@host:5432/db?ssl=1"]
)
def test_no_form_of_a_password_is_shown(form: str, secret: str) -> None:
    shown = without_credentials(form.format(secret))
    assert "me" not in shown.partition("://")[2].replace("team", "")
    assert not [part for part in re.split(r"[@/?#:&=]", secret) if len(part) > 1 and part in shown.partition("://")[2]]
    assert without_credentials(shown) == shown


@pytest.mark.parametrize("query", ["token=abc", "a=1&access_token=abc", "token=a@abc", "token=abc#abc", "=abc"])
def test_no_token_of_a_query_is_shown(query: str) -> None:
    for address in ("http://host:5000", "http://host:5000/", "s3://bucket/path", "sqlite:///mlflow.db"):
        assert "abc" not in without_credentials(f"{address}?{query}")
    assert "abc" not in without_credentials(f"http://host/#{query}")


@pytest.mark.parametrize(
    "uri",
    ["http://127.0.0.1:5000", "http://[::1]:5000/a/b", "sqlite:///mlflow.db", "mlruns", "databricks", "file:///a/b"],
)
def test_an_address_without_secrets_stays(uri: str) -> None:
    assert without_credentials(uri) == uri


@pytest.mark.parametrize("secret", SECRETS)
def test_errors_of_other_libraries_are_shown_without_credentials(secret: str) -> None:
    uri = f"http://me:{secret}@127.0.0.1:1"
    for raised in (
        MlflowException(f"API request to {uri}/api failed"),
        requests.ConnectionError(f"no route to {uri}/"),
    ):
        with pytest.raises(TrackingError) as refused, tracking_errors(uri):
            raise raised
        assert secret not in str(refused.value)
        assert "me:" not in str(refused.value)


def test_the_last_of_two_blocks_removes_what_the_first_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    first, second = no_progress_bars(), no_progress_bars()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[PROGRESS_VARIABLE] == "false"
    second.__exit__(None, None, None)
    assert PROGRESS_VARIABLE not in os.environ


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "true")
    with no_progress_bars():
        assert os.environ[PROGRESS_VARIABLE] == "true"
    assert os.environ[PROGRESS_VARIABLE] == "true"
