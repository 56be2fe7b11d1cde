"""Checks of the rows of an analysis: few distinct rows, training rows passed as held out, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.checks.distinct_rows import row_cells
    from ens_plugin.analysis.checks.held_out_rows import LIKE_TRAINING_ROWS, UNKNOWN_ROWS
    from ens_plugin.analysis.checks.judged_rows import JudgedRows, judged_by_both, paired_difference
    from ens_plugin.analysis.checks.supervised_steps import chance_share

__all__ = [
    "LIKE_TRAINING_ROWS",
    "UNKNOWN_ROWS",
    "JudgedRows",
    "chance_share",
    "judged_by_both",
    "paired_difference",
    "row_cells",
]

_HOME_OF = {
    "JudgedRows": "ens_plugin.analysis.checks.judged_rows",
    "LIKE_TRAINING_ROWS": "ens_plugin.analysis.checks.held_out_rows",
    "UNKNOWN_ROWS": "ens_plugin.analysis.checks.held_out_rows",
    "chance_share": "ens_plugin.analysis.checks.supervised_steps",
    "judged_by_both": "ens_plugin.analysis.checks.judged_rows",
    "paired_difference": "ens_plugin.analysis.checks.judged_rows",
    "row_cells": "ens_plugin.analysis.checks.distinct_rows",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
