from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import _kernel
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.trees import LeafWalk
from ens_plugin.analysis import evidence as row_blocks
from ens_plugin.errors import EnsPluginWarning
from tests.extras import NEEDS_KERNEL, lightgbm, xgboost

pytestmark = NEEDS_KERNEL

N_ROWS, N_TREES = 400, 25
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 6))
X[:, 4], X[:, 5] = RNG.integers(0, 40, N_ROWS), RNG.integers(0, 3, N_ROWS)
WITH_MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
VALUES = X[:, 0] + X[:, 4] % 3 + RNG.normal(size=N_ROWS)
LABELS, THREE = (VALUES > 1).astype(int), np.digitize(VALUES, [0.0, 1.5])
FRAME = pd.DataFrame(WITH_MISSING, columns=list("abcdef")).assign(e=pd.Categorical([f"c{v:g}" for v in X[:, 4]]))
KINDS = ["q"] * 4 + ["c"] * 2


def lgbm(name: str, **options: Any) -> Any:
    return getattr(lightgbm, name)(
        boosting_type="rf", n_estimators=N_TREES, subsample=0.6, subsample_freq=1, random_state=0, verbose=-1, n_jobs=1,
        **options,
    )  # fmt: skip


def xgb(name: str, **options: Any) -> Any:
    return getattr(xgboost, name)(
        num_parallel_tree=N_TREES, subsample=0.6, learning_rate=1, n_estimators=1, random_state=0, n_jobs=1, **options
    )


MODELS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "pure leaves": lambda: (RandomForestClassifier(N_TREES, random_state=0), WITH_MISSING, LABELS),
    "mixed leaves": lambda: (RandomForestClassifier(N_TREES, min_samples_leaf=5, random_state=0), X, THREE),
    "values": lambda: (RandomForestRegressor(N_TREES, random_state=0), WITH_MISSING, VALUES),
    "extra trees": lambda: (ExtraTreesClassifier(N_TREES, bootstrap=True, random_state=0), X, THREE),
    "bagged trees": lambda: (BaggingClassifier(n_estimators=N_TREES, max_features=0.5, random_state=0), X, LABELS),
    "lightgbm": lambda: (lgbm("LGBMClassifier"), X.astype(np.float32), LABELS),
    "lightgbm, categories": lambda: (lgbm("LGBMClassifier"), FRAME, THREE),
    "lightgbm, zeros": lambda: (lgbm("LGBMRegressor", zero_as_missing=True), WITH_MISSING.round(), VALUES),
    "xgboost": lambda: (xgb("XGBClassifier"), WITH_MISSING, THREE),
    "xgboost, categories": lambda: (
        xgb("XGBRegressor", feature_types=KINDS, enable_categorical=True, tree_method="hist"), X, VALUES,
    ),
    "xgboost, zeros": lambda: (xgb("XGBClassifier", missing=0.0), X.round(), LABELS),
}  # fmt: skip


