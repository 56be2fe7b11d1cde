"""The error that a library's rule for tied votes adds for the rows of one of several labels (docs/methods.md)."""

from __future__ import annotations

import numpy as np

from ens_plugin.core.row_models.label_shares import LabelVotes, fit_label_shares
from ens_plugin.core.validation import FloatArray

__all__ = ["tied_label_shift"]

# The simulation is a numerical integration: its seed is fixed, so that no random_state changes the estimate.
SEED = 20_130_702
# Votes of more members tie so rarely that a label's error changes by less than its noise.
LARGEST_SIZE = 64


def tied_label_shift(votes: LabelVotes, weight: FloatArray, code: int, sizes: FloatArray, n_drawn: int) -> FloatArray:
    """Return the error of rows of one label if the first label wins ties, minus that if tied labels win alike.

    Parameters
    ----------
    votes : LabelVotes
        Hard votes for the rows of one label.
    weight : ndarray, shape (n_rows,)
    code : int
        That label.
    sizes : ndarray, shape (n_sizes,)
        Whole sizes, or infinity; above 64 the shift is taken as 0.
    n_drawn : int
        Number of rows to draw votes for, at each size; at least each row once.

    Returns
    -------
    ndarray, shape (n_sizes,)

    Notes
    -----
    Each row's label shares are drawn from their distribution given its votes, and the votes of an ensemble from these.

    Examples
    --------
    The first two of three labels have the most votes: they tie often, and the rows are of the second one.

    >>> support = np.tile([4.0, 4.0, 2.0], (40, 1))
    >>> votes = LabelVotes(support, support, np.full(40, 10.0), np.ones(40, dtype=np.int64))
    >>> shift = tied_label_shift(votes, np.ones(40), 1, np.array([4.0, 100.0]), 1000)
    >>> bool(0.02 < shift[0] < 0.2), float(shift[1])
    (True, 0.0)
    """
    shift, small = np.zeros(sizes.size), np.flatnonzero(sizes <= LARGEST_SIZE)
    if small.size == 0:
        return shift
    shares, rng = fit_label_shares(votes, weight), np.random.default_rng(SEED)
    n_draws = max(-(-n_drawn // votes.target.size), 1)
    for _ in range(n_draws):
        drawn = shares.draw(rng)
        for place in small:
            found = rng.multinomial(int(sizes[place]), drawn)
            wins = found == found.max(axis=1, keepdims=True)
            added = wins[:, :code].any(axis=1) - 1.0 + 1.0 / wins.sum(axis=1)
            shift[place] += float(np.average(added * wins[:, code], weights=weight))
    return shift / n_draws
