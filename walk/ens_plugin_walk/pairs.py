"""Sums over pairs of rows of the covariance of the members' votes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin_walk import _kernel
from ens_plugin_walk.slices import address, mask_of, neighbours

__all__ = ["vote_pairs"]

Voters = tuple[NDArray[np.int8], NDArray[np.bool_], NDArray[np.float32]]


def vote_pairs(first: Voters, second: Voters | None = None) -> tuple[NDArray[np.float64], int]:
    """Return sums over pairs of rows of their covariances times their members less one and their slopes.

    Parameters
    ----------
    first, second : tuples of three arrays
        Votes of -1, 0 and 1, shape (n_members, n_rows); whether they count, shape (n_members, n_rows); slopes in single
        precision, shape (n_rows,).  Votes that do not count may be anything.  A pair has a row of each; without
        `second`, two different rows of `first`.

    Returns
    -------
    sums : ndarray of float64, shape (2, n_rows_of_second)
        Sums of these, and of their squares, by row of `second`.  A pair of rows of `first` counts for the latter row.
    freedom : int
        Sum over pairs of the members that count for both rows, less one; 0 for pairs without any.

    Examples
    --------
    >>> votes, slopes = np.array([[0, 0], [1, 1], [1, 1], [0, 1]], np.int8), np.array([1, 2], np.float32)
    >>> sums, freedom = vote_pairs((votes, np.ones((4, 2), bool), slopes))
    >>> sums.tolist(), freedom
    ([[0.0, 1.0], [0.0, 1.0]], 3)
    """
    one = _checked(first)
    places = tuple(map(address, one))
    other, other_places = one, places
    if second is not None:
        other = _checked(second)
        other_places = tuple(map(address, other))
    n_members = one[0].shape[0]
    if other[0].shape[0] != n_members:
        raise ValueError(f"the votes are of {n_members} and {other[0].shape[0]} members")
    sums = np.zeros((2, other[2].size))
    freedom = _kernel.pair_votes(
        places, one[2].size, other_places, other[2].size, n_members, second is None,
        address(sums),
    )  # fmt: skip
    return sums, freedom


def _checked(voters: Voters) -> Voters:
    """Return the arrays of rows in the types and the order that compiled code reads."""
    votes, counted, slopes = voters
    own, mask = neighbours(votes, np.int8), mask_of(counted)
    factors = neighbours(slopes, np.float32)
    if own.ndim != 2 or mask.shape != own.shape or factors.shape != own.shape[1:]:
        raise ValueError(f"the votes, those that count and the slopes have shapes {own.shape}, {mask.shape} and "
                         f"{factors.shape}")  # fmt: skip
    return own, mask, factors
