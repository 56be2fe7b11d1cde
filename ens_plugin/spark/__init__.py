"""The same analysis from a Spark DataFrame: partitions in, tallies out, merged."""

from __future__ import annotations

from ens_plugin.spark.analysis import analyze

__all__ = ["analyze"]
