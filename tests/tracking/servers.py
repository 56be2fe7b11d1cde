"""A tracking server that does not do its work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ens_plugin.tracking.uploads import wait_until_sent

__all__ = ["answering"]


@contextmanager
def answering(status: int | None, released: threading.Event, paths: list[str] | None = None) -> Iterator[str]:
    """Give every request the same status, or for None no answer until `released`; yield the URI.

    The paths of the requests are added to `paths`.
    """
    asked = [] if paths is None else paths

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if status is None:
                released.wait(60)
            asked.append(self.path)
            self.send_response(status or 503)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        do_GET = do_POST = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        released.set()
        assert wait_until_sent(60), "reports are still being sent"
        server.shutdown()
        server.server_close()
        thread.join()
