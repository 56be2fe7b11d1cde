"""Experiment tracking with MLflow: log a report, by hand or with every fit, and load the model of a run."""

from __future__ import annotations

from ens_plugin.tracking.logging.report_log import log_report
from ens_plugin.tracking.store.models import load_model

__all__ = ["load_model", "log_report"]
