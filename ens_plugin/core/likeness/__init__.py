"""Rows that are copies of each other, exactly or nearly, or belong together by their order; no estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

# This function has the name of its module, which would hide it if the function were loaded later.
from ens_plugin.core.likeness.oversampled_labels import oversampled_labels
from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.core.likeness.adjacent_rows import AdjacentLosses, adjacent_losses
    from ens_plugin.core.likeness.ensemble_neighbours import (
        MateLosses,
        Neighbours,
        mate_losses,
        nearest_in_ensemble,
        nearness,
        rank_scaled,
    )
    from ens_plugin.core.likeness.equal_outputs import are_alike, output_cells
    from ens_plugin.core.likeness.near_rows import companions, interpolated, nearest_rows
    from ens_plugin.core.likeness.ordinary_ties import (
        chance_share,
        paired_halves,
        tied_pairs,
        ties_explain,
        unlike_columns,
    )
    from ens_plugin.core.likeness.own_predictions import are_own_values, end_at_a_tie
    from ens_plugin.core.likeness.repeated_rows import (
        appended_rows,
        column_halves,
        copied_rows,
        evenly_repeated,
        numbered,
        point_masses,
        too_even,
    )
    from ens_plugin.core.likeness.subject_columns import (
        are_equally_frequent,
        jumps_between_values,
        losses_without_own_value,
        places_of_recurring,
        share_of_recurring,
        turns_taken,
    )

__all__ = [
    "AdjacentLosses",
    "MateLosses",
    "Neighbours",
    "adjacent_losses",
    "appended_rows",
    "are_alike",
    "are_equally_frequent",
    "are_own_values",
    "chance_share",
    "column_halves",
    "companions",
    "copied_rows",
    "end_at_a_tie",
    "evenly_repeated",
    "interpolated",
    "jumps_between_values",
    "losses_without_own_value",
    "mate_losses",
    "nearest_in_ensemble",
    "nearest_rows",
    "nearness",
    "numbered",
    "output_cells",
    "oversampled_labels",
    "paired_halves",
    "places_of_recurring",
    "point_masses",
    "rank_scaled",
    "share_of_recurring",
    "tied_pairs",
    "ties_explain",
    "too_even",
    "turns_taken",
    "unlike_columns",
]

_HOME_OF = {
    "AdjacentLosses": "ens_plugin.core.likeness.adjacent_rows",
    "MateLosses": "ens_plugin.core.likeness.ensemble_neighbours",
    "Neighbours": "ens_plugin.core.likeness.ensemble_neighbours",
    "adjacent_losses": "ens_plugin.core.likeness.adjacent_rows",
    "appended_rows": "ens_plugin.core.likeness.repeated_rows",
    "are_alike": "ens_plugin.core.likeness.equal_outputs",
    "are_equally_frequent": "ens_plugin.core.likeness.subject_columns",
    "are_own_values": "ens_plugin.core.likeness.own_predictions",
    "chance_share": "ens_plugin.core.likeness.ordinary_ties",
    "column_halves": "ens_plugin.core.likeness.repeated_rows",
    "companions": "ens_plugin.core.likeness.near_rows",
    "copied_rows": "ens_plugin.core.likeness.repeated_rows",
    "end_at_a_tie": "ens_plugin.core.likeness.own_predictions",
    "evenly_repeated": "ens_plugin.core.likeness.repeated_rows",
    "interpolated": "ens_plugin.core.likeness.near_rows",
    "jumps_between_values": "ens_plugin.core.likeness.subject_columns",
    "losses_without_own_value": "ens_plugin.core.likeness.subject_columns",
    "mate_losses": "ens_plugin.core.likeness.ensemble_neighbours",
    "nearest_in_ensemble": "ens_plugin.core.likeness.ensemble_neighbours",
    "nearest_rows": "ens_plugin.core.likeness.near_rows",
    "nearness": "ens_plugin.core.likeness.ensemble_neighbours",
    "numbered": "ens_plugin.core.likeness.repeated_rows",
    "output_cells": "ens_plugin.core.likeness.equal_outputs",
    "paired_halves": "ens_plugin.core.likeness.ordinary_ties",
    "places_of_recurring": "ens_plugin.core.likeness.subject_columns",
    "point_masses": "ens_plugin.core.likeness.repeated_rows",
    "rank_scaled": "ens_plugin.core.likeness.ensemble_neighbours",
    "share_of_recurring": "ens_plugin.core.likeness.subject_columns",
    "tied_pairs": "ens_plugin.core.likeness.ordinary_ties",
    "ties_explain": "ens_plugin.core.likeness.ordinary_ties",
    "too_even": "ens_plugin.core.likeness.repeated_rows",
    "turns_taken": "ens_plugin.core.likeness.subject_columns",
    "unlike_columns": "ens_plugin.core.likeness.ordinary_ties",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
