"""Ensembles of every kind, for the tests of dynamic pruning."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier

from benchmarks.shared.problems import FORMULAS

Array = NDArray[Any]

ALMOST_SURE = 1.0 - 1e-12


def twonorm(n_rows: int, seed: int = 0) -> tuple[Array, Array]:
    return FORMULAS["twonorm"].sample(n_rows, np.random.default_rng(seed))


def ensemble(kind: str) -> Any:
    """An ensemble of one kind, not fitted."""
    if kind == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        model = lightgbm.LGBMClassifier(
            boosting_type="rf",
            n_estimators=101,
            subsample=0.632,
            subsample_freq=1,
            random_state=0,
            verbose=-1,
            n_jobs=1,
        )
    elif kind == "xgboost":
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        model = xgboost.XGBRFClassifier(
            n_estimators=101, subsample=0.632, colsample_bynode=0.5, random_state=0, n_jobs=1
        )
    else:
        model = {
            "forest": RandomForestClassifier(101, random_state=0),
            "even forest": RandomForestClassifier(100, random_state=0),
            "shallow forest": RandomForestClassifier(101, max_depth=3, random_state=0),
            "bagged trees": BaggingClassifier(n_estimators=101, max_features=0.7, random_state=0),
            "bagged votes": BaggingClassifier(RidgeClassifier(), n_estimators=101, max_samples=0.2, random_state=0),
        }[kind]
    return model


@cache
def fitted(kind: str, n_labels: int) -> Any:
    """An ensemble of one kind, fitted once."""
    X, y, _ = rows_of(n_labels)
    return ensemble(kind).fit(X, y)


@cache
def rows_of(n_labels: int) -> tuple[Array, Array, Array]:
    """Training rows, their labels, and fresh rows."""
    if n_labels == 2:
        return *twonorm(200), twonorm(400, 1)[0]
    X, y = load_digits(return_X_y=True)
    # In the order of the file, rows are other people's handwriting: not exchangeable.
    rows = np.random.default_rng(0).permutation(y.size)
    return X[rows[:500]], y[rows[:500]], X[rows[500:900]]
