"""The decision written to the registry: tags of the version, then the move of the alias."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ens_plugin.errors import GateError, TrackingError
from ens_plugin.registry.gating.decision import GateDecision
from ens_plugin.registry.gating.lease import Lease, check_lease
from ens_plugin.report.text import printable
from ens_plugin.tracking.store.connection import tracking_errors
from ens_plugin.tracking.store.model_version import RegisteredVersion, VersionAddress, alias_holder, is_unchanged

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["VERDICT_TAG", "check_alias_stayed", "check_version_stayed", "move_alias", "write_verdict"]

VERDICT_TAG = "ens.gate"
TAG_LIMIT = 4000  # databases of older servers take 5000
PART_LIMIT = 600
READ_BACKS = 3
READ_BACK_PAUSE_S = 0.5
LOGGER = logging.getLogger("ens_plugin.gate")


def write_verdict(client: MlflowClient, decision: GateDecision) -> None:
    """Write a decision as tags of its version.

    An earlier verdict that differs is deleted first and the new one is written last, so that a gate that is killed in
    between leaves no verdict without its reasons.

    Raises
    ------
    MlflowException
        If the registry refuses.
    """
    name, version = decision.name, decision.version
    before = client.get_model_version(name, version).tags.get(VERDICT_TAG)
    if before not in (None, decision.verdict):
        client.delete_model_version_tag(name, version, VERDICT_TAG)
    details = {
        f"{VERDICT_TAG}.reasons": printable("; ".join(decision.reasons), TAG_LIMIT),
        f"{VERDICT_TAG}.record": _record(decision),
    }
    for key, value in details.items():
        client.set_model_version_tag(name, version, key, value)
    _write_last(client, decision, before)


def _record(decision: GateDecision) -> str:
    """Return policy, time, report, evidence and baseline of a decision as JSON."""
    parts = {
        "policy_digest": decision.policy_digest,
        "time": decision.time,
        "report": decision.report,
        "evidence": decision.evidence,
        "baseline": decision.comparison,
    }
    return json.dumps({name: None if part is None else printable(part, PART_LIMIT) for name, part in parts.items()})


def _write_last(client: MlflowClient, decision: GateDecision, before: str | None) -> None:
    """Write the verdict's own tag; where the call fails, read back whether it was written."""
    import mlflow

    store = mlflow.get_registry_uri()
    try:
        with tracking_errors(store):
            client.set_model_version_tag(decision.name, decision.version, VERDICT_TAG, decision.verdict)
    except TrackingError:
        if before == decision.verdict:
            # An equal verdict that is read back may be another gate's.
            raise
        with tracking_errors(store):
            if client.get_model_version(decision.name, decision.version).tags.get(VERDICT_TAG) != decision.verdict:
                raise


def check_version_stayed(client: MlflowClient, version: RegisteredVersion) -> None:
    """Raise GateError if a version is no longer the one that was judged.

    Raises
    ------
    GateError
        If its source, its run or the time of its registration has changed.
    MlflowException
        If there is no such version any more, or the registry refuses.
    """
    if not is_unchanged(client, version):
        raise GateError(
            f"Version {version.version} of {printable(version.name, 80)} is not the one that was judged: the "
            "registered model was deleted and made again meanwhile. No alias was moved. Run the gate again."
        )


