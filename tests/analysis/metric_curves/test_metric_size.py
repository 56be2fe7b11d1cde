"""The size by a metric, against closed forms, brute force over the law, and many more trees."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, mean_squared_error, roc_auc_score

from ens_plugin import CustomEnsemble, EnsembleReport, SizeRecommendation, analyze, grow
from ens_plugin.errors import NotConvergedWarning
from tests.forests import Array, cancer, diabetes, shallow
from tests.scorers import ACCURACY


@lru_cache(maxsize=4)
def scored(metric: str) -> EnsembleReport:
    return analyze(*shallow(), metric=metric)


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
        assert found.size is not None
        assert closed.size is not None
        assert needed_size(found) == pytest.approx(needed_size(closed), rel=0.15)
        assert found.interval[0] < needed_size(closed) <= found.size <= (found.interval[1] or 10**9)

    def test_brier_score_needs_the_size_of_its_closed_form(self) -> None:
        report = analyze(*shallow(), metric="neg_brier_score", tolerance=0.01)
        closed = next(found for found in report.criteria if found.criterion == "probability")
        assert report.recommendation.tolerance == pytest.approx(closed.tolerance, rel=0.01)
        assert needed_size(report.recommendation) == pytest.approx(needed_size(closed), rel=0.15)

    def test_share_of_variance_has_an_absolute_tolerance(self) -> None:
        """1 - MSE/Var, so a distance of t is an excess of the error of t times the variance."""
        forest, X, y = diabetes()
        squared = analyze(forest, X, y).error_curve
        report = analyze(forest, X, y, metric="r2", tolerance=0.002)
        excess = squared.at(1) - squared.asymptote
        assert report.recommendation.tolerance == 0.002
        assert needed_size(report.recommendation) == pytest.approx(excess / np.var(y) / 0.002, rel=0.15)


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

    def test_level_is_the_score_of_the_out_of_bag_probabilities(self) -> None:
        forest, _, y = shallow()
        # Rows have about a third of the members out of bag: 22 of 60.
        area = roc_auc_score(y, forest.oob_decision_function_[:, 1])
        assert scored("roc_auc").error_curve.at(22) == pytest.approx(area, abs=0.001)

    @pytest.mark.parametrize(
        ("metric", "lowest"),
        [
            pytest.param("matthews_corrcoef", -1.0, marks=pytest.mark.slow),
            ("roc_auc", 0.0),
            pytest.param("average_precision", 0.0, marks=pytest.mark.slow),
        ],
    )
    def test_no_value_is_outside_of_the_range(self, metric: str, lowest: float) -> None:
        X, y = make_classification(120, n_informative=4, class_sep=3.0, random_state=0)
        forest = RandomForestClassifier(30, random_state=0).fit(X, y)
        curve = analyze(forest, X, y, metric=metric).error_curve
        for values in (curve.error, curve.lower, curve.upper, curve.asymptote_interval, [curve.asymptote]):
            assert np.min(values) >= lowest
            assert np.max(values) <= 1.0

    @pytest.mark.slow
    def test_metric_is_of_all_rows_and_the_report_has_their_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other estimates keep their sample, so that they do not depend on the metric."""
        everything = analyze(*small(), metric=area_lost, data="holdout")
        monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 100)
        sampled = analyze(*small(), metric=area_lost, data="holdout")
        without = analyze(*small(), data="holdout")
        np.testing.assert_array_equal(sampled.error_curve.error, everything.error_curve.error)
        assert sampled.error_curve.metric_basis is not None
        assert sampled.error_curve.metric_basis.n_rows == 150
        for own, other in zip(sampled.criteria[:3], without.criteria, strict=True):
            np.testing.assert_array_equal(own.losses, other.losses)
            assert (own.size, own.interval) == (other.size, other.interval)
        monkeypatch.setattr("ens_plugin.analysis.evidence.METRIC_ROWS", 120)
        limited = analyze(*small(), metric=area_lost, data="holdout")
        assert limited.error_curve.metric_basis is not None
        assert limited.error_curve.metric_basis.n_rows == 120
        assert "Rows of the metric: 120, for area_lost." in limited.details()

    @pytest.mark.slow
    def test_weights_weigh(self) -> None:
        """A row of weight 2 counts as two rows."""
        ensemble, _, y = small()
        outputs = ensemble.outputs
        weight = np.where(np.arange(150) < 50, 2.0, 1.0)
        twice = np.repeat(np.arange(150), weight.astype(int))

        def curve(rows: Array, sample_weight: Any) -> Any:
            drawn = CustomEnsemble(outputs[:, rows], None, aggregation="mean_proba")
            return analyze(
                drawn, None, y[rows], metric=area_lost, data="holdout", sample_weight=sample_weight
            ).error_curve

        weighted, repeated = curve(np.arange(150), weight), curve(twice, None)
        assert weighted.at(30) == pytest.approx(repeated.at(30), abs=1e-9)
        assert weighted.asymptote == pytest.approx(repeated.asymptote, abs=0.002)

    def test_json_round_trip_and_names(self) -> None:
        report = scored("roc_auc")
        again = EnsembleReport.from_json(report.to_json())
        assert again.to_json() == report.to_json()
        assert again.error_curve.greater_is_better
        names = report.scalars()
        assert {"roc_auc", "roc_auc_lower", "roc_auc_upper", "asymptotic_roc_auc"} <= names.keys()
        assert names["roc_auc_shortfall"] == names["asymptotic_roc_auc"] - names["roc_auc"]
        assert not {"error", "asymptotic_error", "excess_error"} & names.keys()
        assert {"roc_auc", "asymptotic_roc_auc"} <= report.metrics().keys()
        assert "roc_auc_shortfall" not in report.metrics()
        assert f"{report.recommended_size} trees (recommended)" in report.summary()
        assert max(map(len, report.summary().splitlines())) <= 80

    @pytest.mark.slow
    def test_labels_reach_a_function_as_they_are(self) -> None:
        """Labels -1 and 1 are no positions of columns: p[:, 1] belongs to the second of classes_."""
        _, X, y = shallow()
        coded = analyze(*shallow(), metric=area_lost).error_curve
        signed = RandomForestClassifier(60, max_depth=3, random_state=0).fit(X, 2 * y - 1)
        met: list[set[int]] = []

        def lost(truth: Array, p: Array) -> float:
            met.append(set(truth.tolist()))
            return area_lost(truth, p)

        own = analyze(signed, X, 2 * y - 1, metric=lost).error_curve
        assert met[0] == {-1, 1}
        np.testing.assert_allclose(own.error, coded.error, atol=1e-12)


