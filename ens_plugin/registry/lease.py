"""A lease on a registered model: while one gate holds it, no other gate writes a verdict or moves an alias there."""

from __future__ import annotations

import logging
import os
import platform
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from ens_plugin.errors import GateError, TrackingError
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import tracking_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient

LEASE_TAG = "ens.gate.lease"
LEASE_S = 30.0
PATIENCE_S = 90.0
PAUSE_S = 0.1
LOGGER = logging.getLogger("ens_plugin.gate")


class Lease(NamedTuple):
    """A lease on a registered model that this gate holds, by its tag's key on the model."""

    key: str
    since: float


@contextmanager
def lease(client: MlflowClient, name: str) -> Iterator[Lease]:
    """Hold the lease on a registered model for the length of the block; wait for it first."""
    key = f"{LEASE_TAG}.{uuid4().hex}"
    try:
        yield _taken(client, name, key)
    finally:
        _give_back(client, name, key)


def check_lease(held: Lease, name: str, tags: Mapping[str, str]) -> None:
    """Raise GateError unless a lease is still held, and for long enough to move an alias."""
    if held.key in tags and time.monotonic() - held.since < LEASE_S / 2:
        return
    raise GateError(
        f"Writing the verdict took longer than the lease on {printable(name, 80)} allows ({LEASE_S / 2:g} s). "
        "Another gate may hold it by now, so no alias was moved. Run the gate again."
    )


def _taken(client: MlflowClient, name: str, key: str) -> Lease:
    watched: dict[tuple[str, str], float] = {}
    deadline = time.monotonic() + PATIENCE_S
    claimed: float | None = None
    while True:
        if claimed is None or time.monotonic() - claimed > LEASE_S / 4:
            claimed = _claim(client, name, key)
        others = _others(client, name, key, watched)
        if not others:
            return Lease(key, claimed)
        if min(others) < key:
            client.delete_registered_model_tag(name, key)
            claimed = None
            while others := _others(client, name, key, watched):
                _wait(name, others, deadline)
        else:
            _wait(name, others, deadline)


def _claim(client: MlflowClient, name: str, key: str) -> float:
    """Write this gate's lease tag, and return the time before the call, at which the lease begins."""
    now, until = time.monotonic(), datetime.now(timezone.utc) + timedelta(seconds=LEASE_S)
    # No value is written twice, so that the gates that wait find each renewal.
    owner = f"until {until.isoformat(timespec='microseconds')}, process {os.getpid()} on {platform.node()}"
    client.set_registered_model_tag(name, key, owner[:4000])
    return now


def _wait(name: str, others: Mapping[str, str], deadline: float) -> None:
    if time.monotonic() > deadline:
        holder = printable(others[min(others)], 200)
        raise GateError(
            f"Another gate has held the lease on {printable(name, 80)} for {PATIENCE_S:g} seconds ({holder}), so no "
            f"verdict was written and no alias moved. Run the gate again. If no other gate is running, remove the tags "
            f"of the registered model that begin with {LEASE_TAG!r}."
        )
    time.sleep(PAUSE_S * random.SystemRandom().uniform(0.5, 1.5))


def _others(client: MlflowClient, name: str, key: str, watched: dict[tuple[str, str], float]) -> dict[str, str]:
    """Return the lease tags of other gates, after removing those unchanged for the length of a lease."""
    tags = client.get_registered_model(name).tags
    found = {other: value for other, value in tags.items() if other.startswith(f"{LEASE_TAG}.") and other != key}
    now = time.monotonic()
    unchanged_since = {claim: watched.get(claim, now) for claim in found.items()}
    watched.clear()
    watched.update(unchanged_since)
    for (other, value), since in unchanged_since.items():
        if now - since > LEASE_S:
            LOGGER.warning("Removed the lease of a gate that ended without giving it back: %s.", printable(value))
            _remove(client, name, other)
            del found[other]
    return found


def _remove(client: MlflowClient, name: str, key: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.delete_registered_model_tag(name, key)
    except MlflowException:
        # Another gate may have removed it at the same time.
        if key in client.get_registered_model(name).tags:
            raise


def _give_back(client: MlflowClient, name: str, key: str) -> None:
    """Remove this gate's lease tag; where that fails, log a warning: the lease expires by itself."""
    import mlflow

    try:
        with tracking_errors(mlflow.get_registry_uri()):
            client.delete_registered_model_tag(name, key)
    except TrackingError as error:
        LOGGER.warning("The lease on %s could not be given back. It expires by itself. %s", printable(name, 80), error)
