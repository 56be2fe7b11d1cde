"""Hernandez-Lobato, Martinez-Munoz and Suarez (2007): error curves of bagged votes, and the bias of their estimate."""

from __future__ import annotations

from ens_plugin.papers.error_curves_2007.estimated_curves import curves
from ens_plugin.papers.error_curves_2007.plugin_estimate import expected_plugin_error, plugin_bias

__all__ = ["curves", "expected_plugin_error", "plugin_bias"]
