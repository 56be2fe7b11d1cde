"""Cutting of a trained ensemble to fewer members: the smaller model, the costs it saves, and checks of its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.sizing.truncate import Check, Savings, cut_checks, measure_savings, predict_alike

__all__ = [
    "Check",
    "Savings",
    "cut_checks",
    "measure_savings",
    "predict_alike",
]

_HOME_OF = {
    "Check": "ens_plugin.sizing.truncate",
    "Savings": "ens_plugin.sizing.truncate",
    "cut_checks": "ens_plugin.sizing.truncate",
    "measure_savings": "ens_plugin.sizing.truncate",
    "predict_alike": "ens_plugin.sizing.truncate",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
