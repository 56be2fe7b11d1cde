"""Held-out rows that are training rows with other values, have other units, or targets that the model predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin.core.bags import drawn_share_of_error, is_lower_where_drawn
from tests.extras import lightgbm, xgboost

Array = NDArray[Any]
N_ROWS, N_MEMBERS = 200, 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N_ROWS, 5))
SCORE = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * RNG.normal(size=2 * N_ROWS)
LABELS = np.digitize(SCORE, [-0.5, 0.5])
TRAIN, FRESH = slice(0, N_ROWS), slice(N_ROWS, None)
DOUBT = "seem to be the training rows, with values changed since"


LIGHTGBM = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "min_child_samples": 3, "verbose": -1}


MODELS: dict[str, Callable[[], Any]] = {
    "forest of labels": lambda: RandomForestClassifier(N_MEMBERS, random_state=0).fit(X[TRAIN], LABELS[TRAIN]),
    "extra trees": lambda: ExtraTreesClassifier(N_MEMBERS, bootstrap=True, random_state=0).fit(X[TRAIN], LABELS[TRAIN]),
    "forest of values": lambda: RandomForestRegressor(N_MEMBERS, random_state=0).fit(X[TRAIN], SCORE[TRAIN]),
    "bagging": lambda: BaggingRegressor(n_estimators=N_MEMBERS, random_state=0).fit(X[TRAIN], SCORE[TRAIN]),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=N_MEMBERS, **LIGHTGBM).fit(X[TRAIN], SCORE[TRAIN]),
}


def doubts(model: Any, rows: Array, part: slice) -> tuple[str, ...]:
    y = LABELS if hasattr(model, "classes_") else SCORE
    return ens_plugin.analyze(model, rows, y[part], data="holdout").basis.doubts


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("name", MODELS)
def test_rounded_training_rows_are_doubted_and_as_many_fresh_rows_are_not(name: str) -> None:
    model = MODELS[name]()
    assert DOUBT in doubts(model, X[TRAIN].round(1), TRAIN)[0]
    assert not any(DOUBT in doubt for doubt in doubts(model, X[FRESH], FRESH))


def test_differences_by_chance_are_not_taken_for_changed_rows() -> None:
    """Errors of any size and members of any quality, where the bags are independent of them."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        in_bag = rng.random((25, 80)) < rng.uniform(0.2, 0.9)
        errors = rng.standard_cauchy((25, 80)) ** 2 * rng.random((25, 1)) if seed % 2 else rng.random((25, 80)) < 0.1
        assert not is_lower_where_drawn(errors.astype(float), in_bag)


def test_share_is_that_of_rows_with_both_kinds_of_members() -> None:
    """Each row counts relative to its mean error; a row that all members drew, and one without errors, not at all."""
    errors = np.array([[1.0, 5.0, 20.0, 0.0], [3.0, 7.0, 60.0, 0.0]])
    in_bag = np.array([[True, True, False, True], [False, True, True, False]])
    assert drawn_share_of_error(errors, in_bag) == pytest.approx((0.5 + 1.5) / (1.5 + 0.5))


FOUND = "y seems to be what this model predicts"


def rows(seed: int, n_rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    return X, X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=n_rows)


def is_found(model: Any, X: Any, y: Any) -> bool:
    report = ens_plugin.analyze(model, X, y, data="holdout")
    return any(doubt.startswith(FOUND) for doubt in report.basis.doubts)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(100, random_state=0),
        RandomForestClassifier(100, max_depth=4, random_state=0),
        BaggingClassifier(n_estimators=60, random_state=0),
    ],
    ids=["votes", "probabilities", "bagging"],
)
@pytest.mark.parametrize("n_labels", [2, 4])
def test_predicted_labels_of_held_out_rows_are_doubted(model: Any, n_labels: int) -> None:
    X, score = rows(0, 300)
    fresh, fresh_score = rows(1, 1000)
    bounds = np.quantile(score, np.arange(1, n_labels) / n_labels)
    model.fit(X, np.digitize(score, bounds))
    assert is_found(model, fresh, model.predict(fresh))
    assert is_found(model, fresh, model.predict_proba(fresh).argmax(axis=1))
    assert not is_found(model, fresh, np.digitize(fresh_score, bounds))


