"""What LightGBM's forests answer, and which rows they take."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from tests.adapters.lightgbm.lightgbm_cases import FRAME, FRESH2, FRESH3, X2, X3, XR, Y2, Y3, YR, fitted, regressor
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")


# ---- analyze


def test_report_of_a_binary_forest_agrees_with_brute_force() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), rng.integers(0, 2, 600)
    y = np.where(rng.random(600) < 0.8, (X[:, 0] > 0).astype(int), y)
    model = fitted(X, y, n_estimators=60)
    booster = model.booster_
    in_bag = drawn_bags(600, stated_seed(booster), int(np.ceil(0.6 * 32768)), 60)
    scores = np.array([booster.predict(X, raw_score=True, start_iteration=t, num_iteration=1) for t in range(60)])
    member_error = np.mean([np.mean((scores[~in_bag[:, i], i] > 0) != y[i]) for i in range(600)])
    means = np.array([scores[~in_bag[:, i], i].mean() for i in range(600)])
    report = ens_plugin.analyze(model, X, y)
    assert report.bags == "proved"
    assert report.aggregation == "mean_score"
    assert report.bias_variance.member_error == pytest.approx(member_error, rel=1e-12)
    # The rows' out-of-bag means are of about 24 members; the curve at that size must be near their error.
    assert report.error_curve.at(25) == pytest.approx(np.mean((means > 0) != y), abs=0.01)


def test_report_of_a_regression_forest_is_the_closed_form() -> None:
    model = regressor(n_estimators=40)
    in_bag = drawn_bags(300, stated_seed(model.booster_), int(np.ceil(0.6 * 32768)), 40)
    values = np.array([model.booster_.predict(XR, start_iteration=t, num_iteration=1) for t in range(40)])
    outputs_oob = np.where(in_bag, np.nan, values)
    mean, variance = np.nanmean(outputs_oob, axis=0), np.nanvar(outputs_oob, axis=0, ddof=1)
    infinite = np.mean((mean - YR) ** 2 - variance / (~in_bag).sum(axis=0))
    report = ens_plugin.analyze(model, XR, YR)
    assert report.error_curve.asymptote == pytest.approx(infinite, rel=1e-9)
    assert report.error_curve.at(40) == pytest.approx(infinite + variance.mean() / 40, rel=1e-9)


@pytest.mark.fast_cases("binary")
@pytest.mark.parametrize(("X", "fresh", "y"), [(X2, FRESH2, Y2), (X3, FRESH3, Y3)], ids=["binary", "multiclass"])
def test_metric_meets_the_probabilities_of_predict_proba(X: Any, fresh: Any, y: Any) -> None:
    model = fitted(X, y)
    met = []

    def log_loss(target: Any, probability: Any) -> float:
        met.append(probability)
        return float(-np.log(probability[np.arange(len(target)), target]).mean())

    ens_plugin.analyze(model, fresh, y, data="holdout", metric=log_loss)
    full = [probability for probability in met if probability.shape == (300, len(np.unique(y)))]
    # The metric receives the rows in another order.
    expected = in_own_order(model.predict_proba(fresh))
    assert min(np.abs(in_own_order(probability) - expected).max() for probability in full) < 1e-12


def in_own_order(rows: Any) -> Any:
    """The rows in an order that depends on their values alone, to 9 digits."""
    return rows[np.lexsort(np.round(rows, 9).T)]


def test_threads_and_reading_by_member_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    expected = ens_plugin.analyze(model, X2, Y2).to_dict()
    threads = ens_plugin.analyze(model, X2, Y2, n_jobs=2).to_dict()
    monkeypatch.setattr("ens_plugin.adapters.lightgbm.forest.CALL", 0)
    by_member = ens_plugin.analyze(model, X2, Y2).to_dict()
    for report in (expected, threads, by_member):
        del report["created"]
    assert expected == threads == by_member


# ---- what predict uses


def test_members_are_those_up_to_the_best_iteration() -> None:
    model = fitted()
    model.booster_.best_iteration = 10
    adapter = find_adapter(model)
    assert adapter.n_members == 10
    assert adapter.bags(X2, adapter.prepare(X2), Y2).n_members == 10


def test_forest_with_trees_of_one_leaf_counts_them() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, 1)) < 0.02, 1.0, 0.0)
    model = regressor(X, X[:, 0] + rng.normal(size=400), subsample=0.5, min_child_samples=5, n_estimators=60)
    adapter = find_adapter(model)
    n_leaves = re.findall(r"^num_leaves=(\d+)$", model.booster_.model_to_string(), re.MULTILINE)
    assert 0 < n_leaves.count("1") < 60
    features = adapter.prepare(X)
    np.testing.assert_allclose(adapter.outputs(features).mean(axis=0), model.predict(X), atol=1e-12)
    expected = drawn_bags(400, stated_seed(model.booster_), 16384, 60)
    np.testing.assert_array_equal(adapter.bags(X, features, None).in_bag(), expected)


def test_mean_that_is_not_the_prediction_is_refused() -> None:
    adapter: Any = find_adapter(regressor())
    adapter._text.trees[3].lines["leaf_value"] = " ".join(["1e3"] * adapter._text.trees[3].n_leaves)
    with pytest.raises(UnsupportedModelError, match=r"differs by .* from what LightGBM"):
        adapter.prepare(XR)


# ---- rows


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([*FRAME.columns[:-1], "other"], "missing 'feature_5'"),
        (list(FRAME.columns[::-1]), "another order"),
        (list(FRAME.columns[:-1]), "X has 5 columns"),
    ],
)
def test_other_columns_are_named(columns: list[str], message: str) -> None:
    X = FRAME.reindex(columns=columns, fill_value=0.0)
    with pytest.raises(DataMismatchError, match=message):
        find_adapter(fitted(FRAME)).prepare(X)


@pytest.mark.parametrize(
    "X",
    [np.full((3, 6), "a"), np.zeros(6), pd.DataFrame(np.full((3, 6), "a"), columns=FRAME.columns)],
    ids=["text", "one dimension", "frame of text"],
)
def test_rows_lightgbm_cannot_take(X: Any) -> None:
    with pytest.raises(InputError, match="X"):
        find_adapter(fitted(FRAME)).prepare(X)


def test_table_without_rows() -> None:
    with pytest.raises(InputError, match="no rows"):
        ens_plugin.analyze(fitted(), X2[:0], Y2, data="holdout")


def test_lists_and_frames_of_the_same_rows_are_the_same_rows() -> None:
    model = fitted()
    expected = ens_plugin.in_bag(model, X2)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, X2.tolist()), expected)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, FRAME), expected)
