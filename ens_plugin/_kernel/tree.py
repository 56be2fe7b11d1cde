"""One tree of any library as arrays, which needs no compiled part."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

__all__ = ["FlatTree"]


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
