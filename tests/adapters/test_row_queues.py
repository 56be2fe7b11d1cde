"""Values that move up to places of their row, against lists."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.adapters.trees import ROWS_TOGETHER, move_values


@pytest.mark.parametrize("n_rows", [1, ROWS_TOGETHER, 300])
def test_the_values_that_are_taken_of_each_row_move_in_order(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    values, taken, filled = rng.random((40, n_rows)), *(rng.random((2, 40, n_rows)) < [[[0.5]], [[0.45]]])
    filled &= np.cumsum(filled, axis=0) <= taken.sum(axis=0)
    outputs = np.empty((40, n_rows))
    move_values(values[None], taken[None], outputs[None], filled)
    for row in range(n_rows):
        moved = outputs[filled[:, row], row].tolist()
        assert moved == values[taken[:, row], row].tolist()[: len(moved)]
    assert filled.any()


def test_values_of_several_labels_move_as_those_of_each() -> None:
    rng = np.random.default_rng(9)
    values, taken = rng.random((3, 40, 150)), rng.random((3, 40, 150)) < 0.5
    filled = rng.random((40, 150)) < 0.4
    filled &= np.cumsum(filled, axis=0) <= taken.sum(axis=1).min(axis=0)
    outputs, expected = np.zeros((2, 40, 3, 150))
    move_values(values, taken, outputs.transpose(1, 0, 2), filled)
    for label in range(3):
        own = slice(label, label + 1)
        move_values(values[own], taken[own], expected.transpose(1, 0, 2)[own], filled)
    np.testing.assert_array_equal(outputs.transpose(1, 0, 2)[:, filled], expected.transpose(1, 0, 2)[:, filled])
    moved = outputs[filled[:, 7], 2, 7]
    assert moved.size
    np.testing.assert_array_equal(moved, values[2, taken[2, :, 7], 7][: moved.size])
