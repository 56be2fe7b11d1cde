"""Equal rows that are ordinary in tables of few values: what a second look at repeated rows takes into account."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.likeness.repeated_rows import N_SPLITS

__all__ = ["chance_share", "paired_halves", "tied_pairs", "ties_explain", "unlike_columns"]

IntArray = NDArray[np.integer]
FloatArray = NDArray[np.float64]
PlaceArray = NDArray[np.intp]
Hashes = NDArray[np.uint64]

FEWEST_UNLIKE = 10
STANDARD_ERRORS = 2.0


def unlike_columns(values: Hashes) -> PlaceArray:
    """Return the columns that follow from no other, those of the most values first, shape (n_unlike,).

    Parameters
    ----------
    values : ndarray of uint64, shape (n_columns, n_rows)
        Hashes of the values.

    Notes
    -----
    A column follows from another where rows with equal values in this one are equal in it too, as the region of a
    town, or the same length in another unit.

    Examples
    --------
    >>> unlike_columns(np.array([[1, 1, 2, 2], [5, 6, 7, 8], [0, 1, 0, 1]], dtype=np.uint64)).tolist()
    [1]
    >>> unlike_columns(np.array([[1, 1, 2, 2], [0, 1, 0, 1]], dtype=np.uint64)).tolist()
    [0, 1]
    """
    firsts, sizes = [], []
    for column in values:
        _, first, index = np.unique(column, return_index=True, return_inverse=True)
        firsts.append(first[index])
        sizes.append(first.size)
    kept: list[int] = []
    for column in np.argsort(-np.array(sizes), kind="stable").tolist():
        if not any(np.array_equal(values[column][firsts[other]], values[column]) for other in kept):
            kept.append(column)
    return np.array(kept, dtype=np.intp)


def paired_halves(columns: PlaceArray, n_columns: int, seed: int = 0) -> NDArray[np.bool_]:
    """Return halves of some columns, each followed by the rest of them, as booleans of shape (16, n_columns).

    Parameters
    ----------
    columns : ndarray of int, shape (n_chosen,)
        Those of the most values first: of each two in a row, one is in each half, so that the halves tell as much.
    n_columns : int
        Of the table; columns that were not chosen are in neither half.
    seed : int

    Examples
    --------
    >>> halves = paired_halves(np.array([3, 0, 2]), 4)
    >>> bool(np.all(halves[:, 3] != halves[:, 0])), int(halves.sum())
    (True, 24)
    """
    rng = np.random.default_rng(seed)
    halves = np.zeros((2 * N_SPLITS, n_columns), dtype=bool)
    for split in range(N_SPLITS):
        for start in range(0, columns.size, 2):
            pair = rng.permutation(columns[start : start + 2])
            side = rng.integers(2) if pair.size == 1 else 0
            halves[2 * split + side, pair[0]] = True
            halves[2 * split + 1, pair[1:]] = True
    return halves


def chance_share(records: NDArray[np.integer], halves: Hashes) -> float:
    """Return how many pairs of rows would be equal if the halves were independent, relative to those that are.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        Of which some are repeated.
    halves : ndarray of uint64, shape (n_halves, n_rows)
        Hashes of each row over halves of the columns, each followed by its complement.

    Returns
    -------
    float
        Median over the splits of the columns.

    Examples
    --------
    >>> rows = np.array([0, 1, 2, 0], dtype=np.uint64)
    >>> round(chance_share(rows, np.stack([rows, rows])), 3), chance_share(rows, np.stack([rows, 0 * rows]))
    (0.167, 1.0)
    """
    n_pairs = 0.5 * records.size * (records.size - 1)
    equal = np.array([_equal_pairs(half) for half in halves]) / n_pairs
    return float(np.median(equal[::2] * equal[1::2]) * n_pairs / _equal_pairs(records))


def _equal_pairs(values: NDArray[Any]) -> float:
    count = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(np.sum(count * (count - 1.0)) / 2.0)


def tied_pairs(cells: IntArray, records: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of pairs of rows with equal features whose target is equal, and of the others, by cell.

    Parameters
    ----------
    cells : ndarray of int, shape (n_rows,)
        Number of each row's features.
    records : ndarray of int, shape (n_rows,)
        Number of each row's features and target.

    Returns
    -------
    n_equal, n_unlike : ndarrays, shape (n_cells,)

    Examples
    --------
    >>> tied_pairs(np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 2]))
    (array([1., 1.]), array([2., 0.]))
    """
    _, first, count = np.unique(records, return_index=True, return_counts=True)
    _, cell = np.unique(cells, return_inverse=True)
    equal: FloatArray = np.bincount(cell[first], count * (count - 1) / 2).astype(np.float64)
    n_rows = np.bincount(cell)
    return equal, n_rows * (n_rows - 1) / 2 - equal


def ties_explain(n_equal: FloatArray, n_unlike: FloatArray, agreement: float) -> bool:
    r"""Return whether no more pairs agree in the target than among rows that are equal by chance.

    Parameters
    ----------
    n_equal, n_unlike : ndarrays, shape (n_cells,)
        Pairs of rows with equal features whose target is equal, and those where it is not.
    agreement : float
        Share of pairs of other rows, which are near each other, that agree in the target; below 1.

    Notes
    -----
    Copies always agree.  If a share q of the pairs that are equal by chance agrees, then for D that do not there are
    :math:`D q / (1 - q)` that do.  More than these, by two standard errors over the cells, are copies.  Fewer than ten
    pairs with another target are too few to judge by.

    Examples
    --------
    >>> equal = np.tile([1.0, 0.0], 20)
    >>> ties_explain(equal, 1.0 - equal, 0.5), ties_explain(equal + 1.0, 1.0 - equal, 0.5)
    (True, False)
    """
    excess = n_equal - n_unlike * agreement / (1.0 - agreement)
    is_explained = excess.sum() <= STANDARD_ERRORS * np.sqrt(np.square(excess).sum())
    return bool(n_unlike.sum() >= FEWEST_UNLIKE and is_explained)