def move_alias(
    client: MlflowClient,
    decision: GateDecision,
    alias: str,
    expected: Mapping[str, str | None],
    held: Lease,
    announce: Callable[[str | None], None],
) -> str | None:
    """Point an alias at a version that has passed, and return the version it pointed at before.

    Parameters
    ----------
    client : MlflowClient
    decision : GateDecision
    alias : str
    expected : mapping of str to str or None
        Versions that aliases of this model pointed at when the version was judged; if one has moved, nothing is
        promoted.
    held : Lease
        Lease on the registered model.
    announce : callable
        Called right before the alias is moved, with the version that it points at, so that the audit log tells
        of a move after which the gate is killed.

    Raises
    ------
    GateError
        If another gate has judged the version otherwise, an alias has moved, or the alias is moved again at once.
    TrackingError
        If the registry refuses, or it is not known whether it moved the alias.
    """
    verdict = client.get_model_version(decision.name, decision.version).tags.get(VERDICT_TAG)
    model = client.get_registered_model(decision.name)
    check_lease(held, decision.name, model.tags)
    for name, version in expected.items():
        check_alias_stayed(decision, name, version, _text(model.aliases.get(name)))
    _check_verdict_stayed(decision, verdict)
    before = _text(model.aliases.get(alias))
    if before != decision.version:
        announce(before)
        _set_alias(client, decision, alias, before)
    return before


def _text(version: object) -> str | None:
    return None if version is None else str(version)


def _check_verdict_stayed(decision: GateDecision, verdict: str | None) -> None:
    if verdict != decision.verdict:
        raise GateError(
            f"Version {decision.version} of {printable(decision.name, 80)} passed, but its tag {VERDICT_TAG!r} has "
            f"changed to {printable(repr(verdict), 40)} meanwhile, so another gate is at work. Run the gate again."
        )


def check_alias_stayed(decision: GateDecision, alias: str, before: str | None, now: str | None) -> None:
    """Raise GateError if an alias has moved, so that of two gates with the same baseline only one promotes.

    Parameters
    ----------
    decision : GateDecision
    alias : str
    before, now : str or None
        Versions that the alias pointed at when the version was judged, and now.

    Raises
    ------
    GateError
        If these versions differ.
    """
    if now != before:
        raise GateError(
            f"The alias {alias!r} has moved from version {before or 'none'} to {now or 'none'} since version "
            f"{decision.version} was judged, so another gate is at work. Nothing was promoted. Run the gate again."
        )


def _set_alias(client: MlflowClient, decision: GateDecision, alias: str, before: str | None) -> None:
    import mlflow

    store = mlflow.get_registry_uri()
    try:
        with tracking_errors(store):
            client.set_registered_model_alias(decision.name, alias, decision.version)
    except TrackingError as error:
        _settle(client, decision, alias, before, error)
        return
    try:
        now = _read_back(client, decision, alias)
    except TrackingError as error:
        LOGGER.warning(
            "The registry accepted the move of the alias %r, but where it points now could not be read: %s",
            alias,
            error,
        )
        return
    if now != decision.version:
        raise GateError(
            f"The alias {alias!r} was moved to version {decision.version}, but right after that it points at version "
            f"{now or 'none'}. Somebody moved it without the lease that gates hold. Nothing was undone. "
            "Decide which version should have the alias, and run the gate again."
        )


def _settle(client: MlflowClient, decision: GateDecision, alias: str, before: str | None, error: TrackingError) -> None:
    """Read back an alias after the call to move it failed; return if it was moved, else raise TrackingError."""
    try:
        now = _read_back(client, decision, alias)
    except TrackingError:
        raise TrackingError(
            f"Whether the alias {alias!r} points at version {decision.version} of {printable(decision.name, 80)} or "
            f"still at {before or 'none'} is not known, because the call that moves it failed and so did reading it "
            f"back. Check where it points in the registry. {error}"
        ) from error
    if now == decision.version:
        return
    raise TrackingError(
        f"The alias {alias!r} of {printable(decision.name, 80)} was not moved to version {decision.version}. It points "
        f"at {now or 'no version'}. {error}"
    ) from error


def _read_back(client: MlflowClient, decision: GateDecision, alias: str) -> str | None:
    import mlflow

    address = VersionAddress(decision.name, None, alias)
    for _ in range(READ_BACKS - 1):
        try:
            with tracking_errors(mlflow.get_registry_uri()):
                return alias_holder(client, address)
        except TrackingError:
            time.sleep(READ_BACK_PAUSE_S)
    with tracking_errors(mlflow.get_registry_uri()):
        return alias_holder(client, address)
