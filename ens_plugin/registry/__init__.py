"""The model registry: judge a registered version by a policy, and cut a version to its recommended size."""

from __future__ import annotations

from ens_plugin.registry.gating import gate
from ens_plugin.registry.policy import GateDecision
from ens_plugin.registry.rightsizing import Rightsizing, rightsize

__all__ = ["GateDecision", "Rightsizing", "gate", "rightsize"]