def test_predicted_values_of_held_out_rows_are_doubted() -> None:
    X, y = rows(0, 300)
    fresh, observed = rows(1, 500)
    model = RandomForestRegressor(60, random_state=0).fit(X, y)
    larger = RandomForestRegressor(120, random_state=0).fit(X, y)
    assert is_found(model, fresh, model.predict(fresh))
    assert is_found(model, fresh, np.round(model.predict(fresh), 2))
    assert is_found(model, fresh, larger.predict(fresh))
    assert not is_found(model, fresh, observed)
    assert not is_found(model, fresh, fresh[:, 0] + fresh[:, 1])


def test_observed_labels_without_any_error_are_not_doubted() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1500)
    X = rng.normal(size=(1500, 6)) + 6.0 * y[:, None]
    model = RandomForestClassifier(60, random_state=0).fit(X[:300], y[:300])
    assert not is_found(model, X[300:], y[300:])


UNITS = np.array([1, 10, 100, 1000, 5, 2])
MEASURED = RNG.normal(size=(2 * N_ROWS, 6)) * UNITS + 20 * UNITS
OVER = (MEASURED[:, 0] - 20 + MEASURED[:, 3] / 1000 - 20 + RNG.normal(size=2 * N_ROWS) > 0).astype(int)
SCALED = (MEASURED - MEASURED[TRAIN].mean(axis=0)) / MEASURED[TRAIN].std(axis=0)


def given_trees() -> Any:
    bags = [RNG.integers(0, N_ROWS, N_ROWS) for _ in range(N_MEMBERS)]
    trees = [DecisionTreeClassifier(random_state=0).fit(MEASURED[TRAIN][bag], OVER[TRAIN][bag]) for bag in bags]
    return ens_plugin.CustomEnsemble.from_estimators(trees, bags)


SIZED: dict[str, Any] = {"n_estimators": N_MEMBERS, "random_state": 0}
OF_UNITS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(**SIZED),
    "extra trees": lambda: ExtraTreesClassifier(**SIZED),
    "bagging of columns": lambda: BaggingClassifier(max_features=0.7, **SIZED),
    "custom": given_trees,
    "lightgbm": lambda: lightgbm.LGBMClassifier(**SIZED, **LIGHTGBM),
    "xgboost": lambda: xgboost.XGBRFClassifier(**SIZED),
}


@pytest.mark.parametrize("name", OF_UNITS)
def test_standardised_rows_are_doubted_and_rows_as_trained_are_not(name: str) -> None:
    model = OF_UNITS[name]()
    if name != "custom":
        model.fit(MEASURED[TRAIN], OVER[TRAIN])
    scaled = ens_plugin.analyze(model, SCALED[FRESH], OVER[FRESH], data="holdout")
    assert any("another scale than the training rows" in doubt for doubt in scaled.basis.doubts)
    assert "Do not use these figures." in str(scaled)
    fresh = ens_plugin.analyze(model, MEASURED[FRESH], OVER[FRESH], data="holdout")
    assert not fresh.basis.doubts
    assert not any("outside of the values" in warning for warning in fresh.warnings)


def test_one_moved_column_is_named_in_a_warning() -> None:
    """Such as a date, of which later rows hold later ones."""
    names = [f"measure {place}" for place in range(5)] + ["day"]
    frame = pd.DataFrame(MEASURED, columns=names)
    model = RandomForestClassifier(N_MEMBERS, random_state=0).fit(frame[TRAIN], OVER[TRAIN])
    later = frame[FRESH].assign(day=frame["day"] + 100)
    report = ens_plugin.analyze(model, later, OVER[FRESH], data="holdout")
    assert not report.basis.doubts
    (warning,) = [own for own in report.warnings if "outside of the values" in own]
    assert warning.startswith("Column 'day' lies outside")


DRAWS: dict[str, Callable[[np.random.Generator, Any], Array]] = {
    "Cauchy": lambda rng, size: rng.standard_cauchy(size),
    "counts": lambda rng, size: rng.poisson(3, size),
    "skewed": lambda rng, size: rng.random(size) ** 9,
}


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_heavy_tails_counts_and_few_rows_are_not_other_units(draw: str, forest: type) -> None:
    rng = np.random.default_rng(1)
    rows = DRAWS[draw](rng, (N_ROWS + 12, 4))
    labels = (rows[:, 0] + rng.normal(size=rows.shape[0]) > np.median(rows[:, 0])).astype(int)
    labels[N_ROWS : N_ROWS + 2] = 0, 1
    model = forest(N_MEMBERS, random_state=0).fit(rows[:N_ROWS], labels[:N_ROWS])
    report = ens_plugin.analyze(model, rows[N_ROWS:], labels[N_ROWS:], data="holdout")
    assert not any("outside of the values" in text for text in (*report.basis.doubts, *report.warnings))
