"""How the error of a trained bagged ensemble depends on its size, to infinity.

Train once; without further training and without validation data, be told the error curve, how many
members the ensemble needs, and its bias and variance over seeds, given this training set; on request also the
variance of its predictions over training sets.

Importing this package imports no model library, no MLflow and no plotting: every public name is
loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ens_plugin import errors

if TYPE_CHECKING:
    from ens_plugin.adapters.base import register_adapter
    from ens_plugin.adapters.custom import CustomEnsemble
    from ens_plugin.analysis import analyze, in_bag
    from ens_plugin.jackknife import TrainingVariance, training_variance
    from ens_plugin.learners import BootstrapModelAveragingClassifier
    from ens_plugin.learners.dynamic_pruning import DynamicPruningClassifier
    from ens_plugin.learners.growth import grow
    from ens_plugin.learners.growth_outcome import Growth, GrowthStep
    from ens_plugin.learners.right_sized import RightSizedClassifier, RightSizedRegressor
    from ens_plugin.report import BiasVariance, EnsembleReport, ErrorCurve, SizeRecommendation
    from ens_plugin.tracking import GateDecision, Rightsizing, gate, log_report, rightsize
    from ens_plugin.tracking.autolog import autolog
    from ens_plugin.truncation import truncate

    __version__: str

__all__ = [
    "BiasVariance",
    "BootstrapModelAveragingClassifier",
    "CustomEnsemble",
    "DynamicPruningClassifier",
    "EnsembleReport",
    "ErrorCurve",
    "GateDecision",
    "Growth",
    "GrowthStep",
    "RightSizedClassifier",
    "RightSizedRegressor",
    "Rightsizing",
    "SizeRecommendation",
    "TrainingVariance",
    "__version__",
    "analyze",
    "autolog",
    "errors",
    "gate",
    "grow",
    "in_bag",
    "log_report",
    "register_adapter",
    "rightsize",
    "training_variance",
    "truncate",
]

_HOME_OF = {
    "BiasVariance": "ens_plugin.report",
    "BootstrapModelAveragingClassifier": "ens_plugin.learners",
    "CustomEnsemble": "ens_plugin.adapters.custom",
    "DynamicPruningClassifier": "ens_plugin.learners.dynamic_pruning",
    "EnsembleReport": "ens_plugin.report",
    "ErrorCurve": "ens_plugin.report",
    "GateDecision": "ens_plugin.tracking",
    "Growth": "ens_plugin.learners.growth_outcome",
    "GrowthStep": "ens_plugin.learners.growth_outcome",
    "RightSizedClassifier": "ens_plugin.learners.right_sized",
    "RightSizedRegressor": "ens_plugin.learners.right_sized",
    "Rightsizing": "ens_plugin.tracking",
    "SizeRecommendation": "ens_plugin.report",
    "TrainingVariance": "ens_plugin.jackknife",
    "analyze": "ens_plugin.analysis",
    "autolog": "ens_plugin.tracking.autolog",
    "gate": "ens_plugin.tracking",
    "grow": "ens_plugin.learners.growth",
    "in_bag": "ens_plugin.analysis",
    "log_report": "ens_plugin.tracking",
    "register_adapter": "ens_plugin.adapters.base",
    "rightsize": "ens_plugin.tracking",
    "training_variance": "ens_plugin.jackknife",
    "truncate": "ens_plugin.truncation",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("ens-plugin")
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
