"""The rows that compiled code draws, against those of NumPy's generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.core.bags import Bags
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL

SEEDS = [0, 1, 7, 624, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.parametrize(
    ("n_rows", "n_draws"),
    # One row needs no draw; powers of two reject none; 0 draws; more words than the generator makes at once.
    [(1, 3), (2, 1), (3, 0), (8, 8), (9, 400), (1024, 623), (1025, 2000), (65_536, 700), (100_003, 50_000)],
)
def test_rows_are_those_that_numpy_draws(n_rows: int, n_draws: int) -> None:
    from ens_plugin._kernel.outputs import drawn_bits

    bags = Bags(drawn_bits(SEEDS, n_rows, n_draws), n_rows)
    for member, seed in enumerate(SEEDS):
        drawn = np.random.RandomState(seed).randint(0, n_rows, n_draws, dtype=np.int32)
        np.testing.assert_array_equal(np.flatnonzero(bags.member(member)), np.unique(drawn))


@pytest.mark.parametrize(
    ("seeds", "n_rows", "n_draws"),
    [([-1], 5, 5), ([2**32], 5, 5), ([0.5], 5, 5), ([[1]], 5, 5), ([1], 0, 5), ([1], 2**31 + 1, 5), ([1], 5, -1)],
)
def test_what_cannot_be_drawn_is_refused(seeds: Any, n_rows: int, n_draws: int) -> None:
    from ens_plugin._kernel.outputs import drawn_bits

    with pytest.raises(ValueError, match=r"seeds are integers|cannot be drawn"):
        drawn_bits(seeds, n_rows, n_draws)


@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 2048, 2051, 4105])
def test_bits_are_those_of_products_modulo_a_power_of_two(n_rows: int) -> None:
    from ens_plugin._kernel.outputs import product_bits

    rng = np.random.default_rng(n_rows)
    words, powers = (rng.integers(0, 2**64, size, dtype=np.uint64) for size in (5, n_rows))
    products = [[word * power % 2**63 for power in powers.tolist()] for word in words.tolist()]
    # A bound that is met, with the numbers next to it, and the largest, which all meet.
    met = products[0][0]
    for highest in (max(met - 1, 0), met, 0, 2**62, 2**63 - 1):
        bits = np.unpackbits(product_bits(words, powers, highest), count=n_rows, axis=1)
        np.testing.assert_array_equal(bits, np.array([[own <= highest for own in row] for row in products]))


@pytest.mark.parametrize(
    ("words", "powers", "highest"),
    [
        (np.ones(2, np.int64), np.ones(3, np.uint64), 1),
        (np.ones(2, np.uint64), np.ones((3, 1), np.uint64), 1),
        (np.ones(2, np.uint64), np.ones(3, np.uint64), -1),
        (np.ones(2, np.uint64), np.ones(3, np.uint64), 2**63),
    ],
)
def test_what_cannot_be_multiplied_is_refused(words: Any, powers: Any, highest: int) -> None:
    from ens_plugin._kernel.outputs import product_bits

    with pytest.raises(ValueError, match=r"arrays of uint64|no bound"):
        product_bits(words, powers, highest)
