"""Rows that are copies of each other, exactly or nearly, or belong together by their order; no estimates."""

from __future__ import annotations

from ens_plugin.core.likeness.adjacent_rows import AdjacentLosses, adjacent_losses
from ens_plugin.core.likeness.equal_outputs import are_alike, output_cells
from ens_plugin.core.likeness.near_rows import companions, interpolated, nearest_rows
from ens_plugin.core.likeness.ordinary_ties import (
    chance_share,
    paired_halves,
    tied_pairs,
    ties_explain,
    unlike_columns,
)
from ens_plugin.core.likeness.oversampled_labels import oversampled_labels
from ens_plugin.core.likeness.repeated_rows import (
    appended_rows,
    column_halves,
    copied_rows,
    evenly_repeated,
    numbered,
    too_even,
)

__all__ = [
    "AdjacentLosses",
    "adjacent_losses",
    "appended_rows",
    "are_alike",
    "chance_share",
    "column_halves",
    "companions",
    "copied_rows",
    "evenly_repeated",
    "interpolated",
    "nearest_rows",
    "numbered",
    "output_cells",
    "oversampled_labels",
    "paired_halves",
    "tied_pairs",
    "ties_explain",
    "too_even",
    "unlike_columns",
]
