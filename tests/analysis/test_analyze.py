from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.analysis import analyze_rows
from ens_plugin.analysis import evidence as row_blocks
from ens_plugin.errors import InputError
from tests.forests import (
    CANCER,
    DIABETES,
    cancer,
    content,
    diabetes,
    every_fast_problem,
    every_problem,
    out_of_bag_mask,
    outputs_of,
    shallow,
)


class TestAgainstScikitLearn:
    @every_fast_problem
    def test_member_error_is_the_trees_own(self, problem: Any) -> None:
        forest, X, y = problem()
        outputs, is_oob = outputs_of(forest, X), out_of_bag_mask(forest, y.size)
        loss = (outputs - y) ** 2 if problem is diabetes else np.argmax(outputs, axis=2) != y
        by_row = (loss * is_oob).sum(axis=0) / is_oob.sum(axis=0)
        expected = by_row[is_oob.sum(axis=0) >= 2].mean()
        assert analyze(forest, X, y).bias_variance.member_error == pytest.approx(expected, rel=1e-10)

    def test_regression_curve_is_the_closed_form(self) -> None:
        forest, X, y = diabetes()
        outputs, is_oob = outputs_of(forest, X), out_of_bag_mask(forest, y.size)
        n = is_oob.sum(axis=0)
        mean = (outputs * is_oob).sum(axis=0) / n
        variance = (((outputs - mean) ** 2) * is_oob).sum(axis=0) / (n - 1)
        limit = np.mean((mean - y) ** 2 - variance / n)
        curve = analyze(forest, X, y).error_curve
        np.testing.assert_allclose(curve.error, limit + variance.mean() / curve.sizes, rtol=1e-10)
        assert curve.asymptote == pytest.approx(limit, rel=1e-10)


class TestReproducible:
    @pytest.mark.fast_cases("two labels", "regression")
    @every_fast_problem
    def test_threads_and_blocks_change_no_bit(self, problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        model, X, y = problem()
        weight = np.random.default_rng(0).random(y.size)
        reference = content(analyze(model, X, y, sample_weight=weight))
        assert content(analyze(model, X, y, sample_weight=weight, n_jobs=2)) == reference
        monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 1)
        assert content(analyze(model, X, y, sample_weight=weight, n_jobs=2)) == reference

    @pytest.mark.fast_cases("two labels", "regression")
    @every_fast_problem
    def test_model_and_data_are_not_modified(self, problem: Any) -> None:
        model, X, y = problem()
        weight = np.ones(y.size)
        before = pickle.dumps((model, X, y, weight))
        analyze(model, X, y, sample_weight=weight)
        assert pickle.dumps((model, X, y, weight)) == before

    def test_global_random_state_is_not_touched(self) -> None:
        model, X, y = shallow()
        before = pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
        analyze(model, X, y, random_state=None)
        assert pickle.dumps(np.random.get_state(legacy=False)) == before  # noqa: NPY002


class TestReport:
    @pytest.mark.fast_cases("soft votes", "two labels", "regression")
    @every_problem
    def test_numbers_are_in_their_places(self, problem: Any) -> None:
        model, X, y = problem()
        report = analyze(model, X, y)
        curve, bias = report.error_curve, report.bias_variance
        assert isinstance(report, EnsembleReport)
        assert report.n_members == len(model.estimators_)
        assert report.model == type(model).__name__
        assert report.bags == "recorded"
        assert report.data == "oob"
        assert report.n_rows + report.rows_without_oob == y.size
        is_oob = out_of_bag_mask(model, y.size).sum(axis=0)
        assert report.mean_oob_members == pytest.approx(is_oob[is_oob >= 1].mean(), rel=0.01)
        assert ((curve.lower <= curve.error) & (curve.error <= curve.upper)).all()
        assert curve.asymptote_interval[0] <= curve.asymptote <= curve.asymptote_interval[1]
        assert report.error_interval[0] < report.error < report.error_interval[1]
        assert bias.ensemble_error == pytest.approx(report.error, rel=1e-12)
        assert bias.bias == bias.asymptotic_error == pytest.approx(curve.asymptote, rel=1e-12)
        assert curve.error[0] == pytest.approx(bias.member_error, rel=0.08)
        assert report.algorithmic_sd > 0

    @pytest.mark.fast_cases("two labels", "regression")
    @every_fast_problem
    def test_recommendation_meets_its_own_criterion(self, problem: Any) -> None:
        model, X, y = problem()
        report = analyze(model, X, y, max_size=200_001)
        for advice in report.criteria:
            low, high = advice.interval
            assert 1 <= low <= advice.size
            assert high is None or advice.size <= high
            assert advice.loss_at(advice.size) <= advice.tolerance
            assert advice.loss == pytest.approx(advice.loss_at(report.n_members), abs=0.1 * advice.tolerance)
            assert f"takes {advice.size:,}".replace(",", "") in advice.reason.replace(",", "")
            assert advice.is_enough == (advice.loss <= advice.tolerance)

    def test_scalars_of_a_classifier(self) -> None:
        report = analyze(*cancer())
        metrics = report.metrics()
        assert set(metrics) == {
            "accuracy", "accuracy_lower", "accuracy_upper", "asymptotic_accuracy", "n_members", "recommended_size",
            "agreement", "member_variance", "bias",
        }  # fmt: skip
        scalars = report.scalars()
        further = {"error", "error_lower", "error_upper", "asymptotic_error", "excess_error", "algorithmic_sd"}
        assert set(scalars) - set(metrics) == {*further, "member_error", "size_capped"}
        assert all(type(value) is float and np.isfinite(value) for value in scalars.values())
        assert scalars["excess_error"] == scalars["error"] - scalars["asymptotic_error"]
        pairs = {"accuracy": "error", "accuracy_lower": "error_upper", "accuracy_upper": "error_lower"}
        for accuracy, error in pairs.items():
            assert scalars[accuracy] == 1.0 - scalars[error]


