"""Fresh rows that could be taken for training rows of scikit-learn's ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.errors import DataMismatchError


def switches(seed: int, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of six switches, few of them frequent, whose label follows from all six: most are like a training row."""
    labels, chance = np.random.default_rng(7).integers(0, 2, 64), 1.0 / np.arange(1, 65)
    cell = np.random.default_rng(seed).choice(64, n_rows, p=chance / chance.sum())
    return (cell[:, None] >> np.arange(6)) & 1, labels[cell]


@pytest.mark.parametrize("n_members", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_fresh_rows_like_training_rows_are_held_out(n_members: int) -> None:
    for seed in range(3):
        X, y = switches(seed, 1300)
        forest = RandomForestClassifier(n_members, random_state=seed).fit(X[:300], y[:300])
        adapter = find_adapter(forest)
        fresh = adapter.prepare(X)
        for rows in np.split(np.arange(300, 1300), 10):
            assert adapter.verify_rows(fresh[rows], y[rows]) != "training"


@pytest.mark.slow
def test_fresh_rows_beside_training_rows_are_held_out() -> None:
    """Trees that split one feature are nearest neighbours: right wherever they drew the row beside."""
    for seed in range(3):
        X = np.random.default_rng(seed).uniform(size=(1000, 1))
        y = np.floor(10 * X[:, 0]).astype(int) % 2
        trees = BaggingClassifier(n_estimators=400, random_state=seed).fit(X[:300], y[:300])
        adapter = find_adapter(trees)
        fresh = adapter.prepare(X)
        for rows in np.split(np.arange(300, 1000), 14):
            assert adapter.verify_rows(fresh[rows], y[rows]) != "training"


@pytest.mark.slow
def test_fresh_rows_are_held_out_where_bags_are_small() -> None:
    X = np.random.default_rng(0).integers(0, [4, 3, 5, 3], (2000, 4)).astype(float)
    y = (X @ [3, 5, 2, 1] % 7 > 3).astype(int)
    forest = RandomForestClassifier(400, max_samples=0.1, random_state=0).fit(X[:1000], y[:1000])
    adapter = find_adapter(forest)
    fresh = adapter.prepare(X)
    for rows in np.split(np.arange(1000, 2000), 10):
        assert adapter.verify_rows(fresh[rows], y[rows]) != "training"


@pytest.mark.parametrize("options", [{}, {"max_leaf_nodes": 40}])
def test_rows_with_missing_values_in_any_order_are_training_rows(options: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1200, 4)), rng.normal(size=1200)
    X[rng.random(X.shape) < 0.1] = np.nan
    forest = RandomForestRegressor(10, random_state=0, **options).fit(X[:600], y[:600])
    adapter, order = find_adapter(forest), rng.permutation(600)
    assert adapter.verify_rows(adapter.prepare(X[:600][order]), y[:600][order]) == "training"
    assert adapter.verify_rows(adapter.prepare(X[600:]), y[600:]) != "training"


def test_all_members_predict_few_of_the_fresh_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the analysis of 20 000 rows went into 2000 of them, and into the paths of all through trees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=4000) > 0).astype(int)
    forest = RandomForestClassifier(40, random_state=0).fit(X[:1000], y[:1000])
    adapter, predicted = find_adapter(forest), []
    original = SklearnForestAdapter.outputs

    def counted(self: SklearnForestAdapter, features: Any, members: range) -> Any:
        predicted.append(features.shape[0] * len(members))
        return original(self, features, members)

    monkeypatch.setattr(SklearnForestAdapter, "outputs", counted)
    assert adapter.verify_rows(adapter.prepare(X[1000:]), y[1000:]) != "training"
    assert sum(predicted) <= 200 * 40


def test_one_changed_label_is_in_one_leaf() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    for row in range(5):
        with pytest.raises(DataMismatchError, match=r"on: 1 of \d+ leaves of tree"):
            ens_plugin.analyze(forest, X, np.where(np.arange(200) == row, 1 - y, y))
