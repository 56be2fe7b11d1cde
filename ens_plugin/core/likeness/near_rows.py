"""Rows that lie far closer to a few others than to all the rest, or between two others, as copies with changes do."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows", "companions", "interpolated", "nearest_rows"]

FloatArray = NDArray[np.float64]
PlaceArray = NDArray[np.intp]

# Distances that are compared, and the share of their sum at and above which the largest step is not chance.
WINDOWS = ((4, 0.85), (12, 0.6), (47, 0.35))
FEWEST_DISTANCES = 25
SMALLEST_RATIO = 1.5
# 1 - cos of an angle of 4e-6, which rounding to 32 bits mostly leaves; and of one that is small on a curve.
STRAIGHT = 1e-11
NEARLY_STRAIGHT = 1e-4
FEWEST_MOVED = 3
LEAST_APART = 0.01
MOST_STRAIGHT = 0.1
# Logarithms of ratios that are equal but for rounding, and on how many lines a ratio is no chance.
EQUAL_RATIOS = 1e-3
FEWEST_COMMON = 3
COMMON_SHARE = 0.25
ROWS_AT_ONCE = 8192


class Rows(Protocol):
    """Rows of numbers, some of which are read at a time: an array, or a table that is scaled where it is read."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, rows: Any, /) -> FloatArray:
        """Return the rows at a slice or an array of positions, with one more dimension than the positions."""
        ...


def nearest_rows(values: Rows, queries: PlaceArray, n_nearest: int) -> tuple[PlaceArray, FloatArray]:
    """Return the nearest other rows of some rows, and their Euclidean distances, in ascending order of these.

    Parameters
    ----------
    values : Rows, for example ndarray, of shape (n_rows, n_columns)
        Finite, and scaled so that columns can be compared.  At most 8192 rows are read at once.
    queries : ndarray of int, shape (n_queries,)
        Positions of the rows whose neighbours are wanted.
    n_nearest : int
        At most ``n_rows - 1``.

    Returns
    -------
    positions, distances : ndarrays, shape (n_queries, n_nearest)

    Examples
    --------
    >>> positions, distances = nearest_rows(np.array([[0.0], [3.0], [1.0]]), np.array([0]), 2)
    >>> positions.tolist(), distances.tolist()
    ([[2, 1]], [[1.0, 3.0]])
    """
    wanted = values[queries]
    doubled = 2.0 * wanted.astype(np.float32)
    places = np.empty((queries.size, 0), dtype=np.intp)
    nearness = np.empty((queries.size, 0), dtype=np.float32)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = values[start : start + ROWS_AT_ONCE].astype(np.float32)
        # Without the square of the row itself, which its neighbours share.
        found = np.einsum("ij,ij->i", part, part) - doubled @ part.T
        own = np.flatnonzero((queries >= start) & (queries < start + len(part)))
        found[own, queries[own] - start] = np.inf
        chosen = np.argpartition(found, min(n_nearest, len(part)) - 1, axis=1)[:, :n_nearest]
        places = np.hstack([places, start + chosen])
        nearness = np.hstack([nearness, np.take_along_axis(found, chosen, axis=1)])
    nearest = np.argsort(nearness, axis=1, kind="stable")[:, :n_nearest]
    places = np.take_along_axis(places, nearest, axis=1)
    # Of few digits up to here, which is enough for a choice.
    distances = np.sqrt(np.square(values[places] - wanted[:, None]).sum(axis=2))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(distances, order, axis=1)


