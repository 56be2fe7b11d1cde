"""Functions for the adapters of several libraries: threads, labels, draws, leaves, split values, refusals."""

from __future__ import annotations

from ens_plugin.adapters.shared.distributed_bags import ProofStatistics, merge_sums
from ens_plugin.adapters.shared.labels import label_codes
from ens_plugin.adapters.shared.row_queues import ROWS_TOGETHER, move_values
from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.shared.trees.kept_leaves import ROWS_OF_PIECE, KeptLeaves
from ens_plugin.adapters.shared.trees.leaf_counts import count_leaves, target_ranges

__all__ = [
    "ROWS_OF_PIECE",
    "ROWS_TOGETHER",
    "KeptLeaves",
    "ProofStatistics",
    "count_leaves",
    "in_threads",
    "label_codes",
    "merge_sums",
    "move_values",
    "target_ranges",
]
