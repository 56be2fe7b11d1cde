"""A decision in the registry: tags on the version, and the alias as the last step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin._summary import printable
from ens_plugin.errors import GateError
from ens_plugin.tracking.gate_decision import GateDecision
from ens_plugin.tracking.model_version import VersionAddress, alias_holder

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["VERDICT_TAG", "move_alias", "write_verdict"]

VERDICT_TAG = "ens.gate"
NONE = "none"
TAG_LIMIT = 4000  # databases of older servers take 5000


def write_verdict(client: MlflowClient, decision: GateDecision) -> None:
    """Write a decision as tags of its version.

    A server that dies in between leaves no ``pass`` behind that was not there before or not earned: a
    pass is written after everything that belongs to it, a fail before.

    Raises
    ------
    MlflowException
        If the registry refuses.
    """
    verdict = {VERDICT_TAG: decision.verdict}
    details = {
        f"{VERDICT_TAG}.reasons": "; ".join(decision.reasons),
        f"{VERDICT_TAG}.policy_digest": decision.policy_digest,
        f"{VERDICT_TAG}.time": decision.time,
        f"{VERDICT_TAG}.report": decision.report or NONE,
        f"{VERDICT_TAG}.evidence": decision.evidence,
        f"{VERDICT_TAG}.baseline": decision.comparison or NONE,
    }
    for key, value in ({**details, **verdict} if decision.passed else {**verdict, **details}).items():
        client.set_model_version_tag(decision.name, decision.version, key, printable(value, TAG_LIMIT))


def move_alias(client: MlflowClient, decision: GateDecision, alias: str) -> str | None:
    """Point an alias at a version that has passed, and return the version it pointed at before.

    Raises
    ------
    GateError
        If another gate has judged the version otherwise in the meantime.
    MlflowException
        If the registry refuses.
    """
    address = VersionAddress(decision.name, None, alias)
    held = alias_holder(client, address)
    verdict = client.get_model_version(decision.name, decision.version).tags.get(VERDICT_TAG)
    if verdict != decision.verdict:
        raise GateError(
            f"Version {decision.version} of {printable(decision.name, 80)} passed, but its tag {VERDICT_TAG!r} has "
            f"become {printable(repr(verdict), 40)} in the meantime: another gate is at work. Run the gate again."
        )
    if held != decision.version:
        client.set_registered_model_alias(decision.name, alias, decision.version)
    return held
