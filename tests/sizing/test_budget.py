"""Costs are lines through what one member and the whole ensemble take, and a cut model has no more than allowed."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.sizing import budget as clock_user
from tests.extras import lightgbm, xgboost

X, y = load_iris(return_X_y=True)
XR, YR = load_diabetes(return_X_y=True)
XD, YD = (part[:400] for part in load_digits(return_X_y=True))


class Clock:
    """Time passes only while the fake model works."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


def forest(n_members: int = 40, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_members, random_state=0, **options).fit(X, y)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A call of predict takes 5 ms, 1 ms a member, and 10 µs for each row and member."""
    clock, predict = Clock(), RandomForestClassifier.predict

    def slow_predict(self: RandomForestClassifier, X: Any) -> Any:
        clock.now += 0.005 + self.n_estimators * (0.001 + 0.00001 * len(X))
        return predict(self, X)

    monkeypatch.setattr(clock_user, "time", clock)
    monkeypatch.setattr(RandomForestClassifier, "predict", slow_predict)
    return clock


@pytest.mark.usefixtures("clock")
def test_times_are_fixed_and_per_member() -> None:
    costs = ens_plugin.measure_costs(forest(), X)
    assert (costs.n_members, costs.batch_rows) == (40, 150)
    assert (costs.latency.fixed, costs.latency.per_member) == pytest.approx((0.005, 0.00101))
    assert (costs.row_seconds.fixed, costs.row_seconds.per_member) == pytest.approx((0.005 / 150, 0.0025 / 150))
    assert costs.latency.spread == pytest.approx(0.0, abs=1e-9)


@pytest.mark.usefixtures("clock")
def test_bytes_are_those_of_the_pickled_model() -> None:
    model = forest()
    costs = ens_plugin.measure_costs(model, X)
    assert costs.bytes.at(40) == pytest.approx(len(pickle.dumps(model)))
    assert costs.bytes.at(1) == pytest.approx(len(pickle.dumps(ens_plugin.truncate(model, 1))))
    assert costs.bytes.spread == 0.0


def test_the_spread_is_half_the_distance_of_the_quartiles(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    predict, calls = RandomForestClassifier.predict, count()

    def jittery(self: RandomForestClassifier, X: Any) -> Any:
        # Of four predictions by the whole forest, one is a tenth slower and one a tenth faster.
        clock.now += {0: 0.1, 1: -0.1}.get(next(calls) // 2 % 4, 0.0) * 0.0454 * (self.n_estimators == 40)
        return predict(self, X)

    monkeypatch.setattr(RandomForestClassifier, "predict", jittery)
    assert 0.02 < ens_plugin.measure_costs(forest(), X).latency.spread < 0.1


@pytest.mark.usefixtures("clock")
def test_an_ensemble_of_one_member_has_costs_of_its_member_alone() -> None:
    costs = ens_plugin.measure_costs(forest(1), X)
    assert (costs.latency.fixed, costs.latency.per_member) == pytest.approx((0.0, 0.00601))


@pytest.mark.parametrize("form", [list, sparse.coo_matrix, sparse.csr_matrix, pd.DataFrame])
def test_rows_of_every_form_are_measured(form: Callable[[Any], Any]) -> None:
    model = forest(5)
    assert ens_plugin.measure_costs(model, X.tolist() if form is list else form(X)).batch_rows == 150


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match="X has no rows to predict"):
        ens_plugin.measure_costs(forest(3), X[:0])


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "regression": lambda: (RandomForestRegressor(40, random_state=0).fit(XR, YR), XR),
    "ten labels": lambda: (RandomForestClassifier(40, random_state=0).fit(XD, YD), XD),
    "several outputs": lambda: (RandomForestRegressor(40, random_state=0).fit(XR, np.column_stack([YR, -YR])), XR),
    "pipeline": lambda: (make_pipeline(StandardScaler(), RandomForestClassifier(40, random_state=0)).fit(X, y), X),
    "bagged pipelines": lambda: (
        BaggingClassifier(make_pipeline(StandardScaler(), LogisticRegression()), 40, random_state=0).fit(X, y),
        X,
    ),
    "search": lambda: (
        GridSearchCV(RandomForestClassifier(40, random_state=0), {"max_depth": [2, 3]}, cv=2).fit(X, y),
        X,
    ),
}


def bytes_of(model: Any) -> int:
    return len(pickle.dumps(model))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_cut_to_as_many_members_as_the_bytes_allow(name: str) -> None:
    model, rows = MODELS[name]()
    costs = ens_plugin.measure_costs(model, rows)
    limit = 0.4 * costs.bytes.at(40)
    small = ens_plugin.truncate(model, max_bytes=limit)
    kept = ens_plugin.measure_costs(small, rows).n_members
    assert bytes_of(small) <= limit < bytes_of(ens_plugin.truncate(model, kept + 1))


def test_a_lightgbm_forest_is_cut_to_the_bytes() -> None:
    options = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1, "random_state": 0}
    model = lightgbm.LGBMClassifier(n_estimators=40, **options).fit(X, y)
    limit = bytes_of(model) // 2
    assert bytes_of(ens_plugin.truncate(model, max_bytes=limit)) <= limit


def test_an_xgboost_forest_is_cut_to_the_bytes() -> None:
    options = {"num_parallel_tree": 40, "subsample": 0.6, "learning_rate": 1, "random_state": 0}
    model = xgboost.XGBRegressor(n_estimators=1, **options).fit(XR, YR)
    limit = bytes_of(model) // 2
    assert bytes_of(ens_plugin.truncate(model, max_bytes=limit)) <= limit


@pytest.mark.usefixtures("clock")
def test_a_model_is_cut_to_as_many_members_as_the_latency_allows() -> None:
    small = ens_plugin.truncate(forest(), max_latency=0.005 + 10.5 * 0.00101, X=X)
    assert len(small.estimators_) == 10


@pytest.mark.usefixtures("clock")
def test_of_two_limits_and_a_size_the_smallest_decides() -> None:
    model = forest()
    of_ten = bytes_of(ens_plugin.truncate(model, 10))
    slow, fast = 0.005 + 20.5 * 0.00101, 0.005 + 5.5 * 0.00101
    sizes = [
        len(ens_plugin.truncate(model, size, max_bytes=of_ten, max_latency=latency, X=X).estimators_)
        for size, latency in ((None, slow), (None, fast), (3, slow), (30, slow))
    ]
    assert sizes == [10, 5, 3, 10]


def test_limits_above_the_whole_keep_all_members() -> None:
    model = forest()
    assert len(ens_plugin.truncate(model, max_bytes=1e12, max_latency=1e6, X=X).estimators_) == 40


def test_limits_below_one_member_are_refused_with_what_one_takes() -> None:
    model = forest()
    with pytest.raises(InputError, match=r"1 kB allow not even one member, which takes [\d.]+ kB, pickled"):
        ens_plugin.truncate(model, max_bytes=1000)
    with pytest.raises(InputError, match=r"latency of 0\.001 µs allows not even one member, which takes [\d.]+ .s for"):
        ens_plugin.truncate(model, max_latency=1e-9, X=X)


@pytest.mark.parametrize("limit", [math.nan, math.inf, -1, 0, True, "50", 1j])
@pytest.mark.parametrize("name", ["max_bytes", "max_latency"])
def test_limits_are_positive_finite_numbers(name: str, limit: Any) -> None:
    with pytest.raises(InputError, match=rf"{name} must be a positive finite number of (bytes|seconds), got"):
        ens_plugin.truncate(forest(3), X=X, **{name: limit})


def test_a_limit_may_be_any_kind_of_real_number() -> None:
    assert len(ens_plugin.truncate(forest(3), max_bytes=Fraction(10**9)).estimators_) == 3
    assert len(ens_plugin.truncate(forest(3), max_bytes=np.int64(10**9)).estimators_) == 3


def test_a_latency_needs_rows() -> None:
    with pytest.raises(InputError, match="pass X, rows"):
        ens_plugin.truncate(forest(3), max_latency=1.0)


def test_without_a_size_or_a_limit_nothing_is_cut() -> None:
    with pytest.raises(InputError, match="size must be a whole number of members, got None"):
        ens_plugin.truncate(forest(3))


def test_what_cannot_be_cut_has_no_costs_by_size() -> None:
    with pytest.raises(UnsupportedModelError):
        ens_plugin.measure_costs(LogisticRegression(max_iter=1000).fit(X, y), X)


def test_an_ensemble_without_a_predict_has_bytes_alone() -> None:
    members = forest(10).estimators_
    custom = ens_plugin.CustomEnsemble.from_estimators(members, row_indices=[np.arange(len(y))] * 10)
    with pytest.raises(UnsupportedModelError, match="has no predict whose time could be measured"):
        ens_plugin.measure_costs(custom, X)
    limit = bytes_of(custom) // 2
    assert bytes_of(ens_plugin.truncate(custom, max_bytes=limit)) <= limit


def test_members_of_very_different_bytes_are_counted_by_their_own() -> None:
    model = forest(30)
    deep, flat = forest(15), forest(15, max_depth=1)
    model.estimators_ = [*deep.estimators_, *flat.estimators_]
    for limit in (12_000, 30_000, 34_000):
        small = ens_plugin.truncate(model, max_bytes=limit)
        kept = len(small.estimators_)
        assert bytes_of(small) <= limit
        assert kept == 30 or bytes_of(ens_plugin.truncate(model, kept + 1)) > limit


ROWS: dict[str, Any] = {
    "a text": "rows.csv",
    "bytes": b"rows",
    "a dict": {"a": [1, 2]},
    "a set": {1, 2},
    "one number": np.array(1.0),
    "one row": X[0],
    "three dimensions": X[None],
    "texts": ["a", "b"],
    "other columns": X[:, :2],
    "infinite in a later row": np.where(np.arange(len(X))[:, None] == 20, np.inf, X),
    "complex": X.astype(complex),
    "records": pd.DataFrame(X).to_records(),
    "a column": pd.Series(X[:, 0]),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_cannot_be_predicted_are_an_input_error(name: str) -> None:
    reason = r"whose first rows cannot be taken|failed on X \(.* Pass rows in the form"
    with pytest.raises(InputError, match=reason):
        ens_plugin.measure_costs(forest(5), ROWS[name])
    with pytest.raises(InputError, match=reason):
        ens_plugin.truncate(forest(5), X=ROWS[name], max_latency=1.0)
