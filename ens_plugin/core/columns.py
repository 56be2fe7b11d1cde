"""Columns of a tally, which keep counts in few bytes and are read as float64."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray

__all__ = ["Column", "smallest_counts"]


class Column:
    """A field of a dataclass of arrays that is kept in the type it is given in, and read as float64.

    Counts of members take one or two bytes this way (:func:`smallest_counts`).  Nothing computes with them in that
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
        """Keep a column in the type it has."""
        vars(kept_in)[self._name] = values


def smallest_counts(counts: NDArray[Any], largest: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return counts in the smallest unsigned integers that hold the numbers from 0 to `largest`.

    The type depends on `largest` alone, so that the counts of any rows of one ensemble have one type.

    Parameters
    ----------
    counts : ndarray
        Whole numbers from 0 to `largest`, of any type.
    largest : int
        Number of members.

    Examples
    --------
    >>> [smallest_counts(np.array([3.0]), largest).dtype.name for largest in (255, 256, 65_535, 65_536)]
    ['uint8', 'uint16', 'uint16', 'uint32']
    """
    return counts.astype(np.min_scalar_type(largest), copy=False)
