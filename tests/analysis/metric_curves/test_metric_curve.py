"""The error curve by a metric of the user's own."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import analyze
from ens_plugin.errors import EnsPluginError
from tests.forests import Array, diabetes, digits, shallow


class TestMetric:
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


def unclipped(y: Array, p: Array) -> float:
    return float(-np.log(np.clip(p[np.arange(y.size), y], 1e-16, 1.0)).mean())


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

    def test_negative_score_is_not_reported_as_cut(self) -> None:
        X, y = noisy(300, 2)

        def negative(y: Array, p: Array) -> float:
            return -float(np.mean(p[np.arange(y.size), y]))

        report = analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y, metric=negative)
        assert report.error_curve.asymptote < -0.5
        assert not any("reported as" in text for text in report.warnings)
        assert "of the 0-1 error, not of negative" in " ".join(report.details().split())
        assert not any("Bias" in text for text in report.warnings)
