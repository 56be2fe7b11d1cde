"""A limit on the time that a thread waits for servers, whatever they send and however slowly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ens_plugin.errors import TrackingError

__all__ = ["patience"]

PATIENCE_S = 100.0
SLOWEST_BYTES_PER_S = 10_000.0  # a server that is slower than this uses the patience up
ARTIFACT_THREADS = "Mlflow"  # how the threads are named in which MLflow reads artifacts

_lock = threading.Lock()
_limits: dict[int, _Limit] = {}  # by thread
_original: Callable[..., Any] | None = None


class _UsedUpError(Exception):
    """Raised in a read; not an error of the operating system, after which clients try again."""


class _Limit:
    """The seconds that reads may still wait."""

    def __init__(self) -> None:
        self.left = PATIENCE_S

    def check(self) -> None:
        """Raise _UsedUpError if the patience is used up."""
        if self.left <= 0.0:
            raise _UsedUpError(
                f"The server sent so little in {PATIENCE_S:g} seconds of waiting that the gate gave up. Read its log, "
                "check the network, and run the gate again."
            )

    def count(self, seconds: float, n_bytes: int) -> None:
        """Subtract a wait, as far as what was read does not make up for it."""
        self.left = min(self.left - seconds + n_bytes / SLOWEST_BYTES_PER_S, PATIENCE_S)


@contextmanager
def patience() -> Iterator[None]:
    """Let the reads of this thread from servers wait for 100 seconds in all, longer only where much is sent.

    The timeout of a socket is for each single byte, so that a server that sends a byte in time, again and again, could
    hold a program for ever.  Inside another block in the same thread, that one's limit holds.  MLflow reads artifacts
    in threads of its own, whose waits count as well.

    Raises
    ------
    TrackingError
        If the patience is used up.  Where MLflow reads, its client raises an MlflowException instead.
    """
    ident = threading.get_ident()
    if ident in _limits:
        yield
        return
    _begin(ident)
    try:
        yield
    except _UsedUpError as error:
        raise TrackingError(str(error)) from error
    finally:
        _end(ident)


def _begin(ident: int) -> None:
    global _original
    with _lock:
        _limits[ident] = _Limit()
        if _original is None:
            _original = socket.SocketIO.readinto
            socket.SocketIO.readinto = _patient_read  # type: ignore[method-assign,assignment]


def _end(ident: int) -> None:
    global _original
    with _lock:
        del _limits[ident]
        if not _limits and _original is not None:
            socket.SocketIO.readinto = _original  # type: ignore[method-assign]
            _original = None


def _patient_read(self: Any, buffer: Any) -> int | None:
    original, limit = _original, _limit_of_thread()
    if original is None or limit is None:
        return socket.SocketIO.readinto(self, buffer) if original is None else original(self, buffer)
    limit.check()
    connection, start = self._sock, time.monotonic()
    timeout = connection.gettimeout()
    connection.settimeout(limit.left if timeout is None else min(timeout, limit.left))
    n_bytes: int | None = None
    try:
        n_bytes = original(self, buffer)
    finally:
        limit.count(time.monotonic() - start, n_bytes or 0)
        limit.check()
    connection.settimeout(timeout)
    return n_bytes


def _limit_of_thread() -> _Limit | None:
    """Return the limit of the calling thread; of the newest block, where it reads artifacts for another thread."""
    limits = dict(_limits)
    own = limits.get(threading.get_ident())
    if own is None and limits and threading.current_thread().name.startswith(ARTIFACT_THREADS):
        return list(limits.values())[-1]
    return own
