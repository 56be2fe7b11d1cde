from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import ens_plugin
from ens_plugin import CustomEnsemble, analyze, collection
from ens_plugin.analysis import analyze_rows, run_analysis
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
    WeakEstimateWarning,
)
from ens_plugin.report import EnsembleReport

Array = NDArray[Any]
Problem = tuple[Any, Array, Array]

CANCER = load_breast_cancer(return_X_y=True)
DIGITS = tuple(part[:300] for part in load_digits(return_X_y=True))
DIABETES = load_diabetes(return_X_y=True)


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


def seen_by(forest: Any, n_rows: int) -> NDArray[np.bool_]:
    seen = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_):
        seen[member, rows] = False
    return seen


def zero_one(y: Array, mean: Array) -> float:
    return float(np.mean(mean.argmax(axis=1) != y))


class TestAgainstScikitLearn:
    @pytest.mark.parametrize("problem", [cancer, shallow, digits], ids=["two labels", "soft votes", "ten labels"])
    def test_path_ends_at_the_out_of_bag_error(self, problem: Any) -> None:
        forest, X, y = problem()
        curve = analyze(forest, X, y, estimator="path").error_curve
        assert curve.error[-1] == np.mean(np.argmax(forest.oob_decision_function_, axis=1) != y)
        assert curve.error[-1] == pytest.approx(1 - forest.oob_score_, abs=1e-15)

    def test_path_ends_at_the_out_of_bag_mean_squared_error(self) -> None:
        forest, X, y = diabetes()
        curve = analyze(forest, X, y, estimator="path").error_curve
        assert curve.error[-1] == pytest.approx(mean_squared_error(y, forest.oob_prediction_), rel=1e-12)
        assert 1 - curve.error[-1] / np.var(y) == pytest.approx(forest.oob_score_, rel=1e-12)

    @pytest.mark.parametrize("problem", [cancer, digits], ids=["two labels", "ten labels"])
    def test_path_is_that_of_a_warm_started_forest(self, problem: Any) -> None:
        """The loop in scikit-learn's documentation, where all rows have out-of-bag trees."""
        forest, X, y = problem()
        curve = analyze(forest, X, y, estimator="path").error_curve
        for size in (40, 45):
            smaller = RandomForestClassifier(size, random_state=0, oob_score=True).fit(X, y)
            assert curve.at(size) == pytest.approx(1 - smaller.oob_score_, abs=1e-15)

    def test_binomial_limit_is_breimans_error_with_half_ties(self) -> None:
        forest, X, y = cancer()
        votes = np.where(seen_by(forest, y.size)[:, :, None], outputs_of(forest, X), 0.0).sum(axis=0)
        rows = np.arange(y.size)
        right, wrong = votes[rows, y], votes[rows, 1 - y]
        expected = np.mean((wrong > right) + 0.5 * (wrong == right))
        assert analyze(forest, X, y, estimator="binomial").error_curve.asymptote == pytest.approx(expected, abs=1e-14)

    @every_problem
    def test_member_error_is_the_trees_own(self, problem: Any) -> None:
        forest, X, y = problem()
        outputs, seen = outputs_of(forest, X), seen_by(forest, y.size)
        loss = (outputs - y) ** 2 if problem is diabetes else np.argmax(outputs, axis=2) != y
        by_row = (loss * seen).sum(axis=0) / seen.sum(axis=0)
        expected = by_row[seen.sum(axis=0) >= 2].mean()
        assert analyze(forest, X, y).bias_variance.member_error == pytest.approx(expected, rel=1e-10)

    def test_regression_curve_is_the_closed_form(self) -> None:
        forest, X, y = diabetes()
        outputs, seen = outputs_of(forest, X), seen_by(forest, y.size)
        n = seen.sum(axis=0)
        mean = (outputs * seen).sum(axis=0) / n
        variance = (((outputs - mean) ** 2) * seen).sum(axis=0) / (n - 1)
        limit = np.mean((mean - y) ** 2 - variance / n)
        curve = analyze(forest, X, y, sizes=[1, 10, 60]).error_curve
        np.testing.assert_allclose(curve.error, limit + variance.mean() / np.array([1, 10, 60]), rtol=1e-10)
        assert curve.asymptote == pytest.approx(limit, rel=1e-10)

    def test_holdout_uses_every_member_on_every_row(self) -> None:
        X, y = CANCER
        forest = RandomForestClassifier(50, random_state=0).fit(X[:350], y[:350])
        report = analyze(forest, X[350:], y[350:], data="holdout", estimator="binomial")
        share = outputs_of(forest, X[350:])[:, np.arange(219), 1 - y[350:]].mean(axis=0)
        assert report.error_curve.asymptote == pytest.approx(np.mean((share > 0.5) + 0.5 * (share == 0.5)), abs=1e-14)
        assert (report.data, report.bags, report.mean_oob_members, report.n_rows) == ("holdout", "holdout", 50.0, 219)
        assert not report.algorithmic_sd_is_bound

    def test_holdout_path_ends_at_the_test_error(self) -> None:
        X, y = CANCER
        forest = RandomForestClassifier(50, random_state=0).fit(X[:350], y[:350])
        path = analyze(forest, X[350:], y[350:], data="holdout", estimator="path").error_curve
        assert path.error[-1] == pytest.approx(1 - forest.score(X[350:], y[350:]), abs=1e-15)


