"""Experiment tracking: log a report to MLflow or another tracker, by hand or with every fit; load a run's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names
from ens_plugin.tracking.trackers import Tracker

if TYPE_CHECKING:
    from ens_plugin.tracking.agreement_log import log_votes
    from ens_plugin.tracking.assessments import read_assessments

__all__ = ["Tracker", "log_votes", "read_assessments"]

# An autologged fit has no need of votes.
__getattr__ = lazy_names(
    __name__, {"log_votes": "ens_plugin.tracking.agreement_log", "read_assessments": "ens_plugin.tracking.assessments"}
)
