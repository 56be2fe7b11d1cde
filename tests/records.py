"""Records of votes, with the errors of subsets of them."""

from __future__ import annotations

import numpy as np

from ens_plugin.analysis.labels import subset_rates
from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.label_shares import LabelRecord, draw_shares, fit_label_shares
from ens_plugin.core.sample import SubsetRates
from ens_plugin.core.tally import RowBlock


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
