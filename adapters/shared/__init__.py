"""Functions for the adapters of several libraries: threads, labels, draws, leaves, split values, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.adapters.shared.compiled_sums import label_order, vote_pairs
    from ens_plugin.adapters.shared.distributed_bags import ProofStatistics, merge_sums
    from ens_plugin.adapters.shared.labels import label_codes
    from ens_plugin.adapters.shared.member_parameters import bag_doubts
    from ens_plugin.adapters.shared.row_queues import ROWS_TOGETHER, move_values, move_values_by_label
    from ens_plugin.adapters.shared.threads import in_threads
    from ens_plugin.adapters.shared.trees.kept_leaves import ROWS_OF_PIECE, KeptLeaves
    from ens_plugin.adapters.shared.trees.leaf_counts import count_leaves, target_ranges

__all__ = [
    "ROWS_OF_PIECE",
    "ROWS_TOGETHER",
    "KeptLeaves",
    "ProofStatistics",
    "bag_doubts",
    "count_leaves",
    "in_threads",
    "label_codes",
    "label_order",
    "merge_sums",
    "move_values",
    "move_values_by_label",
    "target_ranges",
    "vote_pairs",
]

_HOME_OF = {
    "KeptLeaves": "ens_plugin.adapters.shared.trees.kept_leaves",
    "ProofStatistics": "ens_plugin.adapters.shared.distributed_bags",
    "ROWS_OF_PIECE": "ens_plugin.adapters.shared.trees.kept_leaves",
    "ROWS_TOGETHER": "ens_plugin.adapters.shared.row_queues",
    "bag_doubts": "ens_plugin.adapters.shared.member_parameters",
    "count_leaves": "ens_plugin.adapters.shared.trees.leaf_counts",
    "in_threads": "ens_plugin.adapters.shared.threads",
    "label_codes": "ens_plugin.adapters.shared.labels",
    "label_order": "ens_plugin.adapters.shared.compiled_sums",
    "merge_sums": "ens_plugin.adapters.shared.distributed_bags",
    "move_values": "ens_plugin.adapters.shared.row_queues",
    "move_values_by_label": "ens_plugin.adapters.shared.row_queues",
    "target_ranges": "ens_plugin.adapters.shared.trees.leaf_counts",
    "vote_pairs": "ens_plugin.adapters.shared.compiled_sums",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
