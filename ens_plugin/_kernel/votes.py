"""Counts of the votes of subsets of the members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, neighbours

__all__ = ["subset_votes"]

# So that the number of all votes and twice the rank of a slot fit into 31 bits together.
MOST_MEMBERS, MOST_SLOTS = 32_765, 2**16


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
    own, chosen = neighbours(votes, np.uint16), np.array(places, np.int64, order="C")
    n_members, n_rows = own.shape
    given = np.asarray(votes)
    is_slot = given.min(initial=0) >= 0 and given.max(initial=0) < min(n_slots, MOST_SLOTS)
    if not 0 < n_members <= MOST_MEMBERS or n_slots > MOST_SLOTS or not is_slot:
        raise ValueError(f"the votes are not for {n_slots} slots")
    is_member = chosen.min(initial=0) >= 0 and chosen.max(initial=0) < n_members
    if chosen.ndim != 2 or chosen.shape[1] > n_members or not is_member:
        raise ValueError(f"the subsets are not of {n_members} members")
    if np.shape(target) != (n_rows,):
        raise ValueError(f"the target has shape {np.shape(target)} for {n_rows} rows")
    base = 1 << int(n_slots - 1).bit_length()
    slot = np.asarray(target, np.int64)
    of_true = np.where((slot >= 0) & (slot < n_slots), base - 1 - slot, base).astype(np.int32)
    counts = np.zeros((2, n_rows), np.int32)
    native.elect(
        address(own), address(chosen), address(of_true), (n_members, n_rows, n_slots, *chosen.shape), base,
        address(counts[0]), address(counts[1]),
    )  # fmt: skip
    return counts.astype(np.float64)
