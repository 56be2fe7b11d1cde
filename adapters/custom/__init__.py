"""Ensembles that users pass as arrays or as a list of models: their outputs, bags and labels."""

from __future__ import annotations

from ens_plugin.adapters.custom.adapter import CustomAdapter

__all__ = ["CustomAdapter"]
