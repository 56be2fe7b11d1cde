"""Forests trained once for the tests of an analysis, and what scikit-learn itself computes for them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

Array = NDArray[Any]
Problem = tuple[Any, Array, Array]

CANCER = load_breast_cancer(return_X_y=True)
DIGITS = tuple(part[:300] for part in load_digits(return_X_y=True))
DIABETES = load_diabetes(return_X_y=True)


class RowLimit:
    """Ends an analysis when members have read so many rows."""

    def __init__(self, n_rows: float) -> None:
        self.n_rows = n_rows

    def goes_on(self, n_read: int, n_rows: int) -> bool:
        return n_read < self.n_rows

    def check(self) -> None:
        """Metrics take no time."""


@lru_cache(maxsize=1)
def cancer() -> Problem:
    """Two labels, pure leaves: hard votes."""
    return RandomForestClassifier(100, random_state=0, oob_score=True).fit(*CANCER), *CANCER


@lru_cache(maxsize=1)
def shallow() -> Problem:
    """Two labels, probabilities."""
    return RandomForestClassifier(60, max_depth=3, random_state=0, oob_score=True).fit(*CANCER), *CANCER


@lru_cache(maxsize=1)
def digits() -> Problem:
    """Ten labels, pure leaves."""
    return RandomForestClassifier(50, random_state=0, oob_score=True).fit(*DIGITS), *DIGITS


@lru_cache(maxsize=1)
def diabetes() -> Problem:
    return RandomForestRegressor(60, random_state=0, oob_score=True).fit(*DIABETES), *DIABETES


PROBLEMS = {"two labels": cancer, "soft votes": shallow, "ten labels": digits, "regression": diabetes}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
# Ten labels take as long as the others together, on the same road as probabilities of two.
every_fast_problem = pytest.mark.parametrize(
    "problem",
    [
        pytest.param(problem, id=name, marks=[pytest.mark.slow] * (problem is digits))
        for name, problem in PROBLEMS.items()
    ],
)


def content(value: Any) -> Any:
    """A report as nested plain values that compare to the bit; the time of the analysis left out."""
    if is_dataclass(value):
        return {field.name: content(getattr(value, field.name)) for field in fields(value) if field.name != "created"}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


def outputs_of(forest: Any, X: Array) -> Array:
    """Each tree's probabilities or values for all rows, by scikit-learn itself."""
    rows = X.astype(np.float32)
    if hasattr(forest, "classes_"):
        return np.array([tree.predict_proba(rows) for tree in forest.estimators_])
    return np.array([tree.predict(rows) for tree in forest.estimators_])


def out_of_bag_mask(forest: Any, n_rows: int) -> NDArray[np.bool_]:
    is_oob = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_):
        is_oob[member, rows] = False
    return is_oob


def fitted(**options: Any) -> RandomForestClassifier:
    X, y = CANCER
    return RandomForestClassifier(**{"n_estimators": 20, "random_state": 0, **options}).fit(X, y)
