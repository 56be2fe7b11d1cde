"""The parts of a report that are logged, and MLflow's run as a tracker: scalars, curves, files, a description."""

from __future__ import annotations

from ens_plugin.tracking.logging.artifacts import render_artifacts, write_data
from ens_plugin.tracking.logging.curve_points import charted_sizes, curve_points, scalar_points
from ens_plugin.tracking.logging.mlflow_run import DESCRIPTION_LIMIT, merge_description
from ens_plugin.tracking.logging.report_content import report_parts

__all__ = [
    "DESCRIPTION_LIMIT",
    "charted_sizes",
    "curve_points",
    "merge_description",
    "render_artifacts",
    "report_parts",
    "scalar_points",
    "write_data",
]
