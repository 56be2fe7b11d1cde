"""A table of rows whose columns are permuted one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.adapters.shared.frames import column_names
from ens_plugin.analysis.rows.hashes import as_table
from ens_plugin.core.validation import as_array, with_article
from ens_plugin.errors import InputError
from ens_plugin.oob.training_rows import TrainingRows

__all__ = ["ColumnTable", "column_table"]


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Rows as a model takes them, in a form whose columns can be replaced.

    Attributes
    ----------
    table : DataFrame, ndarray or CSC matrix of shape (n_rows, n_columns)
    names : tuple of str
    """

    table: Any
    names: tuple[str, ...]

    def take(self, rows: NDArray[np.intp]) -> ColumnTable:
        """Return some of the rows, by position."""
        part = self.table.iloc[rows] if isinstance(self.table, pd.DataFrame) else self.table[rows]
        return ColumnTable(part, self.names)

    def is_constant(self, column: int) -> bool:
        """Return whether all rows have the same value in a column, missing ones taken for equal."""
        try:
            # A Series, because pandas 2 warns of arrays of its own that hold numbers.
            return bool(pd.factorize(pd.Series(self._values(column)), use_na_sentinel=False)[1].size < 2)
        except TypeError:  # values without a hash
            return False

    def permuted(self, column: int, order: NDArray[np.intp]) -> Any:
        """Return the rows with the values of one column in another order; a copy.

        Parameters
        ----------
        column : int
        order : ndarray of int, shape (n_rows,)
            Row whose value each row gets.

        Examples
        --------
        >>> ColumnTable(np.array([[1, 4], [2, 5], [3, 6]]), ("x0", "x1")).permuted(1, np.array([2, 0, 1])).tolist()
        [[1, 6], [2, 4], [3, 5]]
        """
        if isinstance(self.table, pd.DataFrame):
            frame = self.table.copy(deep=False)
            frame.isetitem(column, self._values(column).take(order))
            return frame
        if sparse.issparse(self.table):
            return _permuted_sparse(self.table, column, order)
        array = self.table.copy()
        array[:, column] = array[order, column]
        return array

    def _values(self, column: int) -> Any:
        # Of a frame the extension array, which keeps categories; a Series would be put back in order by its index.
        if isinstance(self.table, pd.DataFrame):
            return self.table.iloc[:, column].array
        values = self.table[:, [column]]
        return (values.toarray() if hasattr(values, "toarray") else values)[:, 0]


def column_table(X: Any, rows: TrainingRows) -> ColumnTable:
    """Return the training rows as the user gave them, so that their columns can be permuted.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame, or what the library of an ensemble without wrappers takes
    rows : TrainingRows
        Read from it.

    Raises
    ------
    InputError
        If X is none of these.

    Notes
    -----
    A sparse matrix keeps which of its values are stored, also zeros, which XGBoost does not take for missing.
    """
    table: Any = X
    if isinstance(X, (list, tuple)):
        table = as_array(X, "X")
        if table.dtype.kind in "US":  # NumPy would turn numbers among texts into texts
            table = np.asarray(X, dtype=object)
    elif not isinstance(X, (pd.DataFrame, np.ndarray)) and not sparse.issparse(X):
        # What a step of a pipeline is given must be of the user's own kind.
        table = as_table(rows.features, rows.inner) if rows.inner is X else None
    if table is None or table.ndim != 2:
        raise InputError(
            f"X is {with_article(type(X).__name__)}, whose columns cannot be permuted; pass the training rows as an "
            "array, a sparse matrix or a pandas DataFrame of two dimensions."
        )
    if hasattr(table, "tocsc"):
        table = table.tocsc()
    known = column_names(X)
    names = [f"x{column}" for column in range(table.shape[1])] if known is None else known
    return ColumnTable(table, tuple(map(str, names)))


def _permuted_sparse(table: Any, column: int, order: NDArray[np.intp]) -> Any:
    matrix = table.copy()
    stored = slice(matrix.indptr[column], matrix.indptr[column + 1])
    place = np.empty(order.size, dtype=matrix.indices.dtype)
    place[order] = np.arange(order.size)
    matrix.indices[stored] = place[matrix.indices[stored]]
    matrix.has_sorted_indices = False
    return matrix.tocsr()
