"""The nearest rows in an ensemble; losses by whether they were drawn, against plain loops; how near they are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import (
    Neighbours,
    column_weights,
    mate_losses,
    nearest_in_ensemble,
    nearness,
    rank_scaled,
)


def left_out(n_members: int, n_rows: int, seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((n_members, n_rows)) > 0.632


def test_means_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    counted, losses = left_out(40, 150, 0), rng.random((40, 150))
    queries = rng.permutation(150)[:120]
    halves = (slice(0, 20), slice(20, 40))
    found = tuple(Neighbours(queries, rng.integers(0, 150, (120, 3)), judges) for judges in halves)
    rises, levels, weights = [], [], []
    for neighbours in found:
        for place, row in enumerate(queries):
            kinds: dict[bool, list[float]] = {True: [], False: []}
            for member in range(neighbours.judges.start, neighbours.judges.stop):
                if counted[member, row]:
                    kinds[not counted[member, neighbours.nearest[place, 0]]].append(losses[member, row])
            if kinds[True] and kinds[False]:
                rises.append(np.mean(kinds[False]) - np.mean(kinds[True]))
                levels.append(np.mean(kinds[True]))
                weights.append(min(len(kinds[False]), 4))
    result = mate_losses(losses[:, queries], counted, found)
    assert result is not None
    assert result.beside == pytest.approx(np.average(levels, weights=weights))
    assert result.without - result.beside == pytest.approx(np.average(rises, weights=weights))


def test_losses_without_a_reason_differ_by_chance() -> None:
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        counted = left_out(40, 300, seed)
        queries = np.arange(300)
        pairs = tuple(
            Neighbours(queries, rng.integers(0, 300, (300, 1)), judges) for judges in (slice(0, 20), slice(20, 40))
        )
        losses = mate_losses(rng.exponential(size=(40, 300)) * rng.exponential(size=300), counted, pairs)
        assert losses is not None
        found.append(losses.standard_errors)
    assert abs(np.mean(found)) < 0.35
    assert 0.8 < np.std(found) < 1.2


def test_too_few_rows_give_none() -> None:
    queries = np.arange(90)
    found = Neighbours(queries, queries[::-1, None], slice(0, 20))
    assert mate_losses(np.ones((40, 90)), left_out(40, 90, 0), (found,)) is None


def test_a_half_that_finds_neighbours_does_not_judge_them() -> None:
    rng = np.random.default_rng(1)
    outputs, counted = rng.integers(0, 5, (20, 60)), left_out(20, 60, 1)
    scaled = rank_scaled(rng.normal(size=(60, 3)))
    first, second = nearest_in_ensemble(outputs, counted, scaled, np.arange(60), 50)
    assert (first.judges, second.judges) == (slice(10, 20), slice(0, 10))
    outputs[10:] = rng.integers(0, 5, (10, 60))
    again = nearest_in_ensemble(outputs, counted, scaled, np.arange(60), 50)
    np.testing.assert_array_equal(again[0].nearest, first.nearest)
    assert not np.array_equal(again[1].nearest, second.nearest)


def test_rows_that_members_predict_alike_are_nearest() -> None:
    outputs = np.repeat(np.random.default_rng(2).random((60, 40)), 2, axis=1)
    found, _ = nearest_in_ensemble(outputs, left_out(60, 80, 2), rank_scaled(np.zeros((80, 1))), np.arange(80), 30)
    np.testing.assert_array_equal(found.nearest[:, 0], np.arange(80) ^ 1)
    assert not np.any(found.nearest == np.arange(80)[:, None])


def test_a_column_that_members_use_decides_where_they_predict_alike() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(300, 6))
    outputs = np.repeat((values[:, 0] > 0)[None], 20, axis=0)
    found, _ = nearest_in_ensemble(outputs, left_out(20, 300, 3), rank_scaled(values), np.arange(300), 10)
    distance = np.abs(rank_scaled(values)[:, None] - rank_scaled(values)[found.nearest[:, :1]])[:, 0].mean(axis=0)
    assert distance[0] < 0.3 * distance[1:].min()


@pytest.mark.parametrize("n_columns", [1, 2, 4, 8])
def test_the_nearest_of_independent_rows_takes_about_one_row_of_volume(n_columns: int) -> None:
    scaled = rank_scaled(np.random.default_rng(n_columns).random((800, n_columns)))
    distance = np.square(scaled[:, None] - scaled).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    share, power = nearness(scaled, Neighbours(np.arange(800), distance.argmin(axis=1)[:, None], slice(0, 1)))
    assert -1.75 < power < -0.75
    # Where this is little, the columns are many, and the nearest row is not near in all of them.
    assert power > -1.4 or share > 0.2
    doubled = np.hstack([scaled, scaled, scaled])
    again = nearness(doubled, Neighbours(np.arange(800), distance.argmin(axis=1)[:, None], slice(0, 1)))
    assert again == pytest.approx((share, 3 * power))


def test_ranks_count_ties_once_and_leave_missing_values_in_the_middle() -> None:
    scaled = rank_scaled(np.array([[5.0, 1.0], [np.nan, 1.0], [9.0, 1.0], [5.0, 1.0]]))
    assert scaled[0, 0] == scaled[3, 0] < scaled[1, 0] == 0.0 < scaled[2, 0]
    assert not scaled[:, 1].any()


def test_a_column_weighs_by_the_correlation_of_its_distances_with_unlike_outputs() -> None:
    scaled = rank_scaled(np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0]]))
    weights = column_weights(scaled, scaled, scaled[:, :1] @ scaled[:, :1].T)
    np.testing.assert_allclose(weights, [0.81, 0.19], atol=0.005)
