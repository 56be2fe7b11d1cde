"""Columns that keep counts in few bytes and are read as float64, and sums over rows that continue from part to part."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.core.tally import LabelTally, ValueTally
from ens_plugin.core.validation import in_few_bytes, sums_by_code, whole_counts

N_ROWS = 200_000


@pytest.mark.parametrize(
    ("largest", "bits"), [(1, 8), (255, 8), (256, 16), (65_535, 16), (65_536, 32), (2**32 - 1, 32), (2**32, 64)]
)
def test_the_type_holds_the_largest_number_and_no_more(largest: int, bits: int) -> None:
    numbers = in_few_bytes(np.array([0.0, largest]), largest)
    assert numbers.dtype == np.dtype(f"uint{bits}")
    assert numbers.tolist() == [0, largest]
    # Of other rows of the same ensemble, too.
    assert in_few_bytes(np.zeros(2), largest).dtype == numbers.dtype


def test_columns_are_read_as_floats_in_which_nothing_wraps_around() -> None:
    trials, wrong = np.array([255, 200], dtype=np.uint8), np.array([3, 200], dtype=np.uint8)
    tally = LabelTally(trials, wrong, wrong, wrong)
    assert (tally.trials * tally.trials).tolist() == [65_025.0, 40_000.0]
    assert (tally.wrong_members - tally.trials).tolist() == [-252.0, 0.0]
    assert np.sqrt(tally.trials).dtype == np.float64
    assert [column.dtype.name for column in vars(tally).values()] == ["uint8"] * 4


def test_floats_are_kept_as_they_are() -> None:
    mean = np.array([0.1, 1.0 / 3.0])
    tally = ValueTally(np.array([2, 3], dtype=np.uint8), mean, mean, mean)
    assert tally.mean is mean


def test_tallies_are_stored_and_changed_with_their_types() -> None:
    counts = np.array([1, 2, 255], dtype=np.uint8)
    tally = LabelTally(counts, counts, np.array([0.5, 0.0, 1.0]), counts)
    for copy in (pickle.loads(pickle.dumps(tally)), replace(tally, trials=counts)):
        assert list(vars(copy)) == ["trials", "wrong_members", "error", "is_wrong"]
        assert vars(copy)["trials"].dtype == np.uint8
        for name in vars(tally):
            np.testing.assert_array_equal(getattr(copy, name), getattr(tally, name))
    with pytest.raises(AttributeError):
        tally.trials = counts  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'is_wrong'"):
        LabelTally(counts, counts, counts)


@pytest.mark.parametrize("kind", ["uint8", "int16", "int64"])
def test_sums_by_code_are_those_of_all_rows_at_once_to_the_bit(kind: str) -> None:
    rng = np.random.default_rng(0)
    code, values = rng.integers(0, 50, N_ROWS).astype(kind), rng.lognormal(sigma=3.0, size=N_ROWS)
    np.testing.assert_array_equal(sums_by_code(code, values, 52), np.bincount(code, values, 52))


def test_sums_by_code_of_weights_that_take_no_memory() -> None:
    code = np.arange(N_ROWS) % 3
    found = sums_by_code(code, np.broadcast_to(np.float64(0.1), N_ROWS), 3)
    np.testing.assert_array_equal(found, np.bincount(code, np.full(N_ROWS, 0.1)))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_whole_numbers_are_counted(numbers: list[int]) -> None:
    found = whole_counts(np.array(numbers, dtype=np.float64))
    values, counts = np.unique(numbers, return_counts=True)
    np.testing.assert_array_equal(found, [values, counts])


def test_numbers_beyond_the_first_part_are_counted() -> None:
    numbers = np.random.default_rng(0).integers(0, 300, N_ROWS).astype(np.float64)
    np.testing.assert_array_equal(whole_counts(numbers), np.unique(numbers, return_counts=True))
    numbers[-1] = 0.5
    assert whole_counts(numbers) is None


@pytest.mark.parametrize("odd", [-1.0, 0.5, 2.0**20, 1e300])
def test_other_numbers_are_not_counted(odd: float) -> None:
    assert whole_counts(np.array([1.0, odd])) is None
