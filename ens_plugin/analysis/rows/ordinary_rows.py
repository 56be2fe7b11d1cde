"""A second look at repeated rows: those that are ordinary in a table of few values are no copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.analysis.rows.hashes import row_hashes
from ens_plugin.core.likeness.near_rows import nearest_rows
from ens_plugin.core.likeness.ordinary_ties import (
    chance_share,
    paired_halves,
    tied_pairs,
    ties_explain,
    unlike_columns,
)
from ens_plugin.core.likeness.repeated_rows import evenly_repeated, near_missed
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.core.validation import FloatArray

__all__ = ["without_ordinary"]

IntArray = NDArray[np.integer]

MOST_VALUES = 2_000_000
MOST_COLUMNS = 64
# Counts that drawing rarely gives: the table is then not judged more mildly.
DOUBTED_LEVEL = 0.01
QUERIES = 200
NEAREST = 48
COMPARED = 4
FEWEST_COMPARED = 50
# Distances that differ by less, relative to the larger, differ by rounding.
EQUALLY_FAR = 1e-9
# A column of real numbers has many values, and gaps between them of all sizes.
FEWEST_REAL = 20
FILLED_SHARE = 0.1
# If the halves depend on each other, ties are some times as many as those of independent ones.
LARGEST_CHANCE = 0.05


def without_ordinary(
    table: Any, target: NDArray[Any], cells: IntArray, records: IntArray, copied: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], bool]:
    """Return which of the rows taken for copies are no ordinary ties, and whether the rest are copies for sure.

    Parameters
    ----------
    table : ndarray of two dimensions, CSR matrix or DataFrame
        Of more than 64 columns or two million values, all are copies for sure.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    cells, records : ndarrays of int, shape (n_rows,)
        Numbers of each row's features, without and with the target.
    copied : ndarray of bool, shape (n_rows,)
        Not all False.
    """
    n_rows, n_columns = table.shape
    labels = target if target.dtype.kind in "iu" else None
    if n_columns > MOST_COLUMNS or n_rows * n_columns > MOST_VALUES or _is_strange(records, labels):
        return copied, True
    chosen = unlike_columns(row_hashes(table, np.eye(n_columns, dtype=bool)))
    halves = row_hashes(table, paired_halves(chosen, n_columns))
    left = copied & ~near_missed(records, halves)
    if not left.any():
        return left, True
    tied = _lone_ties(cells, halves if chosen.size > 1 else halves[:0], left)
    numbers = _numbers(table)
    agreement = _chance_agreement(target, numbers, cells, np.flatnonzero(tied))
    if ties_explain(*tied_pairs(cells[tied], records[tied]), agreement):
        return np.zeros(n_rows, dtype=bool), True
    return left, chance_share(records, halves) < LARGEST_CHANCE or any(_is_real(column) for column in numbers.T)


def _is_strange(records: IntArray, labels: IntArray | None) -> bool:
    """Return whether counts are hardly those of drawn rows, or exactly as many of each label, as oversamplers leave."""
    counts = np.zeros(0) if labels is None else np.unique(labels, return_counts=True)[1]
    return (counts.size > 1 and np.ptp(counts) == 0) or bool(evenly_repeated(records, labels, DOUBTED_LEVEL).any())


def _lone_ties(cells: IntArray, halves: NDArray[np.uint64], copied: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have equal features, as few as rows taken for copies have, and no near misses either."""
    counts = np.bincount(cells)[cells]
    tied = (counts > 1) & (counts <= counts[copied].max())
    return np.asarray(tied & ~near_missed(cells, halves) if len(halves) else tied)


def _chance_agreement(target: NDArray[Any], numbers: FloatArray, cells: IntArray, tied: NDArray[np.intp]) -> float:
    """Return the share of pairs of rows with equal targets: of any rows, or, if larger, of near rows in other cells."""
    _, code, count = np.unique(target, return_inverse=True, return_counts=True)
    base = float(np.sum((count / target.size) ** 2))
    _, first, cell, n_in_cell = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    if numbers.shape[1] == 0 or first.size == 1:
        return base
    # Rows with equal features and targets have the same neighbours: one stands for all.
    pairs, one, n_tied = np.unique(_numbered_pairs(cell, code)[tied], return_index=True, return_counts=True)
    chosen = spread_rows(pairs.size, QUERIES)
    queries = tied[one[chosen]]
    # A missing value is at the mean.
    values = np.nan_to_num(numbers[first], posinf=0.0, neginf=0.0)
    near, distances = nearest_rows(values, cell[queries], min(NEAREST, first.size - 1))
    weight = _weight_of_rows(distances, n_in_cell[near]) * n_tied[chosen, None]
    n_compared = float(np.sum(weight * n_in_cell[near]))
    if n_compared < FEWEST_COMPARED:
        return base
    agree = float(np.sum(weight * _counts_of_pairs(cell, code, near, code[queries, None]))) / n_compared
    return min(max(base, agree), 1.0 - 1.0 / n_compared)


def _weight_of_rows(distances: FloatArray, n_in_cell: IntArray) -> FloatArray:
    """Return the weight of each row of the cells near a query, so that COMPARED of the nearest rows count.

    All rows that are equally far away have equal weights: which of them come first is no property of the table.

    Parameters
    ----------
    distances : ndarray, shape (n_queries, n_near), ascending
    n_in_cell : ndarray of int, shape (n_queries, n_near)
        Number of rows of each cell.
    """
    is_farther = np.diff(distances, axis=1, prepend=-1.0) > EQUALLY_FAR * distances
    step = np.cumsum(is_farther, axis=1) - 1 + distances.shape[1] * np.arange(distances.shape[0])[:, None]
    n_at_step = np.bincount(step.ravel(), weights=n_in_cell.ravel(), minlength=distances.size)
    n_reached = n_at_step.reshape(distances.shape).cumsum(axis=1).ravel()
    n_wanted = np.clip(COMPARED - (n_reached - n_at_step), 0.0, n_at_step)
    return np.asarray((n_wanted / np.maximum(n_at_step, 1.0))[step])


def _counts_of_pairs(cell: IntArray, code: IntArray, cells: IntArray, codes: IntArray) -> IntArray:
    """Return how many rows have each pair of a cell and a target, of shapes that broadcast together."""
    pairs, counts = np.unique(_numbered_pairs(cell, code), return_counts=True)
    wanted = cells * (int(code.max()) + 1) + codes
    place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    return np.where(pairs[place] == wanted, counts[place], 0)


def _numbered_pairs(cell: IntArray, code: IntArray) -> IntArray:
    """Return a number for each row that is equal where cell and target are."""
    return cell * (int(code.max()) + 1) + code


def _numbers(table: Any) -> FloatArray:
    """Return the numeric columns as differences from their mean in units of their spread; none of sparse rows."""
    if isinstance(table, pd.DataFrame):
        is_numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
        table = table.loc[:, is_numeric].to_numpy(dtype=np.float64, na_value=np.nan)
    if sparse.issparse(table) or table.dtype.kind not in "fiub":
        return np.empty((table.shape[0], 0))
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(np.isfinite(table), table, np.nan).astype(np.float64)
        values = values[:, ~np.isnan(values).all(axis=0)]
        mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        return np.asarray((values - mean) / np.where(spread > 0, spread, 1.0))


def _is_real(column: FloatArray) -> bool:
    """Return whether the values of a column are no multiples of a step that are mostly taken."""
    values = np.unique(column[np.isfinite(column)])
    if values.size <= FEWEST_REAL:
        return False
    return bool(np.diff(values).min() * values.size < FILLED_SHARE * (values[-1] - values[0]))
