"""Adapters of quantile-forest's forests, and all other code for that library."""

from __future__ import annotations

from ens_plugin.adapters.quantile_forest.at_quantile import QuantileAt, quantile_at

__all__ = ["QuantileAt", "quantile_at"]
