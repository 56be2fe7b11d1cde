"""XGBoost's model document: reading, writing, a check for damage, and truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.xgboost.document.leaves import LeafReader, read_leaves
    from ens_plugin.adapters.xgboost.document.model import read_forest

__all__ = ["LeafReader", "read_forest", "read_leaves"]

_HOME_OF = {
    "LeafReader": "ens_plugin.adapters.xgboost.document.leaves",
    "read_forest": "ens_plugin.adapters.xgboost.document.model",
    "read_leaves": "ens_plugin.adapters.xgboost.document.leaves",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
