"""A server between client and MLflow whose faults a test can choose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, NamedTuple

import requests

__all__ = ["Fault", "FaultyProxy", "Request", "faulty_proxy"]

# "lost": done, and the answer never comes; a number is the status of the answer.
Fault = Literal["drop", "hang", "html", "lost"] | int
HANG_S = 3.0


class Request(NamedTuple):
    """One request, and how many came before it."""

    method: str
    path: str
    number: int

    @property
    def writes(self) -> bool:
        """Whether it would change the registry."""
        return self.method in ("POST", "PATCH", "DELETE", "PUT") and "/search" not in self.path


class FaultyProxy:
    """Forwards to `upstream` except where `rule` names a fault; keeps all requests."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.rule: Callable[[Request], Fault | None] = lambda request: None
        self.requests: list[Request] = []
        self.uri = ""
        self._lock = threading.Lock()

    def reset(self, rule: Callable[[Request], Fault | None]) -> None:
        """Count from 0 again, under another rule."""
        self.requests, self.rule = [], rule

    def seen(self, method: str, path: str) -> Request:
        """Take note of a request."""
        with self._lock:
            request = Request(method, path, len(self.requests))
            self.requests.append(request)
        return request


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """Run a proxy for the length of the block."""
    proxy = FaultyProxy(upstream)
    session = requests.Session()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = proxy.rule(proxy.seen(self.command, self.path))
            if fault == "drop":
                self.close_connection = True
                return
            if fault == "hang":
                time.sleep(HANG_S)
                return
            if fault == "lost":
                self.upstream(body)
                self.close_connection = True
                return
            if fault == "html":
                self.reply(200, b"<html>Please log in</html>", "text/html")
            elif fault is not None:
                self.reply(int(fault), b'{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}')
            else:
                self.forward(body)

        def upstream(self, body: bytes) -> requests.Response:
            headers = {key: value for key, value in self.headers.items() if key.lower() in ("content-type", "accept")}
            return session.request(self.command, proxy.upstream + self.path, headers=headers, data=body, timeout=60)

        def forward(self, body: bytes) -> None:
            got = self.upstream(body)
            self.reply(got.status_code, got.content, got.headers.get("Content-Type", ""))

        def reply(self, status: int, content: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.uri = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        session.close()
