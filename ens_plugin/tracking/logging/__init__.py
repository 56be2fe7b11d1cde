"""The parts of a report that are logged to an MLflow run: scalars, curves, files, a description."""

from __future__ import annotations

from ens_plugin.tracking.logging.artifacts import render_artifacts, write_data
from ens_plugin.tracking.logging.curve_points import charted_sizes, curve_points, scalar_points
from ens_plugin.tracking.logging.report_log import DESCRIPTION_LIMIT, merge_description

__all__ = [
    "DESCRIPTION_LIMIT",
    "charted_sizes",
    "curve_points",
    "merge_description",
    "render_artifacts",
    "scalar_points",
    "write_data",
]
