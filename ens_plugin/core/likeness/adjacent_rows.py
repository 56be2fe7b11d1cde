"""Whether members predict a row better where the row before or after it was in their bag."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.bags import Bags

__all__ = ["AdjacentLosses", "adjacent_losses"]

BLOCK_ROWS = 10
FEWEST_BLOCKS = 20
# A row's mean over many members is no more certain than this, because rows differ too.
MOST_MEMBERS = 4.0


class AdjacentLosses(NamedTuple):
    """Mean losses of members that left a row out, by whether the rows beside it were in their bag.

    Attributes
    ----------
    without : float
        Where neither of both was, less what these members err more than the others on all rows.
    beside : float
        Where one or both were, of the same rows.
    standard_errors : float
        Difference of both in its standard errors: about normal where the order of the rows is random.
    """

    without: float
    beside: float
    standard_errors: float


def adjacent_losses(
    losses: NDArray[np.float64], counted: NDArray[np.bool_], rows: NDArray[np.integer], bags: Bags
) -> AdjacentLosses | None:
    """Compare the losses of members that were trained on neither of the rows beside a row with those of the others.

    Parameters
    ----------
    losses : ndarray, shape (n_members, n_rows)
        Of each member for some of the training rows.
    counted : ndarray of bool, shape (n_members, n_rows)
        Where a member left a row out.
    rows : ndarray of int, shape (n_rows,)
        Positions among the training rows.
    bags : Bags
        Of all training rows.

    Returns
    -------
    AdjacentLosses or None
        None for fewer than 200 rows that members of both kinds predict.

    Notes
    -----
    Rows in random order are exchangeable, so that both means are equal in expectation, whatever the model and however
    dense the rows.  Means are over differences by row; the standard error is over blocks of ten rows that follow each
    other, since these share members.
    """
    last = bags.n_rows - 1
    before, after = bags.at(np.maximum(rows - 1, 0)), bags.at(np.minimum(rows + 1, last))
    is_beside = (before & (rows > 0)) | (after & (rows < last))
    alone, others = counted & ~is_beside, counted & is_beside
    n_alone, n_others = alone.sum(axis=0), others.sum(axis=0)
    used = np.flatnonzero((n_alone > 0) & (n_others > 0))
    used = used[np.argsort(rows[used], kind="stable")]
    n_blocks = used.size // BLOCK_ROWS
    if n_blocks < FEWEST_BLOCKS:
        return None
    used = used[: n_blocks * BLOCK_ROWS]
    # Members of small bags err more, and draw fewer of the rows beside.
    member = (losses * counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    weight = np.minimum(n_alone[used], MOST_MEMBERS)
    share = weight / weight.sum()
    of_alone, of_others = (losses * alone).sum(axis=0)[used], (losses * others).sum(axis=0)[used]
    beside = of_others / n_others[used]
    excess_of_others = of_others - (member @ others)[used]
    rise = (of_alone - (member @ alone)[used]) / n_alone[used] - excess_of_others / n_others[used]
    mean = float(share @ rise)
    deviations = (share * (rise - mean)).reshape(n_blocks, BLOCK_ROWS).sum(axis=1)
    error = float(np.sqrt(np.square(deviations).sum()))
    level = float(share @ beside)
    return AdjacentLosses(level + mean, level, mean / error if error > 0 else 0.0)
