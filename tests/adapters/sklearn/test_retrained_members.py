"""Brute force: each member trained again by hand, on the rows of its proved bag alone, predicts what it predicted."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.adapters import find_adapter
from tests.adapters.lightgbm.lightgbm_cases import X2, Y2

N_MEMBERS = 12


@pytest.mark.parametrize("objective", ["binary", "regression"])
def test_lightgbm(objective: str) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
    # A start at 0, because its own would be the mean of whatever rows it is given.
    options = {
        "boosting": "rf",
        "objective": objective,
        "boost_from_average": False,
        "num_leaves": 15,
        "min_data_in_leaf": 3,
        "num_threads": 1,
        "verbose": -1,
    }
    data = lightgbm.Dataset(X2, Y2, free_raw_data=False).construct()
    forest = lightgbm.train({**options, "bagging_freq": 1, "bagging_fraction": 0.6, "seed": 3}, data, N_MEMBERS)
    adapter = find_adapter(forest)
    features = adapter.prepare(X2)
    outputs = adapter.outputs(features)
    for in_bag, own in zip(adapter.bags(X2, features, Y2).in_bag(), outputs, strict=True):
        # The forest's bins, and a share of the six columns that comes to all of them: `rf` insists on one below 1.
        bag = data.subset(np.flatnonzero(in_bag).tolist())
        alone = lightgbm.train({**options, "feature_fraction": 0.99}, bag, 1)
        np.testing.assert_allclose(own, alone.predict(X2, raw_score=True), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
@pytest.mark.parametrize("method", ["hist", "exact"])
def test_xgboost(objective: str, method: str) -> None:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
    options = {
        "objective": objective,
        "tree_method": method,
        "base_score": 0.5,
        "max_depth": 5,
        "learning_rate": 1,
        "seed": 3,
        "nthread": 1,
    }
    data = xgboost.QuantileDMatrix(X2, Y2) if method == "hist" else xgboost.DMatrix(X2, Y2)
    forest = xgboost.train({**options, "num_parallel_tree": N_MEMBERS, "subsample": 0.6}, data, num_boost_round=1)
    adapter = find_adapter(forest)
    features = adapter.prepare(X2)
    outputs = adapter.outputs(features)
    for in_bag, own in zip(adapter.bags(X2, features, Y2).in_bag(), outputs, strict=True):
        rows = (X2[in_bag], Y2[in_bag])
        bag = xgboost.QuantileDMatrix(*rows, ref=data) if method == "hist" else xgboost.DMatrix(*rows)
        alone = xgboost.train(options, bag, num_boost_round=1)
        theirs = alone.predict(xgboost.DMatrix(X2), output_margin=True)
        np.testing.assert_allclose(own, theirs, rtol=1e-5, atol=1e-5)
