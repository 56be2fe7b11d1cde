"""The compiled search for the leaves that rows reach in trees; used by ens_plugin where it is installed."""

from __future__ import annotations

from ens_plugin_walk.forest import Forest, Tree

__all__ = ["Forest", "Tree"]