class TestReproducible:
    @every_problem
    @pytest.mark.parametrize("estimator", ["auto", "path"])
    def test_threads_and_blocks_change_no_bit(
        self, problem: Any, estimator: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, X, y = problem()
        weight = np.random.default_rng(0).random(y.size)
        reference = content(analyze(model, X, y, sample_weight=weight, estimator=estimator))
        assert content(analyze(model, X, y, sample_weight=weight, estimator=estimator, n_jobs=2)) == reference
        monkeypatch.setattr(collection, "BLOCK_BYTES", 1)
        assert content(analyze(model, X, y, sample_weight=weight, estimator=estimator, n_jobs=2)) == reference

    def test_more_rows_than_are_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sample is chosen by row position, never by block."""
        model, X, y = shallow()
        monkeypatch.setattr(collection, "SAMPLE_ROWS", 300)
        reference = analyze(model, X, y)
        monkeypatch.setattr(collection, "BLOCK_BYTES", 1)
        assert content(analyze(model, X, y, n_jobs=2)) == content(reference)
        monkeypatch.undo()
        full = analyze(model, X, y)
        assert full.algorithmic_sd != reference.algorithmic_sd
        assert reference.algorithmic_sd == pytest.approx(full.algorithmic_sd, rel=0.3)

    @every_problem
    def test_same_seed_same_report(self, problem: Any) -> None:
        model, X, y = problem()
        assert content(analyze(model, X, y, random_state=3)) == content(analyze(model, X, y, random_state=3))

    def test_another_seed_moves_the_draws_not_the_estimate(self) -> None:
        model, X, y = cancer()
        one, other = (analyze(model, X, y, random_state=seed) for seed in (1, 2))
        np.testing.assert_array_equal(one.error_curve.error, other.error_curve.error)
        assert one.recommended_size == other.recommended_size
        assert one.recommendation.interval != other.recommendation.interval

    @every_problem
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
        seen = seen_by(model, y.size).sum(axis=0)
        assert report.mean_oob_members == pytest.approx(seen[seen >= 1].mean(), rel=0.01)
        assert ((curve.lower <= curve.error) & (curve.error <= curve.upper)).all()
        assert curve.asymptote_interval[0] <= curve.asymptote <= curve.asymptote_interval[1]
        assert report.error_interval[0] < report.error < report.error_interval[1]
        assert bias.ensemble_error == pytest.approx(report.error, rel=1e-12)
        assert bias.bias == bias.asymptotic_error == pytest.approx(curve.asymptote, rel=1e-12)
        assert curve.error[0] == pytest.approx(bias.member_error, rel=0.08)
        assert report.algorithmic_sd > 0
        assert report.algorithmic_sd_is_bound

    @every_problem
    def test_recommendation_meets_its_own_criterion(self, problem: Any) -> None:
        model, X, y = problem()
        advice = analyze(model, X, y, max_size=200_001).recommendation
        assert advice.size is not None
        low, high = advice.interval
        assert 1 <= low <= advice.size
        assert high is None or advice.size <= high
        around = analyze(model, X, y, max_size=200_001, sizes=[max(advice.size - 2, 1), advice.size]).recommendation
        smaller, enough = around.values[np.searchsorted(around.sizes, [max(advice.size - 2, 1), advice.size])]
        if advice.criterion == "agreement":
            assert smaller < advice.confidence <= enough
            assert advice.size % 2 == 1
        else:
            assert enough <= advice.tolerance < smaller * (1 + 1e-9)
        assert str(advice.size) in advice.reason

    def test_squared_loss_decomposes(self) -> None:
        bias = analyze(*diabetes()).bias_variance
        assert bias.member_error == pytest.approx(bias.bias + bias.member_variance, rel=1e-12)
        assert bias.loss == "squared loss"

    def test_aggregation_is_the_models_own(self) -> None:
        names = {name: analyze(*problem(), sizes=[1]).aggregation for name, problem in PROBLEMS.items()}
        assert names == {
            "two labels": "mean_proba",
            "soft votes": "mean_proba",
            "ten labels": "mean_proba",
            "regression": "mean",
        }

    def test_scalars_of_a_classifier(self) -> None:
        report = analyze(*cancer())
        metrics = report.metrics()
        assert set(metrics) == {
            "error",
            "error_lower",
            "error_upper",
            "asymptotic_error",
            "excess_error",
            "algorithmic_sd",
            "n_members",
            "recommended_size",
            "size_capped",
            "agreement",
            "member_error",
            "member_variance",
            "bias",
        }
        assert all(type(value) is float and np.isfinite(value) for value in metrics.values())
        assert metrics["excess_error"] == metrics["error"] - metrics["asymptotic_error"]

    def test_scalars_of_a_regressor_and_of_the_path(self) -> None:
        assert set(analyze(*cancer()).metrics()) - set(analyze(*diabetes()).metrics()) == {"agreement"}
        path = analyze(*cancer(), estimator="path").metrics()
        assert {"asymptotic_error", "excess_error"}.isdisjoint(path)

    def test_capped_size_is_told_apart(self) -> None:
        report = analyze(*cancer(), max_size=5)
        assert report.recommended_size is None
        assert (report.metrics()["recommended_size"], report.metrics()["size_capped"]) == (5.0, 1.0)
        assert "more than 5" in report.recommendation.reason

    @pytest.mark.parametrize("sizes", [[1, 5, 11], [1001, 2001], [55]])
    def test_scalars_are_of_the_current_size_whatever_is_tabulated(self, sizes: list[int]) -> None:
        expected = analyze(*cancer()).metrics()
        assert analyze(*cancer(), sizes=sizes).metrics() == pytest.approx(expected, abs=0.002)

    @pytest.mark.parametrize("sizes", [None, [1, 5, 11]])
    def test_hypergeometric_report_has_scalars_and_a_summary(self, sizes: list[int] | None) -> None:
        report = analyze(*cancer(), estimator="hypergeometric", sizes=sizes)
        assert report.metrics()["n_members"] == 100.0
        assert report.summary()

    def test_report_survives_json(self) -> None:
        report = analyze(*digits())
        assert content(EnsembleReport.from_json(report.to_json())) == content(report)


class TestEvenSize:
    def test_tie_counts_half_so_the_last_member_adds_nothing(self) -> None:
        X, y = CANCER
        report = analyze(RandomForestClassifier(30, random_state=0).fit(X, y), X, y, sizes=[29, 30, 31])
        curve, advice = report.error_curve, report.recommendation
        assert curve.error[0] == curve.error[1] > curve.error[2]
        assert advice.values[0] == pytest.approx(advice.values[1], abs=1e-14)
        assert advice.agreement == pytest.approx(advice.values[0], abs=1e-14)

    def test_two_members_are_enough_to_run(self) -> None:
        X, y = CANCER
        votes = RandomForestClassifier(2, random_state=0).fit(X, y)
        report = analyze(votes, X[::-1], y[::-1], data="holdout")
        assert report.n_members == 2


class TestWeights:
    @every_problem
    def test_constant_weights_change_nothing(self, problem: Any) -> None:
        model, X, y = problem()
        one, other = analyze(model, X, y).metrics(), analyze(model, X, y, sample_weight=np.full(y.size, 5.0)).metrics()
        assert one == pytest.approx(other, rel=1e-6)

    @every_problem
    def test_rows_of_weight_zero_are_not_there(self, problem: Any) -> None:
        """Against the same outputs without these rows."""
        model, X, y = problem()
        kept = np.arange(y.size) % 4 > 0
        aggregation: Any = "mean" if problem is diabetes else "mean_proba"
        outputs, in_bag = outputs_of(model, X), ~seen_by(model, y.size)
        whole = CustomEnsemble(outputs, in_bag, aggregation=aggregation)
        part = CustomEnsemble(outputs[:, kept], in_bag[:, kept], aggregation=aggregation)
        with_zeros = analyze(whole, None, y, sample_weight=kept.astype(float)).metrics()
        without = analyze(part, None, y[kept]).metrics()
        for name in ("error", "asymptotic_error", "member_error", "recommended_size", "error_lower", "error_upper"):
            assert with_zeros[name] == pytest.approx(without[name], rel=0.02), name

    def test_weights_move_the_error_towards_the_heavy_rows(self) -> None:
        forest, X, y = cancer()
        wrong = np.argmax(forest.oob_decision_function_, axis=1) != y
        heavy = analyze(forest, X, y, sample_weight=np.where(wrong, 3.0, 1.0))
        assert heavy.error > 2 * analyze(forest, X, y).error

    def test_few_heavy_rows_widen_the_interval(self) -> None:
        forest, X, y = cancer()
        weight = np.ones(y.size)
        weight[:20] = 100.0
        widths = [np.diff(analyze(forest, X, y, sample_weight=w).error_interval)[0] for w in (None, weight)]
        assert widths[1] > 2 * widths[0]

    def test_all_weight_on_rows_without_members_is_refused(self) -> None:
        votes = np.zeros((3, 4), dtype=int)
        in_bag = np.zeros((3, 4), dtype=bool)
        in_bag[:, 0] = True
        ensemble = CustomEnsemble(votes, in_bag, aggregation="vote", classes=[0, 1])
        with pytest.raises(InputError, match="sample_weight is 0"):
            analyze(ensemble, None, [0, 1, 0, 1], sample_weight=[1.0, 0.0, 0.0, 0.0])


class TestMetric:
    def test_mean_squared_error_as_a_metric_is_the_closed_form(self) -> None:
        """Subset averages and a law in 1/B must find what is known exactly."""
        forest, X, y = diabetes()
        own = analyze(forest, X, y, metric=mean_squared_error).error_curve
        closed = analyze(forest, X, y).error_curve
        for size in (1, 5, 15, 60, 1001):
            assert own.at(size) == pytest.approx(closed.at(size), rel=0.02)
        assert own.asymptote == pytest.approx(closed.asymptote, rel=0.02)
        assert own.metric == "mean_squared_error"
        assert own.estimator == "subset_average"

    def test_brier_score_as_a_metric_is_its_closed_form(self) -> None:
        forest, X, y = shallow()
        own = analyze(forest, X, y, metric=lambda y, p: float(np.mean((p[:, 1] - y) ** 2))).error_curve
        outputs, seen = outputs_of(forest, X)[:, :, 1], seen_by(forest, y.size)
        n = seen.sum(axis=0)
        mean = (outputs * seen).sum(axis=0) / n
        variance = (((outputs - mean) ** 2) * seen).sum(axis=0) / (n - 1)
        limit = np.mean((mean - y) ** 2 - variance / n)
        for size in (1, 3, 15, 101):
            assert own.at(size) == pytest.approx(limit + variance.mean() / size, rel=0.02)
        assert own.asymptote == pytest.approx(limit, rel=0.02)

    def test_metric_sees_the_labels_as_given_and_all_of_their_support(self) -> None:
        _, X, y = digits()
        names = np.array([f"digit {label}" for label in range(10)])
        named = RandomForestClassifier(40, random_state=0).fit(X, names[y])
        met: list[tuple[set[str], int]] = []

        def watch(truth: Array, mean: Array) -> float:
            met.append((set(truth.tolist()), mean.shape[1]))
            np.testing.assert_allclose(mean.sum(axis=1), 1.0)
            return 0.0

        analyze(named, X, names[y], metric=watch)
        assert met[0] == (set(names.tolist()), 10)

    def test_log_loss_of_scikit_learn_works(self) -> None:
        forest, X, y = shallow()
        few = CustomEnsemble(outputs_of(forest, X)[:20, :100], None, aggregation="mean_proba")
        report = analyze(few, None, y[:100], metric=log_loss, data="holdout")
        assert report.error_curve.error[0] > report.error_curve.asymptote > 0
        assert np.isnan(report.algorithmic_sd)
        assert "algorithmic_sd" not in report.metrics()

    @pytest.mark.parametrize("returned", [np.nan, np.inf, "a"])
    def test_metric_that_returns_no_number_is_named(self, returned: Any) -> None:
        def broken(y: Array, mean: Array) -> float:
            return returned  # type: ignore[no-any-return]

        with pytest.raises(InputError, match="'broken'"):
            analyze(*shallow(), metric=broken)

    def test_metric_that_fails_is_named_with_its_reason(self) -> None:
        def failing(y: Array, mean: Array) -> float:
            raise ZeroDivisionError("no rows of this kind")

        with pytest.raises(InputError, match=r"'failing'.*no rows of this kind") as caught:
            analyze(*shallow(), metric=failing)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_metric_cannot_spoil_our_data(self) -> None:
        forest, X, y = diabetes()
        before = y.copy()

        def spoiling(truth: Array, mean: Array) -> float:
            value = float(np.mean((truth - mean) ** 2))
            truth[:] = 0.0
            mean[:] = 0.0
            return value

        with_it = analyze(forest, X, y, metric=spoiling).error_curve
        np.testing.assert_array_equal(y, before)
        np.testing.assert_array_equal(with_it.error, analyze(forest, X, y, metric=mean_squared_error).error_curve.error)


class TestCustomLabelsAndContainers:
    def test_names_of_labels_do_not_matter(self) -> None:
        X, y = CANCER
        names = np.array(["malignant", "benign"])
        codes = analyze(RandomForestClassifier(30, random_state=0).fit(X, y), X, y)
        # benign sorts before malignant: the labels change places, the trees may break ties otherwise.
        named = analyze(RandomForestClassifier(30, random_state=0).fit(X, names[y]), X, names[y])
        assert named.metrics() == pytest.approx(codes.metrics(), rel=0.5, abs=0.02)
        ordered = np.array(["a", "b"])
        same = analyze(RandomForestClassifier(30, random_state=0).fit(X, ordered[y]), X, ordered[y])
        assert same.metrics() == codes.metrics()

    def test_pandas_and_arrays_are_the_same(self) -> None:
        X, y = CANCER
        frame, series = pd.DataFrame(X).rename(columns=str), pd.Series(y, index=np.arange(y.size)[::-1])
        forest = RandomForestClassifier(20, random_state=0)
        one = content(analyze(forest.fit(frame, series), frame, series))
        assert one == content(analyze(forest.fit(X, y), X, y))

    def test_label_that_is_never_predicted_is_simply_wrong(self) -> None:
        votes = np.random.default_rng(0).integers(0, 2, (30, 60))
        ensemble = CustomEnsemble(votes, None, aggregation="vote", classes=[0, 1, 2])
        target = np.repeat([0, 1, 2], 20)
        report = analyze(ensemble, None, target, data="holdout", estimator="auto")
        assert report.bias_variance.member_error == pytest.approx((votes != target).mean())
        assert report.error_curve.asymptote > 1 / 3 - 0.05

    def test_vote_and_probability_of_one_are_the_same_rule(self) -> None:
        forest, X, y = cancer()
        outputs, in_bag = outputs_of(forest, X), ~seen_by(forest, y.size)
        vote = CustomEnsemble(np.argmax(outputs, axis=2), in_bag, aggregation="vote")
        mean = CustomEnsemble(outputs, in_bag, aggregation="mean_proba")
        results = [analyze(model, None, y).metrics() for model in (vote, mean)]
        assert results[0] == pytest.approx(results[1], rel=1e-9)
        assert results[0] == pytest.approx(analyze(forest, X, y).metrics(), rel=1e-9)

    def test_raw_scores_of_two_labels(self) -> None:
        rng = np.random.default_rng(0)
        target = rng.integers(0, 2, 200)
        scores = np.where(target, 1.0, -1.0) * rng.normal(0.5, 1.0, 200) + rng.normal(0.0, 2.0, (40, 200))
        one = analyze(CustomEnsemble(scores, None, aggregation="mean_score"), None, target, data="holdout")
        stacked = np.stack([-scores / 2, scores / 2], axis=2)
        two = analyze(CustomEnsemble(stacked, None, aggregation="mean_score"), None, target, data="holdout")
        assert one.metrics() == pytest.approx(two.metrics(), rel=1e-9)
        wrong = (scores > 0) != target
        assert one.bias_variance.member_error == pytest.approx(wrong.mean())


class TestDegenerate:
    def test_members_that_are_never_wrong(self) -> None:
        target = np.arange(100) % 2
        report = analyze(
            CustomEnsemble(np.tile(target, (10, 1)), None, aggregation="vote"), None, target, data="holdout"
        )
        assert report.error == report.error_curve.asymptote == 0.0
        assert report.recommended_size == 1
        assert report.recommendation.interval == (1, 1)
        assert report.error_interval == pytest.approx((0.0, 0.037), abs=5e-4)
        assert report.algorithmic_sd == 0.0

    def test_members_that_are_always_wrong(self) -> None:
        target = np.arange(100) % 2
        votes = np.tile(1 - target, (10, 1))
        report = analyze(CustomEnsemble(votes, None, aggregation="vote"), None, target, data="holdout")
        assert report.error == report.error_curve.asymptote == 1.0
        assert report.recommended_size == 1

    @pytest.mark.parametrize("n_labels", [2, 4])
    def test_coin_flips_have_no_size(self, n_labels: int) -> None:
        rng = np.random.default_rng(0)
        votes, target = rng.integers(0, n_labels, (2000, 300)), rng.integers(0, n_labels, 300)
        report = analyze(CustomEnsemble(votes, None, aggregation="vote"), None, target, data="holdout", max_size=501)
        assert report.recommended_size is None
        low, high = report.recommendation.interval
        assert high is None
        assert low <= 501
        assert report.summary()

    def test_regressors_that_agree_need_one_member(self) -> None:
        target = np.random.default_rng(0).normal(size=50)
        values = np.tile(target + 1.0, (5, 1))
        report = analyze(CustomEnsemble(values, None, aggregation="mean"), None, target, data="holdout")
        assert report.recommended_size == 1
        np.testing.assert_allclose(report.error_curve.error, 1.0)
        assert report.algorithmic_sd == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.parametrize("share", [0.5, 0.45, 0.2])
    def test_classifiers_that_agree_need_one_member(self, share: float) -> None:
        probabilities = np.broadcast_to([1.0 - share, share], (20, 60, 2))
        ensemble = CustomEnsemble(probabilities, None, aggregation="mean_proba", classes=[0, 1])
        report = analyze(ensemble, None, np.arange(60) % 2, data="holdout")
        assert report.recommended_size == 1
        assert report.recommendation.interval == (1, 1)
        assert report.error_curve.asymptote == pytest.approx(0.5)

    def test_negative_asymptote_is_zero_with_a_word(self) -> None:
        rng = np.random.default_rng(2)
        values = rng.normal(size=(5, 40))
        values -= values.mean(axis=0)
        report = analyze(CustomEnsemble(values, None, aggregation="mean"), None, np.zeros(40), data="holdout")
        assert report.error_curve.asymptote == 0.0
        assert report.error_curve.asymptote_raw < 0
        assert any("reported as 0" in caution for caution in report.warnings)
        assert report.recommended_size is None
        assert "more than" not in report.recommendation.reason

        assert "recommended_size" not in report.metrics()
        assert "cannot be told" in report.summary()
        assert "too few" not in report.summary()

    @pytest.mark.parametrize("n_labels", [2, 3])
    @pytest.mark.parametrize("metric", [None, zero_one])
    def test_members_that_agree_have_no_curve_even_where_hard_rows_have_fewer(self, n_labels: int, metric: Any) -> None:
        rng = np.random.default_rng(0)
        n_members, n_rows = 60, 2000
        target, hard = rng.integers(0, 2, n_rows), np.arange(n_rows) < 0.09 * n_rows
        said = np.where(hard, 1 - target, target)
        outputs = np.full((n_rows, n_labels), 0.2)
        outputs[:, 2:] = 0.0
        outputs[np.arange(n_rows), said] = 0.8
        in_bag = rng.random((n_members, n_rows)) >= np.where(hard, 0.12, 0.4)
        ensemble = CustomEnsemble(np.repeat(outputs[None], n_members, axis=0), in_bag, aggregation="mean_proba")
        answered = (~in_bag).sum(axis=0) >= 2
        report = analyze(ensemble, None, target, metric=metric)
        assert (~in_bag[:, hard]).sum(axis=0).min() < 5
        np.testing.assert_allclose(report.error_curve.error, hard[answered].mean(), atol=0.003)
        assert report.error_curve.asymptote == pytest.approx(hard[answered].mean(), abs=0.003)

    def test_members_that_agree_have_no_luck(self) -> None:
        probabilities = np.broadcast_to([0.8, 0.2], (20, 60, 2))
        ensemble = CustomEnsemble(probabilities, None, aggregation="mean_proba", classes=[0, 1])
        assert analyze(ensemble, None, np.arange(60) % 2, data="holdout").algorithmic_sd == 0.0

    def test_a_metric_of_many_rare_labels_ends(self) -> None:
        rng = np.random.default_rng(0)
        target = np.append(np.zeros(300, dtype=int), np.arange(40))
        outputs = rng.dirichlet(np.ones(40), size=(12, target.size))
        ensemble = CustomEnsemble(outputs, None, aggregation="mean_proba")
        assert np.isfinite(analyze(ensemble, None, target, metric=zero_one, data="holdout").error_curve.asymptote)

    def test_few_rows_warn_and_say_so_in_the_report(self) -> None:
        rng = np.random.default_rng(0)
        votes, target = rng.integers(0, 2, (30, 10)), np.arange(10) % 2
        with pytest.warns(WeakEstimateWarning, match="10 rows"):
            report = analyze(CustomEnsemble(votes, None, aggregation="vote"), None, target, data="holdout")
        assert any("10 rows" in caution for caution in report.warnings)

    def test_no_warning_on_ordinary_data(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for problem in PROBLEMS.values():
                assert analyze(*problem()).warnings == ()

    def test_rows_without_members_are_counted_not_scored(self) -> None:
        rng = np.random.default_rng(0)
        target = rng.integers(0, 2, 120)
        votes = np.where(rng.random((15, 120)) < 0.2, 1 - target, target)
        in_bag = rng.random((15, 120)) < 0.5
        in_bag[:, :20] = True
        ensemble = CustomEnsemble(votes, in_bag, aggregation="vote")
        part = CustomEnsemble(votes[:, 20:], in_bag[:, 20:], aggregation="vote")
        report, without = analyze(ensemble, None, target), analyze(part, None, target[20:])
        assert (report.n_rows, report.rows_without_oob) == (100, 20)
        assert report.metrics() == pytest.approx(without.metrics(), rel=1e-9)
        assert any("20 rows" in caution for caution in report.warnings)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("n_members", [2, 3, 5, 8])
    @pytest.mark.parametrize("kind", ["vote", "many", "proba", "mean"])
    def test_few_members_either_answer_or_refuse(self, kind: str, n_members: int) -> None:
        rng = np.random.default_rng(n_members)
        in_bag = rng.random((n_members, 80)) < 0.4
        target = rng.integers(0, 4 if kind == "many" else 2, 80)
        if kind == "mean":
            ensemble = CustomEnsemble(rng.normal(size=(n_members, 80)), in_bag, aggregation="mean")
        elif kind == "proba":
            probabilities = rng.dirichlet([1.0, 1.0], (n_members, 80))
            ensemble = CustomEnsemble(probabilities, in_bag, aggregation="mean_proba")
        else:
            votes = np.where(
                rng.random((n_members, 80)) < 0.6, target, rng.integers(0, target.max() + 1, (n_members, 80))
            )
            ensemble = CustomEnsemble(votes, in_bag, aggregation="vote", classes=np.unique(target))
        try:
            report = analyze(ensemble, None, target)
        except TooFewMembersError:
            assert n_members <= 3
        else:
            # metrics() leaves NaN out, so the parts themselves are looked at.
            parts, curve = report.bias_variance, report.error_curve
            told = [
                report.algorithmic_sd,
                curve.asymptote,
                *curve.asymptote_interval,
                parts.bias,
                parts.member_variance,
            ]
            assert np.isfinite([*told, *curve.error, *curve.lower, *curve.upper]).all()


class TestProgress:
    def test_every_block_is_reported_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collection, "BLOCK_BYTES", 1)
        told: list[int] = []

        def progress(blocks: Any, total: int) -> Any:
            for block in blocks:
                told.append(total)
                yield block

        model, X, y = cancer()
        run_analysis(model, X, y, progress=progress)
        assert told == [3, 3, 3]


def fitted(**options: Any) -> RandomForestClassifier:
    X, y = CANCER
    return RandomForestClassifier(**{"n_estimators": 20, "random_state": 0, **options}).fit(X, y)


class TestStoredOutputs:
    def test_those_of_an_earlier_fit_are_not_believed(self) -> None:
        X, y = CANCER
        forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(X, y)
        forest.set_params(oob_score=False, random_state=1).fit(X, y)
        assert analyze(forest, X, y).error == analyze(fitted(n_estimators=40, random_state=1), X, y).error


class TestBadInput:
    """Each is an error of ours, with a word on what to do."""

    @pytest.mark.parametrize("model", [RandomForestClassifier(), RandomForestRegressor(), BaggingClassifier()])
    def test_model_that_is_not_fitted(self, model: Any) -> None:
        with pytest.raises(NotFittedError):
            analyze(model, *CANCER)

    @pytest.mark.parametrize("model", [fitted(bootstrap=False), ExtraTreesClassifier(20, random_state=0).fit(*CANCER)])
    def test_no_bootstrap_asks_for_holdout_rows(self, model: Any) -> None:
        with pytest.raises(BagError, match="holdout"):
            analyze(model, *CANCER)
        X, y = CANCER
        assert analyze(model, X[::2], y[::2], data="holdout").data == "holdout"

    @pytest.mark.parametrize(
        "model",
        [
            fitted(),
            fitted(bootstrap=False),
            BaggingClassifier(n_estimators=10, max_features=0.5, random_state=0).fit(*CANCER),
            make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(*CANCER),
        ],
    )
    def test_training_rows_are_not_held_out(self, model: Any) -> None:
        with pytest.raises(DataMismatchError, match="rows the model was trained on"):
            analyze(model, *CANCER, data="holdout")

    @pytest.mark.parametrize(
        ("model", "problem"),
        [
            (RandomForestClassifier(100, random_state=0), CANCER),
            (ExtraTreesClassifier(100, bootstrap=True, random_state=0), CANCER),
            (RandomForestRegressor(60, random_state=0), DIABETES),
            (BaggingClassifier(n_estimators=100, max_features=0.5, random_state=0), CANCER),
            (BaggingRegressor(KNeighborsRegressor(1), 60, random_state=0), DIABETES),
            (make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)), CANCER),
        ],
        ids=["forest", "extra trees", "regression", "bagged trees", "bagged neighbours", "pipeline"],
    )
    def test_training_rows_in_another_order_are_not_held_out(self, model: Any, problem: Any) -> None:
        X, y = problem
        order = np.random.default_rng(0).permutation(len(y))
        trained, fresh = order[:300], order[300:]
        model = clone(model).fit(X[trained], y[trained])
        for rows in (trained[::-1], np.sort(trained)[:200]):
            with pytest.raises(DataMismatchError, match="rows the model was trained on"):
                analyze(model, X[rows], y[rows], data="holdout")
        assert analyze(model, X[fresh], y[fresh], data="holdout").data == "holdout"

    def test_too_few_leaves_recognise_nothing(self) -> None:
        X, y = CANCER
        stumps = RandomForestClassifier(10, max_depth=1, random_state=0).fit(X, y)
        assert analyze(stumps, X, y, data="holdout").data == "holdout"

    def test_rows_that_nothing_can_check_come_with_a_warning(self) -> None:
        X, y = CANCER
        neighbours = BaggingClassifier(KNeighborsClassifier(1), 20, random_state=0)
        (warning,) = analyze(neighbours.fit(X, y), X, y).warnings
        assert "training rows in training order" in warning
        checked = BaggingClassifier(KNeighborsClassifier(1), 20, oob_score=True, random_state=0).fit(X, y)
        assert analyze(checked, X, y).warnings == ()
        assert analyze(neighbours, X[::2], y[::2], data="holdout").warnings == ()

    @pytest.mark.parametrize("data", ["oob", "holdout"])
    def test_columns_do_not_match(self, data: Any) -> None:
        X, y = CANCER
        with pytest.raises(DataMismatchError):
            analyze(fitted(), X[:, :-1], y, data=data)

    def test_other_number_of_rows(self) -> None:
        X, y = CANCER
        for rows in (slice(0, 500), slice(0, 20)):
            with pytest.raises(DataMismatchError, match="training"):
                analyze(fitted(), X[rows], y[rows])
        with pytest.raises(DataMismatchError, match="training"):
            analyze(fitted(), np.concatenate([X, X]), np.concatenate([y, y]))

    def test_target_of_another_length(self) -> None:
        X, y = CANCER
        with pytest.raises(InputError):
            analyze(fitted(), X, y[:-1])
        with pytest.raises(InputError, match=r"568.*569|569.*568"):
            analyze(fitted(), X[:-1], y, data="holdout")

    @pytest.mark.parametrize("oob_score", [False, True])
    def test_shuffled_rows(self, oob_score: bool) -> None:
        X, y = CANCER
        order = np.random.default_rng(0).permutation(y.size)
        with pytest.raises(DataMismatchError, match="order"):
            analyze(fitted(oob_score=oob_score), X[order], y[order])

    def test_shuffled_rows_where_only_the_stored_outputs_can_tell(self) -> None:
        """Bagging of a learner whose fit leaves no trace of its rows."""
        X, y = CANCER
        model = BaggingClassifier(SVC(), 40, oob_score=True, random_state=0).fit(X[:200], y[:200])
        order = np.random.default_rng(0).permutation(200)
        with pytest.raises(DataMismatchError, match="stored"):
            analyze(model, X[order], y[order])
        analyze(model, X[:200], y[:200])

    def test_unknown_labels(self) -> None:
        X, y = CANCER
        with pytest.raises(InputError, match="does not know"):
            analyze(fitted(), X, np.where(y == 1, 2, y))

    @pytest.mark.parametrize("target", ["classification", "regression"])
    def test_nan_in_y(self, target: str) -> None:
        X, y = CANCER
        model = fitted() if target == "classification" else RandomForestRegressor(20, random_state=0).fit(X, y)
        with pytest.raises(InputError, match="y holds 1 missing"):
            analyze(model, X, np.concatenate([[np.nan], y[1:].astype(float)]))

    def test_one_class_only(self) -> None:
        X, y = CANCER
        ones = y == 1
        with pytest.raises(InputError, match="single label"):
            analyze(fitted(), X[ones], y[ones], data="holdout")
        alone = RandomForestClassifier(10, random_state=0).fit(X[ones], y[ones])
        with pytest.raises(InputError, match="single label"):
            analyze(alone, X[ones], y[ones])

    def test_one_member(self) -> None:
        with pytest.raises(TooFewMembersError, match="one member"):
            analyze(fitted(n_estimators=1), *CANCER)

    @pytest.mark.parametrize("n_members", [2, 3])
    def test_too_few_members_for_most_rows(self, n_members: int) -> None:
        with pytest.raises(TooFewMembersError, match=r"of 569 rows have fewer than 2.*holdout"):
            analyze(fitted(n_estimators=n_members), *CANCER)

    def test_empty_data(self) -> None:
        X, y = CANCER
        for data in ("oob", "holdout"):
            with pytest.raises(EnsPluginError):
                analyze(fitted(), X[:0], y[:0], data=data)

    @pytest.mark.parametrize(
        "model", [SVC().fit(*CANCER), GradientBoostingClassifier(n_estimators=2).fit(*CANCER), "model", None, object()]
    )
    def test_unsupported_model(self, model: Any) -> None:
        with pytest.raises(UnsupportedModelError, match=r"CustomEnsemble|Supported|Load the model first"):
            analyze(model, *CANCER)

    def test_multi_output(self) -> None:
        X, y = make_friedman1(60, random_state=0)
        model = RandomForestRegressor(10, random_state=0).fit(X, np.stack([y, y], axis=1))
        with pytest.raises(UnsupportedModelError, match="outputs"):
            analyze(model, X, np.stack([y, y], axis=1))

    @pytest.mark.parametrize("confidence", [0.5, 1.0, 0.0, 99, np.nan])
    def test_confidence_outside_its_range(self, confidence: float) -> None:
        with pytest.raises(InputError, match="confidence"):
            analyze(fitted(), *CANCER, confidence=confidence)

    def test_estimator_that_cannot_answer(self) -> None:
        with pytest.raises(InputError, match="closed_form"):
            analyze(fitted(), *CANCER, estimator="closed_form")
        with pytest.raises(InputError, match=r"soft|averages"):
            analyze(*shallow(), estimator="binomial")
        with pytest.raises(InputError, match="more labels"):
            analyze(*digits(), estimator="hypergeometric")
        with pytest.raises(InputError, match="above"):
            analyze(*cancer(), estimator="hypergeometric", sizes=[1001])
        with pytest.raises(InputError, match="path"):
            analyze(*cancer(), estimator="path", sizes=[101])

    def test_weight_of_another_length(self) -> None:
        with pytest.raises(InputError, match="sample_weight"):
            analyze(fitted(), *CANCER, sample_weight=np.ones(3))

    def test_messages_say_what_to_do(self) -> None:
        """A message that ends where the fault is named leaves the reader alone."""
        X, y = CANCER
        cases: list[tuple[Any, Any, Any, dict[str, Any]]] = [
            (fitted(bootstrap=False), X, y, {}),
            (fitted(n_estimators=1), X, y, {}),
            (fitted(n_estimators=2), X, y, {}),
            (fitted(), X[::-1], y[::-1], {}),
            (SVC(), X, y, {}),
        ]
        for model, rows, target, options in cases:
            with pytest.raises(EnsPluginError) as caught:
                analyze(model, rows, target, **options)
            assert re.search(r"\b(pass|train|refit|fit|supported|must be)\b", str(caught.value), re.IGNORECASE)


def test_the_losses_of_rows_come_with_the_default_report() -> None:
    X, y = DIABETES
    forest = RandomForestRegressor(40, random_state=0, oob_score=True).fit(X[:300], y[:300])
    for data, rows, output in (
        ("oob", slice(None, 300), forest.oob_prediction_),
        ("holdout", slice(300, None), forest.predict(X[300:])),
    ):
        report, losses = analyze_rows(forest, X[rows], y[rows], data=data)
        np.testing.assert_allclose(losses, (output - y[rows]) ** 2, rtol=1e-9)
        expected = analyze(forest, X[rows], y[rows], data=data)  # type: ignore[arg-type]
        assert {**report.to_dict(), "created": ""} == {**expected.to_dict(), "created": ""}


def test_in_bag_is_the_rows_each_tree_drew() -> None:
    forest, X, y = cancer()
    mask = ens_plugin.in_bag(forest, X, y)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, ~seen_by(forest, y.size))
    np.testing.assert_array_equal(ens_plugin.in_bag(forest, X), mask)
