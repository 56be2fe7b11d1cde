"""Bags drawn by the seeds of members: the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.sklearn.bags import drawn_bits, seeded_bags
from ens_plugin.core.bags import Bags

N_ROWS, SEEDS = 100, [3, 1, 4, 15]


class Drawn:
    """Draws of members by a rule of their library, which counts how often it is used."""

    def __init__(self, rule: Callable[[np.random.RandomState], NDArray[Any]]) -> None:
        self.rule, self.members = rule, list[int]()

    def __call__(self, member: int) -> NDArray[Any]:
        self.members.append(member)
        return self.rule(np.random.RandomState(SEEDS[member]))

    def bags(self) -> Bags:
        """Return the bags of all members, drawn one after the other."""
        return Bags.from_indices([self.rule(np.random.RandomState(seed)) for seed in SEEDS], N_ROWS)


def at_once(generator: np.random.RandomState) -> NDArray[Any]:
    return generator.randint(0, N_ROWS, 60, dtype=np.int32)


def after_columns(generator: np.random.RandomState) -> NDArray[Any]:
    generator.permutation(5)
    return generator.randint(0, N_ROWS, 60)


def by_weight(generator: np.random.RandomState) -> NDArray[Any]:
    return generator.choice(N_ROWS, 60, p=np.arange(N_ROWS) / np.arange(N_ROWS).sum())


def without_rows(generator: np.random.RandomState) -> NDArray[Any]:
    return generator.randint(0, N_ROWS, 0)


@pytest.mark.parametrize("rule", [at_once, after_columns, by_weight, without_rows])
@pytest.mark.parametrize("seeds", [SEEDS, [None, *SEEDS[1:]], [-1, *SEEDS[1:]], [np.random.RandomState(0), *SEEDS[1:]]])
def test_bags_are_those_of_the_library(rule: Callable[[np.random.RandomState], NDArray[Any]], seeds: list[Any]) -> None:
    draw = Drawn(rule)
    np.testing.assert_array_equal(seeded_bags(draw, seeds, N_ROWS, [0, 3]).bits, draw.bags().bits)


def test_rows_are_drawn_without_the_library_only_where_it_draws_the_same() -> None:
    same, other = Drawn(at_once), Drawn(after_columns)
    for draw in (same, other):
        seeded_bags(draw, SEEDS, N_ROWS, [0, 3])
    assert (same.members, other.members) == ([0, 3], [0, 3, 0, 1, 2, 3])


@pytest.mark.parametrize(
    ("n_rows", "n_draws"),
    # One row needs no draw; powers of two reject none; 0 draws; more words than are read together.
    [(1, 3), (2, 1), (3, 0), (8, 8), (9, 400), (1025, 2000), (65_536, 700), (100_003, 50_000), (70_000, 140_000)],
)
def test_rows_are_those_that_numpy_draws(n_rows: int, n_draws: int) -> None:
    seeds = np.array([0, 1, 7, 624, 2**31 - 1, 2**31, 2**32 - 1])
    bags = Bags(drawn_bits(seeds, n_rows, n_draws), n_rows)
    for member, seed in enumerate(seeds.tolist()):
        drawn = np.random.RandomState(seed).randint(0, n_rows, n_draws)
        np.testing.assert_array_equal(np.flatnonzero(bags.member(member)), np.unique(drawn))


@pytest.mark.parametrize("options", [{}, {"max_samples": 0.3}, {"max_samples": 7}, {"random_state": 2**31 - 2}])
def test_bags_of_forests_are_those_that_scikit_learn_lists(options: dict[str, Any]) -> None:
    X, y = make_classification(130, random_state=0)
    forest = RandomForestClassifier(**{"n_estimators": 12, "random_state": 0, **options}).fit(X, y)
    adapter = find_adapter(forest)
    bags = adapter.bags(X, adapter.prepare(X), y)
    np.testing.assert_array_equal(bags.bits, Bags.from_indices(forest.estimators_samples_, y.size).bits)
