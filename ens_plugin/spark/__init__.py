"""The analysis of a Spark DataFrame: partitions are tallied on the executors, and the tallies merged."""

from __future__ import annotations

from ens_plugin.spark.analysis import analyze

__all__ = ["analyze"]
