"""Cutting of a trained ensemble to fewer members: the smaller model, the costs it saves, and checks of its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.sizing.checks import Check, cut_checks
    from ens_plugin.sizing.predictions import predict_alike
    from ens_plugin.sizing.savings import Savings, measure_savings

__all__ = [
    "Check",
    "Savings",
    "cut_checks",
    "measure_savings",
    "predict_alike",
]

_HOME_OF = {
    "Check": "ens_plugin.sizing.checks",
    "Savings": "ens_plugin.sizing.savings",
    "cut_checks": "ens_plugin.sizing.checks",
    "measure_savings": "ens_plugin.sizing.savings",
    "predict_alike": "ens_plugin.sizing.predictions",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
