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
    from ens_plugin.adapters.custom import CustomEnsemble as CustomEnsemble
    from ens_plugin.adapters.registry import register_adapter as register_adapter
    from ens_plugin.adapters.unwrap import split_outputs as split_outputs
    from ens_plugin.analysis.agreement import agreement as agreement
    from ens_plugin.analysis.analyze import analyze as analyze
    from ens_plugin.analysis.analyze import in_bag as in_bag
    from ens_plugin.analysis.display import ErrorCurveDisplay as ErrorCurveDisplay
    from ens_plugin.analysis.lists import importance_agreement as importance_agreement
    from ens_plugin.analysis.unlabelled import Agreement as Agreement
    from ens_plugin.analysis.variance import TrainingVariance as TrainingVariance
    from ens_plugin.analysis.variance import training_variance as training_variance
    from ens_plugin.oob.importance import PermutationImportance as PermutationImportance
    from ens_plugin.oob.importance import oob_permutation_importance as oob_permutation_importance
    from ens_plugin.oob.predictions import OobPredictions as OobPredictions
    from ens_plugin.oob.predictions import oob_predictions as oob_predictions
    from ens_plugin.oob.search import OneFold as OneFold
    from ens_plugin.oob.search import OobScorer as OobScorer
    from ens_plugin.oob.search import make_oob_scorer as make_oob_scorer
    from ens_plugin.oob.uncertainty import PredictionUncertainty as PredictionUncertainty
    from ens_plugin.oob.uncertainty import predict_with_uncertainty as predict_with_uncertainty
    from ens_plugin.registry import GateDecision as GateDecision
    from ens_plugin.registry import Rightsizing as Rightsizing
    from ens_plugin.registry import gate as gate
    from ens_plugin.registry import rightsize as rightsize
    from ens_plugin.report.budget import Budget as Budget
    from ens_plugin.report.comparison import Comparison as Comparison
    from ens_plugin.report.comparison import compare as compare
    from ens_plugin.report.ensemble_report import EnsembleReport as EnsembleReport
    from ens_plugin.report.result import BiasVariance as BiasVariance
    from ens_plugin.report.result import Costs as Costs
    from ens_plugin.report.result import ErrorCurve as ErrorCurve
    from ens_plugin.report.result import SizeRecommendation as SizeRecommendation
    from ens_plugin.sizing.budget import measure_costs as measure_costs
    from ens_plugin.sizing.grow import Growth as Growth
    from ens_plugin.sizing.grow import GrowthStep as GrowthStep
    from ens_plugin.sizing.grow import grow as grow
    from ens_plugin.sizing.right_sized import RightSizedClassifier as RightSizedClassifier
    from ens_plugin.sizing.right_sized import RightSizedRegressor as RightSizedRegressor
    from ens_plugin.sizing.truncate import truncate as truncate
    from ens_plugin.tracking.agreement_log import log_agreement as log_agreement
    from ens_plugin.tracking.autologging import autolog as autolog
    from ens_plugin.tracking.log import log_report as log_report
    from ens_plugin.votes.analyze import VoteReport as VoteReport
    from ens_plugin.votes.analyze import analyze_votes as analyze_votes

    __version__: str

# By the module in which they are defined, which is imported at the first use of one of them.
_NAMES = {
    "ens_plugin.adapters.custom": ("CustomEnsemble",),
    "ens_plugin.adapters.registry": ("register_adapter",),
    "ens_plugin.adapters.unwrap": ("split_outputs",),
    "ens_plugin.analysis.agreement": ("agreement",),
    "ens_plugin.analysis.analyze": ("analyze", "in_bag"),
    "ens_plugin.analysis.display": ("ErrorCurveDisplay",),
    "ens_plugin.analysis.lists": ("importance_agreement",),
    "ens_plugin.analysis.unlabelled": ("Agreement",),
    "ens_plugin.analysis.variance": ("TrainingVariance", "training_variance"),
    "ens_plugin.oob.importance": ("PermutationImportance", "oob_permutation_importance"),
    "ens_plugin.oob.predictions": ("OobPredictions", "oob_predictions"),
    "ens_plugin.oob.search": ("OneFold", "OobScorer", "make_oob_scorer"),
    "ens_plugin.oob.uncertainty": ("PredictionUncertainty", "predict_with_uncertainty"),
    "ens_plugin.registry": ("GateDecision", "Rightsizing", "gate", "rightsize"),
    "ens_plugin.report.budget": ("Budget",),
    "ens_plugin.report.comparison": ("Comparison", "compare"),
    "ens_plugin.report.ensemble_report": ("EnsembleReport",),
    "ens_plugin.report.result": ("BiasVariance", "Costs", "ErrorCurve", "SizeRecommendation"),
    "ens_plugin.sizing.budget": ("measure_costs",),
    "ens_plugin.sizing.grow": ("Growth", "GrowthStep", "grow"),
    "ens_plugin.sizing.right_sized": ("RightSizedClassifier", "RightSizedRegressor"),
    "ens_plugin.sizing.truncate": ("truncate",),
    "ens_plugin.tracking.agreement_log": ("log_agreement",),
    "ens_plugin.tracking.autologging": ("autolog",),
    "ens_plugin.tracking.log": ("log_report",),
    "ens_plugin.votes.analyze": ("VoteReport", "analyze_votes"),
}
_HOME_OF = {name: home for home, names in _NAMES.items() for name in names}
__all__ = [*_HOME_OF, "__version__", "errors"]


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
