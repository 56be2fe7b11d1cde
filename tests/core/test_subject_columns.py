"""Columns of subjects and series have their signs, and columns of independent rows have none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import (
    Neighbours,
    are_equally_frequent,
    jumps_between_values,
    losses_without_own_value,
    places_of_recurring,
    rank_scaled,
    share_of_recurring,
    turns_taken,
)

Column = NDArray[np.float64]

DRAWS: dict[str, Callable[[np.random.Generator], Column]] = {
    "ages": lambda rng: rng.integers(18, 80, 600).astype(float),
    "counts": lambda rng: rng.poisson(20.0, 600).astype(float),
    "prices": lambda rng: np.round(rng.lognormal(size=600), 1),
    "labels": lambda rng: rng.integers(0, 5, 600).astype(float),
    "real": lambda rng: rng.normal(size=600),
    "missing": lambda rng: np.where(rng.random(600) < 0.5, np.nan, rng.integers(0, 40, 600)),
}


def nearest_by(values: NDArray[np.float64], n_nearest: int = 12) -> Neighbours:
    distance = np.square(values[:, None] - values).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    return Neighbours(np.arange(len(values)), np.argsort(distance, axis=1)[:, :n_nearest], slice(0, 1))


@pytest.mark.parametrize("kind", DRAWS)
def test_independent_columns_have_no_sign(kind: str) -> None:
    # Neighbours by the column and others: nearest rows are then most alike in it.
    turns = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        column = DRAWS[kind](rng)
        scaled = (np.nan_to_num(column) - np.nanmean(column)) / np.nanstd(column)
        found = nearest_by(np.column_stack([scaled, rng.normal(size=(600, 2))]))
        turns.append(turns_taken(column, found))
        assert not are_equally_frequent(column)
        assert share_of_recurring(column, found) < 0.3
    assert max(turns) < 3.0


def test_measurements_of_subjects_take_turns() -> None:
    rng = np.random.default_rng(0)
    subject, year = np.repeat(np.arange(100), 6), np.tile(np.arange(2000.0, 2006.0), 100)
    found = nearest_by(rng.normal(size=(100, 3))[subject] + 0.01 * rng.normal(size=(600, 3)))
    assert turns_taken(year, found) > 5.0
    # Of a subset that is no balanced panel, too.
    kept = rng.permutation(600)[:400]
    part = nearest_by(rng.normal(size=(100, 3))[subject[kept]] + 0.01 * rng.normal(size=(400, 3)))
    assert turns_taken(year[kept], part) > 4.0


def test_times_of_a_series_take_turns() -> None:
    time = np.random.default_rng(0).permutation(400).astype(float)
    assert turns_taken(time, nearest_by(time[:, None])) > 10.0


def test_values_of_subjects_recur_and_those_of_numbers_do_not() -> None:
    rng = np.random.default_rng(0)
    number = np.repeat(rng.permutation(2000)[:100], 5).astype(float)
    found = nearest_by(rng.normal(size=(100, 3))[np.repeat(np.arange(100), 5)] + 0.01 * rng.normal(size=(500, 3)))
    assert share_of_recurring(number, found) == 1.0
    assert share_of_recurring(rng.normal(size=500), found) == 0.0
    # The next number is as near as the same one.
    whole = rng.integers(0, 100, 500).astype(float)
    assert share_of_recurring(whole, nearest_by(whole[:, None] + rng.normal(size=(500, 1)))) == 0.0


def test_only_values_that_recur_in_few_rows_have_places() -> None:
    rng = np.random.default_rng(0)
    recurring = rng.permutation(np.repeat(rng.normal(size=60), 5))
    places = places_of_recurring(recurring)
    assert places is not None
    assert np.array_equal(np.unique(recurring)[places], recurring)
    for column in (rng.normal(size=300), rng.integers(0, 10, 300).astype(float), np.zeros(300)):
        assert places_of_recurring(column) is None
    missing = np.where(rng.random(300) < 0.1, np.nan, recurring)
    places = places_of_recurring(missing)
    assert places is not None
    assert np.array_equal(places == places.max(), np.isnan(missing))


def test_means_of_independent_rows_jump_by_chance_alone() -> None:
    # Of counts as unequal as ages have them: mean 0 and standard error 1.
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        places = np.unique(rng.binomial(80, 0.5, 600), return_inverse=True)[1]
        smooth = np.sin(places / 10.0)[:, None] + rng.normal(size=(600, 3))
        found.extend(jumps_between_values(places, smooth.astype(np.float32)))
    assert abs(np.mean(found)) < 0.3
    assert 0.7 < np.std(found) < 1.4
    assert max(found) < 6.0


@pytest.mark.parametrize("n_targets", [1, 3])
def test_nearest_rows_of_other_subjects_predict_worse_and_those_of_other_ages_do_not(n_targets: int) -> None:
    rng = np.random.default_rng(0)
    places = rng.permutation(np.repeat(np.arange(100), 6))
    level, effect = rng.normal(size=(100, 2))[places], rng.normal(size=(100, n_targets))[places]
    columns = rank_scaled(np.column_stack([level, rng.normal(size=(600, 2))]))
    queries = np.arange(0, 600, 2)
    noise = 0.3 * rng.normal(size=(600, n_targets))
    of_subjects = losses_without_own_value(places, columns, (effect + noise).astype(np.float32), queries)
    assert of_subjects.standard_errors > 4.0
    assert of_subjects.rise > 0.1
    by_age = rank_scaled(np.column_stack([places, rng.normal(size=(600, 3))]))
    target = (np.sin(places / 10.0)[:, None] + noise).astype(np.float32)
    assert losses_without_own_value(places, by_age, target, queries).standard_errors < 2.5


def test_equal_counts_are_too_even_at_the_stated_level() -> None:
    rng = np.random.default_rng(0)
    even = [are_equally_frequent(rng.integers(0, 12, 600).astype(float)) for _ in range(2000)]
    assert np.mean(even) < 0.002
    assert are_equally_frequent(np.repeat(np.arange(12.0), 50))
    # Three quarters of a balanced panel of many years.
    years = np.repeat(np.arange(30.0), 40)
    assert are_equally_frequent(years[rng.permutation(1200)[:900]])
    assert not are_equally_frequent(np.arange(600.0))
    assert not are_equally_frequent(np.repeat([0.0, 1.0], 300))
