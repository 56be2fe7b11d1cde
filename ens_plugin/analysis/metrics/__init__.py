"""Metrics of the error curve: names and scorers of scikit-learn, and functions of a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics.rankings import AREA, PRECISION, Ranking
    from ens_plugin.analysis.metrics.resolution import check_metric, resolve_metric
    from ens_plugin.analysis.metrics.resolved import ResolvedMetric

__all__ = ["AREA", "PRECISION", "Ranking", "ResolvedMetric", "check_metric", "resolve_metric"]

_HOME_OF = {
    "AREA": "ens_plugin.analysis.metrics.rankings",
    "PRECISION": "ens_plugin.analysis.metrics.rankings",
    "Ranking": "ens_plugin.analysis.metrics.rankings",
    "ResolvedMetric": "ens_plugin.analysis.metrics.resolved",
    "check_metric": "ens_plugin.analysis.metrics.resolution",
    "resolve_metric": "ens_plugin.analysis.metrics.resolution",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
