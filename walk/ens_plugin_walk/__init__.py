"""The compiled search for the leaves that rows reach in trees; used by ens_plugin where it is installed."""

from __future__ import annotations

from ens_plugin_walk.draws import drawn_bits, product_bits
from ens_plugin_walk.forest import Forest
from ens_plugin_walk.labels import pure_labels
from ens_plugin_walk.orders import label_places, move_labels
from ens_plugin_walk.pairs import block_pairs, vote_pairs
from ens_plugin_walk.queues import move_values
from ens_plugin_walk.tallies import class_margin_sums, margin_sums, value_sums
from ens_plugin_walk.tree import Tree
from ens_plugin_walk.votes import subset_votes

__all__ = [
    "Forest",
    "Tree",
    "block_pairs",
    "class_margin_sums",
    "drawn_bits",
    "label_places",
    "margin_sums",
    "move_labels",
    "move_values",
    "product_bits",
    "pure_labels",
    "subset_votes",
    "value_sums",
    "vote_pairs",
]
