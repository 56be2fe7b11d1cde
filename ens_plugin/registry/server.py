"""A server that judges each model version when MLflow's webhook tells of its registration."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import math
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.registry.gating import VERDICT_TAG
from ens_plugin.tracking.models import VersionAddress, parse_address

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "DeliveryLog",
    "GateWorker",
    "WebhookRefusal",
    "check_delivery",
    "gate_app",
    "missed_versions",
    "signature",
    "version_of",
]

LOGGER = logging.getLogger("ens_plugin.gate")
TOLERANCE_S = 300  # before and after, since clocks differ: the window in MLflow's documentation
SIGNATURE_HEADER = "x-mlflow-signature"
TIMESTAMP_HEADER = "x-mlflow-timestamp"
DELIVERY_HEADER = "x-mlflow-delivery-id"
ID_LIMIT = 200


class WebhookRefusal(Exception):
    """Raised for a delivery that is refused, with the HTTP status of the response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class DeliveryLog:
    """Ids of accepted deliveries, kept for as long as their timestamps are valid."""

    def __init__(self) -> None:
        self._taken: dict[str, float] = {}

    def knows(self, delivery_id: str, now: float) -> bool:
        """Return whether a delivery with this id was accepted before."""
        self._taken = {known: at for known, at in self._taken.items() if now - at <= TOLERANCE_S + 1}
        return delivery_id in self._taken

    def add(self, delivery_id: str, at: float) -> None:
        """Record an accepted delivery; `at` is the later one of now and its own timestamp."""
        self._taken[delivery_id] = at


def signature(secret: str, delivery_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a delivery, as MLflow computes it."""
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()


def check_delivery(headers: Mapping[str, str], body: bytes, secret: str, now: float, log: DeliveryLog) -> str:
    """Return a delivery's id; refuse it if it is not signed right, over five minutes off, or a repetition."""
    delivery_id, timestamp = headers.get(DELIVERY_HEADER, ""), headers.get(TIMESTAMP_HEADER, "")
    if not (0 < len(delivery_id) <= ID_LIMIT and timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        raise WebhookRefusal(401, "unsigned: the id or the time of the delivery is missing")
    expected = signature(secret, delivery_id, timestamp, body)
    if not hmac.compare_digest(expected.encode(), headers.get(SIGNATURE_HEADER, "").encode()):
        raise WebhookRefusal(401, "the signature is missing or wrong")
    if abs(int(now) - int(timestamp)) > TOLERANCE_S:
        raise WebhookRefusal(401, f"the time of the delivery is more than {TOLERANCE_S} seconds from now")
    if log.knows(delivery_id, now):
        raise WebhookRefusal(409, "this delivery was accepted before")
    return delivery_id


def version_of(body: bytes, on_alias: str | None) -> VersionAddress | None:
    """Return the version that is to be judged because of a delivery."""
    try:
        event = json.loads(body)
        kind, data = f"{event['entity']}.{event['action']}", event["data"]
        if not _is_judged_at(kind, data, on_alias):
            return None
        address = parse_address(f"models:/{data['name']}/{data['version']}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WebhookRefusal(400, "this is not an event of MLflow's registry") from error
    return address


def _is_judged_at(kind: str, data: Any, on_alias: str | None) -> bool:
    if kind == "model_version.created":
        return True
    return kind == "model_version_alias.created" and on_alias is not None and data["alias"] == on_alias


PAGE = 1000


def missed_versions(client: MlflowClient, on_alias: str | None) -> list[VersionAddress]:
    """Return the versions that a server would have judged while it was down, in the order of their registration.

    A version counts as missed if it was registered after the newest version of its model that has a verdict.  An older
    one is left alone, because its promotion would move an alias back.  Of a model without any verdict, the versions
    count that were registered after the newest version of the whole registry that has one; before the first verdict,
    nothing was missed.
    """
    versions = sorted(_all(client.search_model_versions), key=_age)
    holders = set() if on_alias is None else _holders(client, on_alias)
    judged: dict[str, tuple[int, int]] = {}
    for version in versions:
        if VERDICT_TAG in version.tags:
            judged[version.name] = _age(version)
    newest = max(judged.values(), default=(math.inf, 0))
    return [
        VersionAddress(version.name, str(version.version), None)
        for version in versions
        if VERDICT_TAG not in version.tags
        and (_age(version) > judged.get(version.name, newest) or (version.name, str(version.version)) in holders)
    ]


def _age(version: ModelVersion) -> tuple[int, int]:
    """Return what orders versions by their registration; the number decides between those of one millisecond."""
    return int(version.creation_timestamp), int(version.version)


def _holders(client: MlflowClient, alias: str) -> set[tuple[str, str]]:
    """Return name and number of each version that has an alias, which a search for versions does not return."""
    return {
        (model.name, str(model.aliases[alias]))
        for model in _all(client.search_registered_models)
        if alias in model.aliases
    }


def _all(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield what a search of the registry finds, from all of its pages."""
    token = None
    while True:
        page = search(max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


# MLflow gives up a delivery after four attempts, so a burst of them must be accepted at once.
QUEUE_SIZE = 10_000
RETRY_AFTER_S = 30
BODY_LIMIT = 1_000_000
BODY_TIMEOUT_S = 10.0
FEWEST_CHARACTERS = 16
HEADERS = {408: {"Connection": "close"}, 503: {"Retry-After": str(RETRY_AFTER_S)}}


class GateWorker:
    """A thread that judges versions one after the other, from a bounded queue."""

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
