"""Whole analyses of XGBoost's parallel trees."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.errors import DataMismatchError

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from tests.adapters.xgboost.xgboost_cases import BINARY, MULTI, X2, X3, XR, Y2, Y3, YR, N, as_mask, redrawn, train  # noqa: E402


def test_metric_sees_probabilities() -> None:
    booster = train(BINARY)
    seen = []

    def log_loss(y: Any, probabilities: Any) -> float:
        seen.append(probabilities)
        return float(-np.log(probabilities[np.arange(y.size), y]).mean())

    report = ens_plugin.analyze(booster, X2, Y2, metric=log_loss)
    assert all(np.allclose(p.sum(axis=1), 1) and p.shape[1] == 2 for p in seen)
    assert report.aggregation == "mean_score"


@pytest.mark.parametrize(
    ("options", "X", "y"), [(BINARY, X2, Y2), (MULTI, X3, Y3), ({}, XR, YR)], ids=["binary", "multiclass", "regression"]
)
def test_threads_and_copies_of_the_booster_change_nothing(
    options: dict[str, Any], X: Any, y: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    booster = train(options, X, y)
    expected = ens_plugin.analyze(booster, X, y).to_dict()
    threads = ens_plugin.analyze(booster, X, y, n_jobs=2).to_dict()
    monkeypatch.setattr("ens_plugin.adapters.xgboost.forest.TREES_TOGETHER", 7)
    in_parts = ens_plugin.analyze(booster, X, y).to_dict()
    for report in (expected, threads, in_parts):
        del report["created"]
    assert expected == threads == in_parts


@pytest.mark.filterwarnings("ignore:.*XGBRF:FutureWarning")
@pytest.mark.parametrize("cls", ["XGBRFClassifier", "XGBRFRegressor"])
def test_random_forest_interface(cls: str) -> None:
    X, y = (X2, Y2) if cls == "XGBRFClassifier" else (XR, YR)
    model = getattr(xgboost, cls)(n_estimators=30, random_state=5, n_jobs=1).fit(X, y)
    report = ens_plugin.analyze(model, X, y)
    assert (report.n_members, report.model, report.bags) == (30, cls, "proved")
    assert any(name.startswith("xgboost") for name in report.versions)


def test_error_at_the_present_size_is_that_of_the_out_of_bag_means() -> None:
    """Squared loss is exact: mean over rows of (mean of out-of-bag values - y)^2, less its excess of variance."""
    booster = train({"num_parallel_tree": 60}, XR, YR)
    matrix = xgboost.DMatrix(XR)
    base = json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"].strip("[]")
    leaves = booster.predict(matrix, pred_leaf=True).astype(int)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    values = np.stack([np.array(t["split_conditions"])[leaves[:, k]] for k, t in enumerate(trees)]) * 60 + float(base)
    out = ~as_mask(redrawn(3, 60, N, 0.6))
    usable = out.sum(axis=0) >= 2
    count = out.sum(axis=0)[usable]
    mean = np.where(out, values, 0).sum(axis=0)[usable] / count
    variance = (
        np.where(out, (values - np.where(out, values, 0).sum(axis=0) / np.maximum(out.sum(axis=0), 1)) ** 2, 0)
    ).sum(axis=0)[usable] / (count - 1)
    asymptote = float(((mean - YR[usable]) ** 2 - variance / count).mean())
    report = ens_plugin.analyze(booster, XR, YR)
    assert report.error_curve.asymptote == pytest.approx(asymptote, rel=1e-4)
    assert report.error_curve.at(60) == pytest.approx(asymptote + variance.mean() / 60, rel=1e-4)


def test_columns_of_several_levels_are_those_of_the_training() -> None:
    frame = pd.DataFrame(X2, columns=pd.MultiIndex.from_product([["measured"], range(X2.shape[1])]))
    model = xgboost.XGBRFClassifier(n_estimators=20, random_state=5, n_jobs=1).fit(frame, Y2)
    found = ens_plugin.oob_predictions(model, frame, Y2).values
    np.testing.assert_array_equal(found, ens_plugin.oob_predictions(model, X2, Y2).values)
    with pytest.raises(DataMismatchError, match="The columns of X are not the ones"):
        ens_plugin.oob_predictions(model, frame[frame.columns[::-1]], Y2)
