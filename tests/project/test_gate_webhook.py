"""The example of a server for MLflow's webhooks: what it takes, and what it judges."""

from __future__ import annotations

import http.client
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
SECRET = "a secret of the webhook"
EVENT = json.dumps({"entity": "model_version", "action": "created", "data": {"name": "churn", "version": "1"}}).encode()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_webhook", ROOT / "examples" / "gate_webhook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def address(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setenv("GATE_WEBHOOK_SECRET", SECRET)
    with ThreadingHTTPServer(("127.0.0.1", 0), example.Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[0], server.server_port
        server.shutdown()


def signed(example: ModuleType, body: bytes, *, secret: str = SECRET, at: int | None = None) -> dict[str, str]:
    sent = str(int(time.time()) if at is None else at)
    signature = example._generate_hmac_signature(secret, "d-1", sent, body.decode())
    return {"x-mlflow-delivery-id": "d-1", "x-mlflow-timestamp": sent, "x-mlflow-signature": signature}


def status(address: tuple[str, int], body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(*address, timeout=10)
    connection.request("POST", "/", body, headers)
    return connection.getresponse().status


def test_a_delivery_that_mlflow_signed_is_taken(example: ModuleType, address: tuple[str, int]) -> None:
    assert status(address, EVENT, signed(example, EVENT)) == 202
    assert example.waiting.get(timeout=5) == "churn"


def test_other_deliveries_are_refused(example: ModuleType, address: tuple[str, int]) -> None:
    for headers in (
        {},
        signed(example, EVENT, secret="another secret"),
        signed(example, EVENT, at=int(time.time()) - 1000),
        signed(example, EVENT.replace(b"churn", b"other")),
    ):
        assert status(address, EVENT, headers) == 401
    assert status(address, b"no event", signed(example, b"no event")) == 400
    assert example.waiting.empty()


def test_the_newest_version_is_judged_whatever_the_delivery_names(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [SimpleNamespace(version=number) for number in ("2", "10", "9")]
    client = SimpleNamespace(search_model_versions=lambda query: versions)
    monkeypatch.setattr(example.mlflow, "MlflowClient", lambda: client)
    assert example.newest_version("churn") == "models:/churn/10"
