"""The rows that compiled code draws, against those of NumPy's generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.core.tallies import Bags
from tests.extras import NEEDS_WALK

pytestmark = NEEDS_WALK

SEEDS = [0, 1, 7, 624, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.mark.parametrize(
    ("n_rows", "n_draws"),
    # One row needs no draw; powers of two reject none; 0 draws; more words than the generator makes at once.
    [(1, 3), (2, 1), (3, 0), (8, 8), (9, 400), (1024, 623), (1025, 2000), (65_536, 700), (100_003, 50_000)],
)
def test_rows_are_those_that_numpy_draws(n_rows: int, n_draws: int) -> None:
    from ens_plugin_walk import drawn_bits

    bags = Bags(drawn_bits(SEEDS, n_rows, n_draws), n_rows)
    for member, seed in enumerate(SEEDS):
        drawn = np.random.RandomState(seed).randint(0, n_rows, n_draws, dtype=np.int32)
        np.testing.assert_array_equal(np.flatnonzero(bags.member(member)), np.unique(drawn))


@pytest.mark.parametrize(
    ("seeds", "n_rows", "n_draws"),
    [([-1], 5, 5), ([2**32], 5, 5), ([0.5], 5, 5), ([[1]], 5, 5), ([1], 0, 5), ([1], 2**31 + 1, 5), ([1], 5, -1)],
)
def test_what_cannot_be_drawn_is_refused(seeds: Any, n_rows: int, n_draws: int) -> None:
    from ens_plugin_walk import drawn_bits

    with pytest.raises(ValueError, match=r"seeds are integers|cannot be drawn"):
        drawn_bits(seeds, n_rows, n_draws)
