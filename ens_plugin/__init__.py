"""Estimates of how the error of a trained bagged ensemble depends on its size, up to infinitely many members.

From one trained ensemble, without further training and without validation data, this package estimates the error
curve, how many members are needed, and the bias and variance over seeds, given this training set; on request
also the variance of the predictions over training sets.

Some docstrings name pages of the documentation by their paths in the source code, such as ``docs/methods/votes.md``; an
installed package does not contain them.

Importing this package imports no model library, no MLflow and no plotting: each public name is
loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ens_plugin import errors

if TYPE_CHECKING:
    from ens_plugin.adapters.custom import CustomEnsemble
    from ens_plugin.adapters.registry import register_adapter
    from ens_plugin.adapters.unwrap import split_outputs
    from ens_plugin.analysis.agreement import agreement
    from ens_plugin.analysis.analyze import analyze, in_bag
    from ens_plugin.analysis.display import ErrorCurveDisplay
    from ens_plugin.analysis.lists import importance_agreement
    from ens_plugin.analysis.unlabelled import Agreement
    from ens_plugin.analysis.variance import TrainingVariance, training_variance
    from ens_plugin.oob.importance import PermutationImportance, oob_permutation_importance
    from ens_plugin.oob.predictions import OobPredictions, oob_predictions
    from ens_plugin.oob.search import OneFold, OobScorer, make_oob_scorer
    from ens_plugin.oob.uncertainty import PredictionUncertainty, predict_with_uncertainty
    from ens_plugin.registry import GateDecision, Rightsizing, gate, rightsize
    from ens_plugin.report.budget import Budget
    from ens_plugin.report.comparison import Comparison, compare
    from ens_plugin.report.ensemble_report import EnsembleReport
    from ens_plugin.report.result import BiasVariance, Costs, ErrorCurve, SizeRecommendation
    from ens_plugin.sizing.budget import measure_costs
    from ens_plugin.sizing.grow import Growth, GrowthStep, grow
    from ens_plugin.sizing.right_sized import RightSizedClassifier, RightSizedRegressor
    from ens_plugin.sizing.truncate import truncate
    from ens_plugin.tracking.agreement_log import log_agreement
    from ens_plugin.tracking.autologging import autolog
    from ens_plugin.tracking.log import log_report
    from ens_plugin.votes.analyze import VoteReport, analyze_votes

    __version__: str

__all__ = [
    "Agreement",
    "BiasVariance",
    "Budget",
    "Comparison",
    "Costs",
    "CustomEnsemble",
    "EnsembleReport",
    "ErrorCurve",
    "ErrorCurveDisplay",
    "GateDecision",
    "Growth",
    "GrowthStep",
    "OneFold",
    "OobPredictions",
    "OobScorer",
    "PermutationImportance",
    "PredictionUncertainty",
    "RightSizedClassifier",
    "RightSizedRegressor",
    "Rightsizing",
    "SizeRecommendation",
    "TrainingVariance",
    "VoteReport",
    "__version__",
    "agreement",
    "analyze",
    "analyze_votes",
    "autolog",
    "compare",
    "errors",
    "gate",
    "grow",
    "importance_agreement",
    "in_bag",
    "log_agreement",
    "log_report",
    "make_oob_scorer",
    "measure_costs",
    "oob_permutation_importance",
    "oob_predictions",
    "predict_with_uncertainty",
    "register_adapter",
    "rightsize",
    "split_outputs",
    "training_variance",
    "truncate",
]

_HOME_OF = {
    "Agreement": "ens_plugin.analysis.unlabelled",
    "BiasVariance": "ens_plugin.report.result",
    "Budget": "ens_plugin.report.budget",
    "Comparison": "ens_plugin.report.comparison",
    "Costs": "ens_plugin.report.result",
    "CustomEnsemble": "ens_plugin.adapters.custom",
    "EnsembleReport": "ens_plugin.report.ensemble_report",
    "ErrorCurve": "ens_plugin.report.result",
    "ErrorCurveDisplay": "ens_plugin.analysis.display",
    "GateDecision": "ens_plugin.registry",
    "Growth": "ens_plugin.sizing.grow",
    "GrowthStep": "ens_plugin.sizing.grow",
    "OneFold": "ens_plugin.oob.search",
    "OobPredictions": "ens_plugin.oob.predictions",
    "OobScorer": "ens_plugin.oob.search",
    "PermutationImportance": "ens_plugin.oob.importance",
    "PredictionUncertainty": "ens_plugin.oob.uncertainty",
    "RightSizedClassifier": "ens_plugin.sizing.right_sized",
    "RightSizedRegressor": "ens_plugin.sizing.right_sized",
    "Rightsizing": "ens_plugin.registry",
    "SizeRecommendation": "ens_plugin.report.result",
    "TrainingVariance": "ens_plugin.analysis.variance",
    "VoteReport": "ens_plugin.votes.analyze",
    "agreement": "ens_plugin.analysis.agreement",
    "analyze": "ens_plugin.analysis.analyze",
    "analyze_votes": "ens_plugin.votes.analyze",
    "autolog": "ens_plugin.tracking.autologging",
    "compare": "ens_plugin.report.comparison",
    "gate": "ens_plugin.registry",
    "grow": "ens_plugin.sizing.grow",
    "importance_agreement": "ens_plugin.analysis.lists",
    "in_bag": "ens_plugin.analysis.analyze",
    "log_agreement": "ens_plugin.tracking.agreement_log",
    "log_report": "ens_plugin.tracking.log",
    "make_oob_scorer": "ens_plugin.oob.search",
    "measure_costs": "ens_plugin.sizing.budget",
    "oob_permutation_importance": "ens_plugin.oob.importance",
    "oob_predictions": "ens_plugin.oob.predictions",
    "predict_with_uncertainty": "ens_plugin.oob.uncertainty",
    "register_adapter": "ens_plugin.adapters.registry",
    "rightsize": "ens_plugin.registry",
    "split_outputs": "ens_plugin.adapters.unwrap",
    "training_variance": "ens_plugin.analysis.variance",
    "truncate": "ens_plugin.sizing.truncate",
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