def companions(distances: FloatArray) -> PlaceArray:
    r"""Return how many rows lie far closer to a row than all others do, shape (n_queries,); 0 where none do.

    Parameters
    ----------
    distances : ndarray, shape (n_queries, n_nearest)
        Of the nearest rows, ascending.

    Notes
    -----
    Where rows are as dense around a row as a little further away, in whatever number D of dimensions, the steps
    :math:`k \log(d_{k+1} / d_k)` between its distances are independent exponential variables with mean 1/D.  So the
    share of the largest in their sum does not depend on D (Fisher 1929).  A row has companions where this share is too
    large for chance among the first 4, 12 or 47 steps and the distance is half as large again.  By chance few rows have
    some.

    Examples
    --------
    >>> near, even = np.append([0.01, 0.02], np.linspace(1, 2, 30)), np.linspace(1, 2, 32)
    >>> companions(np.array([near, even])).tolist()
    [2, 0]
    """
    n_queries, n_nearest = distances.shape
    found = np.zeros(n_queries, dtype=np.intp)
    if n_nearest < FEWEST_DISTANCES:
        return found
    positive = distances[:, :-1] > 0
    ratio = np.where(positive, distances[:, 1:] / np.where(positive, distances[:, :-1], 1.0), 1.0)
    steps = np.log(ratio) * np.arange(1, n_nearest)
    for window, least in WINDOWS:
        part = steps[:, :window]
        largest = part.argmax(axis=1)[:, None]
        step, jump = (np.take_along_axis(array, largest, axis=1)[:, 0] for array in (part, ratio))
        is_large = (step > least * part.sum(axis=1)) & (jump >= SMALLEST_RATIO) & positive[:, 0]
        found = np.where(is_large & (found == 0), largest[:, 0] + 1, found)
    return found


def interpolated(rows: FloatArray, neighbours: FloatArray) -> NDArray[np.bool_]:
    """Return which rows lie on a straight line with two of their neighbours, as interpolated rows do.

    Parameters
    ----------
    rows : ndarray, shape (n_queries, n_columns)
        Real numbers, of which hardly two are equal in a column.
    neighbours : ndarray, shape (n_queries, n_nearest, n_columns)
        Rows near each of these.

    Returns
    -------
    ndarray of bool, shape (n_queries,)
        False where more than a tenth of the pairs of neighbours are nearly on lines: then all rows lie on a curve.
        False where fewer than three columns vary freely: the others follow from them, as the same length in another
        unit does, or the same date in the rows of one kind.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(9, 4))
    >>> values[0] = 0.7 * values[1] + 0.3 * values[2]
    >>> interpolated(values[[0, 5]], values[[[1, 2, 3, 4, 6, 7, 8]] * 2]).tolist()
    [True, False]
    """
    found = np.zeros(len(rows), dtype=bool)
    directions = np.zeros(rows.shape)
    n_pairs = neighbours.shape[1] * (neighbours.shape[1] - 1) / 2
    for place, (row, others) in enumerate(zip(rows, neighbours, strict=True)):
        moved = others - row
        moved = moved[np.count_nonzero(moved, axis=1) >= FEWEST_MOVED]
        length = np.sqrt(np.square(moved).sum(axis=1))
        moved = moved / length[:, None]
        cosine = np.triu(moved @ moved.T, 1)
        # Copies of one neighbour lie in one direction, too.
        is_apart = np.abs(np.log(length[:, None] / length)) > LEAST_APART
        on_line = (cosine < STRAIGHT - 1.0) | ((cosine > 1.0 - STRAIGHT) & is_apart)
        n_nearly = np.count_nonzero(np.abs(cosine) > 1.0 - NEARLY_STRAIGHT)
        found[place] = on_line.any() and n_nearly <= MOST_STRAIGHT * n_pairs
        if found[place]:
            directions[place] = moved[on_line.argmax() // len(moved)]
    found[found] = _free_columns(directions[found]) >= FEWEST_MOVED
    return found


def _free_columns(directions: FloatArray) -> PlaceArray:
    """Return how many columns vary along each line in no ratio to an earlier one that many lines share."""
    is_free = directions != 0
    least = max(FEWEST_COMMON, COMMON_SHARE * len(directions))
    if len(directions) < least:
        return np.asarray(np.count_nonzero(is_free, axis=1), dtype=np.intp)
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.abs(directions))
    for column in range(1, directions.shape[1]):
        for earlier in range(column):
            both = np.flatnonzero((directions[:, column] != 0) & (directions[:, earlier] != 0))
            ratio = logarithms[both, column] - logarithms[both, earlier]
            ordered = np.sort(ratio)
            alike = np.searchsorted(ordered, ratio + EQUAL_RATIOS) - np.searchsorted(ordered, ratio - EQUAL_RATIOS)
            is_free[both[alike >= least], column] = False
    return np.asarray(np.count_nonzero(is_free, axis=1), dtype=np.intp)
