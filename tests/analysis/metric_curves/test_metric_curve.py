"""The error curve by a metric of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.errors import EnsPluginError
from tests.forests import Array, diabetes, digits, out_of_bag_mask, outputs_of, shallow


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

    @pytest.mark.slow
    def test_brier_score_as_a_metric_is_its_closed_form(self) -> None:
        forest, X, y = shallow()
        own = analyze(forest, X, y, metric=lambda y, p: float(np.mean((p[:, 1] - y) ** 2))).error_curve
        outputs, is_oob = outputs_of(forest, X)[:, :, 1], out_of_bag_mask(forest, y.size)
        n = is_oob.sum(axis=0)
        mean = (outputs * is_oob).sum(axis=0) / n
        variance = (((outputs - mean) ** 2) * is_oob).sum(axis=0) / (n - 1)
        limit = np.mean((mean - y) ** 2 - variance / n)
        for size in (1, 3, 15, 101):
            assert own.at(size) == pytest.approx(limit + variance.mean() / size, rel=0.02)
        assert own.asymptote == pytest.approx(limit, rel=0.02)

    def test_interval_holds_the_chance_in_how_many_rows_have_a_label(self) -> None:
        forest, X, y = shallow()
        curve = analyze(forest, X, y, metric=lambda y, p: float(np.mean(y) + np.mean((p[:, 1] - y) ** 2))).error_curve
        _, upper = curve.interval_at(forest.n_estimators)
        of_labels = 1.96 * np.sqrt(np.mean(y) * np.mean(1 - y) / y.size)
        assert upper - curve.at(forest.n_estimators) > 0.8 * of_labels

    def test_metric_sees_the_labels_as_given_and_all_of_their_support(self) -> None:
        _, X, y = digits()
        names = np.array([f"digit {label}" for label in range(10)])
        named = RandomForestClassifier(40, random_state=0).fit(X, names[y])
        met: list[tuple[set[str], int]] = []

        def watch(truth: Array, mean: Array) -> float:
            met.append((set(truth.tolist()), mean.shape[1]))
            np.testing.assert_allclose(mean.sum(axis=1), 1.0)
            return 0.0

        report = analyze(named, X, names[y], metric=watch)
        assert met[0] == (set(names.tolist()), 10)
        assert "watch cannot be distinguished from that of chance, or from 0" in report.recommendation.reason

    @pytest.mark.slow
    def test_log_loss_of_scikit_learn_works(self) -> None:
        forest, X, y = shallow()
        few = CustomEnsemble(outputs_of(forest, X)[:20, :100], None, aggregation="mean_proba")
        report = analyze(few, None, y[:100], metric=log_loss, data="holdout")
        assert report.error_curve.error[0] > report.error_curve.asymptote > 0
        assert report.scalars()["algorithmic_sd"] == report.algorithmic_sd > 0

    def test_metric_cannot_spoil_our_data(self) -> None:
        forest, X, y = diabetes()
        before = y.copy()

        def harmless(truth: Array, mean: Array) -> float:
            return float(np.mean((truth - mean) ** 2))

        def spoiling(truth: Array, mean: Array) -> float:
            value = harmless(truth, mean)
            truth[:] = 0.0
            mean[:] = 0.0
            return value

        with_it = analyze(forest, X, y, metric=spoiling).error_curve
        np.testing.assert_array_equal(y, before)
        np.testing.assert_array_equal(with_it.error, analyze(forest, X, y, metric=harmless).error_curve.error)


def noisy(n_rows: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-2.0 * X[:, 0]))).astype(int)


def clipped(y: Array, p: Array) -> float:
    return float(-np.log(np.clip(p[np.arange(y.size), y], 0.01, 1.0)).mean())


def unclipped(y: Array, p: Array) -> float:
    return float(-np.log(np.clip(p[np.arange(y.size), y], 1e-16, 1.0)).mean())


def negative_area(y: Array, p: Array) -> float:
    return -float(roc_auc_score(y, p[:, 1]))


class TestWhatCannotBeTold:
    @pytest.mark.fast_cases("0-16")
    @pytest.mark.parametrize("n_members", [16, 30])
    @pytest.mark.parametrize("seed", range(2))
    def test_log_loss_is_never_negative(self, n_members: int, seed: int) -> None:
        X, y = noisy(200, seed)
        forest = RandomForestClassifier(n_members, max_depth=5, random_state=seed).fit(X, y)
        try:
            curve = analyze(forest, X, y, metric=unclipped).error_curve
        except EnsPluginError:
            return
        assert 0 <= curve.asymptote_interval[0] <= curve.asymptote <= curve.asymptote_interval[1]
        assert (curve.lower >= 0).all()
        assert (curve.lower <= curve.error).all()
        assert (curve.error <= curve.upper).all()

    @pytest.mark.fast_cases("area")
    @pytest.mark.parametrize("metric", [clipped, negative_area], ids=["clipped", "area"])
    def test_metrics_with_a_value_at_zero_are_taken(self, metric: Any) -> None:
        X, y = noisy(300, 1)
        forest = RandomForestClassifier(30, random_state=0).fit(X, y)
        report = analyze(forest, X, y, metric=metric)
        low, high = report.error_curve.asymptote_interval
        assert low < report.error_curve.asymptote < high

    def test_negative_score_is_not_reported_as_cut(self) -> None:
        X, y = noisy(300, 2)

        def negative(y: Array, p: Array) -> float:
            return -float(np.mean(p[np.arange(y.size), y]))

        report = analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y, metric=negative)
        assert report.error_curve.asymptote < -0.5
        assert not any("reported as" in text for text in report.warnings)
        assert "of the 0-1 error, not of negative" in " ".join(report.details().split())
        assert not any("Bias" in text for text in report.warnings)

    @pytest.mark.slow
    def test_interval_widens_beyond_the_subsets(self) -> None:
        """The error of the extrapolation is in it: at infinity with few members, and not with many."""
        widths = []
        for n_members in (20, 300):
            ratios = []
            for seed in range(3, 7):
                X, y = noisy(300, seed)
                forest = RandomForestClassifier(n_members, random_state=0).fit(X, y)
                report = analyze(forest, X, y, metric=clipped)
                curve = report.error_curve
                sds = np.ptp([curve.interval_at(3), curve.asymptote_interval], axis=1) / (2 * 1.96)
                # The members that happened to be trained add as much at all sizes.
                at_three, at_infinity = np.sqrt(sds**2 - report.algorithmic_sd**2)
                ratios.append(at_infinity / at_three)
            widths.append(float(np.mean(ratios)))
        # 1.3 before both widths had the rows' part 1.1 times as large: (1 + (1.3^2 - 1) / 1.1^2)^(1/2) = 1.25.
        assert widths[0] > 1.25
        assert widths[1] < 1.1

    def test_curve_has_no_jump_where_subsets_end(self) -> None:
        X, y = noisy(300, 4)
        forest = RandomForestClassifier(60, random_state=0).fit(X, y)
        curve = analyze(forest, X, y, metric=clipped).error_curve
        steps = -np.diff(curve.error)
        assert (steps[:-1] > -1e-3).all()
        assert steps[15:].max() < 5e-3
