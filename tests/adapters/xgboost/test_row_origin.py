"""Rows that fill XGBoost's leaves as training rows do; the split values of rounded rows show nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters import find_adapter
from tests.extras import xgboost

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(20_000, 5)))
VALUES = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RNG.normal(size=20_000)
OPTIONS: dict[str, Any] = {
    "n_estimators": 1,
    "num_parallel_tree": 20,
    "subsample": 0.6,
    "learning_rate": 1,
    "reg_lambda": 0,
    "min_child_weight": 0,
    "n_jobs": 1,
}


def origin(model: Any, y: Any) -> str:
    """The verdict on training rows in another order."""
    adapter: Any = find_adapter(model)
    order = np.random.default_rng(2).permutation(len(y))
    return str(adapter.verify_rows(adapter.prepare(X[order]), y[order]))


@pytest.mark.parametrize(
    ("depth", "weight", "verdict"),
    [
        (3, np.ones(240), "like_training"),
        # Sums of larger weights are more than the rows in a leaf; that rows are in each leaf still shows something.
        (20, np.random.default_rng(1).integers(2, 5, 240), "training"),
        # Most sums of these weights are whole numbers, but not all, so none of them is taken as a count.
        (3, np.where(np.arange(240) % 20, 1.0, 0.5), "unknown"),
    ],
    ids=["equal", "large", "some are half"],
)
def test_sums_in_leaves_are_counts_where_rows_have_equal_weights(depth: int, weight: Any, verdict: str) -> None:
    model = xgboost.XGBRegressor(**{**OPTIONS, "max_depth": depth})
    assert origin(model.fit(X[:240], VALUES[:240], sample_weight=weight), VALUES[:240]) == verdict


def test_sums_in_large_leaves_are_counts_to_the_rounding_of_single_precision() -> None:
    """Of the labels of a rare region beside a leaf of 8000 rows, whose sum is wrong by 3e-4 of a row."""
    y = ((X[:, 0] >= 1) & (np.random.default_rng(3).random(20_000) < 0.5)).astype(int)
    model = xgboost.XGBClassifier(**{**OPTIONS, "num_parallel_tree": 5, "max_depth": 12}).fit(X, y)
    assert origin(model, y) == "training"
