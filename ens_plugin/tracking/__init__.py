"""Experiment tracking: log a report to MLflow or another tracker, by hand or with every fit; load a run's model."""

from __future__ import annotations

from ens_plugin.tracking.assessments import read_assessments
from ens_plugin.tracking.trackers import Tracker

__all__ = ["Tracker", "read_assessments"]
