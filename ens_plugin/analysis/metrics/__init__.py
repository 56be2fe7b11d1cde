"""Metrics of the error curve: names and scorers of scikit-learn, and functions of a user's own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics.resolution import resolve_metric
    from ens_plugin.analysis.metrics.resolved import ResolvedMetric

__all__ = ["ResolvedMetric", "resolve_metric"]

_HOME_OF = {
    "ResolvedMetric": "ens_plugin.analysis.metrics.resolved",
    "resolve_metric": "ens_plugin.analysis.metrics.resolution",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
