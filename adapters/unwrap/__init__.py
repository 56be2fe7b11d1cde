"""Access to the ensemble inside a pipeline, a search, or a wrapper of MLflow or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

# This function has the name of its module, which would hide it if the function were loaded later.
from ens_plugin.adapters.unwrap.supervised_steps import supervised_steps
from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.unwrap.spark_wrappers import held_model, java_reason, stages_and_model
    from ens_plugin.adapters.unwrap.wrappers import replace_ensemble, unwrap

__all__ = ["held_model", "java_reason", "replace_ensemble", "stages_and_model", "supervised_steps", "unwrap"]

_HOME_OF = {
    "held_model": "ens_plugin.adapters.unwrap.spark_wrappers",
    "java_reason": "ens_plugin.adapters.unwrap.spark_wrappers",
    "replace_ensemble": "ens_plugin.adapters.unwrap.wrappers",
    "stages_and_model": "ens_plugin.adapters.unwrap.spark_wrappers",
    "unwrap": "ens_plugin.adapters.unwrap.wrappers",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
