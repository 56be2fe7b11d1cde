"""The order of rows by the members' labels, and rows that are moved into it."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.sample import content_order, move_rows
from ens_plugin.core.tally import RowBlock


def drawn_labels(n_labels: int, dtype: type, *, are_repeated: bool) -> RowBlock:
    """Labels of 11 members for 300 rows, every third of which is repeated where wanted."""
    rng = np.random.default_rng(n_labels)
    labels = rng.integers(0, n_labels, (11, 300)).astype(dtype)
    counted, target = rng.random((11, 300)) < 0.6, rng.integers(0, n_labels, 300)
    # Of members that do not count, anything.
    labels[~counted] = rng.integers(0, n_labels, np.count_nonzero(~counted))
    if are_repeated:
        for values in (labels.T, counted.T, target):
            values[1::3] = values[::3]
    return RowBlock(labels, counted, target, n_labels)


@pytest.mark.parametrize("are_repeated", [False, True])
@pytest.mark.parametrize(("n_labels", "dtype"), [(2, np.uint8), (128, np.uint8), (200, np.uint8), (3, np.int64)])
def test_rows_are_ordered_by_a_sum_over_members(n_labels: int, dtype: type, are_repeated: bool) -> None:
    block = drawn_labels(n_labels, dtype, are_repeated=are_repeated)
    place = np.zeros(300)
    for labels, counts, factor in zip(block.outputs, block.counted, np.random.default_rng(0).random(11), strict=True):
        place += (labels.astype(np.float64) + 1.0) * factor * counts
    expected = np.lexsort((place, np.modf(place * 1e3)[0], block.target))
    np.testing.assert_array_equal(content_order(block), expected)


def test_values_are_ordered_by_their_target_first() -> None:
    rng = np.random.default_rng(0)
    target = rng.normal(size=50)
    block = RowBlock(rng.normal(size=(5, 50)), np.ones((5, 50), dtype=bool), target, 0)
    np.testing.assert_array_equal(content_order(block), np.argsort(target))


@pytest.mark.parametrize(("n_labels", "dtype"), [(2, np.uint8), (128, np.uint8), (129, np.uint8), (300, np.uint16)])
def test_rows_are_moved_with_the_members_that_count(n_labels: int, dtype: type) -> None:
    block = drawn_labels(n_labels, dtype, are_repeated=False)
    order = np.random.default_rng(1).permutation(300)
    labels, counted = block.outputs[:, order], block.counted[:, order]
    move_rows(block, order)
    np.testing.assert_array_equal(block.outputs, labels)
    np.testing.assert_array_equal(block.counted, counted)
