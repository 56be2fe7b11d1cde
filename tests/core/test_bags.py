from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from ens_plugin.core.bags import Bags

masks = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40))


@given(masks)
def test_mask_survives_packing(mask: NDArray[np.bool_]) -> None:
    bags = Bags.from_mask(mask)
    assert (bags.n_members, bags.n_rows) == mask.shape
    assert bags.bits.nbytes == mask.shape[0] * -(-mask.shape[1] // 8)
    np.testing.assert_array_equal(bags.in_bag(), mask)
    for index, row in enumerate(mask):
        np.testing.assert_array_equal(bags.member(index), row)


@given(masks, st.integers(0, 45), st.integers(0, 45))
def test_any_block_of_rows_is_that_part_of_the_mask(mask: NDArray[np.bool_], start: int, length: int) -> None:
    rows = slice(start, start + length)
    np.testing.assert_array_equal(Bags.from_mask(mask).in_bag(rows), mask[:, rows])


@given(masks, st.data())
def test_bags_of_some_rows_are_those_columns_of_the_mask(mask: NDArray[np.bool_], data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, mask.shape[1] - 1), min_size=1)), dtype=np.intp)
    taken = Bags.from_mask(mask).take(rows)
    assert (taken.n_members, taken.n_rows) == (mask.shape[0], rows.size)
    np.testing.assert_array_equal(taken.in_bag(), mask[:, rows])


@given(masks, st.integers(0, 41))
def test_parts_are_stacked_in_their_order(mask: NDArray[np.bool_], cut: int) -> None:
    parts = (Bags.from_mask(part) for part in (mask[:cut], mask[cut:]) if part.size)
    np.testing.assert_array_equal(Bags.stack(parts, *mask.shape).in_bag(), mask)


@given(masks)
def test_repeated_and_unordered_rows_give_the_same_bags(mask: NDArray[np.bool_]) -> None:
    drawn = [np.repeat(np.flatnonzero(row)[::-1], 2) for row in mask]
    np.testing.assert_array_equal(Bags.from_indices(drawn, mask.shape[1]).bits, Bags.from_mask(mask).bits)


def test_members_are_drawn_one_at_a_time() -> None:
    alive: list[int] = []

    def draws() -> object:
        for member in range(3):
            alive.append(member)
            yield [member]

    bags = Bags.from_indices(draws(), 4)  # type: ignore[arg-type]
    assert alive == [0, 1, 2]
    np.testing.assert_array_equal(bags.in_bag(), np.eye(3, 4, dtype=bool))


def test_row_beyond_the_last_is_refused() -> None:
    with pytest.raises(IndexError):
        Bags.from_indices([[4]], 4)
