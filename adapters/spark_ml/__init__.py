"""The adapter of Spark ML's random forests, and the code that reads their trees."""

from __future__ import annotations

from ens_plugin.adapters.spark_ml.forest import SparkForest, SparkForestAdapter
from ens_plugin.adapters.spark_ml.nodes import Tree

__all__ = ["SparkForest", "SparkForestAdapter", "Tree"]
