"""The watchdog: it ends what makes no progress, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ens_plugin.tracking.watchdog import note_progress, uninterrupted, watched

SHORT_S = 0.3


def test_without_progress_it_gives_up(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        assert given_up.wait(20 * SHORT_S)


def test_steps_and_growing_files_are_progress(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(5 * SHORT_S, tmp_path, given_up.set):
        for _ in range(6):
            note_progress()
            time.sleep(SHORT_S)
        for number in range(1, 7):
            (tmp_path / "download").write_bytes(b"x" * number)
            time.sleep(SHORT_S)
    assert not given_up.is_set()


def test_between_a_write_and_its_reading_back_it_waits(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        with uninterrupted():
            assert not given_up.wait(5 * SHORT_S)
        assert given_up.wait(20 * SHORT_S)


def test_after_the_block_it_is_over(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        pass
    assert not given_up.wait(5 * SHORT_S)


PAUSE_S = 0.05


@contextmanager
def serving(trickles: Callable[[str], bool], in_headers: bool) -> Iterator[str]:
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


@pytest.mark.slow
@pytest.mark.parametrize("path", ["experiments/search", "model-versions"])
@pytest.mark.parametrize("in_headers", [False, True])
def test_the_command_ends_with_2(path: str, in_headers: bool, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[report]\nagreement.min = 0.9\n")
    with serving(lambda wanted: path in wanted, in_headers) as uri:
        done = subprocess.run(
            [sys.executable, "-m", "ens_plugin", "gate", "models:/churn/7", "--policy", "policy.toml",
             "--tracking-uri", uri, "--timeout", "1", "--audit-log", "gate.jsonl"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "made no progress in 1 seconds, so there is no verdict" in " ".join(done.stderr.split())
    assert '"event": "error"' in (tmp_path / "gate.jsonl").read_text()
