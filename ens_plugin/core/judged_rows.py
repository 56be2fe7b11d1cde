"""The losses of rows under one ensemble, by which it is compared with others row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["JudgedRows", "judged_by_both"]


class JudgedRows(NamedTuple):
    """The losses of all rows under one ensemble.

    Attributes
    ----------
    losses : ndarray, shape (n_rows,)
        0-1 error of the row's out-of-bag members, combined, or squared error at the ensemble's own size; NaN
        without enough members.
    seed_variance : float
        Variance, over seeds, of the error estimated from these rows, without the part that is independent between rows:
        the part common to rows of one seed, and the noise of extrapolating from fewer members to the ensemble's size.
    shift : float
        Error of all members minus the mean loss, which is that of each row's out-of-bag members; 0 for held-out rows.
    row_factor : float
        Bound on the variance of a mean of the losses, in variances of a mean of as many independent ones.
    digest : str
        Of the targets in their order: equal where two ensembles were judged by the same rows.
    """

    losses: NDArray[np.floating[Any]]
    seed_variance: float
    shift: float
    row_factor: float = 1.0
    digest: str = ""


def judged_by_both(candidate: JudgedRows, baseline: JudgedRows) -> NDArray[np.bool_]:
    """Return whether members of both ensembles predict each row, shape (n_rows,)."""
    return np.asarray(np.isfinite(candidate.losses) & np.isfinite(baseline.losses))
