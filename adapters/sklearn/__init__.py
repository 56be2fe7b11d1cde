"""Adapters of scikit-learn's forests and bagging ensembles, and all other code for that library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ens_plugin.adapters.sklearn.bagging import SklearnBaggingAdapter
    from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter

__all__ = ["SklearnBaggingAdapter", "SklearnForestAdapter"]

_HOME_OF = {
    "SklearnBaggingAdapter": "ens_plugin.adapters.sklearn.bagging",
    "SklearnForestAdapter": "ens_plugin.adapters.sklearn.forest",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
