"""Nearest rows against brute force; companions and rows on lines by chance, and where there are copies."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.alike_rows import companions, interpolated, nearest_rows


@pytest.mark.parametrize(("n_rows", "n_columns"), [(60, 1), (300, 4), (9000, 3), (17_000, 2)])
def test_nearest_rows_are_those_of_all_distances(n_rows: int, n_columns: int) -> None:
    values = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    queries = np.array([0, n_rows // 2, n_rows - 1])
    positions, distances = nearest_rows(values, queries, 30)
    for query, found, distance in zip(queries, positions, distances, strict=True):
        true = np.sqrt(np.square(values - values[query]).sum(axis=1))
        true[query] = np.inf
        np.testing.assert_allclose(distance, np.sort(true)[:30], rtol=1e-12)
        np.testing.assert_allclose(true[found], distance)


def test_small_distances_are_exact() -> None:
    values = np.random.default_rng(0).normal(size=(200, 5)) + 50.0
    values[100:] = values[:100] + 1e-9
    positions, distances = nearest_rows(values, np.arange(100), 5)
    assert np.array_equal(positions[:, 0], np.arange(100, 200))
    np.testing.assert_allclose(distances[:, 0], 1e-9 * np.sqrt(5), rtol=1e-4)


@pytest.mark.parametrize("n_columns", [1, 2, 4, 8, 20])
def test_companions_by_chance_are_as_rare_as_stated(n_columns: int) -> None:
    values = np.random.default_rng(0).random((20_000, n_columns))
    queries = np.flatnonzero(np.abs(values - 0.5).max(axis=1) < 0.48)[:2000]
    found = companions(nearest_rows(values, queries, 48)[1])
    assert np.mean(found > 0) < 0.014 + 3.0 * np.sqrt(0.014 / queries.size)


@pytest.mark.parametrize("n_copies", [1, 4, 24])
def test_companions_of_copies_are_counted(n_copies: int) -> None:
    rng = np.random.default_rng(0)
    values = np.repeat(rng.normal(size=(60, 8)), n_copies + 1, axis=0)
    values += 0.01 * rng.normal(size=values.shape)
    queries = np.arange(0, len(values), 3)
    found = companions(nearest_rows(values, queries, min(48, len(values) // 4))[1])
    assert np.mean(found == n_copies) > 0.85


def distances_with_steps(shares: dict[int, float], step: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """48 distances whose k-th step is a share of the others' sum, which are alike, among the first 4, 12 or 47."""
    steps = np.full(47, step)
    for place, share in shares.items():
        window = next(size for size in (4, 12, 47) if place <= size)
        steps[place - 1] = share * (window - 1) * step / (1.0 - share)
    return np.exp(np.append(0.0, np.cumsum(steps / np.arange(1, 48))))[None]


@pytest.mark.parametrize(
    ("shares", "step", "expected"),
    [
        ({2: 0.88}, 0.5, 2),
        ({2: 0.8}, 0.5, 0),
        ({8: 0.66}, 0.5, 8),
        ({8: 0.54}, 0.5, 0),
        ({24: 0.4}, 0.5, 24),
        ({24: 0.3}, 0.5, 0),
        # The next row is less than half as far again.
        ({24: 0.4}, 0.2, 0),
        # Of two large steps the nearer one ends the companions.
        ({2: 0.9, 24: 0.6}, 0.5, 2),
    ],
)
def test_a_step_is_no_chance_from_a_share_on_that_falls_with_the_number_of_steps(
    shares: dict[int, float], step: float, expected: int
) -> None:
    assert companions(distances_with_steps(shares, step)).tolist() == [expected]


def test_equal_rows_and_few_distances_have_no_companions() -> None:
    assert companions(np.zeros((3, 40))).tolist() == [0, 0, 0]
    assert companions(np.append(np.zeros(10), np.ones(30))[None]).tolist() == [0]
    assert companions(np.append(0.001, np.ones(9))[None]).tolist() == [0]


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
        assert not interpolated(values[:200], values[nearest_rows(values, queries, 48)[0]]).any()


def test_points_between_two_rows_are_on_a_line_with_the_same_column_twice() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    rows[:, 3] = 2.5 * rows[:, 0]
    first, second = np.arange(100), np.arange(100, 200)
    made = rows[first] + rng.random((100, 1)) * (rows[second] - rows[first])
    parents = np.stack([first, second, *rng.integers(200, 300, (10, 100))], axis=1)
    assert interpolated(made, np.concatenate([rows, made])[parents]).all()
