"""Labels that were oversampled are found among rows that are also equal by chance, and others are not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.analysis.copies import find_repeats, hash_rows, row_hashes
from ens_plugin.core.alike_rows import column_halves, numbered, oversampled_labels

SEEDS = range(10)


def found(table: NDArray[np.float64], labels: NDArray[np.int64]) -> list[int]:
    records = numbered(row_hashes(np.column_stack([table, labels]))[0])
    return oversampled_labels(records, row_hashes(table, column_halves(table.shape[1])), labels).tolist()


def visits(seed: int, n_rows: int, share: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Class, number of visits, and age in years; the rare label grows with all."""
    rng = np.random.default_rng([seed, n_rows])
    labels = (rng.random(n_rows) < share).astype(np.int64)
    columns = rng.integers(0, 3, n_rows), rng.poisson(1.0 + labels), np.round(rng.normal(40 + 8 * labels, 12))
    return np.column_stack(columns).astype(np.float64), labels


def oversampled(seed: int, n_rows: int, share: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The same, with rows of the rare label drawn again until both labels are equally frequent, shuffled."""
    table, labels = visits(seed, n_rows, share)
    rng = np.random.default_rng(seed)
    n_missing = np.count_nonzero(labels == 0) - np.count_nonzero(labels)
    rows = rng.permutation(np.append(np.arange(n_rows), rng.choice(np.flatnonzero(labels), n_missing)))
    return table[rows], labels[rows]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_rows", "share"), [(400, 0.15), (1000, 0.1)])
def test_an_oversampled_label_is_found_though_rows_are_equal_by_chance(seed: int, n_rows: int, share: float) -> None:
    assert found(*oversampled(seed, n_rows, share)) == [1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("n_rows", "share"), [(400, 0.15), (1000, 0.5), (5000, 0.1), (50_000, 0.3)])
def test_rows_that_were_drawn_one_by_one_are_not(seed: int, n_rows: int, share: float) -> None:
    assert found(*visits(seed, n_rows, share)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_nor_are_labels_whose_columns_depend_on_each_other(seed: int) -> None:
    """Of each label the second column is nearly the first, and the values of one are fewer."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 1000)
    first = np.where(labels == 1, rng.integers(0, 40, 1000), rng.integers(0, 400, 1000))
    assert found(np.column_stack([first, first + rng.integers(0, 3, 1000)]).astype(np.float64), labels) == []


def test_the_chance_of_a_recombined_row_is_compared_with_that_of_the_other_rows() -> None:
    """Ten rows of one label, ten times each, have 10 of 100 combinations; 400 rows of the other have all of theirs."""
    one = np.repeat(np.column_stack([np.arange(10), np.arange(10)]), 10, axis=0)
    other = np.tile(np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2), (2, 1))
    table = np.vstack([one, other]).astype(np.float64)
    assert found(table, np.repeat([1, 0], [len(one), len(other)])) == [1]
    assert found(table[len(one) :], np.zeros(len(other), dtype=np.int64)) == []


def test_records_that_occur_as_often_as_the_others_are_not_oversampled() -> None:
    """50 of 2500 combinations twice each, and all of 400 twice each."""
    one = np.repeat(np.column_stack([np.arange(50), np.arange(50)]), 2, axis=0)
    other = np.tile(np.stack(np.meshgrid(np.arange(20), np.arange(20)), axis=-1).reshape(-1, 2), (2, 1))
    labels = np.repeat([1, 0], [len(one), len(other)])
    assert found(np.vstack([one, other]).astype(np.float64), labels) == []
    four_times = np.vstack([np.repeat(one[::2], 4, axis=0), other]).astype(np.float64)
    assert found(four_times, np.repeat([1, 0], [200, len(other)])) == [1]


def test_rows_of_few_values_are_not_oversampled_beside_rows_that_are_all_different() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 10, (300, 2)), rng.normal(size=(300, 2))
    assert found(np.vstack([few, many]), np.repeat([1, 0], 300)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_their_repeated_rows_are_taken_for_copies_but_not_for_sure(seed: int) -> None:
    table, labels = oversampled(seed, 400, 0.15)
    repeats = find_repeats(hash_rows(None, table), labels)
    if repeats.is_sure:
        assert np.mean(repeats.copied) > 0.25, "refused before"
    np.testing.assert_array_equal(repeats.copied[labels == 1], repeats.repeated[labels == 1])
