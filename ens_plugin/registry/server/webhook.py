"""Checks of the deliveries of MLflow's registry webhooks: signature, time, repetition, and the version named."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from ens_plugin.tracking.store.model_version import VersionAddress, parse_address

__all__ = [
    "TIMESTAMP_HEADER",
    "TOLERANCE_S",
    "DeliveryLog",
    "WebhookRefusal",
    "check_delivery",
    "signature",
    "version_of",
]

TOLERANCE_S = 300  # before and after, since clocks differ: the window in MLflow's documentation
SIGNATURE_HEADER = "x-mlflow-signature"
TIMESTAMP_HEADER = "x-mlflow-timestamp"
DELIVERY_HEADER = "x-mlflow-delivery-id"
ID_LIMIT = 200


class WebhookRefusal(Exception):
    """Raised for a delivery that is refused, with the HTTP status of the response.

    Parameters
    ----------
    status : int
    reason : str
    """

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
    """Return the signature of a delivery, as MLflow computes it.

    Examples
    --------
    >>> signature("secret", "id", "1700000000", b"{}")
    'v1,GBemBzTgbKoVEGKycqyY3615LbdJbhFLE1oQk+zZ+lo='
    """
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()


def check_delivery(headers: Mapping[str, str], body: bytes, secret: str, now: float, log: DeliveryLog) -> str:
    """Return a delivery's id; raise WebhookRefusal if it is not signed right, over five minutes off, or a repetition.

    Parameters
    ----------
    headers : mapping
        With lower-case names.
    body : bytes
        As received.
    secret : str
        The webhook's secret.
    now : float
        Seconds since 1970.
    log : DeliveryLog

    Returns
    -------
    str
        The delivery's id.

    Raises
    ------
    WebhookRefusal
        With status 401, or 409 for a replay.
    """
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
    """Return the version that is to be judged because of a delivery.

    Parameters
    ----------
    body : bytes
    on_alias : str or None
        A version is judged when it is created and, unless None, when it gets this alias.

    Returns
    -------
    VersionAddress or None
        None for events after which nothing is judged.

    Raises
    ------
    WebhookRefusal
        With status 400, if the body is not an event.
    """
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
