"""Losses by whether a mate of a row was drawn, against plain loops; who is nearest, and what columns tell of mates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import (
    are_equally_frequent,
    drawn_beside,
    interpolated,
    mate_losses,
    mates_before_gap,
    nearest_in_columns,
    nearest_rows,
    nearness,
    nearness_in_ensemble,
    row_ranks,
    scattered,
    turns_taken,
)
from ens_plugin.core.bags import Bags

Array = NDArray[np.float64]


def left_out(n_members: int, n_rows: int, seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((n_members, n_rows)) > 0.632


def nearest(values: Array) -> NDArray[np.intp]:
    return nearest_in_columns(row_ranks(values), np.arange(len(values)))[0]


def test_means_are_those_of_loops() -> None:
    rng = np.random.default_rng(1)
    counted, drew, losses = left_out(40, 150, 0), rng.random((40, 150)) < 0.6, rng.random((40, 150))
    member = [losses[m][counted[m]].mean() for m in range(40)]
    rises, levels, weights = [], [], []
    for row in range(150):
        kinds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for m in np.flatnonzero(counted[:, row]):
            kinds[bool(drew[m, row])].append((losses[m, row], losses[m, row] - member[m]))
        if kinds[True] and kinds[False]:
            rises.append(np.mean(kinds[False], axis=0)[1] - np.mean(kinds[True], axis=0)[1])
            levels.append(np.mean(kinds[True], axis=0)[0])
            weights.append(min(len(kinds[False]), 4))
    unit = np.arange(150) // 3
    found = mate_losses(losses, counted, drew, unit)
    assert found.n_rows == len(rises)
    assert found.beside == pytest.approx(np.average(levels, weights=weights))
    assert found.without - found.beside == pytest.approx(np.average(rises, weights=weights))


def test_no_mate_that_was_drawn_gives_none() -> None:
    counted = left_out(20, 50, 0)
    assert mate_losses(np.ones((20, 50)), counted, np.zeros_like(counted), np.arange(50)) is None


@pytest.mark.parametrize("shares", [(0.632,), (0.05, 0.3, 0.632)], ids=["equal bags", "unequal bags"])
@pytest.mark.parametrize("kind", ["beside", "random"])
def test_difference_has_its_standard_error_where_mates_are_as_good_as_any(shares: tuple[float, ...], kind: str) -> None:
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        share = rng.choice(shares, (60, 1))
        in_bag = rng.random((60, 300)) < share
        # Members and rows that differ much, and members of small bags that err more.
        losses = rng.random((60, 300)) * (rng.lognormal(size=(60, 1)) / share + rng.lognormal(size=300))
        rows = np.arange(300)
        drew = drawn_beside(Bags.from_mask(in_bag), rows) if kind == "beside" else in_bag[:, rng.permutation(300)]
        result = mate_losses(losses, ~in_bag, drew, rows // 10 if kind == "beside" else rows)
        found.append(result.standard_errors)
    assert abs(np.mean(found)) < 0.35
    assert 0.7 < np.std(found) < 1.25
    assert np.abs(found).max() < 5.0


def test_the_rows_beside_are_those_before_and_after() -> None:
    in_bag = ~left_out(9, 40, 0)
    rows = np.random.default_rng(0).permutation(40)
    expected = [[in_bag[m, [j for j in (i - 1, i + 1) if 0 <= j < 40]].any() for i in rows] for m in range(9)]
    np.testing.assert_array_equal(drawn_beside(Bags.from_mask(in_bag), rows), expected)


def test_losses_that_depend_on_the_row_before_are_found() -> None:
    in_bag, rng = ~left_out(30, 500, 0), np.random.default_rng(1)
    losses = rng.random((30, 500))
    losses[:, 1:] -= 0.2 * in_bag[:, :-1]
    drew = drawn_beside(Bags.from_mask(in_bag), np.arange(500))
    result = mate_losses(losses, ~in_bag, drew, np.arange(500) // 10)
    assert result.standard_errors > 5.0
    assert 0.1 < result.without - result.beside < 0.2


def test_rows_that_members_predict_alike_are_nearest() -> None:
    for outputs in (np.repeat(np.random.default_rng(2).random((60, 40)), 2, axis=1), np.tile(np.arange(80) // 2, 60)):
        outputs = outputs.reshape(60, 80)
        near = nearest_rows(
            nearness_in_ensemble(outputs, left_out(60, 80, 2), row_ranks(np.zeros((80, 1))), np.arange(80))
        )
        np.testing.assert_array_equal(near[:, 0], np.arange(80) ^ 1)
        assert not np.any(near == np.arange(80)[:, None])


def test_nearness_in_the_ensemble_is_that_of_loops() -> None:
    rng = np.random.default_rng(0)
    outputs, counted, values = rng.integers(0, 3, (30, 50)).astype(float), left_out(30, 50, 0), rng.normal(size=(50, 4))
    ranks, queries = row_ranks(values), np.array([7, 3, 40])
    near = nearness_in_ensemble(outputs, counted, ranks, queries)
    for query, found in zip(queries, near, strict=True):
        both = counted & counted[:, [query]]
        alike = ((outputs == outputs[:, [query]]) & both).sum(axis=0) / (both.sum(axis=0) + 1.0)
        score = alike - 3.6 * np.square(ranks - ranks[query]).mean(axis=1)
        score[query] = -np.inf
        np.testing.assert_allclose(found, score, rtol=1e-5, atol=1e-5)


def test_nearest_in_columns_are_those_of_all_distances() -> None:
    ranks = row_ranks(np.random.default_rng(0).normal(size=(300, 5)))
    queries = np.arange(0, 300, 7)
    near, distances = nearest_in_columns(ranks, queries)
    every = np.sqrt(np.square(ranks[queries, None].astype(float) - ranks).sum(axis=2))
    every[np.arange(queries.size), queries] = np.inf
    np.testing.assert_array_equal(near, np.argsort(every, axis=1)[:, :12])
    np.testing.assert_allclose(distances, np.sort(every, axis=1)[:, :12], rtol=1e-5)


def mates(values: Array) -> int:
    return mates_before_gap(nearest_in_columns(scattered(row_ranks(values)), np.arange(len(values)), 24)[1])


@pytest.mark.parametrize("n_columns", [1, 2, 4, 8, 20])
@pytest.mark.parametrize("kind", ["normal", "rare beside", "ages beside"])
def test_independent_rows_have_no_gap(n_columns: int, kind: str) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(300 + 30 * seed, n_columns))
        beside = {"rare beside": rng.random(len(values)) < 0.05, "ages beside": rng.integers(18, 80, len(values))}
        assert not mates(np.column_stack([values, beside.get(kind, values[:, 0])]))


@pytest.mark.parametrize("n_copies", [1, 2, 4, 6, 10, 12])
@pytest.mark.parametrize(("n_columns", "change"), [(4, 0.05), (8, 0.2), (12, 0.3)])
def test_copies_with_changes_leave_a_gap(n_copies: int, n_columns: int, change: float) -> None:
    rng = np.random.default_rng(n_copies)
    rows = np.tile(rng.normal(size=(200, n_columns)), (n_copies + 1, 1))
    assert mates(rows + change * rng.normal(size=rows.shape)) == n_copies


def test_few_distances_have_no_gap() -> None:
    assert not mates_before_gap(np.ones((0, 24)))
    assert not mates_before_gap(np.cumsum(np.ones((100, 7)), axis=1))


@pytest.mark.parametrize("n_columns", [1, 2, 4, 8])
def test_the_nearest_of_independent_rows_takes_about_one_row_of_volume(n_columns: int) -> None:
    ranks = row_ranks(np.random.default_rng(n_columns).random((800, n_columns)))
    rows = np.arange(800)
    near = nearest_in_columns(ranks, rows)[0][:, 0]
    share, power = nearness(ranks, rows, near)
    assert -1.75 < power < -0.75
    # Where this is little, the columns are many, and the nearest row is not near in all of them.
    assert power > -1.4 or share > 0.2
    assert nearness(np.hstack([ranks, ranks, ranks]), rows, near) == pytest.approx((share, 3 * power))


def test_ranks_are_equal_for_ties_and_a_half_for_missing_values() -> None:
    ranks = row_ranks(np.array([[5.0, 1.0], [np.nan, 1.0], [9.0, 1.0], [5.0, 1.0]]))
    np.testing.assert_allclose(ranks, [[1 / 3, 0.5], [0.5, 0.5], [5 / 6, 0.5], [1 / 3, 0.5]], rtol=1e-6)


COLUMNS: dict[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda rng: rng.normal(size=600),
    "two values": lambda rng: rng.integers(0, 2, 600).astype(float),
    "ages": lambda rng: rng.integers(18, 80, 600).astype(float),
    "prices": lambda rng: np.round(rng.lognormal(size=600), 1),
    "rare": lambda rng: (rng.random(600) < 0.05).astype(float),
    "categories": lambda rng: rng.integers(0, 12, 600).astype(float),
    "missing": lambda rng: np.where(rng.random(600) < 0.3, np.nan, rng.integers(0, 9, 600)),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_independent_columns_take_no_turns(kind: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        column = COLUMNS[kind](rng)
        near = nearest(np.column_stack([column, rng.normal(size=(600, 2))]))
        assert turns_taken(column, np.arange(600), near) < 4.0
        assert not are_equally_frequent(column)


def test_measurements_of_subjects_take_turns() -> None:
    rng = np.random.default_rng(0)
    subject, year = np.repeat(np.arange(100), 6), np.tile(np.arange(6.0), 100)
    levels = rng.normal(size=(100, 3))[subject] + 0.01 * rng.normal(size=(600, 3))
    assert turns_taken(year, np.arange(600), nearest(levels)) > 5.0
    # Of a subset that is no balanced panel, too.
    kept = rng.permutation(600)[:400]
    assert turns_taken(year[kept], np.arange(400), nearest(levels[kept])) > 4.0


def test_times_of_a_series_take_turns() -> None:
    time = np.random.default_rng(0).permutation(400).astype(float)
    assert turns_taken(time, np.arange(400), nearest(time[:, None])) > 10.0


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


def test_points_between_two_rows_are_on_a_line() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 5))
    first, second = rng.integers(0, 300, (2, 100))
    second = np.where(first == second, (first + 1) % 300, second)
    made = rows[first] + rng.random((100, 1)) * (rows[second] - rows[first])
    values = np.concatenate([rows, made])
    parents = np.stack([first, second, *rng.integers(0, 300, (10, 100))], axis=1)
    assert interpolated(values[300:400], values[parents]).all()
    rounded = values.astype(np.float32).astype(np.float64)
    assert interpolated(rounded[300:400], rounded[parents]).mean() > 0.9
    assert not interpolated(values[:100], values[np.array([rng.permutation(200)[:40] + 100] * 100)]).any()


def test_copies_of_a_neighbour_are_no_line() -> None:
    values = np.random.default_rng(0).normal(size=(60, 5))
    values[20:40] = values[40:60] + 1e-7
    assert not interpolated(values[:10], values[np.tile(np.arange(20, 60), (10, 1))]).any()


@pytest.mark.parametrize("bend", [0.0, 1e-3, 0.1])
def test_rows_that_are_all_on_one_curve_are_not_interpolated(bend: float) -> None:
    at = np.random.default_rng(0).random((200, 1))
    values = at * np.array([1.0, 2.0, 3.0]) + bend * np.sin(at * np.array([3.0, 4.0, 5.0]))
    assert not interpolated(values[:10], values[np.tile(np.arange(20, 60), (10, 1))]).any()


def test_columns_that_follow_from_others_make_no_line() -> None:
    rng = np.random.default_rng(0)
    steps, energy = rng.integers(1000, 6000, 300), rng.integers(0, 150, 300)
    same_length = np.column_stack([steps, energy, steps / 1000.0, 2.0 - steps / 7.0])
    times = rng.integers(0, 2000, (300, 4))
    ended = rng.random(300) < 0.3
    times[ended] = times[ended, :1]
    for table in (same_length, times):
        values = (table - table.mean(axis=0)) / table.std(axis=0)
        queries = np.arange(200)
        assert not interpolated(values[:200], values[nearest_in_columns(row_ranks(values), queries, 48)[0]]).any()


def test_points_between_two_rows_are_on_a_line_with_the_same_column_twice() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    rows[:, 3] = 2.5 * rows[:, 0]
    first, second = np.arange(100), np.arange(100, 200)
    made = rows[first] + rng.random((100, 1)) * (rows[second] - rows[first])
    parents = np.stack([first, second, *rng.integers(200, 300, (10, 100))], axis=1)
    assert interpolated(made, np.concatenate([rows, made])[parents]).all()
