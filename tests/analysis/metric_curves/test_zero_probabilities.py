"""Rows to which all members give probability 0: how many to expect, and what is stated of a log loss."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.log_losses import LogLosses, log_losses
from ens_plugin.analysis.metric_rows import metric_rows
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from ens_plugin.report.result import ZeroProbabilities
from tests.extras import lightgbm, xgboost
from tests.forests import Array

EPS = float(np.finfo(np.float64).eps)


def votes(chance: Array, n_members: int, seed: int = 0) -> tuple[Array, Array]:
    """Votes of members for the labels of rows, each right with the row's chance; and the labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, chance.size)
    return np.where(rng.random((n_members, chance.size)) < chance, y, 1 - y), y


def voters(chance: Array, n_members: int, seed: int = 0) -> tuple[CustomEnsemble, Array]:
    """The same as an ensemble of probabilities 0 and 1."""
    labels, y = votes(chance, n_members, seed)
    return CustomEnsemble(np.eye(2)[labels], None, aggregation="mean_proba"), y


def zeros_of(report: EnsembleReport) -> ZeroProbabilities:
    assert report.error_curve.metric_basis is not None
    found = report.error_curve.metric_basis.zeros
    assert found is not None
    return found


def clipped_loss(chance: Array, size: int, n_draws: int = 400) -> float:
    """The log loss that scikit-learn would print with so many members, in the mean."""
    counts = np.random.default_rng(9).binomial(size, chance, (n_draws, chance.size))
    return float(-np.log(np.maximum(counts / size, EPS)).mean())


def losses_of(chance: Array, n_members: int, seed: int = 0) -> LogLosses:
    labels, y = votes(chance, n_members, seed)
    outputs = np.eye(2)[labels]
    adapter = find_adapter(CustomEnsemble(outputs, None, aggregation="mean_proba"))
    metric = resolve_metric("neg_log_loss", adapter)
    assert metric is not None
    sample = Sample(RowBlock(outputs, np.ones(labels.shape, dtype=bool), y, 2), np.arange(y.size), np.ones(y.size))
    found = log_losses(metric_rows(metric, adapter, sample, y), None)
    assert found is not None
    return found


@pytest.mark.parametrize("power", [0.4, 1.0, 2.0])
def test_expected_zeros_are_those_of_the_chances(power: float) -> None:
    """Of rows whose chances have a density that is a power of them, at fewer and at more than 40 members."""
    chance = np.random.default_rng(0).beta(power, 1.0, 40_000)
    sizes = np.array([5.0, 20.0, 100.0])
    exact = [np.sum((1.0 - chance) ** size) for size in sizes]
    np.testing.assert_allclose(losses_of(chance, 40).number(sizes), exact, rtol=0.15)


