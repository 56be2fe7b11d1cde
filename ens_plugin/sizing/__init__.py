"""Cutting of a trained ensemble to fewer members: the smaller model, the costs it saves, and checks of its error."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
