"""Bags that NumPy's generator of the seeds of members draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin_walk import _kernel
from ens_plugin_walk.slices import address, neighbours

__all__ = ["drawn_bits"]

MOST_ROWS = 2**31


def drawn_bits(seeds: ArrayLike, n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Return which rows ``numpy.random.RandomState(seed).randint(0, n_rows, n_draws)`` draws with each seed.

    NumPy guarantees that these numbers never change.

    Parameters
    ----------
    seeds : array-like of int, shape (n_members,)
        From 0 to 2 ** 32 - 1.
    n_rows : int
        From 1 to 2 ** 31.
    n_draws : int

    Returns
    -------
    ndarray of uint8, shape (n_members, ceil(n_rows / 8))
        Bits as ``np.packbits`` packs them.

    Examples
    --------
    >>> drawn = np.random.RandomState(7).randint(0, 5, 3)
    >>> sorted(set(drawn.tolist()))
    [1, 3, 4]
    >>> np.unpackbits(drawn_bits([7], 5, 3), count=5, axis=1)
    array([[0, 1, 0, 1, 1]], dtype=uint8)
    """
    own = np.asarray(seeds)
    if own.ndim != 1 or own.dtype.kind not in "iu" or (own < 0).any() or (own > 2**32 - 1).any():
        raise ValueError("seeds are integers from 0 to 2 ** 32 - 1")
    if not 1 <= n_rows <= MOST_ROWS or n_draws < 0:
        raise ValueError(f"{n_draws} rows of {n_rows} cannot be drawn")
    states = neighbours(own, np.uint32)
    bits = np.zeros((own.size, -(-n_rows // 8)), np.uint8)
    _kernel.draw(address(states), own.size, n_rows, n_draws, address(bits))
    return bits
