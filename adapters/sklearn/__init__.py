"""Adapters of scikit-learn's forests and bagging ensembles, and all other code for that library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.sklearn.bagging import SklearnBaggingAdapter
    from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter

__all__ = ["SklearnBaggingAdapter", "SklearnForestAdapter"]

_HOME_OF = {
    "SklearnBaggingAdapter": "ens_plugin.adapters.sklearn.bagging",
    "SklearnForestAdapter": "ens_plugin.adapters.sklearn.forest",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
