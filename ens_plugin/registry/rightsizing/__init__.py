"""Cutting a logged model to its recommended size, as a new version."""

from __future__ import annotations

from ens_plugin.registry.rightsizing.model_source import ModelSource
from ens_plugin.registry.rightsizing.rightsizing import rightsize_analysed

__all__ = ["ModelSource", "rightsize_analysed"]
