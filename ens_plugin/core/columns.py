"""Columns of a tally, which keep counts in few bytes and are read as float64; sums and counts of their values."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray, IntArray, are_whole, row_parts

__all__ = ["Column", "add_by_code", "in_few_bytes", "sums_by_code", "whole_counts"]

# More different values are not worth counting.
MOST_VALUES = 2**20


class Column:
    """A field of a dataclass of arrays that is kept in the type it is given in, and read as float64.

    Counts of members take one or two bytes this way (:func:`in_few_bytes`).  Nothing computes with them in that
    type, in which sums and products overflow and differences wrap around: whoever reads the field gets float64, a
    converted array that takes eight bytes a row while it is held.  What is kept is in ``vars`` of the object.

    Examples
    --------
    >>> from ens_plugin.core.tallies import SupportTally
    >>> counts = np.array([1, 3], dtype=np.uint8)
    >>> tally = SupportTally(counts, counts, counts, counts)
    >>> vars(tally)["trials"].dtype.name, tally.trials.dtype.name, (tally.wrong - 200.0 * tally.trials).tolist()
    ('uint8', 'float64', [-199.0, -597.0])
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, kept_in: None, owner: type) -> Column: ...

    @overload
    def __get__(self, kept_in: object, owner: type) -> FloatArray: ...

    def __get__(self, kept_in: object | None, owner: type) -> Column | FloatArray:
        """Return the column of an object as float64."""
        if kept_in is None:
            # The dataclass asks its class for a default value; there is none.
            raise AttributeError(self._name)
        values: NDArray[Any] = vars(kept_in)[self._name]
        return values.astype(np.float64, copy=False)

    def __set__(self, kept_in: object, values: NDArray[Any]) -> None:
        """Keep a column in the type it has; raise AttributeError if there is one already."""
        if self._name in vars(kept_in):
            raise AttributeError(f"The column {self._name!r} is set already.")
        vars(kept_in)[self._name] = values


def in_few_bytes(numbers: NDArray[Any], largest: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return whole numbers in the smallest unsigned integers that hold those from 0 to `largest`.

    The type depends on `largest` alone, so that the numbers of any rows of one ensemble have one type.

    Parameters
    ----------
    numbers : ndarray
        Whole numbers from 0 to `largest`, of any type.
    largest : int
        Number of members, for counts of them; the last label code.

    Examples
    --------
    >>> [in_few_bytes(np.array([3.0]), largest).dtype.name for largest in (255, 256, 65_535, 65_536)]
    ['uint8', 'uint16', 'uint16', 'uint32']
    """
    return numbers.astype(np.min_scalar_type(largest), copy=False)


def add_by_code(total: FloatArray, code: NDArray[np.integer[Any]], values: NDArray[Any]) -> None:
    """Add the values of some rows to the total of each code, in place, one row after the other.

    Totals over parts of the rows, in their order, are therefore those over all rows, to the bit.

    Parameters
    ----------
    total : ndarray of float64, shape (n_codes,)
    code : ndarray of int, shape (n_rows,)
        From 0 to ``n_codes - 1``.
    values : ndarray, shape (n_rows,)
    """
    codes = np.concatenate([np.arange(total.size), code])
    total[:] = np.bincount(codes, np.concatenate([total, values]), total.size)


def sums_by_code(code: NDArray[np.integer[Any]], values: NDArray[Any], n_codes: int) -> FloatArray:
    """Return the sum of the values of each code, as ``np.bincount`` does, which copies both arrays.

    Examples
    --------
    >>> sums_by_code(np.array([2, 0, 2], dtype=np.uint8), np.array([1.0, 2.0, 4.0]), 3).tolist()
    [2.0, 0.0, 5.0]
    """
    total = np.zeros(n_codes)
    for part in row_parts(code.size):
        add_by_code(total, code[part], values[part])
    return total


def whole_counts(values: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the different values, ascending, and how many rows have each; None unless they are small whole numbers.

    Examples
    --------
    >>> [found.tolist() for found in whole_counts(np.array([7.0, 3.0, 7.0]))]
    [[3.0, 7.0], [1.0, 2.0]]
    >>> whole_counts(np.array([0.5])) is None
    True
    """
    if values.size == 0 or values.min() < 0 or values.max() >= MOST_VALUES or not are_whole(values):
        return None
    n_rows: IntArray = np.zeros(int(values.max()) + 1, dtype=np.int64)
    for part in row_parts(values.size):
        n_rows += np.bincount(values[part].astype(np.int64), minlength=n_rows.size)
    found = np.flatnonzero(n_rows)
    return found.astype(np.float64), n_rows[found].astype(np.float64)
