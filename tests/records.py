"""Records of votes, with the errors of subsets of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.labels import subset_rates
from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.label_shares import LabelRecord, draw_shares, fit_label_shares
from ens_plugin.core.margins import MarginModel
from ens_plugin.core.sample import SubsetRates
from ens_plugin.core.tally import RowBlock
from ens_plugin.papers.wrong_votes import Mixture


def rates_of(record: LabelRecord) -> SubsetRates:
    """Return the errors of subsets of a record's votes, in random order."""
    counts = np.rint(record.support).astype(np.int64)
    n_members, n_labels = int(counts.sum(axis=1).max()), counts.shape[1]
    # Votes for no label fill the rows up, and do not count.
    filled = np.column_stack([counts, n_members - counts.sum(axis=1)])
    rows = np.stack([np.repeat(np.arange(n_labels + 1), row) for row in filled])
    votes = np.random.default_rng(0).permuted(rows, axis=1).T
    counted = votes < n_labels
    return subset_rates(RowBlock(np.where(counted, votes, 0), counted, record.target, n_labels))


def drawn(record: LabelRecord) -> LabelDraws:
    """Return draws of the shares of a record's rows."""
    return draw_shares(fit_label_shares(record), rates_of(record))


def row_means(model: MarginModel | Mixture, by_point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the posterior mean of each row of quantities given at every point, shape (n_quantities, n_rows)."""
    joint = model.likelihood * (1.0 if model.density is None else model.density.weights)
    posterior = joint / joint.sum(axis=1, keepdims=True)
    return np.asarray((by_point @ posterior.T)[:, model.group])
