from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import xlogy

from ens_plugin.core.alike_rows import (
    appended_rows,
    column_halves,
    copied_rows,
    evenly_repeated,
    is_of_few_cells,
    near_missed,
    numbered,
    too_even,
)


@pytest.mark.parametrize("n_values", [1, 3, 30, 300, 10**6])
def test_rows_with_equal_hashes_share_a_number_in_order_of_appearance(n_values: int) -> None:
    hashes = np.random.default_rng(0).integers(0, n_values, 300).astype(np.uint64)
    number_of: dict[int, int] = {}
    expected = [number_of.setdefault(value, len(number_of)) for value in hashes.tolist()]
    assert numbered(hashes).tolist() == expected


def test_halves_are_complements_of_half_the_columns() -> None:
    halves = column_halves(7)
    assert np.all(halves[::2].sum(axis=1) == 3)
    assert np.array_equal(halves[1::2], ~halves[::2])
    assert np.array_equal(halves, column_halves(7))


@pytest.mark.parametrize("times", [2, 3, 5, 10])
def test_each_row_equally_often_is_too_even(times: int) -> None:
    assert too_even(np.full(30, times))


@pytest.mark.parametrize("seed", range(40))
def test_drawn_rows_are_not_too_even(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_records = int(10 ** rng.uniform(1.5, 4.5)), int(10 ** rng.uniform(0.3, 4))
    chances = rng.gamma((0.2, 1.0, 50.0)[seed % 3], size=n_records) + 1e-12
    counts = rng.multinomial(n_rows, chances / chances.sum())
    assert not too_even(counts[counts > 0])


def least_loss(k: int, below: int, here: int, above: int) -> float:
    """Search for the means within what drawing allows that are most likely; return the loss of log-likelihood."""
    found = np.array([below, here, above], dtype=np.float64)

    def loss(logarithms: NDArray[np.float64]) -> float:
        middle = 0.5 * (np.log((k + 1) / k) + logarithms.sum())
        means = np.exp([logarithms[0], middle, logarithms[1]])
        return float(np.sum(means - found - xlogy(found, means) + xlogy(found, found)))

    start = np.log(found[[0, 2]] + 0.5)
    return float(minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).fun)


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_too_even_where_no_means_of_drawn_rows_are_likely(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [0, *rng.integers(0, (300, 60, 6, 3)).tolist(), 0]
    uneven = [k for k in (2, 3, 4) if k * found[k] ** 2 > (k + 1) * found[k - 1] * found[k + 1]]
    losses = [least_loss(k, *found[k - 1 : k + 2]) for k in uneven]
    counts = np.repeat(np.arange(6), found)
    level = max(len(losses), 1) / np.exp(max(losses, default=1.0))
    assert too_even(counts, 1.001 * level) == bool(losses)
    assert not too_even(counts, 0.999 * level)


def test_a_fifth_of_the_rows_twice_is_too_even_in_a_large_table() -> None:
    assert too_even(np.append(np.full(400, 2), np.ones(1600, dtype=int)))
    assert not too_even(np.append(np.full(10, 2), np.ones(40, dtype=int)))


def test_a_rare_label_repeated_evenly_is_found_among_its_own_rows() -> None:
    records = np.append(np.arange(1000), np.repeat(np.arange(1000, 1030), 2))
    labels = (records >= 1000).astype(int)
    assert not evenly_repeated(records, None).any()
    assert np.array_equal(evenly_repeated(records, labels), labels == 1)
    assert np.array_equal(copied_rows(records, np.zeros((2, records.size), dtype=np.uint64), labels), labels == 1)


def test_a_near_miss_in_both_halves_tells_chance_from_copying() -> None:
    # Records 0, 0, 1: in every half the third row is like the others, or in none.
    records = np.array([0, 0, 1])
    alike, apart = np.zeros(3, dtype=np.uint64), np.array([0, 0, 1], dtype=np.uint64)
    assert not copied_rows(records, np.stack([alike, alike])).any()
    assert copied_rows(records, np.stack([alike, apart])).tolist() == [True, True, False]


def oversampled(first: int, rng: np.random.Generator) -> NDArray[np.int64]:
    head = (rng.random(first) < 0.1).astype(np.int64)
    return np.append(head, np.ones(first - 2 * int(head.sum()), dtype=np.int64))


def test_rows_that_an_oversampler_appended() -> None:
    rng = np.random.default_rng(0)
    target = oversampled(300, rng)
    found = appended_rows(target)
    assert target.size - 300 <= found <= target.size - 290
    three = np.concatenate([rng.choice(3, 400, p=[0.8, 0.1, 0.1])])
    counts = np.bincount(three)
    assert appended_rows(np.concatenate([three, np.repeat([1, 2], counts[0] - counts[1:])])) >= counts[0] - counts[2]


@pytest.mark.parametrize(
    "target",
    [
        np.repeat([0, 1, 2], 50),
        np.tile([0, 1], 100),
        np.random.default_rng(0).permutation(np.repeat([0, 1], 500)),
        np.tile(np.repeat([0, 1], 25), 10),
        np.append(np.tile([0, 0, 0, 0, 1], 20), np.ones(59, dtype=int)),
        np.append(np.tile(np.repeat([0, 1], [8, 4]), 6), np.ones(24, dtype=int)),
        np.zeros(40, dtype=int),
    ],
    ids=["sorted", "in turns", "shuffled", "batches", "not quite equal", "a run five times as long", "one label"],
)
def test_labels_in_other_orders_are_not_appended(target: NDArray[np.int64]) -> None:
    assert appended_rows(target) == 0


def test_few_records_of_many_rows_each_are_cells_of_discrete_data() -> None:
    assert is_of_few_cells(np.full(8, 30))
    assert not is_of_few_cells(np.full(30, 8))


def test_a_near_miss_shares_each_half_with_another_record() -> None:
    halves = np.array([[1, 1, 2], [5, 6, 5]], dtype=np.uint64)
    assert near_missed(np.arange(3), halves).tolist() == [True, False, False]
