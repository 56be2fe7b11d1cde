"""The error curve by a metric of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, mean_squared_error

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.errors import InputError
from tests.forests import Array, diabetes, digits, outputs_of, seen_by, shallow


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
