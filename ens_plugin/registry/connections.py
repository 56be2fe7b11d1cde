"""Connections to the gate's server: time limits, and the closing of idle ones when there are many."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CONNECTIONS", "PatientProtocol"]

LOGGER = logging.getLogger("ens_plugin.gate")

CONNECTIONS = 500
REQUEST_TIMEOUT_S = 20.0


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP protocol with a time limit for each request; the longest idle connection is closed for a new one.

    uvicorn itself waits without a limit for the headers of a request, and above its own limit of connections it
    refuses new ones, so that clients that send nothing can keep out all others.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and close the one that has been idle for longest if there are too many."""
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self.time_limit = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_unfinished)
        if len(self.connections) > CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit of a connection that was closed."""
        self.time_limit.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Start the time limit of a connection's next request."""
        super().on_response_complete()
        self.time_limit.cancel()
        self.waiting_since = self.loop.time()
        self.time_limit = self.loop.call_later(REQUEST_TIMEOUT_S, self._close_unfinished)

    def _close_unfinished(self) -> None:
        LOGGER.info("Closed a connection that sent no complete request within %g seconds.", REQUEST_TIMEOUT_S)
        self.transport.close()

    def _make_room(self) -> None:
        others: list[Any] = [found for found in self.connections if found is not self]
        oldest = min(others, key=lambda found: found.waiting_since)
        LOGGER.info("More than %d connections are open; closed the one idle for longest.", CONNECTIONS)
        oldest.transport.abort()
