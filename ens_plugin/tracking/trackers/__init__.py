"""Experiment trackers that reports are logged to: the protocol, the built-in ones, and how a name finds one of them.

MLflow's own steps, such as runs, models and descriptions, are in ``ens_plugin.tracking.logging``.
"""

from __future__ import annotations

from ens_plugin.tracking.trackers.parts import ReportParts, log_parts
from ens_plugin.tracking.trackers.protocol import Tracker
from ens_plugin.tracking.trackers.resolution import MLFLOW, check_tracker, check_trackers, kind_of, log_to

__all__ = ["MLFLOW", "ReportParts", "Tracker", "check_tracker", "check_trackers", "kind_of", "log_parts", "log_to"]
