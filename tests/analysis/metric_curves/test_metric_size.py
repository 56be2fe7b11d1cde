"""The size by a metric, against closed forms, brute force over the law, and many more trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_squared_error

from ens_plugin import CustomEnsemble, EnsembleReport, SizeRecommendation, analyze
from tests.forests import Array, diabetes


def small() -> tuple[Any, None, Array]:
    """Probabilities of 30 members for 150 rows that none was trained on."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 150)
    proba = np.clip(0.4 + 0.2 * y + rng.normal(0.0, 0.4, (30, 150)) + rng.normal(0.0, 0.1, 150), 0.0, 1.0)
    return CustomEnsemble(np.stack([1.0 - proba, proba], axis=2), None, aggregation="mean_proba"), None, y


def area_lost(truth: Array, p: Array, sample_weight: Array | None = None) -> float:
    """One less the area under the ROC curve: pairs of labels in the wrong order, ties half.

    A scorer of scikit-learn takes milliseconds, and a curve hundreds of its values.
    """
    weight, positive = np.ones(truth.size) if sample_weight is None else sample_weight, truth == truth.max()
    order = np.argsort(p[~positive, 1])
    below = np.append(0.0, np.cumsum(weight[~positive][order]))
    places = [np.searchsorted(p[~positive, 1][order], p[positive, 1], side) for side in ("left", "right")]  # type: ignore[call-overload]
    right = weight[positive] @ (below[places[0]] + below[places[1]]) / 2.0
    return 1.0 - float(right / (weight[positive].sum() * below[-1]))


def needed_size(found: SizeRecommendation) -> int:
    """Return the size from which on the estimated loss itself is allowed, below the promise, which a bound decides."""
    sizes = np.arange(1, 20002)
    far = np.flatnonzero([found.loss_at(float(size)) > found.tolerance for size in sizes])
    return int(far[-1]) + 2 if far.size else 1


def by_metric(report: EnsembleReport) -> SizeRecommendation:
    return next(found for found in report.criteria if found.criterion == "metric")


class TestClosedForms:
    @pytest.mark.fast_cases("0.02-mean_squared_error", "0.005-neg_mean_squared_error")
    @pytest.mark.parametrize("metric", ["neg_mean_squared_error", mean_squared_error])
    @pytest.mark.parametrize("tolerance", [0.005, 0.02])
    def test_squared_error_needs_the_size_of_the_closed_form(self, metric: Any, tolerance: float) -> None:
        """Of a loss the tolerance is relative: the same condition as the criterion of the error."""
        forest, X, y = diabetes()
        report = analyze(forest, X, y, metric=metric, tolerance=tolerance)
        closed = report.criteria[0]
        found = report.recommendation
        assert (closed.criterion, found.criterion) == ("error", "metric")
        assert found.tolerance == pytest.approx(closed.tolerance, rel=0.01)
        assert found.tolerance == pytest.approx(tolerance * closed.limit, rel=0.01)
        assert found.loss == pytest.approx(closed.loss, rel=0.05)
        # The metric's size is known from subsets and with the noise of its limit, the other from the closed form.
        assert needed_size(found) == pytest.approx(needed_size(closed), rel=0.15)
        assert found.interval[0] < needed_size(closed) <= found.size <= (found.interval[1] or 10**9)


class TestScores:
    def test_curve_is_the_score_with_its_own_sign(self) -> None:
        forest, X, y = diabetes()
        positive = analyze(forest, X, y, metric=mean_squared_error).error_curve
        negative = analyze(forest, X, y, metric="neg_mean_squared_error").error_curve
        np.testing.assert_allclose(negative.error, -positive.error, rtol=1e-12)
        assert negative.asymptote == pytest.approx(-positive.asymptote)
        low, high = positive.asymptote_interval
        assert negative.asymptote_interval == pytest.approx((-high, -low))
        assert (negative.greater_is_better, positive.greater_is_better) == (True, False)
        assert (negative.key, positive.key) == ("neg_mean_squared_error", "error")

    @pytest.mark.slow
    def test_metric_is_of_all_rows_and_the_report_has_their_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other estimates keep their sample, so that they do not depend on the metric."""
        everything = analyze(*small(), metric=area_lost, data="holdout")
        monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 100)
        sampled = analyze(*small(), metric=area_lost, data="holdout")
        without = analyze(*small(), data="holdout")
        np.testing.assert_array_equal(sampled.error_curve.error, everything.error_curve.error)
        assert sampled.error_curve.metric_basis.n_rows == 150
        for own, other in zip(sampled.criteria[:3], without.criteria, strict=True):
            np.testing.assert_array_equal(own.losses, other.losses)
            assert (own.size, own.interval) == (other.size, other.interval)
        monkeypatch.setattr("ens_plugin.analysis.evidence.METRIC_ROWS", 120)
        limited = analyze(*small(), metric=area_lost, data="holdout")
        assert limited.error_curve.metric_basis.n_rows == 120
        assert "Rows of the metric: 120, for area_lost." in limited.details()


class TestSizes:
    def test_no_size_relative_to_a_value_that_may_be_zero(self) -> None:
        """A score of a user's own without a range, which is 0 within its noise."""
        rng = np.random.default_rng(1)
        y, outputs = rng.normal(size=200), rng.normal(size=(40, 200))

        def offset(truth: Array, mean: Array) -> float:
            return float(np.mean(truth - mean))

        ensemble = CustomEnsemble(outputs, None, aggregation="mean")
        report = analyze(ensemble, None, y, metric=offset, data="holdout")
        assert report.recommended_size is None
        assert np.isnan(report.recommendation.loss)
        assert not report.is_enough
        assert "cannot be distinguished from that of chance, or from 0" in report.recommendation.reason


def test_a_loss_and_its_negative_have_the_same_interval() -> None:
    """Errors of level and step are correlated, and both change sign with the metric."""
    own, negated = (
        by_metric(analyze(*diabetes(), metric=each)) for each in (mean_squared_error, "neg_mean_squared_error")
    )
    assert own.losses == pytest.approx(negated.losses)
    assert needed_size(own) == needed_size(negated)
    # As the upper ends below, to the noise of the draws.
    assert own.size == pytest.approx(negated.size, rel=0.05)
    # Draws of the steps are the same up to their sign, so that quantiles agree to the noise of 200 draws.
    for one, other in zip(own.interval, negated.interval, strict=True):
        assert one is not None
        assert other is not None
        assert one == pytest.approx(other, rel=0.25)