class TestSizes:
    @pytest.mark.slow
    def test_size_is_the_first_from_which_on_all_are_close(self) -> None:
        report = analyze(*cancer(), metric=ACCURACY, tolerance=0.004)
        found, curve = report.recommendation, report.error_curve
        assert found.size is not None
        distances = [abs(curve.at(size) - curve.asymptote) for size in range(1, 400)]
        size = int(np.flatnonzero(np.array(distances) > 0.004 + 1e-12)[-1]) + 2
        assert size <= found.size
        assert found.interval[0] <= size

    @pytest.mark.slow
    def test_auto_is_the_metric_and_another_criterion_is_that_alone(self) -> None:
        options: dict[str, Any] = {"metric": area_lost, "data": "holdout"}
        assert analyze(*small(), **options).recommendation.criterion == "metric"
        for criterion in ("agreement", "error", "probability"):
            report = analyze(*small(), **options, criterion=criterion)
            assert report.recommendation.criterion == criterion
            assert not by_metric(report).is_required
            assert by_metric(report).interval[1] is not None

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

    @pytest.mark.slow
    def test_many_more_trees_confirm_the_need(self) -> None:
        """On the same held-out rows, so that the truth differs by the trees alone."""
        X, y = make_classification(1500, 12, weights=[0.9], flip_y=0.02, class_sep=0.7, random_state=1)
        forest = RandomForestClassifier(1200, min_samples_leaf=2, random_state=1).fit(X[:500], y[:500])
        first = RandomForestClassifier(100, min_samples_leaf=2, random_state=0).fit(X[:500], y[:500])
        report = analyze(first, X[500:], y[500:], metric="average_precision", tolerance=0.01, data="holdout")
        trees = np.array([tree.predict_proba(X[500:])[:, 1] for tree in forest.estimators_])

        def precision(size: int) -> float:
            parts = trees[: 1200 // size * size].reshape(-1, size, y.size - 500)
            return float(np.mean([average_precision_score(y[500:], part.mean(axis=0)) for part in parts]))

        limit, size = precision(1200), needed_size(report.recommendation)
        assert 0.005 < limit - precision(size) < 0.015
        # The average precision of 100 trees has a standard deviation of 0.018 over seeds on these rows.
        assert report.error_curve.asymptote == pytest.approx(limit, abs=0.045)

    @pytest.mark.slow
    def test_grow_trains_to_the_size_of_the_metric(self) -> None:
        X, y = make_classification(400, 12, flip_y=0.05, random_state=2)
        forest = RandomForestClassifier(min_samples_leaf=3, random_state=0)
        growth = grow(forest, X, y, metric=area_lost, tolerance=0.2)
        assert growth.report is not None
        assert growth.report.recommendation.criterion == "metric"
        # Cut to the promised size.
        assert growth.n_members == growth.wanted_size
        assert growth.n_members <= growth.history[-1].n_members

    @pytest.mark.slow
    def test_grow_states_a_distance_in_the_unit_of_the_metric(self) -> None:
        X, y = make_classification(400, 12, flip_y=0.05, random_state=2)
        forest = RandomForestClassifier(min_samples_leaf=3, random_state=0)
        with pytest.warns(NotConvergedWarning):
            growth = grow(forest, X, y, metric="roc_auc", tolerance=1e-3, max_size=120)
        assert growth.report is not None
        loss = growth.report.recommendation.loss
        assert f"the roc_auc is {loss:.2g} from that of infinitely many" in growth.reason


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
