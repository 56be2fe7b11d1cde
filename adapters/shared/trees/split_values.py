"""A test of whether rows hold the values that trees split at, which recognises training rows in any order.

Tree learners put a threshold on a training value, or half-way between two neighbouring values.  Fresh rows hold such
values by chance only, as often as they hold each other's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse
from scipy.stats import binom

__all__ = [
    "ENOUGH",
    "MOST_SHARED",
    "are_too_many",
    "chance_of_value",
    "column_of",
    "hold_split_values",
    "show_split_values",
    "splits_by_column",
]

FloatArray = NDArray[np.float64]

MAX_CHANCE = 1e-9
FEWEST_MATCHES = 6
# Fewest thresholds of which at least FEWEST_MATCHES match, if the rows are training rows.
ENOUGH = 15
# A column is used only if at most this share of its rows have values of other rows.
MOST_SHARED = 0.25
ROUNDING = 4.0
# Bound on the expected number of shared values where none is found, with a confidence of 98 %.
UNSEEN = 4.0


def hold_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether so many thresholds are values of the rows, or midpoints of two, that chance cannot explain it.

    Parameters
    ----------
    table : ndarray, sparse matrix or DataFrame of shape (n_rows, n_features)
    splits : iterable of (int, ndarray)
        Columns, each with its numerical thresholds.
    dtype : dtype
        Type in which the library compares values with thresholds.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((100, 1))
    >>> splits = [(0, np.sort(x[:, 0])[9::10])]
    >>> hold_split_values(x, splits, np.float64), hold_split_values(x + 1e-6, splits, np.float64)
    (True, False)
    """
    counts = []
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and thresholds.size:
            counts.append(_matches(values.astype(dtype), np.unique(thresholds.astype(dtype))))
    return are_too_many(counts, table.shape[0])


def show_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether columns with distinct values have enough thresholds to recognise training rows."""
    n_usable = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and chance_of_value(values[np.isfinite(values)].astype(dtype)) <= MOST_SHARED:
            n_usable += np.unique(thresholds).size
        if n_usable >= ENOUGH:
            return True
    return False


def are_too_many(counts: list[tuple[int, int, float]], n_rows: int) -> bool:
    """Return whether more values of a model are among those of the rows than chance explains.

    Parameters
    ----------
    counts : list of (int, int, float)
        By column: thresholds, how many match, and the chance of each to match by chance.
    n_rows : int
        Number of rows from which the chances were estimated.
    """
    usable = [own for own in counts if own[2] <= MOST_SHARED]
    tested, matched = (sum(own[place] for own in usable) for place in (0, 1))
    if matched < FEWEST_MATCHES:
        return False
    chance = sum(own[0] * own[2] for own in usable) / tested + UNSEEN / (n_rows * len(usable))
    # A bound: trials with different chances exceed their mean most often if all have the mean chance (Hoeffding).
    return bool(matched > tested * chance and binom.sf(matched - 1, tested, chance) < MAX_CHANCE)


def chance_of_value(values: NDArray[Any]) -> float:
    """Return a bound on the chance that a value, or a midpoint of two, is among the values of as many fresh rows.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)

    Returns
    -------
    float
        Twice the share of rows whose value another row has (Good and Turing), plus a term for rounding.
    """
    found, counts = np.unique(values, return_counts=True)
    if found.size < 3:
        return 1.0
    shared = 1.0 - np.count_nonzero(counts == 1) / values.size
    gap = float(np.median(np.diff(found.astype(np.float64))))
    rounding = ROUNDING * float(np.finfo(values.dtype).eps) * float(np.abs(found).max()) / gap
    return min(2.0 * shared + rounding, 1.0)


def _matches(values: NDArray[Any], thresholds: NDArray[Any]) -> tuple[int, int, float]:
    """Return how many thresholds there are, how many are a value or midpoint of neighbours, and the chance of that."""
    values = values[np.isfinite(values)]
    chance = chance_of_value(values)
    if chance > MOST_SHARED:
        return thresholds.size, 0, chance
    found = np.unique(values)
    above = np.searchsorted(found, thresholds, side="left")
    is_value = found[np.minimum(above, found.size - 1)] == thresholds
    upper = np.clip(np.searchsorted(found, thresholds, side="right"), 1, found.size - 1)
    low, high = found[upper - 1].astype(np.float64), found[upper].astype(np.float64)
    slack = ROUNDING * np.finfo(values.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    is_midpoint = np.abs((low + high) / 2.0 - thresholds) <= slack
    return thresholds.size, int(np.count_nonzero(is_value | is_midpoint)), chance


def splits_by_column(column: NDArray[Any], threshold: NDArray[Any]) -> Iterator[tuple[int, FloatArray]]:
    """Yield each column that trees split, in ascending order, with all its thresholds in the order given.

    Parameters
    ----------
    column : ndarray of int, shape (n_splits,)
        Column of each split by value, of all trees.
    threshold : ndarray, shape (n_splits,)

    Examples
    --------
    >>> dict(splits_by_column(np.array([0, 1, 0]), np.array([0.5, 2.0, 0.25])))
    {0: array([0.5 , 0.25]), 1: array([2.])}
    """
    order = np.argsort(column, kind="stable")
    found, starts = np.unique(column[order], return_index=True)
    for own, thresholds in zip(found, np.split(threshold[order], starts[1:]), strict=False):
        yield int(own), thresholds


def column_of(table: Any, column: int) -> FloatArray | None:
    """Return one column of a table as float64; None where it does not hold numbers."""
    if hasattr(table, "iloc"):
        series = table.iloc[:, column]
        return np.asarray(series, dtype=np.float64) if getattr(series.dtype, "kind", "O") in "biuf" else None
    if issparse(table):
        sparse: Any = table
        return np.asarray(sparse[:, [column]].toarray(), dtype=np.float64)[:, 0]
    return np.asarray(table[:, column], dtype=np.float64)
