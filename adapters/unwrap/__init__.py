"""Access to the ensemble inside a pipeline, a search, or a wrapper of MLflow or Spark."""

from __future__ import annotations

from ens_plugin.adapters.unwrap.spark_wrappers import held_model, java_reason, stages_and_model
from ens_plugin.adapters.unwrap.supervised_steps import supervised_steps
from ens_plugin.adapters.unwrap.wrappers import replace_ensemble, unwrap

__all__ = ["held_model", "java_reason", "replace_ensemble", "stages_and_model", "supervised_steps", "unwrap"]
