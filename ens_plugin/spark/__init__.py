"""The analysis of a Spark DataFrame: executors tally the rows of each partition, and the sums are merged."""

from __future__ import annotations

from ens_plugin.spark.analysis import analyze, behind_stages

__all__ = ["analyze", "behind_stages"]
