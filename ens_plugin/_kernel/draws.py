"""Bags that generators of the seeds of members draw: NumPy's, and XGBoost's."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, neighbours

__all__ = ["drawn_bits", "product_bits"]

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
    native.draw(address(states), own.size, n_rows, n_draws, address(bits))
    return bits


def product_bits(words: ArrayLike, powers: ArrayLike, highest: int) -> NDArray[np.uint8]:
    """Return which products of words and powers, modulo 2 ** 63, are at most a bound.

    With the powers of 16807 these are the rows that XGBoost's congruential generator draws.

    Parameters
    ----------
    words : array-like of uint64, shape (n_words,)
    powers : array-like of uint64, shape (n_rows,)
    highest : int
        From 0 to 2 ** 63 - 1.

    Returns
    -------
    ndarray of uint8, shape (n_words, ceil(n_rows / 8))
        Bits as ``np.packbits`` packs them.

    Examples
    --------
    >>> bits = product_bits(np.array([3, 5], np.uint64), np.array([1, 2, 2**62], np.uint64), 6)
    >>> np.unpackbits(bits, count=3, axis=1)
    array([[1, 1, 0],
           [1, 0, 0]], dtype=uint8)
    """
    factors, own = np.asarray(words), np.asarray(powers)
    if any(values.ndim != 1 or values.dtype != np.uint64 for values in (factors, own)):
        raise ValueError("words and powers are arrays of uint64 with one axis")
    if not 0 <= highest < 2**63:
        raise ValueError(f"{highest} is no bound for products modulo 2 ** 63")
    factors, own = neighbours(factors, np.uint64), neighbours(own, np.uint64)
    bits = np.empty((factors.size, -(-own.size // 8)), np.uint8)
    native.products(address(factors), factors.size, address(own), own.size, highest, address(bits))
    return bits
