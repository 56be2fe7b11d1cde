"""MLflow: log a report, load a model from a registry, a run or a file, judge a registered version, cut it to size."""

from __future__ import annotations

from ens_plugin.tracking.gate_decision import GateDecision
from ens_plugin.tracking.models import load_model
from ens_plugin.tracking.registry_gate import gate
from ens_plugin.tracking.report_log import log_report
from ens_plugin.tracking.rightsizing import Rightsizing, rightsize

__all__ = ["GateDecision", "Rightsizing", "gate", "load_model", "log_report", "rightsize"]
