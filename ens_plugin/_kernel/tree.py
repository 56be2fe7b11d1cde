"""One tree of any library as arrays, and the sets of categories of several trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FlatTree", "joined_sets"]

MOST_SETS = 2**31 - 1


class FlatTree(NamedTuple):
    """A tree as arrays with one entry for each node, of which the first is the root.

    Attributes
    ----------
    left, right : ndarray of int, shape (n_nodes,)
        Children of each node; negative for leaves.
    feature : ndarray of int, shape (n_nodes,)
        Column that each node compares.
    threshold : ndarray of float64, shape (n_nodes,)
        The largest value that goes left; NaN where none does.
    missing_left : ndarray of bool, shape (n_nodes,)
        Whether a missing value goes left.
    sets : ndarray of int, shape (n_nodes,), or None
        Set of the categories that go left, for a split by category; negative for a split by value.
    set_starts : ndarray of int, shape (n_sets + 1,), or None
        Position in `set_words` at which each set starts.
    set_words : ndarray of uint32 or None
        Categories as bits, 32 to the word.
    """

    left: NDArray[Any]
    right: NDArray[Any]
    feature: NDArray[Any]
    threshold: NDArray[Any]
    missing_left: NDArray[Any]
    sets: NDArray[Any] | None = None
    set_starts: NDArray[Any] | None = None
    set_words: NDArray[Any] | None = None


def joined_sets(trees: Sequence[FlatTree]) -> tuple[NDArray[np.int64] | None, NDArray[np.uint32] | None]:
    """Return the sets of all trees in one array of words, and where each starts; None where there are none."""
    starts, words, n_words, n_sets = [np.zeros(1, np.int64)], [], 0, 0
    for tree in trees:
        if tree.sets is None and tree.set_starts is None and tree.set_words is None:
            continue
        if tree.sets is None or tree.set_starts is None or tree.set_words is None:
            raise ValueError("a tree with sets has their numbers, their starts and their words")
        own = np.asarray(tree.set_starts, np.int64)
        is_line = own.ndim == np.ndim(tree.set_words) == 1 and own.size > 0
        if not is_line or own[0] != 0 or own[-1] != len(tree.set_words) or (own[1:] < own[:-1]).any():
            raise ValueError("the starts of sets do not divide their words")
        if (np.asarray(tree.sets) >= own.size - 1).any() or n_sets + own.size > MOST_SETS:
            raise ValueError(f"a split by category has one of {own.size - 1} sets")
        n_sets += own.size - 1
        starts.append(own[1:] + n_words)
        words.append(np.asarray(tree.set_words, np.uint32))
        n_words += len(tree.set_words)
    if not words:
        return None, None
    return np.concatenate(starts), np.concatenate(words)
