"""The number of hard votes that one member's probability is worth (``docs/methods.md``, section 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["effective_votes", "is_close"]

CLOSE_MARGIN = 0.3
MAX_VOTES = 1000.0


def is_close(margin: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows have a mean margin of less than 0.3 in absolute value; these rows determine the size.

    Parameters
    ----------
    margin : array-like, shape (n_rows,)
        Mean probability of one of two labels minus that of the other.

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Examples
    --------
    >>> is_close([-0.9, -0.2, 0.1])
    array([False,  True,  True])
    """
    return np.asarray(np.abs(np.asarray(margin, dtype=np.float64)) < CLOSE_MARGIN)


def effective_votes(every_row: Sequence[float], close_rows: Sequence[float]) -> float:
    """Return the number of hard votes whose mean varies as much as one member's probability, from 1 to 1000.

    It is estimated from the close rows, or from all rows where none is close.

    Parameters
    ----------
    every_row, close_rows : sequences of two numbers
        Variance of the members' hard votes, and variance of their probabilities, each summed over rows, weighted by
        the members of a row.

    Examples
    --------
    >>> effective_votes((10.0, 2.0), (6.0, 2.0)), effective_votes((10.0, 2.0), (0.0, 0.0))
    (3.0, 5.0)
    """
    as_votes, observed = close_rows if close_rows[0] > 0 else every_row
    return float(np.clip(as_votes / max(observed, 1e-300), 1.0, MAX_VOTES))
