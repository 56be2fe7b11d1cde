"""Adapters, one package for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
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

_HOME_OF = {
    "BagProof": "ens_plugin.core.tallies.bags",
    "Bags": "ens_plugin.core.tallies.bags",
    "CombinesMembers": "ens_plugin.adapters.capabilities",
    "CountsDraws": "ens_plugin.adapters.capabilities",
    "Distributable": "ens_plugin.adapters.capabilities",
    "DistributedBags": "ens_plugin.adapters.shared.distributed_bags",
    "DrawCounts": "ens_plugin.adapters.shared.draws",
    "EnsembleAdapter": "ens_plugin.adapters.base",
    "EnsembleInfo": "ens_plugin.adapters.base",
    "FileReadable": "ens_plugin.adapters.library",
    "FitSite": "ens_plugin.adapters.training",
    "Flavor": "ens_plugin.adapters.library",
    "HeldOutOnly": "ens_plugin.adapters.capabilities",
    "JudgedByLoss": "ens_plugin.adapters.capabilities",
    "NativeInterface": "ens_plugin.adapters.library",
    "ProofStatistics": "ens_plugin.adapters.shared.distributed_bags",
    "Storable": "ens_plugin.adapters.library",
    "Task": "ens_plugin.adapters.base",
    "Trainable": "ens_plugin.adapters.library",
    "TrainedModel": "ens_plugin.adapters.training",
    "TrainingData": "ens_plugin.adapters.training",
    "TrainingRows": "ens_plugin.adapters.training",
    "Truncatable": "ens_plugin.adapters.capabilities",
    "VerifiesRows": "ens_plugin.adapters.capabilities",
    "counts_of_rows": "ens_plugin.adapters.shared.draws",
    "distributed_bags": "ens_plugin.adapters.capabilities",
    "draw_bags": "ens_plugin.adapters.base",
    "find_adapter": "ens_plugin.adapters.registry",
    "find_library": "ens_plugin.adapters.registry",
    "fit_methods": "ens_plugin.adapters.training",
    "libraries": "ens_plugin.adapters.registry",
    "method_arguments": "ens_plugin.adapters.training",
    "outputs_by_member": "ens_plugin.adapters.base",
    "retrain": "ens_plugin.adapters.training",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