class TestEvenSize:
    def test_the_last_member_adds_nothing(self) -> None:
        X, y = CANCER
        forest = RandomForestClassifier(30, random_state=0).fit(X, y)
        report = analyze(forest, X, y, criterion="agreement")
        curve, advice = report.error_curve, report.recommendation
        at, below = np.searchsorted(curve.sizes, [30, 29])
        assert curve.error[at] == pytest.approx(curve.error[below], abs=1e-15)
        assert curve.error[below] > curve.error[at + 1]
        assert advice.losses[below] == pytest.approx(advice.losses[at], abs=1e-14)
        assert advice.agreement == pytest.approx(1.0 - advice.losses[below], abs=1e-14)


class TestWeights:
    @pytest.mark.fast_cases("soft votes", "regression")
    @every_fast_problem
    def test_rows_of_weight_zero_are_not_there(self, problem: Any) -> None:
        """Against the same outputs without these rows."""
        model, X, y = problem()
        kept = np.arange(y.size) % 4 > 0
        aggregation: Any = "mean" if problem is diabetes else "mean_proba"
        outputs, in_bag = outputs_of(model, X), ~out_of_bag_mask(model, y.size)
        whole = CustomEnsemble(outputs, in_bag, aggregation=aggregation)
        part = CustomEnsemble(outputs[:, kept], in_bag[:, kept], aggregation=aggregation)
        with_zeros = analyze(whole, None, y, sample_weight=kept.astype(float)).scalars()
        without = analyze(part, None, y[kept]).scalars()
        for name in ("error", "asymptotic_error", "member_error", "recommended_size", "error_lower", "error_upper"):
            assert with_zeros[name] == pytest.approx(without[name], rel=0.02), name

    def test_all_weight_on_rows_without_members_is_refused(self) -> None:
        votes = np.zeros((3, 4), dtype=int)
        in_bag = np.zeros((3, 4), dtype=bool)
        in_bag[:, :2] = True
        ensemble = CustomEnsemble(votes, in_bag, aggregation="vote", classes=[0, 1])
        with pytest.raises(InputError, match="sample_weight is 0"):
            analyze(ensemble, None, [0, 1, 0, 1], sample_weight=[1.0, 1.0, 0.0, 0.0])


def test_the_losses_of_rows_come_with_the_default_report() -> None:
    X, y = DIABETES
    forest = RandomForestRegressor(40, random_state=0, oob_score=True).fit(X[:300], y[:300])
    for data, rows, output in (
        ("oob", slice(None, 300), forest.oob_prediction_),
        ("holdout", slice(300, None), forest.predict(X[300:])),
    ):
        report, judged = analyze_rows(forest, X[rows], y[rows], data=data)
        if data == "holdout":
            np.testing.assert_allclose(judged.losses, (output - y[rows]) ** 2, rtol=1e-9)
        else:
            assert np.mean(judged.losses) == pytest.approx(report.error, rel=1e-12)
            assert np.corrcoef(judged.losses, (output - y[rows]) ** 2)[0, 1] > 0.95
        assert 0 <= judged.seed_variance < report.error**2 / 100
        expected = analyze(forest, X[rows], y[rows], data=data)  # type: ignore[arg-type]
        assert {**report.to_dict(), "created": ""} == {**expected.to_dict(), "created": ""}


def test_in_bag_is_the_rows_each_tree_drew() -> None:
    forest, X, y = cancer()
    mask = ens_plugin.in_bag(forest, X, y)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, ~out_of_bag_mask(forest, y.size))
    np.testing.assert_array_equal(ens_plugin.in_bag(forest, X), mask)
