from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.trees import (
    MAX_CHANCE,
    chance_of_draws,
    damage_of_tree,
    likely_chance,
    members_to_check,
    splits_by_column,
)

LEFT, RIGHT = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
FEATURE, THRESHOLD = np.array([1, 0, 0, 0, 0]), np.array([0.5, 0.0, 2.5, 0.0, 0.0])
SOUND: dict[str, Any] = {"left": LEFT, "right": RIGHT, "feature": FEATURE, "n_features": 2, "threshold": THRESHOLD}


@pytest.mark.parametrize(("n_cells", "n_checked"), [(10_000_000, 16), (200, 100)])
def test_members_to_check_are_drawn_among_all(n_cells: int, n_checked: int) -> None:
    found = members_to_check(1000, n_cells, lambda _: -10.0, np.arange(1000))
    assert found.size == n_checked
    assert (np.diff(found) > 0).all()
    assert found[0] < 200
    assert found[-1] > 800


def test_members_are_checked_until_chance_is_excluded() -> None:
    """Each tells as much as a toss of a coin; of those that share a draw, one counts."""
    half, squared = np.log(0.5), 2 * np.log(MAX_CHANCE)
    assert members_to_check(1000, 10**9, lambda _: half, np.arange(1000)).size == np.ceil(squared / half)
    assert members_to_check(50, 10**9, lambda _: half, np.arange(50)).size == 50
    assert members_to_check(300, 10**9, lambda _: half, np.zeros(300, dtype=int)).size == 300


def test_likely_chance_is_about_that_of_a_random_bag() -> None:
    reached, counts = np.array([100, 60, 40]), np.array([60, 36, 24])
    chosen = np.random.default_rng(0).multivariate_hypergeometric(reached, counts.sum(), 400_000)
    assert np.exp(likely_chance(counts, 0.6)) == pytest.approx((chosen == counts).all(axis=1).mean(), rel=0.1)


def test_chances_multiply_over_draws_and_trees_of_one_draw_count_once() -> None:
    chances = np.array([0.5, 0.25, 0.1, 1.0])
    assert chance_of_draws(np.log(chances), np.arange(4), 1) == pytest.approx(0.0125)
    assert chance_of_draws(np.log(chances), np.array([0, 0, 1, 1]), 3) == pytest.approx(0.075)


def test_splits_are_those_of_each_column_in_order() -> None:
    found = splits_by_column(np.array([2, 0, 2]), np.array([0.5, 3.0, -1.0]))
    assert {column: values.tolist() for column, values in found} == {0: [3.0], 2: [0.5, -1.0]}


def test_a_sound_tree_has_no_damage() -> None:
    assert damage_of_tree(**SOUND, value=np.zeros((5, 1, 3))) is None
    assert damage_of_tree(np.array([-1]), np.array([-1]), np.array([-2]), 2) is None


@pytest.mark.parametrize(
    ("name", "node", "number", "damage"),
    [
        ("left", 0, 0, "from its root to each leaf once"),
        ("left", 2, 2**62, "from its root to each leaf once"),
        ("left", 2, 1, "from its root to each leaf once"),
        ("left", 2, -1, "from its root to each leaf once"),
        ("right", 1, -(2**63), "from its root to each leaf once"),
        ("feature", 2, 2, "a feature that the model does not have"),
        ("feature", 0, -1, "a feature that the model does not have"),
        ("threshold", 2, np.nan, "a threshold that is no number"),
    ],
)
def test_damage_is_found_wherever_it_is(name: str, node: int, number: Any, damage: str) -> None:
    broken = SOUND[name].copy()
    broken[node] = number
    found = damage_of_tree(**{**SOUND, name: broken})
    assert found is not None
    assert damage in found


def test_values_that_are_not_finite_are_damage_where_they_are_passed() -> None:
    assert damage_of_tree(**SOUND, value=np.array([0.0, 1.0, 0.0, np.inf, 0.0])) == "has values that are not finite"
