"""Bags that members drew by their seeds, by ens-plugin-walk where it is installed; the same as without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import draw_bags
from ens_plugin.adapters.shared.trees import leaf_walk
from ens_plugin.core.tallies.bags import Bags

__all__ = ["seeded_bags"]

MOST_ROWS = 2**31


def seeded_bags(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags:
    """Return the bags of all members, each drawn with its seed.

    Where each bag is rows drawn at once by NumPy's ``RandomState(seed).randint``, as those of the members compared are,
    compiled code draws them all.

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
    return _compiled_bags(draw, seeds, n_rows, compared) or draw_bags(draw, len(seeds), n_rows)


def _compiled_bags(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags | None:
    """Return the bags that compiled code draws; None without it, and where the library draws the rows differently."""
    drawn_bits = leaf_walk.compiled_function("drawn_bits")
    if drawn_bits is None or n_rows > MOST_ROWS or not all(map(_is_seed, seeds)):
        return None
    sizes: list[int] = []

    def drawn(member: int) -> NDArray[np.integer[Any]]:
        rows = draw(member)
        sizes.append(rows.size)
        return rows

    expected = Bags.from_indices(map(drawn, compared), n_rows)
    bags = Bags(drawn_bits(np.array(seeds, dtype=np.int64), n_rows, sizes[0]), n_rows)
    is_same = sizes[0] > 0 and np.array_equal(bags.bits[list(compared)], expected.bits)
    return bags if is_same else None


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, Integral) and 0 <= int(seed) < 2**32
