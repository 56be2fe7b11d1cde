"""What the members that count for a row predict for it together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.row_blocks import block_rows, label_count
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, both_scores, count_members
from ens_plugin.core.validation import FloatArray

__all__ = ["MeanOutputs", "mean_outputs"]


class MeanOutputs(NamedTuple):
    """Mean outputs of rows.

    Attributes
    ----------
    mean : ndarray of float64, shape (n_rows,) or (n_rows, n_labels)
        Values, or shares of votes, probabilities or raw scores of each label; 0 for rows without members.
    trials : ndarray of float64, shape (n_rows,)
        Members that count.
    """

    mean: FloatArray
    trials: FloatArray


def mean_outputs(adapter: EnsembleAdapter, features: Any, bags: Bags | None) -> MeanOutputs:
    """Return the mean output of each row's out-of-bag members, or of all members where `bags` is None.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows, n_rows of them
    bags : Bags or None
        Of these rows.
    """
    n_rows = features.shape[0]
    height = block_rows(adapter, n_rows)
    parts = [
        _block_means(adapter, features, bags, slice(start, min(start + height, n_rows)))
        for start in range(0, n_rows, height)
    ]
    return MeanOutputs(np.concatenate([part.mean for part in parts]), np.concatenate([part.trials for part in parts]))


def _block_means(adapter: EnsembleAdapter, features: Any, bags: Bags | None, rows: slice) -> MeanOutputs:
    outputs, counted = adapter.block(features[rows], bags, rows)
    if adapter.output_kind == "scores" and outputs.ndim == 2:
        outputs = both_scores(outputs)
    n_rows = counted.shape[1]
    block = RowBlock(outputs, counted, np.zeros(n_rows), label_count(adapter))
    sample = Sample(block, np.arange(n_rows), np.ones(n_rows))
    return MeanOutputs(sample.mean_outputs(), count_members(counted))