def report(model: Any, rows: Any, y: Any) -> str:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=EnsPluginWarning, message="(?!The compiled search)")
        found = ens_plugin.analyze(model, rows, y, n_jobs=2)
    return replace(found, created="2000-01-01T00:00:00.000+00:00", versions={}).to_json()


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list to which each comparison adds whether the walk is used."""
    found: list[bool] = []

    def recorded(compare: Callable[..., None]) -> Callable[..., None]:
        def call(walk: LeafWalk, *arguments: Any) -> None:
            compare(walk, *arguments)
            found.append(walk.is_used)

        return call

    # Of rows that are too few, or compared already, `compare` judges nothing.
    monkeypatch.setattr(LeafWalk, "_judge", recorded(LeafWalk._judge))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_reports_are_the_same_with_and_without_the_walk(
    name: str, outcomes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows, y = MODELS[name]()
    model.fit(rows, y)
    with_walk = report(model, rows, y)
    # The proof of the model reads a few rows by an adapter of its own.
    n_compared = len(outcomes)
    assert outcomes == [True] * n_compared
    assert n_compared in (1, 2)
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    assert report(model, rows, y) == with_walk
    assert len(outcomes) == n_compared


SUMMED: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "lightgbm": lambda: (lgbm("LGBMClassifier", num_leaves=15), WITH_MISSING.round(1), LABELS),
    "lightgbm, zeros": lambda: (lgbm("LGBMRegressor", num_leaves=15, zero_as_missing=True), X.round(), VALUES),
    "xgboost": lambda: (xgb("XGBClassifier"), WITH_MISSING.round(1), LABELS),
    "xgboost, values": lambda: (xgb("XGBRegressor"), X.round(1), VALUES),
}


@pytest.mark.parametrize("data", ["oob", "holdout"])
@pytest.mark.parametrize("name", SUMMED)
def test_reports_are_the_same_where_few_rows_are_sampled(name: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the outputs of all rows are added up without being returned."""
    model, rows, y = SUMMED[name]()
    # Trees enough, and values few enough, that trees share their thresholds.
    model.set_params(**({"n_estimators": 60} if "lightgbm" in name else {"num_parallel_tree": 60}))
    model.fit(rows, y)
    monkeypatch.setattr(row_blocks, "SAMPLE_ROWS", 40)
    found: list[bool] = []

    def watch(name: str) -> None:
        function = getattr(LeafWalk, name)

        def watched(walk: LeafWalk, *arguments: Any) -> Any:
            sums = function(walk, *arguments)
            found.append(sums is not None)
            return sums

        monkeypatch.setattr(LeafWalk, name, watched)

    # XGBoost's are added up while rows are counted for the proof of the bags.
    watch("value_sums")
    watch("count_and_sum")
    with_walk = report(model, rows, y)
    assert found
    assert all(found)
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    assert report(model, rows, y) == with_walk


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("pure leaves", "sklearn.forest", "_flat_tree"),
        ("lightgbm", "lightgbm.document", "_flat_tree"),
        ("xgboost", "xgboost.forest", "FlatTree"),
    ],
)
@pytest.mark.parametrize("damage", ["threshold", "missing_left", "left"])
def test_a_tree_that_is_read_wrongly_leaves_the_search_to_the_library(
    name: str, module: str, function: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows, y = MODELS[name]()
    model.fit(rows, y)
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    without = report(model, rows, y)
    monkeypatch.undo()
    tree_walk = import_module(f"ens_plugin.adapters.{module}")
    flat_tree, read = getattr(tree_walk, function), []

    def damaged(*arguments: Any, **options: Any) -> Any:
        tree = flat_tree(*arguments, **options)
        read.append(tree)
        if len(read) != N_TREES // 2:
            return tree
        changed = {
            "threshold": np.asarray(tree.threshold) + 1e-3,
            "missing_left": 1 - np.asarray(tree.missing_left).astype(int),
            "left": np.where(np.asarray(tree.left) >= 0, 0, -1),
        }
        return tree._replace(**{damage: changed[damage]})

    monkeypatch.setattr(tree_walk, function, damaged)
    with pytest.warns(
        EnsPluginWarning, match=r"(1 of (25|75) trees|links of tree 11 do not).*it is not used"
    ) as caught:
        assert report(model, rows, y) == without
    assert sum("The compiled search" in str(warning.message) for warning in caught) == 1
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("place", [0, 24])
def test_the_leaves_of_every_tree_of_a_forest_are_compared_with_its_own(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tree of the forest finds another leaf for one of the rows."""
    model, rows, _ = MODELS["mixed leaves"]()
    adapter = find_adapter(model.fit(rows, THREE))
    walk = adapter._walk
    own_leaves = walk._own_leaves

    def other(tree: int, own: Any) -> Any:
        leaves = own_leaves(tree, own)
        if tree == place:
            leaves[5] = leaves[5] - 1
        return leaves

    monkeypatch.setattr(walk, "_own_leaves", other)
    with pytest.warns(EnsPluginWarning, match="other leaves than scikit-learn's apply in 1 of 25 trees"):
        adapter.prepare(rows)


def test_the_library_finds_the_leaves_of_rows_too_few_to_compare(outcomes: list[bool]) -> None:
    adapter = find_adapter(RandomForestClassifier(N_TREES, random_state=0).fit(X, LABELS))
    few = adapter.prepare(X[:3])
    expected = adapter.outputs(few)
    assert outcomes == []
    adapter.prepare(X)
    assert outcomes == [True]
    np.testing.assert_array_equal(adapter.outputs(few), expected)


def test_xgboost_still_refuses_infinite_values() -> None:
    model, rows, y = MODELS["xgboost"]()
    adapter = find_adapter(model.fit(rows, y))
    adapter.prepare(rows)
    with pytest.raises(ens_plugin.errors.InputError, match="inf"):
        adapter.outputs(adapter.prepare(np.where(np.isnan(rows), np.inf, rows)))


def test_rows_of_another_type_are_compared_before_the_walk_is_used_on_them(outcomes: list[bool]) -> None:
    model, rows, y = MODELS["lightgbm"]()
    adapter = find_adapter(model.fit(rows, y))
    adapter.prepare(rows)
    wider = adapter.prepare(rows.astype(np.float64)[:3])
    assert outcomes == [True]
    expected = model.predict(wider.table, raw_score=True)
    np.testing.assert_allclose(adapter.outputs(wider).mean(axis=0), expected / N_TREES)
    adapter.prepare(rows.astype(np.float64))
    assert outcomes == [True, True]
    np.testing.assert_allclose(adapter.outputs(wider).mean(axis=0), expected / N_TREES)


@pytest.mark.parametrize("name", ["pure leaves", "lightgbm", "xgboost"])
def test_an_adapter_is_pickled_with_its_walk(name: str) -> None:
    model, rows, y = MODELS[name]()
    adapter = find_adapter(model.fit(rows, y))
    outputs = adapter.outputs(adapter.prepare(rows))
    loaded = pickle.loads(pickle.dumps(adapter))
    np.testing.assert_array_equal(loaded.outputs(loaded.prepare(rows)), outputs)
