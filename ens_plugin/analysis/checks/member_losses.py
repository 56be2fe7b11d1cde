"""The loss of each member for some of the rows, by which members are compared with each other."""

from __future__ import annotations

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, member_labels
from ens_plugin.core.validation import FloatArray

__all__ = ["compared_number", "compared_rows", "member_losses"]

COMPARED_OUTPUTS = 200_000
FEWEST_ROWS = 500


def compared_rows(adapter: EnsembleAdapter, sample: Sample) -> Sample:
    """Return as many of the sampled rows as take little time to compare, 500 at least."""
    return sample.some_rows(compared_number(adapter))


def compared_number(adapter: EnsembleAdapter) -> int:
    """Return how many rows take little time to compare the members on."""
    return max(COMPARED_OUTPUTS // adapter.n_members, FEWEST_ROWS)


def member_losses(adapter: EnsembleAdapter, block: RowBlock) -> FloatArray:
    """Return the loss of each member for each row: 0-1, one less the label's probability, or the absolute error.

    Returns
    -------
    ndarray, shape (n_members, n_rows)
    """
    target = block.target
    if block.n_labels == 0:
        return np.asarray(np.abs(block.outputs - target), dtype=np.float64)
    if block.is_vote or adapter.output_kind == "scores":
        return np.asarray(member_labels(block) != target, dtype=np.float64)
    return np.asarray(1.0 - np.take_along_axis(block.outputs, target[None, :, None], axis=2)[:, :, 0])
