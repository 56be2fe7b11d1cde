from __future__ import annotations

import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import mlflow
import pytest
import requests

from ens_plugin import gate
from ens_plugin.errors import TrackingError
from ens_plugin.tracking.connection import patience
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = MLFLOW_WARNINGS

LIMIT_S = 0.6
PAUSE_S = 0.05
POLICY = {"report": {"agreement": {"min": 0.9}}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("ens_plugin.tracking.connection.PATIENCE_S", LIMIT_S)
    before = socket.SocketIO.readinto
    yield
    assert socket.SocketIO.readinto is before, "the read of sockets is as it was"


@contextmanager
def serving(trickles: Callable[[str], bool], in_headers: bool = False) -> Iterator[str]:
    """Serve empty answers, and to some paths an answer that comes byte by byte and does not end."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            slow = trickles(self.path)
            if not (slow and in_headers):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000000" if slow else "2")
                self.end_headers()
            if not slow:
                self.wfile.write(b"{}")
                return
            while not ended.wait(PAUSE_S):
                try:
                    self.wfile.write(b"H")
                except OSError:
                    return

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("in_headers", [False, True])
@pytest.mark.parametrize("path", ["experiments/search", "model-versions"])
def test_a_gate_gives_up_a_server_that_sends_a_byte_at_a_time(path: str, in_headers: bool) -> None:
    told = pytest.raises(TrackingError, match=r"sent so little in 0\.6 seconds of waiting that the gate gave up")
    with serving(lambda wanted: path in wanted, in_headers) as uri, tracking_to(uri), told:
        gate("models:/churn/7", POLICY)


def test_so_does_the_reading_of_an_artifact_and_no_thread_is_left_waiting(tmp_path: Path) -> None:
    with serving(lambda wanted: "artifacts" in wanted) as uri, tracking_to(uri):
        place = f"{uri}/api/2.0/mlflow-artifacts/artifacts/1/report.json"
        with pytest.raises(mlflow.MlflowException, match="sent so little"), patience():
            mlflow.artifacts.download_artifacts(place, dst_path=str(tmp_path))
        readers = [
            thread.name
            for thread in threading.enumerate()
            if thread.name.startswith("Mlflow") and "_patient_read" in _stack(thread)
        ]
        assert readers == []


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "" if frame is None else "".join(traceback.format_stack(frame))


def test_what_sends_much_may_take_long() -> None:
    content = json.dumps("x" * 200_000).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for part in range(10):
                self.wfile.write(content[part * len(content) // 10 : (part + 1) * len(content) // 10])
                self.wfile.flush()
                time.sleep(2 * LIMIT_S / 10)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with patience():
            start = time.monotonic()
            found = requests.get(f"http://127.0.0.1:{server.server_port}", timeout=10).content
            assert time.monotonic() - start > LIMIT_S
        assert found == content
    finally:
        server.shutdown()
        server.server_close()


def test_other_threads_wait_as_long_as_they_like() -> None:
    """A server that is slow for the gate is not cut off for the rest of the program."""
    with serving(lambda wanted: "slow" in wanted) as uri:
        read: list[bytes] = []

        def other() -> None:
            with requests.get(f"{uri}/slow", stream=True, timeout=10) as answer:
                read.append(answer.raw.read(int(2 * LIMIT_S / PAUSE_S)))

        thread = threading.Thread(target=other)
        thread.start()
        with pytest.raises(TrackingError), patience():
            requests.get(f"{uri}/slow", timeout=10)
        thread.join(10)
        assert len(read[0]) == int(2 * LIMIT_S / PAUSE_S)


def test_the_outermost_block_holds() -> None:
    def read_often(uri: str) -> None:
        for _ in range(3):
            with patience():
                requests.get(f"{uri}/slow", timeout=10)

    with serving(lambda wanted: "slow" in wanted) as uri, pytest.raises(TrackingError), patience():
        read_often(uri)
