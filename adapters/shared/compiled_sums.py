"""Sums over members, and counts of votes, by ens-plugin-walk where it is installed; to the bit the same as without."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ens_plugin.adapters.shared.trees import walk_package
from ens_plugin.core import tallies
from ens_plugin.core.tallies.samples import LabelOrder
from ens_plugin.core.tallies.tally import value_sums

if TYPE_CHECKING:
    from ens_plugin.core.tallies.contests import VoteCounts
    from ens_plugin.core.tallies.tally import RowBlock, Sums
    from ens_plugin.core.uncertainty.pair_covariance import VotePairs
    from ens_plugin.core.validation import FloatArray

__all__ = ["CompiledSums", "compiled_sums", "label_order", "moment_sums", "subset_counts", "vote_pairs"]


class CompiledSums(NamedTuple):
    """Functions that compute the sums of a block of rows; None for those of :mod:`ens_plugin.core.tallies`.

    Attributes
    ----------
    of_values : callable or None
        As ``value_sums``, with the further sums of ``score_sums``.
    of_margins : callable or None
        As ``margin_sums``.
    """

    of_values: Sums | None = None
    of_margins: Sums | None = None


def compiled_sums(block: RowBlock) -> CompiledSums:
    """Return the functions for the outputs of a block: those of ens-plugin-walk, if they can read them."""
    # Of other types, NumPy rounds some sums to the type.
    if block.outputs.dtype != np.float64:
        return CompiledSums()
    of_values, of_margins = (walk_package.compiled_function(name) for name in ("value_sums", "margin_sums"))
    if of_values is None or of_margins is None:
        return CompiledSums()
    return CompiledSums(
        of_values=lambda own: of_values(own.outputs, own.counted),
        of_margins=lambda own: of_margins(own.outputs, own.counted, own.target),
    )


def moment_sums(block: RowBlock) -> FloatArray:
    """Return ``value_sums`` of a block of values, shape (3, n_rows)."""
    return (compiled_sums(block).of_values or value_sums)(block)[:3]


def subset_counts() -> VoteCounts:
    """Return the function that counts the votes of subsets: that of ens-plugin-walk, or ``count_votes_by``."""
    count = walk_package.compiled_function("subset_votes")
    if count is None:
        return tallies.count_votes_by
    return lambda votes, target, n_slots, subsets: count(votes, target, n_slots, subsets.places)


def label_order() -> LabelOrder | None:
    """Return the functions of ens-plugin-walk that find and make an order of rows by their labels, or None."""
    places, move = (walk_package.compiled_function(name) for name in ("label_places", "move_labels"))
    return None if places is None or move is None else LabelOrder(places, move)


def vote_pairs() -> VotePairs | None:
    """Return the functions of ens-plugin-walk that sum over pairs of rows as ``sum_pairs`` does, of votes, or None."""
    from ens_plugin.core.uncertainty.pair_covariance import VotePairs

    of_parts = walk_package.compiled_function("vote_pairs")
    return None if of_parts is None else VotePairs(of_parts, walk_package.compiled_function("block_pairs"))
