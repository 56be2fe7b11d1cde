"""Counts and sums by row: bags, members' outputs, weights, groups; tallies of disjoint rows merge."""

from __future__ import annotations

from ens_plugin.core.columns import in_few_bytes, sums_by_code, whole_counts
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.contests import Subsets, count_votes_by
from ens_plugin.core.tallies.growth_path import CHUNK, PathTally, merge_paths, tally_path
from ens_plugin.core.tallies.known_rows import match_training_rows, may_be_known
from ens_plugin.core.tallies.margin_tally import member_margins, strongest_rival, tally_margins, tally_score_signs
from ens_plugin.core.tallies.representation import Representation, bounds_by_members, represent
from ens_plugin.core.tallies.row_groups import design_effect, group_sums, small_number_factor
from ens_plugin.core.tallies.row_sampling import sample_keys, smallest_keys
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight, row_quantiles
from ens_plugin.core.tallies.samples.score_block import ScoreBlock
from ens_plugin.core.tallies.subset_rates import SubsetRates, subset_rates
from ens_plugin.core.tallies.subsets import Sample, subset_means, subset_statistics
from ens_plugin.core.tallies.tally import (
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
    "represent",
    "row_quantiles",
    "sample_keys",
    "select_rows",
    "small_number_factor",
    "smallest_keys",
    "strongest_rival",
    "subset_means",
    "subset_rates",
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
