"""A test of whether rows lie where trees split, which finds columns in other units than those of the training rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.trees.split_values import column_of

__all__ = ["OutsideColumns", "columns_outside"]

FloatArray = NDArray[np.float64]

# Fewest different thresholds of a column, and different values of its rows, that make the column comparable.
FEWEST_DISTINCT = 10
# Of a column of fresh rows, two of n + 1 values are expected outside of the range of n: .18 for 10 rows.
MOST_OUTSIDE = 0.9


class OutsideColumns(NamedTuple):
    """Columns at whose splits nearly all rows go the same way.

    Attributes
    ----------
    columns : tuple of int
        Positions of these columns, in ascending order.
    n_compared : int
        Columns that were compared.
    share : float
        Share of the compared columns' splits that are splits of these columns.
    """

    columns: tuple[int, ...] = ()
    n_compared: int = 0
    share: float = 0.0


def columns_outside(table: Any, splits: Iterable[tuple[int, FloatArray]]) -> OutsideColumns:
    """Return the columns of which at least 90 % of the thresholds lie outside of the rows' values.

    Fresh rows like the training rows have few such thresholds: a new value lies outside of the range of n others with
    a chance of 2 / (n + 1), whatever the distribution.

    Parameters
    ----------
    table : ndarray, sparse matrix or DataFrame of shape (n_rows, n_features)
    splits : iterable of (int, ndarray)
        Columns, each with its numerical thresholds.

    Examples
    --------
    >>> x = np.random.default_rng(0).random((100, 2))
    >>> splits = [(column, np.sort(x[:, column])[9::5]) for column in (0, 1)]
    >>> columns_outside(x * [1, 1000] + [0, 500], splits)
    OutsideColumns(columns=(1,), n_compared=2, share=0.5)
    """
    found, compared, outside = list[int](), 0, 0
    n_compared = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        values = None if values is None else values[np.isfinite(values)]
        if values is None or values.size < FEWEST_DISTINCT or np.unique(thresholds).size < FEWEST_DISTINCT:
            continue
        is_outside = (thresholds < values.min()) | (thresholds >= values.max())
        n_compared, compared = n_compared + 1, compared + thresholds.size
        if is_outside.mean() >= MOST_OUTSIDE and np.unique(values).size >= FEWEST_DISTINCT:
            found.append(column)
            outside += thresholds.size
    return OutsideColumns(tuple(sorted(found)), n_compared, outside / compared if compared else 0.0)
