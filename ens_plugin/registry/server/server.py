"""A server for MLflow's registry webhooks that runs the gate on every new version."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.registry.server.webhook import TIMESTAMP_HEADER, DeliveryLog, WebhookRefusal, check_delivery, version_of
from ens_plugin.tracking.store.model_version import VersionAddress

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["QUEUE_SIZE", "GateWorker", "gate_app"]

# MLflow gives up a delivery after four attempts, so a burst of them must be accepted at once.
QUEUE_SIZE = 10_000
RETRY_AFTER_S = 30
BODY_LIMIT = 1_000_000
BODY_TIMEOUT_S = 10.0
FEWEST_CHARACTERS = 16
HEADERS = {408: {"Connection": "close"}, 503: {"Retry-After": str(RETRY_AFTER_S)}}
LOGGER = logging.getLogger("ens_plugin.gate")


class GateWorker:
    """A thread that judges versions one after the other, from a bounded queue.

    Parameters
    ----------
    judge : callable
        Runs the gate on a version.
    size : int
        Largest number of waiting versions.
    """

    def __init__(self, judge: Callable[[VersionAddress], object], size: int = QUEUE_SIZE) -> None:
        self._judge = judge
        self._waiting: queue.Queue[VersionAddress | None] = queue.Queue(size)
        self._thread = threading.Thread(target=self._work, name="ens_plugin-gate", daemon=True)

    def start(self) -> None:
        """Start the thread that judges versions."""
        self._thread.start()

    def submit(self, version: VersionAddress) -> bool:
        """Put a version into the queue and return True; return False if the queue is full."""
        try:
            self._waiting.put_nowait(version)
        except queue.Full:
            return False
        return True

    def stop(self) -> None:
        """Judge the versions that are still in the queue, then end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (version := self._waiting.get()) is not None:
            try:
                self._judge(version)
            except EnsPluginError as error:
                LOGGER.warning("The gate has no verdict on %s: %s", version, error)
            except Exception:
                # An unexpected error on one version must not leave all later ones without a verdict.
                LOGGER.exception("The gate failed on %s", version)


def gate_app(worker: GateWorker, secret: str, on_alias: str | None) -> Starlette:
    """Return the server for registry webhooks as an ASGI application.

    ``POST /`` takes a delivery: 202 if its version is going to be judged, 200 if there is nothing to judge,
    400, 401, 408, 409 or 413 if it is refused, 503 if too many wait.  ``GET /health`` is 200 while it runs.

    Parameters
    ----------
    worker : GateWorker
        Started and stopped with the application.
    secret : str
        The webhook's secret.
    on_alias : str or None
        See :func:`ens_plugin.registry.server.webhook.version_of`.

    Raises
    ------
    InputError
        If the secret is shorter than 16 characters.
    """
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    if len(secret) < FEWEST_CHARACTERS:
        raise InputError(
            f"The webhook's secret has {counted(len(secret), 'character')}, too few to keep others from guessing it. "
            f"Give the webhook one of at least {FEWEST_CHARACTERS}."
        )
    log = DeliveryLog()

    async def receive(request: Request) -> Response:
        try:
            status, reason = _taken(await _body(request), request, worker, secret, on_alias, log)
        except WebhookRefusal as refusal:
            status, reason = refusal.status, str(refusal)
        except ClientDisconnect:
            LOGGER.warning("A delivery ended before it was complete; MLflow will send it again.")
            status, reason = 400, "cut off"
        return PlainTextResponse(reason, status, HEADERS.get(status))

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    routes = [Route("/", receive, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


def _taken(
    body: bytes, request: Request, worker: GateWorker, secret: str, on_alias: str | None, log: DeliveryLog
) -> tuple[int, str]:
    now = time.time()
    delivery_id = check_delivery(request.headers, body, secret, now, log)
    version = version_of(body, on_alias)
    if version is not None and not worker.submit(version):
        # Not logged as taken, so that MLflow can deliver it again.
        return 503, "too many versions wait to be judged"
    log.add(delivery_id, max(now, float(request.headers[TIMESTAMP_HEADER])))
    return (200, "nothing to judge") if version is None else (202, "going to be judged")


async def _body(request: Request) -> bytes:
    try:
        return await asyncio.wait_for(_whole_body(request), BODY_TIMEOUT_S)
    except asyncio.TimeoutError as error:
        raise WebhookRefusal(408, f"the delivery did not arrive within {BODY_TIMEOUT_S:g} seconds") from error


async def _whole_body(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY_LIMIT:
            raise WebhookRefusal(413, f"a delivery has at most {BODY_LIMIT} bytes")
    return bytes(content)
