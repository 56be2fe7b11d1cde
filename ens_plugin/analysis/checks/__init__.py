"""Checks of the rows of an analysis: few distinct rows, training rows passed as held out, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.checks.changed_rows import changed_rows_share, doubt_about_changed_rows
    from ens_plugin.analysis.checks.distinct_rows import row_cells
    from ens_plugin.analysis.checks.held_out_rows import LIKE_TRAINING_ROWS, UNKNOWN_ROWS, judge_held_out_rows
    from ens_plugin.analysis.checks.judged_metric import JudgedMetric, judge_metric
    from ens_plugin.analysis.checks.judged_rows import JudgedRows, judge_rows, judged_by_both, paired_difference
    from ens_plugin.analysis.checks.supervised_steps import chance_share

__all__ = [
    "LIKE_TRAINING_ROWS",
    "UNKNOWN_ROWS",
    "JudgedMetric",
    "JudgedRows",
    "chance_share",
    "changed_rows_share",
    "doubt_about_changed_rows",
    "judge_held_out_rows",
    "judge_metric",
    "judge_rows",
    "judged_by_both",
    "paired_difference",
    "row_cells",
]

_HOME_OF = {
    "JudgedMetric": "ens_plugin.analysis.checks.judged_metric",
    "JudgedRows": "ens_plugin.analysis.checks.judged_rows",
    "LIKE_TRAINING_ROWS": "ens_plugin.analysis.checks.held_out_rows",
    "UNKNOWN_ROWS": "ens_plugin.analysis.checks.held_out_rows",
    "chance_share": "ens_plugin.analysis.checks.supervised_steps",
    "changed_rows_share": "ens_plugin.analysis.checks.changed_rows",
    "doubt_about_changed_rows": "ens_plugin.analysis.checks.changed_rows",
    "judge_held_out_rows": "ens_plugin.analysis.checks.held_out_rows",
    "judge_metric": "ens_plugin.analysis.checks.judged_metric",
    "judge_rows": "ens_plugin.analysis.checks.judged_rows",
    "judged_by_both": "ens_plugin.analysis.checks.judged_rows",
    "paired_difference": "ens_plugin.analysis.checks.judged_rows",
    "row_cells": "ens_plugin.analysis.checks.distinct_rows",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
