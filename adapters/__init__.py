"""Adapters, a file or folder for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""

from __future__ import annotations

from ens_plugin.adapters.contract import (
    EnsembleAdapter,
    EnsembleInfo,
    Task,
    draw_bags,
    outputs_by_member,
)
from ens_plugin.adapters.library import (
    FitSite,
    Flavor,
    Library,
    TrainedModel,
    TrainingData,
    TrainingRows,
    fit_methods,
    method_arguments,
    retrain,
)
from ens_plugin.adapters.members import DrawCounts, counts_of_rows
from ens_plugin.adapters.registry import find_adapter, find_library, libraries
from ens_plugin.core.bags import BagProof, Bags

__all__ = [
    "BagProof",
    "Bags",
    "DrawCounts",
    "EnsembleAdapter",
    "EnsembleInfo",
    "FitSite",
    "Flavor",
    "Library",
    "Task",
    "TrainedModel",
    "TrainingData",
    "TrainingRows",
    "counts_of_rows",
    "draw_bags",
    "find_adapter",
    "find_library",
    "fit_methods",
    "libraries",
    "method_arguments",
    "outputs_by_member",
    "retrain",
]
