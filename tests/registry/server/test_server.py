from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import mlflow
import pytest
import requests

from ens_plugin.cli import main
from ens_plugin.errors import GateError, InputError
from ens_plugin.registry import server as gate_server
from ens_plugin.registry.server import GateWorker, gate_app, signature
from ens_plugin.tracking.models import VersionAddress
from tests.extras import INSTALL
from tests.registry.registry import lines, register, report_with_error, stub_artifacts, tags_of
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, tracking_to

uvicorn = pytest.importorskip("uvicorn", reason=f"needs uvicorn: {INSTALL['uvicorn']}")
pytest.importorskip("starlette", reason=f"needs starlette: {INSTALL['starlette']}")
pytestmark = MLFLOW_WARNINGS

SECRET = "a-secret-of-the-webhook"
PATIENCE_S = 60


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def listening(worker: GateWorker, on_alias: str | None = None) -> Iterator[str]:
    from ens_plugin.registry import connections

    port = unused_port()
    app = gate_app(worker, SECRET, on_alias)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", http=connections.PatientProtocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def created(name: str = "churn", version: str = "7") -> bytes:
    data = {"name": name, "version": version, "source": "models:/m-1", "run_id": None, "tags": {}, "description": None}
    return json.dumps({"entity": "model_version", "action": "created", "timestamp": "", "data": data}).encode()


def signed(body: bytes, delivery_id: str | None = None, secret: str = SECRET) -> dict[str, str]:
    delivery_id, now = delivery_id or str(uuid4()), str(int(time.time()))
    return {
        "X-MLflow-Delivery-Id": delivery_id,
        "X-MLflow-Timestamp": now,
        "X-MLflow-Signature": signature(secret, delivery_id, now, body),
    }


def deliver(uri: str, body: bytes, delivery_id: str | None = None, secret: str = SECRET) -> int:
    return requests.post(uri, data=body, headers=signed(body, delivery_id, secret), timeout=30).status_code


class Judge:
    """Keeps the versions that it was called with; waits, or fails, where a test sets it to."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, version: VersionAddress) -> None:
        self.free.wait(PATIENCE_S)
        time.sleep(self.takes_s)
        self.asked.append(str(version))
        if version.name == "unknown":
            raise GateError("no report")
        if version.name == "defect":
            raise ZeroDivisionError


def test_versions_are_judged_in_the_order_of_their_deliveries_also_when_asked_to_stop() -> None:
    judge = Judge(takes_s=0.2)
    with listening(GateWorker(judge)) as uri:
        assert [deliver(uri, created(version=str(number))) for number in range(1, 6)] == [202] * 5
        assert requests.get(f"{uri}/health", timeout=30).text == "ok"
    assert judge.asked == [f"models:/churn/{number}" for number in range(1, 6)]


def test_what_is_refused_reaches_nobody() -> None:
    judge = Judge()
    tag = json.dumps({"entity": "model_version_tag", "action": "set", "data": {"name": "churn", "version": "7"}})
    with listening(GateWorker(judge)) as uri:
        assert requests.post(uri, data=created(), timeout=30).status_code == 401
        assert deliver(uri, created(), secret="another-secret-than-that") == 401
        assert deliver(uri, b"{}") == 400
        assert deliver(uri, created(name="a/b")) == 400
        assert deliver(uri, b" " * 1_000_001) == 413
        assert deliver(uri, tag.encode()) == 200
        assert requests.get(uri, timeout=30).status_code == 405
    assert judge.asked == []


def test_a_replayed_delivery_is_judged_once() -> None:
    judge = Judge()
    with listening(GateWorker(judge)) as uri:
        assert [deliver(uri, created(), "d-1") for _ in range(3)] == [202, 409, 409]
    assert judge.asked == ["models:/churn/7"]


def test_a_full_queue_is_said_to_be_and_can_be_tried_again() -> None:
    judge = Judge()
    judge.free.clear()
    worker = GateWorker(judge, size=2)
    with listening(worker) as uri:
        assert deliver(uri, created(version="1")) == 202
        wait_for(worker._waiting.empty)  # the first one is being judged
        assert [deliver(uri, created(version=str(number)), f"d-{number}") for number in (2, 3, 4)] == [202, 202, 503]
        judge.free.set()
        wait_for(worker._waiting.empty)
        assert deliver(uri, created(version="4"), "d-4") == 202
    assert judge.asked == [f"models:/churn/{number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", ["unknown", "defect"])
def test_one_version_that_cannot_be_judged_does_not_stop_the_others(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    judge = Judge()
    with listening(GateWorker(judge)) as uri:
        assert deliver(uri, created(name)) == 202
        assert deliver(uri, created()) == 202
    assert judge.asked == [f"models:/{name}/7", "models:/churn/7"]
    assert f"models:/{name}/7" in caplog.text


def unfinished(port: int, sent: bytes) -> socket.socket:
    """A connection that sends the beginning of a request."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(sent)
    return connection


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def port_of(uri: str) -> int:
    return int(uri.rpartition(":")[2])


HEAD = b"POST / HTTP/1.1\r\nHost: gate\r\nContent-Length: 100\r\n\r\n{"


@pytest.mark.parametrize("sent", [HEAD, HEAD[:20], b""])
def test_requests_that_never_end_keep_nobody_out(sent: bytes) -> None:
    judge = Judge()
    with listening(GateWorker(judge)) as uri:
        open_ones = [unfinished(port_of(uri), sent) for _ in range(120)]
        assert deliver(uri, created()) == 202
        for connection in open_ones:
            connection.close()
    assert judge.asked == ["models:/churn/7"]


def test_a_body_that_does_not_come_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_server, "BODY_TIMEOUT_S", 0.3)
    with listening(GateWorker(Judge())) as uri, unfinished(port_of(uri), HEAD) as connection:
        answer = b""
        while part := connection.recv(1000):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("sent", [HEAD[:20], b""])
