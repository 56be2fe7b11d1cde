"""Adapters, one package for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""

from __future__ import annotations

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, Task, draw_bags, outputs_by_member
from ens_plugin.adapters.capabilities import (
    CombinesMembers,
    CountsDraws,
    Distributable,
    HeldOutOnly,
    JudgedByLoss,
    Truncatable,
    VerifiesRows,
    distributed_bags,
)
from ens_plugin.adapters.library import FileReadable, Flavor, NativeInterface, Storable, Trainable
from ens_plugin.adapters.registry import find_adapter, find_library, libraries
from ens_plugin.adapters.shared.distributed_bags import DistributedBags, ProofStatistics
from ens_plugin.adapters.shared.draws import DrawCounts, counts_of_rows
from ens_plugin.adapters.training import (
    FitSite,
    TrainedModel,
    TrainingData,
    TrainingRows,
    fit_methods,
    method_arguments,
    retrain,
)
from ens_plugin.core.tallies.bags import BagProof, Bags

__all__ = [
    "BagProof",
    "Bags",
    "CombinesMembers",
    "CountsDraws",
    "Distributable",
    "DistributedBags",
    "DrawCounts",
    "EnsembleAdapter",
    "EnsembleInfo",
    "FileReadable",
    "FitSite",
    "Flavor",
    "HeldOutOnly",
    "JudgedByLoss",
    "NativeInterface",
    "ProofStatistics",
    "Storable",
    "Task",
    "Trainable",
    "TrainedModel",
    "TrainingData",
    "TrainingRows",
    "Truncatable",
    "VerifiesRows",
    "counts_of_rows",
    "distributed_bags",
    "draw_bags",
    "find_adapter",
    "find_library",
    "fit_methods",
    "libraries",
    "method_arguments",
    "outputs_by_member",
    "retrain",
]
