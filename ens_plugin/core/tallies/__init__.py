"""Counts and sums by row: bags, members' outputs, weights, groups; tallies of disjoint rows merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.core.columns import in_few_bytes, sums_by_code, whole_counts
    from ens_plugin.core.tallies.bags import Bags
    from ens_plugin.core.tallies.contests import Subsets, count_votes_by
    from ens_plugin.core.tallies.growth_path import PathTally, merge_paths, tally_path
    from ens_plugin.core.tallies.known_rows import match_training_rows, may_be_known
    from ens_plugin.core.tallies.margin_tally import member_margins, strongest_rival, tally_margins, tally_score_signs
    from ens_plugin.core.tallies.representation import Representation, bounds_by_members, represent
    from ens_plugin.core.tallies.row_groups import design_effect, group_sums, small_number_factor
    from ens_plugin.core.tallies.row_sampling import sample_keys, smallest_keys
    from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight, row_quantiles
    from ens_plugin.core.tallies.samples.score_block import ScoreBlock
    from ens_plugin.core.tallies.subset_rates import SubsetRates, rates_of_subsets
    from ens_plugin.core.tallies.subsets import Sample, subset_means, subset_statistics
    from ens_plugin.core.tallies.tally import (
        CHUNK,
        AnyTally,
        MarginTally,
        RowBlock,
        SupportTally,
        ValueTally,
        both_scores,
        concatenate,
        copy_rows,
        count_members,
        empty_tally,
        label_support,
        mean_share,
        member_labels,
        parts_of,
        select_rows,
        sum_over_members,
        tally_support,
        tally_values,
        wrong_support,
    )

__all__ = [
    "CHUNK",
    "AnyTally",
    "Bags",
    "MarginTally",
    "PathTally",
    "Representation",
    "RowBlock",
    "RowWeight",
    "Sample",
    "ScoreBlock",
    "SubsetRates",
    "Subsets",
    "SupportTally",
    "ValueTally",
    "as_row_weight",
    "both_scores",
    "bounds_by_members",
    "concatenate",
    "copy_rows",
    "count_members",
    "count_votes_by",
    "design_effect",
    "empty_tally",
    "group_sums",
    "in_few_bytes",
    "label_support",
    "match_training_rows",
    "may_be_known",
    "mean_share",
    "member_labels",
    "member_margins",
    "merge_paths",
    "parts_of",
    "rates_of_subsets",
    "represent",
    "row_quantiles",
    "sample_keys",
    "select_rows",
    "small_number_factor",
    "smallest_keys",
    "strongest_rival",
    "subset_means",
    "subset_statistics",
    "sum_over_members",
    "sums_by_code",
    "tally_margins",
    "tally_path",
    "tally_score_signs",
    "tally_support",
    "tally_values",
    "whole_counts",
    "wrong_support",
]

_HOME_OF = {
    "AnyTally": "ens_plugin.core.tallies.tally",
    "Bags": "ens_plugin.core.tallies.bags",
    "CHUNK": "ens_plugin.core.tallies.tally",
    "MarginTally": "ens_plugin.core.tallies.tally",
    "PathTally": "ens_plugin.core.tallies.growth_path",
    "Representation": "ens_plugin.core.tallies.representation",
    "RowBlock": "ens_plugin.core.tallies.tally",
    "RowWeight": "ens_plugin.core.tallies.row_weight",
    "Sample": "ens_plugin.core.tallies.subsets",
    "ScoreBlock": "ens_plugin.core.tallies.samples.score_block",
    "SubsetRates": "ens_plugin.core.tallies.subset_rates",
    "Subsets": "ens_plugin.core.tallies.contests",
    "SupportTally": "ens_plugin.core.tallies.tally",
    "ValueTally": "ens_plugin.core.tallies.tally",
    "as_row_weight": "ens_plugin.core.tallies.row_weight",
    "both_scores": "ens_plugin.core.tallies.tally",
    "bounds_by_members": "ens_plugin.core.tallies.representation",
    "concatenate": "ens_plugin.core.tallies.tally",
    "copy_rows": "ens_plugin.core.tallies.tally",
    "count_members": "ens_plugin.core.tallies.tally",
    "count_votes_by": "ens_plugin.core.tallies.contests",
    "design_effect": "ens_plugin.core.tallies.row_groups",
    "empty_tally": "ens_plugin.core.tallies.tally",
    "group_sums": "ens_plugin.core.tallies.row_groups",
    "in_few_bytes": "ens_plugin.core.columns",
    "label_support": "ens_plugin.core.tallies.tally",
    "match_training_rows": "ens_plugin.core.tallies.known_rows",
    "may_be_known": "ens_plugin.core.tallies.known_rows",
    "mean_share": "ens_plugin.core.tallies.tally",
    "member_labels": "ens_plugin.core.tallies.tally",
    "member_margins": "ens_plugin.core.tallies.margin_tally",
    "merge_paths": "ens_plugin.core.tallies.growth_path",
    "parts_of": "ens_plugin.core.tallies.tally",
    "rates_of_subsets": "ens_plugin.core.tallies.subset_rates",
    "represent": "ens_plugin.core.tallies.representation",
    "row_quantiles": "ens_plugin.core.tallies.row_weight",
    "sample_keys": "ens_plugin.core.tallies.row_sampling",
    "select_rows": "ens_plugin.core.tallies.tally",
    "small_number_factor": "ens_plugin.core.tallies.row_groups",
    "smallest_keys": "ens_plugin.core.tallies.row_sampling",
    "strongest_rival": "ens_plugin.core.tallies.margin_tally",
    "subset_means": "ens_plugin.core.tallies.subsets",
    "subset_statistics": "ens_plugin.core.tallies.subsets",
    "sum_over_members": "ens_plugin.core.tallies.tally",
    "sums_by_code": "ens_plugin.core.columns",
    "tally_margins": "ens_plugin.core.tallies.margin_tally",
    "tally_path": "ens_plugin.core.tallies.growth_path",
    "tally_score_signs": "ens_plugin.core.tallies.margin_tally",
    "tally_support": "ens_plugin.core.tallies.tally",
    "tally_values": "ens_plugin.core.tallies.tally",
    "whole_counts": "ens_plugin.core.columns",
    "wrong_support": "ens_plugin.core.tallies.tally",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
