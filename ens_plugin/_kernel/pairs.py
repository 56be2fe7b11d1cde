"""Sums over pairs of rows of the covariance of the members' votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, mask_of, neighbours

__all__ = ["block_pairs", "vote_pairs"]

Voters = tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float32]]


def vote_pairs(first: Voters, second: Voters | None = None) -> tuple[NDArray[np.float64], float]:
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
    freedom = native.pair_votes(
        places, one[2].size, other_places, other[2].size, n_members, second is None,
        address(sums),
    )  # fmt: skip
    return sums, freedom


def block_pairs(
    votes: NDArray[np.int8] | NDArray[np.bool_],
    counted: NDArray[np.bool_],
    slopes: NDArray[np.float32],
    blocks: Sequence[NDArray[np.int64]],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what :func:`vote_pairs` does of the rows of each of several blocks, which need not be copied.

    Parameters
    ----------
    votes : ndarray of int8 or bool, shape (n_members, n_rows)
        Votes of -1, 0 and 1.
    counted : ndarray of bool, shape (n_members, n_rows)
    slopes : ndarray of float32, shape (n_chosen,)
        Of the rows of all blocks, one block after the other.
    blocks : sequence of ndarray of int
        Positions of the rows of each block; no row is in two of them.

    Returns
    -------
    sums : ndarray of float64, shape (2, n_chosen)
    freedoms : ndarray of int, shape (n_blocks,)

    Examples
    --------
    >>> votes, slopes = np.array([[0, 1, 0], [1, 1, 1], [1, 1, 1], [0, 0, 1]], np.int8), np.array([1, 2], np.float32)
    >>> sums, freedoms = block_pairs(votes, np.ones((4, 3), bool), slopes, [np.array([0, 2])])
    >>> sums.tolist(), freedoms.tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [3])
    """
    if votes.dtype not in (np.bool_, np.int8):
        raise ValueError(f"votes are booleans or of eight bits, not {votes.dtype}")
    mask = mask_of(counted)
    own = mask_of(votes).view(np.int8) if votes.dtype == np.bool_ else neighbours(votes, np.int8)
    chosen = np.concatenate([np.zeros(0, np.int64), *blocks])
    factors = neighbours(slopes, np.float32)
    if own.ndim != 2 or mask.shape != own.shape or factors.shape != chosen.shape:
        raise ValueError(f"the votes, those that count and the slopes have shapes {own.shape}, {mask.shape} and "
                         f"{factors.shape}")  # fmt: skip
    n_members, n_rows = own.shape
    if chosen.dtype != np.int64 or (chosen.size and not 0 <= chosen.min() <= chosen.max() < n_rows):
        raise ValueError(f"the blocks are not of {n_rows} rows")
    place = np.full(n_rows, -1, np.int64)
    place[chosen] = np.arange(chosen.size)
    if np.count_nonzero(place >= 0) != chosen.size:
        raise ValueError("a row is in two blocks")
    starts = np.cumsum([0, *(rows.size for rows in blocks)], dtype=np.int64)
    sums, freedoms = np.zeros((2, chosen.size)), np.zeros(len(blocks), np.int64)
    native.block_pairs(
        address(own), address(mask), n_members, n_rows, address(chosen), address(starts), len(blocks),
        address(factors), address(place), address(sums), address(freedoms),
    )  # fmt: skip
    return sums, freedoms


def _checked(voters: Voters) -> Voters:
    """Return the arrays of rows in the types and the order that compiled code reads."""
    votes, counted, slopes = voters
    own, mask = neighbours(votes, np.int8), mask_of(counted)
    factors = neighbours(slopes, np.float32)
    if own.ndim != 2 or mask.shape != own.shape or factors.shape != own.shape[1:]:
        raise ValueError(f"the votes, those that count and the slopes have shapes {own.shape}, {mask.shape} and "
                         f"{factors.shape}")  # fmt: skip
    return own, mask, factors
