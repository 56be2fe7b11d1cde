"""Experiment tracking: log a report to MLflow or another tracker, by hand or with every fit; load a run's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.tracking.agreement_log import log_agreement
    from ens_plugin.tracking.digest import DIGEST_TAG, Measurement, data_digest
    from ens_plugin.tracking.evaluator import EnsembleEvaluator
    from ens_plugin.tracking.log import log_report
    from ens_plugin.tracking.models import load_model
    from ens_plugin.tracking.trackers import Tracker

__all__ = [
    "DIGEST_TAG",
    "EnsembleEvaluator",
    "Measurement",
    "Tracker",
    "data_digest",
    "load_model",
    "log_agreement",
    "log_report",
]

_HOME_OF = {
    "DIGEST_TAG": "ens_plugin.tracking.digest",
    "EnsembleEvaluator": "ens_plugin.tracking.evaluator",
    "Measurement": "ens_plugin.tracking.digest",
    "Tracker": "ens_plugin.tracking.trackers",
    "data_digest": "ens_plugin.tracking.digest",
    "load_model": "ens_plugin.tracking.models",
    "log_agreement": "ens_plugin.tracking.agreement_log",
    "log_report": "ens_plugin.tracking.log",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
