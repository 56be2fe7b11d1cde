"""A server that runs the gate on a registry's webhooks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ens_plugin.registry.server.server import GateWorker, gate_app
    from ens_plugin.registry.server.webhook import DeliveryLog, WebhookRefusal, check_delivery, signature, version_of

__all__ = ["DeliveryLog", "GateWorker", "WebhookRefusal", "check_delivery", "gate_app", "signature", "version_of"]

_HOME_OF = {
    "DeliveryLog": "ens_plugin.registry.server.webhook",
    "GateWorker": "ens_plugin.registry.server.server",
    "WebhookRefusal": "ens_plugin.registry.server.webhook",
    "check_delivery": "ens_plugin.registry.server.webhook",
    "gate_app": "ens_plugin.registry.server.server",
    "signature": "ens_plugin.registry.server.webhook",
    "version_of": "ens_plugin.registry.server.webhook",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
