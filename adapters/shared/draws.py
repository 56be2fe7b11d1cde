"""Counts of how often each member drew each training row, with the rule of drawing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.tallies.bags import Bags

__all__ = ["DrawCounts", "DrawRule", "counts_from_bags", "counts_of_rows"]

DrawRule = Literal["with_replacement", "without_replacement", "unknown"]


@dataclass(frozen=True, eq=False)
class DrawCounts:
    """Numbers of times that each member drew each training row, and the rule of drawing.

    Attributes
    ----------
    counts : ndarray of unsigned int, shape (n_members, n_rows)
    rule : {"with_replacement", "without_replacement", "unknown"}
        Unknown: only which rows are in a bag is available, and counts are 0 and 1.
    chance : ndarray of float64, shape (n_rows,), or None
        Chance of each row at each draw; None where all rows have the same.

    Examples
    --------
    >>> from ens_plugin.adapters import counts_of_rows
    >>> counts_of_rows([[0, 0, 2], [1, 2, 2]], 2, 3, "with_replacement").counts.tolist()
    [[2, 0, 1], [0, 1, 2]]
    """

    counts: NDArray[np.unsignedinteger]
    rule: DrawRule
    chance: NDArray[np.float64] | None = None


def counts_of_rows(
    members: Iterable[ArrayLike], n_members: int, n_rows: int, rule: DrawRule, weight: ArrayLike | None = None
) -> DrawCounts:
    """Return how often each member drew each row, counted one member after the other.

    Parameters
    ----------
    members : iterable of array-like of int
        Rows of each member, in any order, repeated as often as they were drawn.
    n_members, n_rows : int
    rule : {"with_replacement", "without_replacement", "unknown"}
    weight : array-like of shape (n_rows,), optional
        What the chance of a row to be drawn is proportional to.

    Examples
    --------
    >>> from ens_plugin.adapters import counts_of_rows
    >>> counts_of_rows([[0, 0, 2], [1, 2, 2]], 2, 3, "with_replacement").counts.tolist()
    [[2, 0, 1], [0, 1, 2]]
    """
    counts: NDArray[np.unsignedinteger] = np.zeros((n_members, n_rows), dtype=np.uint8)
    for member, rows in enumerate(members):
        drawn = np.bincount(np.asarray(rows, dtype=np.intp), minlength=n_rows)
        if drawn.max() > np.iinfo(counts.dtype).max:
            counts = counts.astype(np.uint32)
        counts[member] = drawn
    chance = None if weight is None else np.asarray(weight, dtype=np.float64) / np.sum(weight)
    return DrawCounts(counts, rule, chance)


def counts_from_bags(bags: Bags, rule: DrawRule) -> DrawCounts:
    """Return draw counts of 0 and 1, from bags without repeated rows or with unknown repeats.

    Examples
    --------
    >>> counts_from_bags(Bags.from_mask([[True, False, True]]), "without_replacement").counts.tolist()
    [[1, 0, 1]]
    """
    return DrawCounts(bags.in_bag().view(np.uint8), rule)
