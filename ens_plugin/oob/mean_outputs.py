"""Sums and means of what the members that count for a row predict for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import CombinesMembers
from ens_plugin.analysis.row_blocks import block_rows, label_count
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.tally import RowBlock, both_scores, count_members, label_support, sum_over_members
from ens_plugin.core.validation import FloatArray, with_article
from ens_plugin.errors import UnsupportedModelError

__all__ = ["MeanOutputs", "mean_outputs", "refuse_other_than_means", "summed_outputs"]


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


def refuse_other_than_means(adapter: EnsembleAdapter) -> None:
    """Raise UnsupportedModelError for an ensemble that does not predict the mean of its members."""
    if isinstance(adapter, CombinesMembers):
        raise UnsupportedModelError(
            "This function takes the mean of each row's out-of-bag members, and "
            f"{with_article(type(adapter.model).__name__)} does not predict means. Pass the forest itself for its "
            "mean; ens_plugin.analyze takes both."
        )


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
    blocks = [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]
    sums = [summed_outputs(adapter, features, bags, rows) for rows in blocks]
    total, trials = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    return MeanOutputs(total / np.maximum(trials, 1.0).reshape(-1, *(1,) * (total.ndim - 1)), trials)


def summed_outputs(
    adapter: EnsembleAdapter, features: Any, bags: Bags | None, rows: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs of a block of rows summed over the members that count, and the number of these.

    Parameters
    ----------
    adapter, features, bags : as for :func:`mean_outputs`
    rows : slice

    Returns
    -------
    total : ndarray of float64, shape (n_rows,) or (n_rows, n_labels)
        Values, or votes, probabilities or raw scores of each label.
    trials : ndarray of float64, shape (n_rows,)
    """
    outputs, counted = adapter.block(features[rows], bags, rows)
    if adapter.output_kind == "scores" and outputs.ndim == 2:
        outputs = both_scores(outputs)
    trials = count_members(counted)
    # The target takes no part in the support for each label.
    block = RowBlock(outputs, counted, np.zeros(trials.size, dtype=np.int64), label_count(adapter))
    return label_support(block, counted) if block.n_labels else sum_over_members(outputs, counted), trials
