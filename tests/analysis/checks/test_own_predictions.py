"""Held-out targets that the model predicted itself: doubted; observed ones never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor

import ens_plugin

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
    fresh, fresh_score = rows(1, 2000)
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
