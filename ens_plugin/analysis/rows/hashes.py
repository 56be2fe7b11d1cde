"""Hashes of rows: equal for rows with equal values in the hashed columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.records import record

__all__ = ["HashedRows", "as_table", "hash_rows", "row_hashes"]

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 32_768  # stay in a processor's cache
# Multipliers of MurmurHash3's last step (Appleby), which lets every bit of a value act on every bit of its hash.
MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
HALF = np.uint64(33)
EXACT = 2.0**53


def as_table(features: Any, rows: Any) -> Any:
    """Return rows as an array of two dimensions, a CSR matrix or a DataFrame; None where they are none of these.

    Parameters
    ----------
    features : prepared rows
        As an adapter returned them, for rows of another kind; those of boosters and data frames hold their table.
    rows : object
        What the user gave; None where an ensemble needs no features.

    Examples
    --------
    >>> as_table(np.eye(2), [[1.0, 0.0], [0.0, 1.0]]).shape
    (2, 2)
    """
    if rows is None:
        return None
    for found in (rows, features, getattr(features, "table", None), getattr(features, "frame", None)):
        if isinstance(found, pd.DataFrame) or (isinstance(found, np.ndarray) and found.ndim == 2):
            return found
        if sparse.issparse(found):
            matrix: Any = found
            return sparse.csr_matrix(matrix)
    return None


@record
class HashedRows:
    """A table of rows, with a hash of each row.

    Attributes
    ----------
    table : ndarray of two dimensions, CSR matrix or DataFrame
    hashes : ndarray of uint64, shape (n_rows,)
        :func:`row_hashes` over all columns.
    """

    table: Any
    hashes: Hashes


def hash_rows(features: Any, rows: Any) -> HashedRows | None:
    """Return the rows with a hash of each over all columns; None if they are no table; parameters as of `as_table`.

    Examples
    --------
    >>> found = hash_rows(None, np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]))
    >>> bool(found.hashes[0] == found.hashes[1]), bool(found.hashes[0] == found.hashes[2])
    (True, False)
    """
    table = as_table(features, rows)
    return None if table is None or table.shape[1] == 0 else HashedRows(table, row_hashes(table)[0])


def row_hashes(table: Any, chosen: NDArray[np.bool_] | None = None) -> Hashes:
    """Return a hash of each row over all columns, or over some; equal values have equal hashes, others hardly ever.

    0 equals -0, 1 equals 1.0, and a missing value equals a missing value.  The time is proportional to the number of
    stored values.

    Parameters
    ----------
    table : ndarray of two dimensions, CSR matrix or DataFrame
    chosen : ndarray of bool, shape (n_sets, n_columns), optional
        Sets of columns; one set of all columns by default.

    Returns
    -------
    ndarray of uint64, shape (n_sets, n_rows)

    Examples
    --------
    >>> first, second, third = row_hashes(np.array([[0.0, np.nan], [-0.0, np.nan], [np.nan, 0.0]]))[0]
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
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
