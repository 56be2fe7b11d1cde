"""Counts of the votes of subsets of the members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin_walk import _kernel
from ens_plugin_walk.slices import address

__all__ = ["subset_votes"]

MOST_MEMBERS = 32_767


def subset_votes(
    votes: NDArray[np.uint16], target: NDArray[np.integer], n_slots: int, places: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return how many subsets elect a wrong slot, and how many another one than the other members do.

    Parameters
    ----------
    votes : ndarray of uint16, shape (n_members, n_rows)
        Slot that each member votes for.
    target : ndarray of int, shape (n_rows,)
        Right slot of each row; -1 where none is.
    n_slots : int
        The first slot wins ties.
    places : ndarray of int, shape (n_subsets, size)
        Members of each subset.

    Returns
    -------
    ndarray of float64, shape (2, n_rows)

    Examples
    --------
    >>> votes, pairs = np.array([[0], [0], [1]], dtype=np.uint16), np.array([[0, 1], [1, 2]])
    >>> subset_votes(votes, np.array([0]), 2, pairs).tolist()
    [[0.0], [1.0]]
    """
    own, chosen = np.ascontiguousarray(votes, np.uint16), np.ascontiguousarray(places, np.int64)
    n_members, n_rows = own.shape
    if not 0 < n_members <= MOST_MEMBERS or own.max(initial=0) >= n_slots:
        raise ValueError(f"the votes are not for {n_slots} slots")
    if chosen.ndim != 2 or chosen.min(initial=0) < 0 or chosen.max(initial=0) >= n_members:
        raise ValueError(f"the subsets are not of {n_members} members")
    if np.shape(target) != (n_rows,):
        raise ValueError(f"the target has shape {np.shape(target)} for {n_rows} rows")
    base = 1 << int(n_slots - 1).bit_length()
    of_true = (base - 1 - np.asarray(target, np.int64)).astype(np.int32)
    counts = np.zeros((2, n_rows), np.int32)
    _kernel.elect(
        address(own), address(chosen), address(of_true), (n_members, n_rows, n_slots, *chosen.shape), base,
        address(counts[0]), address(counts[1]),
    )  # fmt: skip
    return counts.astype(np.float64)
