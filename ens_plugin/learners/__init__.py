"""scikit-learn estimators based on an analysis, and the choice of members' sample sizes; imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.learners.growth.growth import grow
    from ens_plugin.learners.growth.outcome import Growth, GrowthStep
    from ens_plugin.learners.growth.right_sized import RightSizedClassifier, RightSizedRegressor
    from ens_plugin.learners.pruning.dynamic_pruning import DynamicPruningClassifier, PrunedPrediction
    from ens_plugin.papers.model_averaging_2004.model_averaging import BootstrapModelAveragingClassifier
    from ens_plugin.papers.score_tables_2017.bites.design import BiteDesign, BiteOption, design_bites

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
    "BiteDesign": "ens_plugin.papers.score_tables_2017.bites.design",
    "BiteOption": "ens_plugin.papers.score_tables_2017.bites.design",
    "BootstrapModelAveragingClassifier": "ens_plugin.papers.model_averaging_2004.model_averaging",
    "DynamicPruningClassifier": "ens_plugin.learners.pruning.dynamic_pruning",
    "Growth": "ens_plugin.learners.growth.outcome",
    "GrowthStep": "ens_plugin.learners.growth.outcome",
    "PrunedPrediction": "ens_plugin.learners.pruning.dynamic_pruning",
    "RightSizedClassifier": "ens_plugin.learners.growth.right_sized",
    "RightSizedRegressor": "ens_plugin.learners.growth.right_sized",
    "design_bites": "ens_plugin.papers.score_tables_2017.bites.design",
    "grow": "ens_plugin.learners.growth.growth",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
