"""scikit-learn estimators and helpers built on the core; scikit-learn is loaded with the first estimator."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ens_plugin.learners.design_bites import BiteDesign, BiteOption, design_bites

if TYPE_CHECKING:
    from ens_plugin.learners.dynamic_pruning import DynamicPruningClassifier, PrunedPrediction
    from ens_plugin.learners.growth import grow
    from ens_plugin.learners.growth_outcome import Growth, GrowthStep
    from ens_plugin.learners.model_averaging import BootstrapModelAveragingClassifier
    from ens_plugin.learners.right_sized import RightSizedClassifier, RightSizedRegressor

__all__ = [
    "BiteDesign",
    "BiteOption",
    "BootstrapModelAveragingClassifier",
    "DynamicPruningClassifier",
    "Growth",
    "GrowthStep",
    "PrunedPrediction",
    "RightSizedClassifier",
    "RightSizedRegressor",
    "design_bites",
    "grow",
]

_HOME_OF = {
    "BootstrapModelAveragingClassifier": "ens_plugin.learners.model_averaging",
    "DynamicPruningClassifier": "ens_plugin.learners.dynamic_pruning",
    "Growth": "ens_plugin.learners.growth_outcome",
    "GrowthStep": "ens_plugin.learners.growth_outcome",
    "PrunedPrediction": "ens_plugin.learners.dynamic_pruning",
    "RightSizedClassifier": "ens_plugin.learners.right_sized",
    "RightSizedRegressor": "ens_plugin.learners.right_sized",
    "grow": "ens_plugin.learners.growth",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
