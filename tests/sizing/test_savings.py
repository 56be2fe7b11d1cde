"""Savings are measured on models of the two sizes, and nothing of the model is changed."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from itertools import count, cycle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.errors import InputError
from ens_plugin.sizing import budget
from ens_plugin.sizing.truncate import measure_savings

X, y = load_iris(return_X_y=True)


class Clock:
    """Time passes only while the fake model works."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def steady_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second call takes twice as long as the one before, however busy the machine is."""
    seconds = cycle((1.0, 2.0))

    def seconds_of(call: Callable[[], object]) -> float:
        call()
        return next(seconds)

    monkeypatch.setattr(budget, "seconds_of", seconds_of)


@pytest.fixture
def slow_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit takes 5 s and 0.25 s a member, a prediction 1 ms a member."""
    clock, fit, predict = Clock(), RandomForestClassifier.fit, RandomForestClassifier.predict

    def slow_fit(self: RandomForestClassifier, X: Any, y: Any) -> RandomForestClassifier:
        clock.now += 5.0 + 0.25 * self.n_estimators
        return fit(self, X, y)

    def slow_predict(self: RandomForestClassifier, X: Any) -> Any:
        clock.now += 0.001 * self.n_estimators
        return predict(self, X)

    monkeypatch.setattr(budget, "time", clock)
    monkeypatch.setattr(RandomForestClassifier, "fit", slow_fit)
    monkeypatch.setattr(RandomForestClassifier, "predict", slow_predict)


@pytest.mark.usefixtures("slow_forests")
def test_times_and_bytes_are_those_of_the_two_sizes() -> None:
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    before = pickle.dumps(forest)
    found = measure_savings(forest, X, y, 10)
    assert (found.n_members, found.size, found.n_rows) == (40, 10, 150)
    assert found.predict_seconds_now == pytest.approx(0.040)
    assert found.predict_seconds_cut == pytest.approx(0.010)
    assert found.fit_seconds_per_member == pytest.approx(0.25)
    assert found.bytes_now == len(before)
    assert measure_savings(forest, np.tile(X, (80, 1)), np.tile(y, 80), 11).n_rows == 10_000
    assert found.bytes_cut == len(pickle.dumps(ens_plugin.truncate(forest, 10)))
    assert pickle.dumps(forest) == before
    with pytest.raises(InputError, match="between 1 and 40"):
        measure_savings(forest, X, y, 41)


@pytest.mark.usefixtures("slow_forests")
@pytest.mark.parametrize("held_up", range(6))
def test_a_fit_that_was_held_up_does_not_move_the_training_time(held_up: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fit of few trees or of more takes half a minute longer, as the first of a process may."""
    forest, fit, fits = RandomForestClassifier(40, random_state=0).fit(X, y), RandomForestClassifier.fit, count()

    def held_up_once(self: RandomForestClassifier, X: Any, y: Any) -> RandomForestClassifier:
        budget.time.now += 30.0 * (next(fits) == held_up)  # type: ignore[attr-defined]
        return fit(self, X, y)

    monkeypatch.setattr(RandomForestClassifier, "fit", held_up_once)
    assert measure_savings(forest, X, y, 10).fit_seconds_per_member == pytest.approx(0.25)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), RandomForestClassifier(12, random_state=0)),
        BaggingClassifier(n_estimators=12, random_state=0, warm_start=True),
    ],
)
@pytest.mark.usefixtures("steady_clock")
def test_pipelines_and_bagging_are_measured_too(model: Any) -> None:
    found = measure_savings(model.fit(X, y), X, y, 3)
    assert found.fit_seconds_per_member is not None
    assert found.bytes_cut < found.bytes_now


def test_a_booster_has_no_training_time() -> None:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install 'ens-plugin[xgboost]'")
    options = {"num_parallel_tree": 12, "subsample": 0.6, "learning_rate": 1, "objective": "multi:softprob"}
    booster = xgboost.train({**options, "num_class": 3}, xgboost.DMatrix(X, y), num_boost_round=1)
    found = measure_savings(booster, X, y, 3)
    assert found.fit_seconds_per_member is None
    assert found.bytes_cut < found.bytes_now
    with pytest.raises(InputError, match="of type DMatrix, whose first rows cannot be taken"):
        measure_savings(booster, xgboost.DMatrix(X), y, 3)


def test_the_fits_of_few_members_give_no_warnings() -> None:
    forest = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure_savings(forest, X, y, 3).fit_seconds_per_member is not None
