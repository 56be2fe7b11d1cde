"""Subsets of the rows: spread evenly, or random and independent of how the rows are cut into blocks or partitions.

For the latter, every row has a key of its own, a hash of its position and a seed; the rows with the smallest keys are
the sample.  A row's key depends on no other row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import row_parts

__all__ = ["sample_keys", "smallest_keys", "spread_rows"]

KeyArray = NDArray[np.uint64]

_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27)
_LAST_SHIFT = np.uint64(31)


def sample_keys(rows: NDArray[np.integer], seed: int) -> KeyArray:
    """Return a pseudo-random key for each row number, by the finaliser of splitmix64: no two rows have equal keys.

    Parameters
    ----------
    rows : ndarray of int, shape (n_rows,)
        Positions, or any other distinct 64-bit numbers of the rows.
    seed : int
        From 0 to 2**64 - 1.

    Examples
    --------
    >>> sample_keys(np.arange(3), 0).argsort().tolist()
    [0, 1, 2]
    """
    start = _mixed(np.array([seed], dtype=np.uint64) + np.uint64(_STEP))
    keys = np.empty(rows.shape, dtype=np.uint64)
    for part in row_parts(rows.size):
        keys[part] = _mixed((rows[part].astype(np.uint64) ^ start) * np.uint64(_STEP) + np.uint64(_STEP))
    return keys


def smallest_keys(keys: KeyArray, limit: int) -> NDArray[np.intp]:
    """Return the positions, ascending, of the `limit` smallest keys; of all keys if there are no more."""
    if keys.size <= limit:
        return np.arange(keys.size)
    return np.sort(np.argpartition(keys, limit)[:limit])


def spread_rows(n_rows: int, most: int) -> NDArray[np.intp]:
    """Return the positions, ascending, of at most `most` rows, spread evenly over `n_rows`.

    Examples
    --------
    >>> spread_rows(9, 3).tolist(), spread_rows(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.intp))


def _mixed(key: KeyArray) -> KeyArray:
    for shift, factor in zip(_SHIFTS, _MULTIPLIERS, strict=True):
        key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
    return key ^ (key >> _LAST_SHIFT)
