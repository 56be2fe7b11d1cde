"""Ensembles of parts that were trained on different rows: no part is to pass, wherever it stands."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import ens_plugin
from ens_plugin.errors import DataMismatchError


def table(seed: int, n_rows: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n_rows)


X, VALUES = table(0)
LABELS = (VALUES > 0).astype(int)
MODELS = {
    "forest": RandomForestClassifier(),
    "mixed leaves": RandomForestClassifier(min_samples_leaf=5),
    "weights in trees": RandomForestClassifier(class_weight="balanced_subsample"),
    "shallow": ExtraTreesClassifier(bootstrap=True, max_depth=3),
    "regression": RandomForestRegressor(),
    "large leaves": RandomForestRegressor(min_samples_leaf=20),
    "medians": RandomForestRegressor(criterion="absolute_error", min_samples_leaf=3),
    "extra trees": ExtraTreesRegressor(bootstrap=True),
    "bagging": BaggingClassifier(max_features=0.6),
    "bagged regression": BaggingRegressor(),
}


def target_of(model: Any, values: Any) -> Any:
    return (values > 0).astype(int) if hasattr(model, "predict_proba") else values


def other_rows(kind: str, seed: int) -> tuple[Any, Any]:
    fresh, values = table(seed)
    if kind == "nine tenths the same":
        fresh[:270], values[:270] = X[:270], VALUES[:270]
    if kind == "another order":
        order = np.random.default_rng(seed).permutation(len(X))
        fresh, values = X[order], VALUES[order]
    if kind == "other targets":
        fresh = X
    return fresh, values


def merged(model: Any, parts: list[tuple[Any, Any, int]]) -> Any:
    """Return one ensemble with the members of several, each of some number of members, trained on X and values."""
    trained = [
        deepcopy(model).set_params(n_estimators=size, random_state=seed).fit(rows, target_of(model, values))
        for seed, (rows, values, size) in enumerate(parts)
    ]
    whole = trained[0]
    whole.estimators_ = [member for part in trained for member in part.estimators_]
    if hasattr(whole, "_seeds"):
        whole._seeds = np.concatenate([part._seeds for part in trained])
        whole.estimators_features_ = [columns for part in trained for columns in part.estimators_features_]
    return whole


KINDS = ("all new", "nine tenths the same", "another order")
# In trees with one label or row in each leaf, a changed target is seen in the leaf.
PURE = ("forest", "weights in trees", "regression", "extra trees", "bagging", "bagged regression")


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, kind) for name in MODELS for kind in KINDS), *((name, "other targets") for name in PURE)],
)
def test_an_odd_middle_part_is_found(name: str, kind: str) -> None:
    """The first, middle and last tree are of the first and third part: nothing else was compared."""
    model, (rows, values) = MODELS[name], other_rows(kind, 1)
    whole = merged(model, [(X, VALUES, 20), (rows, values, 9), (X, VALUES, 31)])
    with pytest.raises(DataMismatchError, match="not the rows of all its trees"):
        ens_plugin.analyze(whole, X, target_of(model, VALUES))


@pytest.mark.parametrize("name", MODELS)
def test_parts_of_the_same_rows_are_one_ensemble(name: str) -> None:
    model = MODELS[name]
    whole = merged(model, [(X, VALUES, 20), (X, VALUES, 9), (X, VALUES, 21)])
    assert ens_plugin.in_bag(whole, X, target_of(model, VALUES)).shape == (50, 300)


def test_trees_of_a_warm_start_on_other_rows_are_found_without_the_target() -> None:
    forest = RandomForestRegressor(22, random_state=0).fit(X, VALUES).set_params(warm_start=True, n_estimators=29)
    forest.fit(*table(1)).set_params(n_estimators=60).fit(X, VALUES)
    with pytest.raises(DataMismatchError, match=r"of 1[678] that were compared, [1-3] differ, tree 2\d the first"):
        ens_plugin.in_bag(forest, X)


def test_missing_values_and_columns_without_a_split_are_no_other_rows() -> None:
    rows = X.copy()
    rows[::7, 0] = np.nan
    rows[:, 4] = 1.0
    forest = RandomForestRegressor(30, random_state=0).fit(rows, VALUES)
    assert ens_plugin.in_bag(forest, rows, VALUES).shape == (30, 300)
    stumps = RandomForestClassifier(30, max_depth=1, max_features=1, random_state=0).fit(rows, LABELS)
    assert ens_plugin.in_bag(stumps, rows, LABELS).shape == (30, 300)


@pytest.mark.slow
def test_no_ensemble_of_one_table_is_refused() -> None:
    for seed in range(20):
        rows, values = table(100 + seed, 60 + 20 * seed)
        rows = rows.round(seed % 3)
        for name, model in MODELS.items():
            target = target_of(model, values.round(1 + seed % 2))
            fitted = deepcopy(model).set_params(n_estimators=25, random_state=seed).fit(rows, target)
            assert ens_plugin.in_bag(fitted, rows, target).shape == (25, len(rows)), name
