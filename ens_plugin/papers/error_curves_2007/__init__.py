"""Hernandez-Lobato, Martinez-Munoz and Suarez (2007): error curves of bagged votes, and the bias of their estimate."""

from ens_plugin.papers.error_curves_2007.estimated_curves import curves
from ens_plugin.papers.error_curves_2007.plugin_estimate import plugin_bias

__all__ = ["curves", "plugin_bias"]
