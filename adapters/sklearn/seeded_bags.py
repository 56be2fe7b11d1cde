"""Bags that members drew by their seeds, without the library; by ens-plugin-walk where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import DRAWN_TOGETHER, draw_bags
from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.shared.trees import walk_package
from ens_plugin.core.tallies.bags import Bags

__all__ = ["drawn_bits", "seeded_bags"]

MOST_ROWS = 2**31
# Words of the generator that are read together, and how many more than are likely to be needed.
WORDS_TOGETHER, SPARE, LEAST_SPARE = 65_536, 1.02, 64


def seeded_bags(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags:
    """Return the bags of all members, each drawn with its seed.

    Where each bag is rows drawn at once by NumPy's ``RandomState(seed).randint``, as those of the members compared are,
    they are drawn from the words of the generator, in less time than the library takes, by far with compiled code.

    Parameters
    ----------
    draw : callable
        ``draw(member)`` returns the rows that a member was trained on, as its library draws them.
    seeds : sequence
        One for each member: an integer, or what else the library takes for it.
    n_rows : int
    compared : sequence of int
        Members whose rows are drawn both ways.
    """
    return _bags_of_words(draw, seeds, n_rows, compared) or draw_bags(draw, len(seeds), n_rows)


def _bags_of_words(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags | None:
    """Return the bags drawn from the generator's words; None where the library draws the rows differently."""
    if n_rows > MOST_ROWS or not all(map(_is_seed, seeds)):
        return None
    sizes: list[int] = []

    def drawn(member: int) -> NDArray[np.integer[Any]]:
        rows = draw(member)
        sizes.append(rows.size)
        return rows

    expected = Bags.from_indices(map(drawn, compared), n_rows)
    if sizes[0] == 0:
        return None
    bits_of = walk_package.compiled_function("drawn_bits") or drawn_bits
    # Where the library draws differently, those of all members would be drawn in vain.
    if not np.array_equal(bits_of(np.array([seeds[member] for member in compared]), n_rows, sizes[0]), expected.bits):
        return None
    return Bags(bits_of(np.array(seeds, dtype=np.int64), n_rows, sizes[0]), n_rows)


def drawn_bits(seeds: NDArray[np.int64], n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Return which rows ``numpy.random.RandomState(seed).randint(0, n_rows, n_draws)`` draws with each seed.

    As in ens-plugin-walk, whose function of this name has the same parameters.

    Parameters
    ----------
    seeds : ndarray of int, shape (n_members,)
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
    >>> np.unpackbits(drawn_bits(np.array([7]), 5, 3), count=5, axis=1)
    array([[0, 1, 0, 1, 1]], dtype=uint8)
    """
    bits = np.empty((seeds.size, -(-n_rows // 8)), np.uint8)
    chunks = [slice(start, start + DRAWN_TOGETHER) for start in range(0, seeds.size, DRAWN_TOGETHER)]
    for _ in in_threads(lambda chunk: _draw_chunk(seeds[chunk], n_rows, n_draws, bits[chunk]), chunks):
        pass
    return bits


def _draw_chunk(seeds: NDArray[np.int64], n_rows: int, n_draws: int, bits: NDArray[np.uint8]) -> None:
    """Write the bits of the rows that are drawn with each seed."""
    generator = np.random.RandomState()  # to seed one takes a fiftieth of the time of making one
    for own, seed in zip(bits, seeds.tolist(), strict=True):
        generator.seed(seed)
        own[:] = np.packbits(_drawn_rows(generator, n_rows, n_draws))


def _drawn_rows(generator: np.random.RandomState, n_rows: int, n_draws: int) -> NDArray[np.bool_]:
    """Return which rows are drawn, shape (n_rows,): the lowest bits of words that are the number of a row."""
    mask = np.uint32((1 << (n_rows - 1).bit_length()) - 1)
    marks = np.zeros(int(mask) + 1, np.bool_)
    n_left = n_draws
    while n_left:
        n_words = min(int(n_left * marks.size / n_rows * SPARE) + LEAST_SPARE, WORDS_TOGETHER)
        words = generator.randint(0, 2**32, n_words, dtype=np.uint32)
        words &= mask
        is_row = words < n_rows
        n_found = int(np.count_nonzero(is_row))
        if n_found > n_left:
            words = words[: np.flatnonzero(is_row)[n_left]]
            n_found = n_left
        # What is no row is marked, too, and left out of the result.
        marks[words] = True
        n_left -= n_found
    return marks[:n_rows]


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, Integral) and 0 <= int(seed) < 2**32
