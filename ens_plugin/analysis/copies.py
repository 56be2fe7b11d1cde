"""Hashes of rows, rows that are equal, and copies among held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.analysis.weights import encode_groups
from ens_plugin.core.alike_rows import column_halves, copied_rows, numbered
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import EXACT, BoolArray, FloatArray
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 32_768  # stay in a processor's cache
# Multipliers of MurmurHash3's last step (Appleby), which lets every bit of a value act on every bit of its hash.
MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
HALF = np.uint64(33)


def as_table(features: Any, rows: Any) -> Any:
    """Return rows as an array of two dimensions, a CSR matrix or a DataFrame; None where they are none of these."""
    if rows is None:
        return None
    for found in (rows, features, getattr(features, "table", None), getattr(features, "frame", None)):
        if isinstance(found, pd.DataFrame) or (isinstance(found, np.ndarray) and found.ndim == 2):
            return found
        if sparse.issparse(found):
            matrix: Any = found
            return sparse.csr_matrix(matrix)
    return None


@dataclass(frozen=True, eq=False)
class HashedRows:
    """A table of rows, with the :func:`row_hashes` of all columns."""

    table: Any
    hashes: Hashes


def hash_rows(features: Any, rows: Any) -> HashedRows | None:
    """Return the rows with a hash of each over all columns; None if they are no table; parameters as of `as_table`."""
    table = as_table(features, rows)
    return None if table is None or table.shape[1] == 0 else HashedRows(table, row_hashes(table)[0])


def row_hashes(table: Any, chosen: NDArray[np.bool_] | None = None) -> Hashes:
    """Return a hash of each row over all columns, or over some; equal values have equal hashes, others hardly ever."""
    # 0 equals -0, 1 equals 1.0, and a missing value equals a missing value. The time is proportional to the number of
    # stored values.
    n_rows, n_columns = table.shape
    sets = np.ones((1, n_columns), dtype=bool) if chosen is None else chosen
    factors = _mixed(np.arange(1, n_columns + 1, dtype=np.uint64)) | np.uint64(1)
    if sparse.issparse(table):
        return _sparse_hashes(table, sets, factors)
    hashes = np.zeros((len(sets), n_rows), dtype=np.uint64)
    if isinstance(table, pd.DataFrame):
        for column in range(n_columns):
            hashes[sets[:, column]] += _column_hashes(table.iloc[:, column]) * factors[column]
        return hashes
    height = max(BLOCK_VALUES // max(n_columns, 1), 1)
    for start in range(0, n_rows, height):
        rows = slice(start, start + height)
        values = _value_hashes(table[rows])
        values *= factors
        for index, columns in enumerate(sets):
            hashes[index, rows] = (values if columns.all() else values[:, columns]).sum(axis=1, dtype=np.uint64)
    return hashes


def _sparse_hashes(matrix: Any, sets: NDArray[np.bool_], factors: Hashes) -> Hashes:
    rows = sparse.csr_matrix(matrix, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    values = _value_hashes(rows.data) * factors[rows.indices]
    hashes = np.zeros((len(sets), rows.shape[0]), dtype=np.uint64)
    for index, columns in enumerate(sets):
        # Sums of unsigned integers wrap around, so that differences of running sums are exact.
        running = np.cumsum(np.append(np.uint64(0), np.where(columns[rows.indices], values, np.uint64(0))))
        hashes[index] = running[rows.indptr[1:]] - running[rows.indptr[:-1]]
    return hashes


def _column_hashes(column: pd.Series[Any]) -> Hashes:
    if isinstance(column.dtype, (np.dtype, pd.SparseDtype)):
        return _value_hashes(np.asarray(column))
    try:
        return np.asarray(pd.util.hash_array(column.array))
    except (TypeError, ValueError):
        return _text_hashes(column.to_numpy(dtype=object))


def _value_hashes(values: NDArray[Any]) -> Hashes:
    kind = values.dtype.kind
    if kind == "f":
        # Adding 0 changes -0 to 0; missing values have many patterns of bits.
        numbers = np.add(values, 0.0, dtype=np.float64)
        missing = np.isnan(numbers)
        if missing.any():
            numbers[missing] = np.nan
        return _mixed(numbers.view(np.uint64))
    if kind in "biu":
        numbers = values.astype(np.float64)
        if values.dtype.itemsize == 8:
            # Above this limit, several whole numbers have the same float.
            return _mixed(np.where(np.abs(numbers) < EXACT, numbers.view(np.uint64), values.astype(np.uint64)))
        return _mixed(numbers.view(np.uint64))
    flat = np.ascontiguousarray(values).reshape(-1)
    try:
        hashes = pd.util.hash_array(flat)
    except (TypeError, ValueError):
        hashes = _text_hashes(flat)
    return np.asarray(hashes).reshape(values.shape)


def _text_hashes(values: NDArray[Any]) -> Hashes:
    return np.asarray(pd.util.hash_array(np.array([repr(value) for value in values], dtype=object)))


def _mixed(values: Hashes) -> Hashes:
    """Return the values with their bits mixed, in place."""
    for mixer in MIXERS:
        values ^= values >> HALF
        values *= mixer
    values ^= values >> HALF
    return values


# From this share of the rows, copies are doubted where no bags tell whether they matter.
DOUBTED_SHARE = 0.05

SEPARATE_CASES = "If the rows are separate cases, state that with groups=np.arange(len(y))."


@dataclass(frozen=True, eq=False)
class RepeatedRows:
    """Training rows whose features and target occur in the data more than once.

    Attributes
    ----------
    records : ndarray of int32, shape (n_rows,)
        A number for each row, equal for rows with equal features and targets.
    repeated : ndarray of bool, shape (n_rows,)
        Rows of a record that occurs more than once.
    copied : ndarray of bool, shape (n_rows,)
        Repeated rows that their values do not explain (:func:`~ens_plugin.core.alike_rows.copied_rows`).
    """

    records: NDArray[np.int32]
    repeated: BoolArray
    copied: BoolArray

    def take(self, rows: NDArray[np.intp]) -> RepeatedRows:
        """Return the repeats of some of the rows, with flags as among all rows."""
        return RepeatedRows(self.records[rows], self.repeated[rows], self.copied[rows])


def find_repeats(rows: HashedRows | None, target: NDArray[Any]) -> RepeatedRows:
    """Return which rows have the same features and target as another."""
    records = None if rows is None else _records(rows, target)
    if rows is None or records is None or records.max() + 1 == records.size:
        nothing = np.broadcast_to(np.False_, target.size)
        return RepeatedRows(np.arange(target.size, dtype=np.int32), nothing, nothing)
    halves = row_hashes(rows.table, column_halves(rows.table.shape[1]))
    labels = target if target.dtype.kind in "iu" else None
    copied = copied_rows(records, halves, _target_hashes(target), labels)
    return RepeatedRows(records, np.asarray(np.bincount(records)[records] > 1), copied)


def identical_rows(rows: HashedRows | None, target: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each row, equal for rows with the same features and target; see :func:`find_repeats`."""
    records = None if rows is None else _records(rows, target)
    if records is None:
        raise InputError(
            "groups='identical' compares rows, and this ensemble was given none that can be compared; pass one group "
            "for each row."
        )
    # Numbered by first appearance, as groups given by the user.
    return records.astype(np.int64)


