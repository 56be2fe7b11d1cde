"""Bags drawn by the seeds of members: the library's, whether or not compiled code draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.shared.trees import leaf_walk
from ens_plugin.adapters.sklearn.seeded_bags import seeded_bags
from ens_plugin.core.tallies import Bags
from tests.extras import needs_walk

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


@needs_walk
def test_compiled_code_draws_only_what_it_draws_as_the_library() -> None:
    same, other = Drawn(at_once), Drawn(after_columns)
    for draw in (same, other):
        seeded_bags(draw, SEEDS, N_ROWS, [0, 3])
    assert (same.members, other.members) == ([0, 3], [0, 3, 0, 1, 2, 3])


def test_the_library_draws_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_walk, "is_installed", lambda: False)
    draw = Drawn(at_once)
    np.testing.assert_array_equal(seeded_bags(draw, SEEDS, N_ROWS, [0, 3]).bits, draw.bags().bits)
    assert draw.members == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"max_samples": 0.3}, {"max_samples": 7}, {"random_state": 2**31 - 2}])
def test_bags_of_forests_are_those_that_scikit_learn_lists(options: dict[str, Any]) -> None:
    X, y = make_classification(130, random_state=0)
    forest = RandomForestClassifier(**{"n_estimators": 12, "random_state": 0, **options}).fit(X, y)
    adapter = find_adapter(forest)
    bags = adapter.bags(X, adapter.prepare(X), y)
    np.testing.assert_array_equal(bags.bits, Bags.from_indices(forest.estimators_samples_, y.size).bits)
