"""scikit-learn estimators and helpers built on the core; scikit-learn is loaded with the first estimator."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ens_plugin.learners.design_bites import BiteDesign, BiteOption, design_bites

if TYPE_CHECKING:
    from ens_plugin.learners.dynamic_pruning import DynamicPruningClassifier, PrunedPrediction
    from ens_plugin.learners.model_averaging import BootstrapModelAveragingClassifier

__all__ = [
    "BiteDesign",
    "BiteOption",
    "BootstrapModelAveragingClassifier",
    "DynamicPruningClassifier",
    "PrunedPrediction",
    "design_bites",
]

_HOME_OF = {
    "BootstrapModelAveragingClassifier": "ens_plugin.learners.model_averaging",
    "DynamicPruningClassifier": "ens_plugin.learners.dynamic_pruning",
    "PrunedPrediction": "ens_plugin.learners.dynamic_pruning",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
