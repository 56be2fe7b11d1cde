"""Bags of boosters that are proved by 16 of 60 trees, as those of many rows are: right ones pass, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed
from tests.extras import lightgbm, xgboost

N, N_TREES, SHARE = 400, 60, 0.6
X, Y = make_classification(N, 6, n_informative=4, flip_y=0.1, random_state=0)
CHANGED = X.copy()
CHANGED[17:20] *= -1.0


@pytest.fixture(autouse=True)
def some_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.adapters.trees.CELLS_CHECKED", 0)


def light(**options: Any) -> Any:
    parameters = {"boosting": "rf", "objective": "binary", "bagging_freq": 1, "bagging_fraction": SHARE, "verbose": -1}
    data = lightgbm.Dataset(X, Y)
    return lightgbm.train({**parameters, "num_leaves": 8, "num_threads": 1, **options}, data, N_TREES)


def extreme(**options: Any) -> Any:
    parameters = {"objective": "binary:logistic", "num_parallel_tree": N_TREES, "subsample": SHARE, "learning_rate": 1}
    return xgboost.train({**parameters, "nthread": 1, "seed": 3, **options}, xgboost.DMatrix(X, Y), 1)


def spliced(first: Any, second: Any) -> Any:
    """The first half of the trees of one model, and the second of another."""
    half = N_TREES // 2 + 1
    trees = first.model_to_string().split("\nTree=")[:half] + second.model_to_string().split("\nTree=")[half:]
    return lightgbm.Booster(model_str=re.sub(r"^tree_sizes=.*\n", "", "\nTree=".join(trees), flags=re.MULTILINE))


def with_another_seed() -> Any:
    booster = extreme()
    booster.set_param({"seed": 2_000_000_011})
    return booster


def test_right_bags_are_those_of_each_draw() -> None:
    booster = light()
    expected = drawn_bags(N, stated_seed(booster), int(np.ceil(SHARE * 32768)), N_TREES)
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X, Y), expected)
    from tests.adapters.xgboost.xgboost_cases import as_mask, redrawn

    np.testing.assert_array_equal(ens_plugin.in_bag(extreme(), X, Y), as_mask(redrawn(3, N_TREES, N, SHARE), N))


@pytest.mark.parametrize("train", [light, extreme])
@pytest.mark.parametrize(
    ("rows", "target"),
    [(X[::-1], Y[::-1]), (np.roll(X, 1, axis=0), Y), (CHANGED, Y), (X, 1 - Y), (X[:-1], Y[:-1])],
    ids=["order", "shift", "three rows", "labels", "a row less"],
)
def test_other_rows_and_targets_are_refused(train: Callable[[], Any], rows: Any, target: Any) -> None:
    with pytest.raises(DataMismatchError, match=r"not the rows|rows the model was trained on|not the target"):
        ens_plugin.in_bag(train(), rows, target)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "half from another seed": (lambda: spliced(light(), light(bagging_seed=8)), DataMismatchError),
    "half from another share": (lambda: spliced(light(), light(bagging_fraction=0.5)), DataMismatchError),
    "shuffled": (lambda: light().shuffle_models(), DataMismatchError),
    "refit on other rows": (lambda: light().refit(X[::-1], 1 - Y), BagError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_trees_that_were_changed_are_refused(name: str) -> None:
    make, error = REFUSED[name]
    with pytest.raises(error):
        ens_plugin.in_bag(make(), X)


def test_a_wrong_seed_is_never_taken_and_the_right_one_is_found() -> None:
    """Of 100 wrong seeds of LightGBM; XGBoost's search finds the one that the trees were grown with."""
    booster = light()
    text, seed = booster.model_to_string(), stated_seed(booster)
    for wrong in range(seed + 1, seed + 101):
        other = text.replace(f"[bagging_seed: {seed}]", f"[bagging_seed: {wrong}]")
        with pytest.raises((BagError, DataMismatchError)):
            ens_plugin.in_bag(lightgbm.Booster(model_str=other), X)
    np.testing.assert_array_equal(ens_plugin.in_bag(with_another_seed(), X), ens_plugin.in_bag(extreme(), X))
