"""A server that runs the gate on a registry's webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

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

__getattr__ = lazy_names(__name__, _HOME_OF)
