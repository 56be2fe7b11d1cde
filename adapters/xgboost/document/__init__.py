"""XGBoost's model document: reading, writing, a check for damage, and truncation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ens_plugin.adapters.xgboost.document.leaves import LeafReader, read_leaves
    from ens_plugin.adapters.xgboost.document.model import read_forest

__all__ = ["LeafReader", "read_forest", "read_leaves"]

_HOME_OF = {
    "LeafReader": "ens_plugin.adapters.xgboost.document.leaves",
    "read_forest": "ens_plugin.adapters.xgboost.document.model",
    "read_leaves": "ens_plugin.adapters.xgboost.document.leaves",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
