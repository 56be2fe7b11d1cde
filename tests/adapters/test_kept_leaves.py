"""Leaves of the rows that are out of bag, kept up to a number of bytes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ens_plugin.adapters import Bags
from ens_plugin.adapters.trees import ROWS_OF_PIECE, KeptLeaves

N_TREES, N_ROWS = 7, 5 * ROWS_OF_PIECE + 40
RNG = np.random.default_rng(0)
LEAVES = RNG.integers(0, 60_000, (N_TREES, N_ROWS)).astype(np.uint16)
IN_BAG = RNG.random((N_TREES, N_ROWS)) < 0.6
# Blocks that start within a piece too.
BLOCKS = [(0, ROWS_OF_PIECE), (ROWS_OF_PIECE + 8, N_ROWS), (0, 40), (0, N_ROWS), (N_ROWS - 1, N_ROWS)]


def kept(most_bytes: int, edges: tuple[int, ...] = (0, N_ROWS)) -> KeptLeaves:
    """Keep blocks between edges, the last first, as threads may do."""
    found = KeptLeaves(most_bytes)
    found.begin(Bags.from_mask(IN_BAG))
    for start, stop in reversed(list(pairwise(edges))):
        found.of_rows(slice(start, stop)).keep(LEAVES[:, start:stop])
    return found


@pytest.mark.parametrize("edges", [(0, N_ROWS), (0, 264, N_ROWS)])
@pytest.mark.parametrize(("start", "stop"), BLOCKS)
def test_leaves_out_of_bag_are_those_that_were_kept(start: int, stop: int, edges: tuple[int, ...]) -> None:
    wanted = ~IN_BAG[:, start:stop]
    wanted[0] = False
    found = kept(LEAVES.nbytes, edges).of_rows(slice(start, stop)).read(wanted)
    assert found is not None
    assert found.dtype == LEAVES.dtype
    np.testing.assert_array_equal(found[wanted], LEAVES[:, start:stop][wanted])


def test_a_part_of_a_part_is_at_its_place() -> None:
    part = kept(LEAVES.nbytes).of_rows(slice(100, 400)).of_rows(slice(30, 50))
    found = part.read(~IN_BAG[:, 130:150])
    assert found is not None
    np.testing.assert_array_equal(found[~IN_BAG[:, 130:150]], LEAVES[:, 130:150][~IN_BAG[:, 130:150]])


def test_only_the_first_rows_are_kept_where_there_is_no_room_for_all() -> None:
    few = kept(2 * int(np.count_nonzero(~IN_BAG[:, : 2 * ROWS_OF_PIECE])))
    assert few.of_rows(slice(0, 2 * ROWS_OF_PIECE)).read(~IN_BAG[:, : 2 * ROWS_OF_PIECE]) is not None
    assert few.of_rows(slice(0, 2 * ROWS_OF_PIECE + 1)).read(~IN_BAG[:, : 2 * ROWS_OF_PIECE + 1]) is None
    assert few.of_rows(slice(400, 401)).read(~IN_BAG[:, 400:401]) is None
    assert kept(0).read(~IN_BAG) is None


def test_leaves_in_bag_are_not_kept_nor_those_of_other_bags() -> None:
    found = kept(LEAVES.nbytes)
    wanted = np.zeros(IN_BAG.shape, dtype=bool)
    wanted[tuple(np.argwhere(IN_BAG)[5])] = True
    assert found.read(wanted) is None
    found.begin(Bags.from_mask(~IN_BAG))
    assert found.read(IN_BAG) is None
    assert KeptLeaves(10).read(~IN_BAG) is None
