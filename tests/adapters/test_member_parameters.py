"""Doubts about members with unequal parameters: found by what they were trained with, not by the ensemble's own."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.members import bag_doubts

ROWS = np.random.default_rng(41).normal(size=(60, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)


def ensemble_of(models: list[Any]) -> Any:
    fitted = [model.fit(ROWS, LABELS) for model in models]
    return ens_plugin.CustomEnsemble.from_estimators(fitted, None)


def doubts(models: list[Any]) -> tuple[str, ...]:
    return tuple(map(str, find_adapter(ensemble_of(models)).doubts()))


def trees(depths: list[int | None]) -> list[Any]:
    return [DecisionTreeClassifier(max_depth=depth, random_state=seed) for seed, depth in enumerate(depths)]


def test_equal_models_one_kind_after_the_other_are_doubted() -> None:
    (text,) = doubts(trees([1] * 10 + [None] * 10))
    assert "max_depth was 1 for 10 and None for 10 of them" in text
    assert "in random order" in text
    (text,) = doubts([*trees([None] * 10), *[ExtraTreeClassifier(random_state=seed) for seed in range(10)]])
    assert "the class was DecisionTreeClassifier for 10 and ExtraTreeClassifier for 10" in text


@pytest.mark.parametrize(
    "depths",
    [[2] * 20, [1, 4] * 10, list(range(1, 21)), np.random.default_rng(3).integers(1, 4, 20).tolist(), [1, 2]],
)
def test_parameters_that_differ_in_no_order_are_not_doubted(depths: list[int]) -> None:
    assert doubts(trees(depths)) == ()


def test_models_of_several_steps_are_compared_by_their_steps() -> None:
    models = [make_pipeline(StandardScaler(), LogisticRegression(C=c, random_state=0)) for c in [1.0] * 9 + [0.1] * 9]
    (text,) = doubts(models)
    assert "logisticregression__C was 1.0 for 9 and 0.1 for 9" in text
    assert doubts(models[:9]) == ()


def test_of_the_orders_of_two_kinds_one_in_a_hundred_is_doubted_at_most() -> None:
    two = ensemble_of(trees([1, None])).models
    orders = [[two[place in shallow] for place in range(12)] for shallow in combinations(range(12), 6)]
    found = [bool(find_adapter(ens_plugin.CustomEnsemble.from_estimators(order, None)).doubts()) for order in orders]
    assert len(found) == 924
    assert 1 <= sum(found) <= 9


def test_rare_labels_of_small_bags_are_not_taken_for_other_weights() -> None:
    """Of 500 labels with ten bags each, some have several of them among the first five by chance."""
    rng = np.random.default_rng(0)
    means = [rng.poisson(0.01, (1000, 500)) / 200.0 for _ in range(20)]
    assert [bag_doubts(shares) for shares in means] == [()] * 20
    few = rng.normal(0.2, 0.01, (150, 1)) + np.where(np.arange(150) < 140, 0.0, 0.5)[:, None]
    assert len(bag_doubts(few)) == 1
    changed = means[0] + np.where(np.arange(1000) < 100, 0.1, 0.2)[:, None] + rng.normal(0.0, 0.001, (1000, 1))
    assert len(bag_doubts(changed)) == 1
