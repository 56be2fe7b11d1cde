"""Subclasses of boosters' estimators that predict otherwise: they were judged by the booster inside, in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import UnsupportedModelError
from tests.extras import lightgbm, xgboost

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(600, 5))
VALUES = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * _RNG.normal(size=600)
LABELS = (VALUES > 0.4).astype(int)
RF = {"boosting_type": "rf", "n_estimators": 40, "subsample": 0.6, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}


def with_threshold(cls: Any) -> Any:
    def predict(self: Any, X: Any, **options: Any) -> Any:
        return (self.predict_proba(X)[:, 1] > 0.25).astype(int)

    return type("Threshold", (cls,), {"predict": predict})


def with_exponential(cls: Any) -> Any:
    def predict(self: Any, X: Any, **options: Any) -> Any:
        return np.exp(cls.predict(self, X, **options))

    return type("Exponential", (cls,), {"predict": predict})


def unchanged(cls: Any) -> Any:
    def predict(self: Any, X: Any, **options: Any) -> Any:
        return cls.predict(self, X, **options)

    return type("Unchanged", (cls,), {"predict": predict})


def trained(library: str, kind: str, change: Any) -> Any:
    if library == "lightgbm":
        return change(getattr(lightgbm, f"LGBM{kind}"))(**RF)
    return change(getattr(xgboost, f"XGBRF{kind}"))(n_estimators=40, n_jobs=1)


@pytest.mark.parametrize("data", ["oob", "holdout"])
@pytest.mark.parametrize(("kind", "change"), [("Classifier", with_threshold), ("Regressor", with_exponential)])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_subclass_that_predicts_otherwise_is_refused(library: str, kind: str, change: Any, data: Any) -> None:
    target, rows = LABELS if kind == "Classifier" else VALUES, slice(0, 400) if data == "oob" else slice(400, 600)
    model = trained(library, kind, change).fit(X[:400], target[:400])
    with pytest.raises(
        UnsupportedModelError, match=f"of this {type(model).__name__} returns something else than the mean"
    ):
        ens_plugin.analyze(model, X[rows], target[rows], data=data)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_subclass_that_predicts_the_same_is_taken(library: str) -> None:
    model = trained(library, "Classifier", unchanged).fit(X[:400], LABELS[:400])
    assert ens_plugin.analyze(model, X[400:], LABELS[400:], data="holdout").n_members == 40
