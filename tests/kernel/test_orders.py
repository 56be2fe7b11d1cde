"""The order of rows by their labels in compiled code, against that of NumPy, which it equals to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.trees import label_order
from ens_plugin.core.sample import content_order, move_rows
from ens_plugin.core.tally import RowBlock
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL


def block_of(n_members: int, n_rows: int, n_labels: int, seed: int = 0) -> RowBlock:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n_members, n_rows), dtype=np.uint8)
    counted = rng.random((n_members, n_rows)) < 0.4
    return RowBlock(labels, counted, rng.integers(0, n_labels, n_rows), n_labels)


@pytest.mark.parametrize(
    ("n_members", "n_rows", "n_labels"), [(1, 1, 2), (2, 7, 2), (3, 1023, 128), (8, 1025, 2), (13, 3000, 5)]
)
def test_rows_are_in_the_order_of_numpy(n_members: int, n_rows: int, n_labels: int) -> None:
    compiled, plain = block_of(n_members, n_rows, n_labels), block_of(n_members, n_rows, n_labels)
    of_labels = label_order()
    assert of_labels is not None
    factors = np.random.default_rng(1).random(n_members)
    expected = np.zeros(n_rows)
    for labels, counted, factor in zip(plain.stored, plain.counted, factors, strict=True):
        expected += (labels + np.uint8(1)) * counted * factor
    np.testing.assert_array_equal(of_labels.places(plain.stored, plain.counted, factors), expected)
    order = content_order(compiled, of_labels)
    np.testing.assert_array_equal(order, content_order(plain))
    move_rows(compiled, order, of_labels)
    move_rows(plain, order)
    np.testing.assert_array_equal(compiled.stored, plain.stored)
    np.testing.assert_array_equal(compiled.counted, plain.counted)


def test_labels_that_are_not_next_to_each_other_are_moved_by_numpy() -> None:
    compiled, plain = block_of(6, 50, 3), block_of(6, 50, 3)
    block = compiled.like(np.asfortranarray(compiled.stored), np.asfortranarray(compiled.counted), compiled.target)
    order = np.random.default_rng(0).permutation(50)
    move_rows(block, order, label_order())
    move_rows(plain, order)
    np.testing.assert_array_equal(block.stored, plain.stored)
    np.testing.assert_array_equal(block.counted, plain.counted)


@pytest.mark.parametrize(
    ("labels", "counted", "order"),
    [
        (np.zeros((2, 3), np.uint8), np.ones((2, 4), bool), np.arange(3)),
        (np.zeros((2, 3), np.uint8), np.ones((2, 3), bool), np.arange(4)),
        (np.zeros((2, 3), np.uint8), np.ones((2, 3), bool), np.array([0, 1, 3])),
        (np.zeros((2, 3), np.uint8), np.ones((2, 3), bool), np.array([0, 1, -1])),
        (np.zeros((2, 3), np.uint16), np.ones((2, 3), bool), np.arange(3)),
        (np.zeros((3, 2), np.uint8).T, np.ones((3, 2), bool).T, np.arange(3)),
        (np.zeros((2, 3), np.uint8), np.ones((2, 3), bool), np.array([0.9, 1.7, 2.0])),
        (np.full((2, 3), 128, np.uint8), np.ones((2, 3), bool), np.arange(3)),
    ],
)
def test_what_cannot_be_moved_in_its_place_is_refused(labels: Any, counted: Any, order: Any) -> None:
    from ens_plugin._kernel.outputs import move_labels

    with pytest.raises(ValueError, match=r"order|cannot be moved"):
        move_labels(labels, counted, order)


def test_places_of_other_shapes_are_refused() -> None:
    from ens_plugin._kernel.outputs import label_places

    with pytest.raises(ValueError, match="shapes"):
        label_places(np.zeros((2, 3), np.uint8), np.ones((2, 3), bool), [1.0])
