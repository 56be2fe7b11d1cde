"""A real MLflow server on the loopback interface, for as long as it is needed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

START_TIMEOUT_S = 120


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Start ``mlflow server`` with a database and artifacts in `directory`; yield its URI once it answers.

    Parameters
    ----------
    directory : Path

    Raises
    ------
    RuntimeError
        If the server does not start within two minutes; with the end of its log.
    """
    port = _unused_port()
    uri = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
               "--backend-store-uri", f"sqlite:///{directory}/mlflow.db",
               "--artifacts-destination", str(directory / "artifacts")]  # fmt: skip
    log = directory / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            _wait_until_healthy(uri, server, log)
            yield uri
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if requests.get(f"{uri}/health", timeout=2).ok:
                return
        except requests.exceptions.RequestException:
            time.sleep(0.3)
    raise RuntimeError(f"mlflow server did not start:\n{log.read_text()[-3000:]}")