def test_the_size_is_the_smallest_whose_chance_of_no_zero_is_large() -> None:
    found = losses_of(np.random.default_rng(0).beta(1.5, 1.0, 1000), 40)
    size = found.finite_from(20_001, 0.0)
    assert size is not None
    before, there, earlier = found.number(np.array([size - 1.0, size, size // 2]))
    assert np.exp(-there) >= 0.9 > np.exp(-before)
    assert found.finite_from(size - 1, 0.0) is None
    allowed = float(earlier) * -np.log(EPS) / 1000
    assert found.finite_from(20_001, allowed) == pytest.approx(size // 2, abs=1)


def test_members_that_never_give_0_have_no_zeros() -> None:
    rng = np.random.default_rng(0)
    y, second = rng.integers(0, 2, 200), rng.uniform(0.05, 0.95, (30, 200))
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    report = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout")
    assert report.error_curve.metric_basis is not None
    assert report.error_curve.metric_basis.zeros is None
    assert report.error_curve.sizes[0] == 1


class TestTheCurve:
    def test_begins_where_the_log_loss_is_finite(self) -> None:
        """Some rows have a chance of one in ten: 60 members are enough for as many of them, and 10 are not."""
        chance = np.where(np.arange(400) < 60, 0.1, 0.8)
        report = analyze(*_shuffled(chance, 60), metric="neg_log_loss", data="holdout")
        found, curve = zeros_of(report), report.error_curve
        assert found.finite_from is not None
        # Where as many rows have a zero with a chance of one in ten.
        exact = np.log(-np.log(0.9) / 60) / np.log(0.9)
        assert found.finite_from == pytest.approx(exact, rel=0.5)
        assert curve.sizes[0] == found.finite_from
        assert f"Finite log loss: from {found.finite_from} members on, where the curve begins, with" in " ".join(
            report.details().split()
        )
        assert found.chance >= 0.9
        assert report.recommended_size is not None
        assert report.recommended_size >= found.finite_from
        assert -curve.at(200) == pytest.approx(clipped_loss(chance, 200), abs=0.05)
        assert curve.interval_at(200)[0] < -clipped_loss(chance, 200) < curve.interval_at(200)[1]

    def test_of_fewer_members_is_stated_as_scikit_learn_prints_it(self) -> None:
        chance = np.random.default_rng(2).beta(1.5, 0.7, 400)
        report = analyze(*_shuffled(chance, 16), metric="neg_log_loss", data="holdout")
        found = zeros_of(report)
        assert found.finite_from is not None
        assert found.finite_from > 16
        assert np.isnan(report.error)
        assert not {"neg_log_loss", "neg_log_loss_upper", "neg_log_loss_shortfall"} & set(report.scalars())
        assert np.isfinite(report.metrics()["asymptotic_neg_log_loss"])
        low, high = found.clipped_interval
        assert low < -clipped_loss(chance, 16) < high
        assert found.share == pytest.approx(np.mean((1.0 - chance) ** 16), rel=0.5)
        warning = next(text for text in report.warnings if "scikit-learn would print" in text)
        assert f"From {found.finite_from} members on" in warning
        assert not report.basis.doubts
        assert "here the curve begins" in report.summary()

    def test_that_never_is_finite_is_of_clipped_values_and_doubted(self) -> None:
        """To one row in twenty no member gives its label a probability above 0."""
        chance = np.where(np.arange(400) % 20 == 0, 0.0, 0.7)
        report = analyze(*_shuffled(chance, 60), metric="neg_log_loss", data="holdout")
        found = zeros_of(report)
        assert found.finite_from is None
        assert found.share == pytest.approx(0.05, rel=0.3)
        assert found.share_at_most > 0.02
        assert report.error == found.clipped == pytest.approx(-clipped_loss(chance, 60), rel=0.25)
        assert report.error_curve.sizes[0] == 1
        assert "calibrate the probabilities" in report.basis.doubts[0]
        assert "min_samples_leaf" in report.basis.doubts[0]
        assert not report.is_actionable

    @pytest.mark.parametrize("metric", ["neg_log_loss", "d2_log_loss_score", log_loss])
    def test_is_that_of_every_log_loss(self, metric: object) -> None:
        chance = np.random.default_rng(3).beta(1.5, 0.7, 300)
        report = analyze(*_shuffled(chance, 20), metric=metric, data="holdout")  # type: ignore[arg-type]
        assert zeros_of(report).share == pytest.approx(np.mean((1.0 - chance) ** 20), rel=0.6)

    def test_survives_a_file_and_is_where_the_curve_begins(self) -> None:
        chance = np.random.default_rng(2).beta(1.5, 0.7, 400)
        report = analyze(*_shuffled(chance, 16), metric="neg_log_loss", data="holdout")
        assert report.error_curve.sizes[0] == zeros_of(report).finite_from
        again = EnsembleReport.from_json(report.to_json())
        assert again.to_json() == report.to_json()
        assert again.error_curve.metric_basis == report.error_curve.metric_basis
        assert "here the curve begins" in again.summary()
        assert "infinite" in report.to_html()

    def test_of_weighted_rows(self) -> None:
        chance = np.random.default_rng(2).beta(1.5, 0.7, 400)
        ensemble, _, y = _shuffled(chance, 16)
        weight = np.random.default_rng(1).choice([1.0, 3.0], 400)
        report = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout", sample_weight=weight)
        assert np.isfinite(report.error_curve.asymptote)


def _shuffled(chance: Array, n_members: int) -> tuple[CustomEnsemble, None, Array]:
    ensemble, y = voters(chance, n_members)
    return ensemble, None, y


@pytest.mark.slow
@pytest.mark.parametrize(("power", "n_members"), [(0.6, 30), (1.0, 20), (1.0, 60), (2.0, 30)])
def test_intervals_hold_the_log_loss_of_large_ensembles(power: float, n_members: int) -> None:
    """Of rows drawn anew, whose chances go down to 0."""
    held, limits = [], []
    truth = clipped_loss(np.random.default_rng(11).beta(power, 0.4, 40_000), 2000, 4)
    for seed in range(30):
        chance = np.random.default_rng(seed).beta(power, 0.4, 400)
        ensemble, y = voters(chance, n_members, seed)
        report = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout", random_state=seed)
        if report.error_curve.reaches(2000):
            low, high = report.error_curve.interval_at(2000)
            held.append(low <= -truth <= high)
            limits.append(-report.error_curve.at(2000))
    assert len(held) >= 20
    assert np.mean(held) >= 0.85
    assert np.mean(limits) == pytest.approx(truth, rel=0.1)


@pytest.mark.slow
def test_default_forests_have_an_answer() -> None:
    """On 130b2337 all of these were refused or doubted."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 10))
        y = (rng.random(400) < 1.0 / (1.0 + np.exp(4.2 - 2.0 * (X[:, 0] + X[:, 1] * X[:, 2])))).astype(int)
        forest = RandomForestClassifier(100, random_state=seed).fit(X, y)
        report = analyze(forest, X, y, metric="neg_log_loss")
        assert not report.basis.doubts
        assert np.isfinite(report.error_curve.asymptote)


@pytest.mark.slow
def test_boosters_give_no_zeros() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    models = [
        lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=40, bagging_freq=1, bagging_fraction=0.6, num_leaves=15, verbose=-1
        ),
        xgboost.XGBRFClassifier(n_estimators=40, subsample=0.6, tree_method="hist", max_depth=4),
    ]
    for model in models:
        curve = analyze(model.fit(X, y), X, y, metric="neg_log_loss").error_curve
        assert curve.metric_basis is not None
        assert curve.metric_basis.zeros is None
        assert curve.sizes[0] == 1
