"""MLflow: log a report to a run, load a model from a registry, a run or a file."""

from __future__ import annotations

from ens_plugin.tracking.models import load_model
from ens_plugin.tracking.report_log import log_report

__all__ = ["load_model", "log_report"]
