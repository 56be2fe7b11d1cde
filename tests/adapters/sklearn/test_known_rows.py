"""Fresh rows that could be taken for training rows of scikit-learn's ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


def test_neighbours_recognise_the_rows_that_they_store_in_any_order() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    neighbours = BaggingClassifier(KNeighborsClassifier(3), 10, random_state=0).fit(X[:100], y[:100])
    adapter, order = find_adapter(neighbours), rng.permutation(100)
    assert adapter.verify_rows(adapter.prepare(X[order]), y[order]) == "training"
    assert adapter.verify_rows(adapter.prepare(X[100:]), y[100:]) != "training"


def test_one_changed_label_is_in_one_leaf() -> None:
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    for row in range(5):
        with pytest.raises(DataMismatchError, match=r"on: 1 of \d+ leaves of tree"):
            ens_plugin.analyze(forest, X, np.where(np.arange(200) == row, 1 - y, y))


def repeated_rows(seed: int, n_rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of four columns of four values each, with labels that are not certain: most rows are repeated."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n_rows, 4)).astype(float)
    return X, (X[:, 0] + X[:, 1] + rng.normal(size=n_rows) > 3.0).astype(np.int64)


STORING = {
    "one neighbour": KNeighborsClassifier(1),
    "five neighbours": KNeighborsClassifier(5, weights="distance"),
    "neighbours in a radius": RadiusNeighborsClassifier(9.0),
    "neighbours in a pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
    "searched neighbours": GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5]}, cv=2),
    "Gaussian process": GaussianProcessClassifier(optimizer=None),
}


@pytest.mark.fast_cases("one neighbour", "neighbours in a pipeline")
@pytest.mark.parametrize("member", STORING)
def test_members_recognise_rows_that_they_store_where_many_rows_are_equal(member: str) -> None:
    X, y = repeated_rows(0, 900)
    order = np.random.default_rng(1).permutation(300)
    model = BaggingClassifier(STORING[member], 10, random_state=0).fit(X[:300], y[:300])
    adapter = find_adapter(model)
    for rows in (X[order], X[order].astype(np.float32)):
        assert adapter.verify_rows(adapter.prepare(rows), y[order]) == "training"
    assert adapter.verify_rows(adapter.prepare(X[300:]), y[300:]) != "training"


def test_a_part_of_the_training_rows_is_recognised_among_equal_ones_and_given_twice() -> None:
    X, y = repeated_rows(0, 900)
    order = np.random.default_rng(1).permutation(300)
    adapter = find_adapter(BaggingClassifier(KNeighborsClassifier(5), 10, random_state=0).fit(X[:300], y[:300]))
    for rows in (order[:225], np.append(order[:225], order[:225])):
        assert adapter.verify_rows(adapter.prepare(X[rows]), y[rows]) == "training"


def test_bagged_regressors_recognise_rows_that_they_store_where_many_rows_are_equal() -> None:
    X, _ = repeated_rows(0, 900)
    y = X[:, 0] + np.random.default_rng(2).normal(size=900)
    order = np.random.default_rng(1).permutation(300)
    for member in (KNeighborsRegressor(5), GaussianProcessRegressor(optimizer=None, alpha=0.1)):
        adapter = find_adapter(BaggingRegressor(member, 10, random_state=0).fit(X[:300], y[:300]))
        assert adapter.verify_rows(adapter.prepare(X[order]), y[order]) == "training"
        assert adapter.verify_rows(adapter.prepare(X[300:]), y[300:]) != "training"


@pytest.mark.slow
@pytest.mark.parametrize("member", STORING)
def test_fresh_rows_that_equal_training_rows_are_held_out(member: str) -> None:
    """Fresh rows of the frequent half of the records too: more of them equal training rows than of others."""
    for seed in range(5):
        X, y = repeated_rows(seed, 1200)
        model = BaggingClassifier(STORING[member], 10, random_state=seed).fit(X[:300], y[:300])
        adapter, frequent = find_adapter(model), 300 + np.flatnonzero(X[300:, 2] < 2)
        for rows in (np.arange(300, 340), np.arange(300, 600), np.arange(300, 1200), frequent):
            assert adapter.verify_rows(adapter.prepare(X[rows]), y[rows]) != "training"
