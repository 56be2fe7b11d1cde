"""Adapters, one package for each model library: they read the bags and the outputs of an ensemble's members.

Imported as ``ens_plugin.adapters``.
"""

from __future__ import annotations

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, Task, outputs_by_member
from ens_plugin.adapters.capabilities import Truncatable, distributed_bags
from ens_plugin.adapters.library import FileReadable, Flavor, NativeInterface, Storable, Trainable
from ens_plugin.adapters.registry import find_adapter, find_library, libraries
from ens_plugin.adapters.training import TrainingRows, fit_methods, method_arguments, retrain

__all__ = [
    "EnsembleAdapter",
    "EnsembleInfo",
    "FileReadable",
    "Flavor",
    "NativeInterface",
    "Storable",
    "Task",
    "Trainable",
    "TrainingRows",
    "Truncatable",
    "distributed_bags",
    "find_adapter",
    "find_library",
    "fit_methods",
    "libraries",
    "method_arguments",
    "outputs_by_member",
    "retrain",
]