def test_headers_that_do_not_come_end_the_connection(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.registry.connections.REQUEST_TIMEOUT_S", 0.3)
    with listening(GateWorker(Judge())) as uri, unfinished(port_of(uri), sent) as connection:
        assert connection.recv(1000) == b""


def test_of_too_many_connections_the_oldest_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.registry.connections.CONNECTIONS", 5)
    monkeypatch.setattr(gate_server, "BODY_TIMEOUT_S", 60.0)
    with listening(GateWorker(Judge())) as uri:
        open_ones = [unfinished(port_of(uri), HEAD) for _ in range(5)]
        assert deliver(uri, created()) == 202
        assert has_ended(open_ones[0])
        for connection in open_ones:
            connection.close()


def test_a_sender_that_leaves_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with listening(GateWorker(Judge())) as uri:
        unfinished(port_of(uri), HEAD).close()
        wait_for(lambda: "ended before it was complete" in caplog.text)
        assert deliver(uri, created()) == 202
    assert "Traceback" not in caplog.text
    assert sum("ended before it was complete" in record.getMessage() for record in caplog.records) == 1


def test_a_hundred_deliveries_at_once_are_all_taken() -> None:
    judge = Judge()
    with listening(GateWorker(judge)) as uri, ThreadPoolExecutor(100) as pool:
        taken = list(pool.map(lambda number: deliver(uri, created(version=str(number))), range(1, 101)))
    assert taken == [202] * 100
    assert sorted(judge.asked) == sorted(f"models:/churn/{number}" for number in range(1, 101))


def test_a_full_queue_says_when_to_come_back() -> None:
    """MLflow waits for the time in Retry-After, three times, and then gives the delivery up."""
    with listening(GateWorker(Judge(), size=1)) as uri:
        with patch.object(GateWorker, "submit", lambda *arguments: False):
            answer = requests.post(uri, data=created(), headers=signed(created()), timeout=30)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")


@pytest.mark.parametrize("library", ["uvicorn", "starlette"])
def test_without_its_libraries_the_command_says_what_to_install(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text("[report]\nerror_upper.max = 0.9\n")
    monkeypatch.setenv("ENS_PLUGIN_WEBHOOK_SECRET", SECRET)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SystemExit) as end:
        main(["gate-server", "--policy", str(tmp_path / "policy.toml")])
    assert end.value.code == 2
    assert f"{library} is not installed: pip install 'ens-plugin[server]'" in " ".join(capsys.readouterr().err.split())


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InputError, match="has 0 characters"):
        gate_app(GateWorker(print), "", None)
    with pytest.raises(InputError, match="has 15 characters"):
        gate_app(GateWorker(print), "x" * 15, None)


@pytest.mark.parametrize(
    ("arguments", "secret", "message"),
    [
        ((), "", "secret has 0 characters"),
        (("--promote", "champion", "--on-alias", "champion"), SECRET, "judge its own promotions"),
        (("--baseline", "v7"), SECRET, "baseline='v7' cannot be an alias"),
        (("--promote", "v7"), SECRET, "cannot be an alias"),
        (("--tracking-uri", DOWN), SECRET, "cannot be reached"),
    ],
)
def test_the_command_refuses_to_start(
    arguments: tuple[str, ...], secret: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "policy.toml").write_text("[report]\nerror_upper.max = 0.9\n")
    monkeypatch.setenv("ENS_PLUGIN_WEBHOOK_SECRET", secret)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("uvicorn.run", None)
    with tracking_to(None), pytest.raises(SystemExit) as end:
        main(["gate-server", "--policy", "policy.toml", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.xdist_group("mlflow_server")
def test_mlflow_calls_the_command_and_the_command_judges(
    served: mlflow.MlflowClient, server_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's own server delivers to the listener's own process, which is then stopped by a signal."""
    stub_artifacts(monkeypatch)
    (tmp_path / "policy.toml").write_text("[report]\nerror_upper.max = 0.1\n")
    port, name = unused_port(), f"churn-{uuid4().hex[:8]}"
    command = [sys.executable, "-m", "ens_plugin", "gate-server", "--policy", "policy.toml", "--port", str(port),
               "--promote", "champion", "--audit-log", "gate.jsonl", "--tracking-uri", server_uri]  # fmt: skip
    environment = {**os.environ, "ENS_PLUGIN_WEBHOOK_SECRET": SECRET}
    webhook = served.create_webhook(
        "gate", f"http://127.0.0.1:{port}/", ["model_version.created"], secret=SECRET  # type: ignore[list-item]
    )  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as listener:
        assert listener.stderr is not None
        try:
            assert listener.stderr.readline() == f"Listening on 127.0.0.1:{port}.\n"
            wait_for(lambda: answers(port))
            time.sleep(1.1)  # until the server reads its webhooks from the database again
            good, bad = (register(served, name, report_with_error(scale)) for scale in (1.0, 9.0))
            wait_for(lambda: "ens.gate" in tags_of(served, bad))
        finally:
            listener.send_signal(signal.SIGTERM)
            listener.wait(PATIENCE_S)
            served.delete_webhook(webhook.webhook_id)
    assert [tags_of(served, version)["ens.gate"] for version in (good, bad)] == ["pass", "fail"]
    assert str(served.get_model_version_by_alias(name, "champion").version) == good.version
    events = [
        (line["event"], line["version"])
        for line in lines((tmp_path / "gate.jsonl").read_text())
        if line.get("name") == name
    ]
    assert events == [("decision", "1"), ("intent", "1"), ("promotion", "1"), ("decision", "2")]


def answers(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok
    except requests.exceptions.ConnectionError:
        return False
