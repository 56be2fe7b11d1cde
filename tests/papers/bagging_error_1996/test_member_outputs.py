from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.errors import InputError
from ens_plugin.papers.bagging_error_1996 import as_aligned_target, as_mask, as_outputs, check_same_members

VALUES = as_outputs([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "outputs")
PROBABILITIES = as_outputs([[[0.2, 0.8], [0.5, 0.5]]], "outputs")


@pytest.mark.parametrize(
    ("outputs", "fault"),
    [
        ([1.0, 2.0], "members, rows"),
        (np.zeros((1, 1, 1, 1)), "members, rows"),
        (np.empty((0, 3)), "empty"),
        (np.empty((2, 0)), "empty"),
        ([[1.0, np.nan]], "NaN or infinite"),
        ([[1.0, np.inf]], "NaN or infinite"),
        ([["a", "b"]], "numbers"),
        ([[1.0], [1.0, 2.0]], "numbers"),
        ([[[1.5, -0.5]]], r"\[0, 1\]"),
        ([[[0.5, 0.4]]], "sum to 1"),
        ([[[1.0]]], "one label"),
    ],
)
def test_bad_outputs_are_refused_by_name(outputs: object, fault: str) -> None:
    with pytest.raises(InputError, match=f"given.*{fault}"):
        as_outputs(outputs, "given")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        ([[True, False, True]], "shape"),
        (np.ones((3, 2), dtype=bool), "shape"),
        ([[2, 0, 1], [1, 1, 1]], "True or False"),
        ([[0.5, 0, 1], [1, 1, 1]], "True or False"),
        ([[True, False, False], [True, True, False]], "2 of 3 rows"),
    ],
)
def test_bad_mask_is_refused_by_name(mask: object, fault: str) -> None:
    with pytest.raises(InputError, match=f"out_of_bag.*{fault}"):
        as_mask(mask, VALUES, 2)  # type: ignore[arg-type]


def test_a_mask_of_zeros_and_ones_is_one_of_booleans() -> None:
    mask = as_mask([[1, 0, 1], [1, 1, 0]], VALUES, 1)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, [[True, False, True], [True, True, False]])


@pytest.mark.parametrize("target", [[0.0, 2.0], [-1, 0], [0.5, 1.0], [0], [np.nan, 1.0]])
def test_bad_labels_are_refused(target: list[float]) -> None:
    with pytest.raises(InputError, match="target"):
        as_aligned_target(target, PROBABILITIES)


def test_values_stay_and_labels_become_indicators() -> None:
    np.testing.assert_array_equal(as_aligned_target([7.0, -1.0, 0.5], VALUES), [7.0, -1.0, 0.5])
    np.testing.assert_array_equal(as_aligned_target([1, 0], PROBABILITIES), [[0, 1], [1, 0]])


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 2)])
def test_test_outputs_come_from_the_same_members(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="test_outputs"):
        check_same_members(VALUES, np.full(shape, 0.5))


def test_test_outputs_have_the_same_labels() -> None:
    with pytest.raises(InputError, match="labels"):
        check_same_members(PROBABILITIES, np.full((1, 4, 3), 1 / 3))
