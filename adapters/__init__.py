"""Adapters, a file or folder for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.contract import (
        DistributedBags,
        EnsembleAdapter,
        EnsembleInfo,
        ProofStatistics,
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
    "DistributedBags",
    "DrawCounts",
    "EnsembleAdapter",
    "EnsembleInfo",
    "FitSite",
    "Flavor",
    "Library",
    "ProofStatistics",
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

_HOME_OF = {
    "BagProof": "ens_plugin.core.bags",
    "Bags": "ens_plugin.core.bags",
    "DistributedBags": "ens_plugin.adapters.contract",
    "DrawCounts": "ens_plugin.adapters.members",
    "EnsembleAdapter": "ens_plugin.adapters.contract",
    "EnsembleInfo": "ens_plugin.adapters.contract",
    "FitSite": "ens_plugin.adapters.library",
    "Flavor": "ens_plugin.adapters.library",
    "Library": "ens_plugin.adapters.library",
    "ProofStatistics": "ens_plugin.adapters.contract",
    "Task": "ens_plugin.adapters.contract",
    "TrainedModel": "ens_plugin.adapters.library",
    "TrainingData": "ens_plugin.adapters.library",
    "TrainingRows": "ens_plugin.adapters.library",
    "counts_of_rows": "ens_plugin.adapters.members",
    "draw_bags": "ens_plugin.adapters.contract",
    "find_adapter": "ens_plugin.adapters.registry",
    "find_library": "ens_plugin.adapters.registry",
    "fit_methods": "ens_plugin.adapters.library",
    "libraries": "ens_plugin.adapters.registry",
    "method_arguments": "ens_plugin.adapters.library",
    "outputs_by_member": "ens_plugin.adapters.contract",
    "retrain": "ens_plugin.adapters.library",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