def _records(rows: HashedRows, target: NDArray[Any]) -> NDArray[np.int32] | None:
    if rows.hashes.size != target.size:
        return None
    return numbered(record_hashes(rows.hashes, target))


def record_hashes(hashes: NDArray[np.uint64], target: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row together with its target, shape (n_rows,)."""
    return np.asarray(hashes + _target_hashes(target))


def _target_hashes(target: NDArray[Any]) -> Hashes:
    # No column has this factor, because the target is no column.
    return np.asarray(row_hashes(target.reshape(-1, 1))[0] * np.uint64(0x9E3779B97F4A7C15))


def held_out_copies(rows: HashedRows | None, target: NDArray[Any], weight: FloatArray) -> tuple[Finding, ...]:
    """Return a doubt if many held-out rows are copies of each other: training rows may then be copies of them too."""
    copied = find_repeats(rows, target).copied
    if weight[copied].sum() < DOUBTED_SHARE * weight.sum() or weight.size < FEWEST_ROWS:
        return ()
    n_copied = int(np.count_nonzero(copied))
    sentence = (
        f"{n_copied} of {copied.size} held-out rows look like copies of another one: same features, same target. If "
        "rows were copied before some were held out, as an oversampler or a join copies them, members were trained on "
        "copies of these rows, and the error is far too low. Hold rows out first, and copy training rows alone. "
        f"{SEPARATE_CASES}"
    )
    return (finding("copied-held-out-rows", sentence, n_copied=n_copied),)


def row_cells(rows: HashedRows | None) -> NDArray[np.int32] | None:
    """Return a number for each row, from 0 without gaps, equal for rows with equal features."""
    return None if rows is None else numbered(rows.hashes)


@dataclass(frozen=True, eq=False)
class RowLikeness:
    """Groups, copies and equal features among the rows of an analysis.

    Attributes
    ----------
    groups : ndarray of int64, shape (n_rows,), or None
        Group of each row, where the user gave groups.
    repeats : RepeatedRows or None
        Copies among training rows, where the user gave no groups.
    cell : ndarray of int32, shape (n_rows,), or None
        A number for each row, the same for rows with equal features; None where the rows are not a table, and where
        all of them differ.
    all_differ : bool
        Whether the rows are a table in which no two have equal features.
    """

    groups: NDArray[np.int64] | None
    repeats: RepeatedRows | None
    cell: NDArray[np.int32] | None
    all_differ: bool = False

    def count_distinct(self, used: BoolArray) -> int | None:
        """Return the number of different rows of features among those used; None where it was not counted."""
        if self.cell is not None:
            return int(np.unique(self.cell[used]).size)
        return int(np.count_nonzero(used)) if self.all_differ else None

    def cell_bags(self, bags: Bags) -> Bags | None:
        """Return bags in which a row is where any row of equal features is; None where no rows are copied."""
        if self.repeats is None or not self.repeats.copied.any():
            return None
        assert self.cell is not None
        return bags.by_group(self.cell)

    def take(self, rows: NDArray[np.intp]) -> RowLikeness:
        """Return the groups, copies and equal features of some of the rows."""
        return RowLikeness(
            None if self.groups is None else self.groups[rows],
            None if self.repeats is None else self.repeats.take(rows),
            None if self.cell is None else self.cell[rows],
            self.all_differ,
        )


def row_likeness(groups: Any, rows: HashedRows | None, target: NDArray[Any], data: str) -> RowLikeness:
    """Return the groups given by the user, or copies found among training rows, and rows of equal features."""
    cell = row_cells(rows)
    all_differ = cell is not None and int(cell.max()) + 1 == cell.size
    cell = None if all_differ else cell
    if isinstance(groups, str) and groups == "identical":
        return RowLikeness(identical_rows(rows, target), None, cell, all_differ)
    if groups is not None:
        return RowLikeness(encode_groups(groups, target.size), None, cell, all_differ)
    return RowLikeness(None, None if data == "holdout" else find_repeats(rows, target), cell, all_differ)
