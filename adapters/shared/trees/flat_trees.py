"""The trees of a forest in one format for all libraries, which the compiled walk of ens-plugin-walk reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FlatForest", "FlatTree", "probe_rows"]

FloatArray = NDArray[np.float64]

N_PROBES = 32
PROBED_TREES = 16
# Share of the cells of a probe that are missing.
MISSING_SHARE = 0.1


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
        Whether a missing value, which is NaN, goes left.
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


class FlatForest(NamedTuple):
    """Trees in one format, with the library's own number of each leaf.

    Attributes
    ----------
    trees : sequence of FlatTree
    numbers : sequence of ndarray of unsigned int, shape (n_nodes,) each
        The library's number of each node that is a leaf, of the same type for all trees.
    n_features : int
    least_category : float
        The smallest number that is a category; smaller ones go right.
    cleaned : callable
        Returns an array of rows as the library reads them, such as with small numbers set to zero.
    """

    trees: Sequence[FlatTree]
    numbers: Sequence[NDArray[Any]]
    n_features: int
    least_category: float = 0.0
    cleaned: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray


def probe_rows(forest: FlatForest, rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows with thresholds, categories and missing values put in, on which a wrong comparison would show.

    Parameters
    ----------
    forest : FlatForest
    rows : ndarray of float32 or float64, shape (n_rows, n_features)
        At least one row.

    Examples
    --------
    >>> one = FlatTree(*np.array([[1, -1, -1], [2, -1, -1], [0, 0, 0], [0.5, 0, 0], [0, 0, 0]]))
    >>> forest = FlatForest([one], [np.arange(3)], n_features=1)
    >>> sorted(set(map(str, probe_rows(forest, np.zeros((1, 1))).ravel().tolist())))
    ['0.5', '0.5000000000000001', 'nan']
    """
    rng = np.random.default_rng(0)
    probes = rows[rng.integers(rows.shape[0], size=N_PROBES)]
    chosen = [forest.trees[place] for place in rng.integers(len(forest.trees), size=PROBED_TREES)]
    column, value = (np.concatenate(parts) for parts in zip(*map(_split_values, chosen), strict=True))
    if column.size:
        picked = rng.integers(column.size, size=(N_PROBES, 4 * forest.n_features))
        with np.errstate(over="ignore"):
            own = value[picked].astype(rows.dtype)
        own = np.where(rng.random(own.shape) < 0.5, own, np.nextafter(own, np.asarray(np.inf, own.dtype)))
        largest = np.finfo(own.dtype).max  # some libraries refuse infinite values
        probes[np.arange(N_PROBES)[:, None], column[picked]] = own.clip(-largest, largest)
    probes[rng.random(probes.shape) < MISSING_SHARE] = np.nan
    return probes


def _split_values(tree: FlatTree) -> tuple[NDArray[Any], FloatArray]:
    """Return, for each split of a tree, its column and a value at which an error would show: threshold or category."""
    is_split = np.asarray(tree.left) >= 0
    value = np.asarray(tree.threshold, np.float64)
    if tree.sets is not None and tree.set_starts is not None:
        sizes = 32 * np.diff(tree.set_starts)
        is_set = np.asarray(tree.sets) >= 0
        value = value.copy()
        # Any category: which one matters less than that it is one.
        value[is_set] = np.arange(int(is_set.sum())) % np.maximum(sizes[np.asarray(tree.sets)[is_set]], 1)
    is_split &= np.isfinite(value)
    return np.asarray(tree.feature)[is_split].astype(np.intp), value[is_split]
