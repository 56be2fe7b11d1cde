"""Rows to which all members give probability 0: how many to expect, and what is stated of a log loss."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.log_losses import LogLosses, log_losses
from ens_plugin.analysis.metric_rows import metric_rows
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from ens_plugin.report.result import ZeroProbabilities
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
    return report.error_curve.metric_basis.zeros


def clipped_loss(chance: Array, size: int, n_draws: int = 400) -> float:
    """The log loss that scikit-learn would print with so many members, in the mean."""
    counts = np.random.default_rng(9).binomial(size, chance, (n_draws, chance.size))
    return float(-np.log(np.maximum(counts / size, EPS)).mean())


def losses_of(chance: Array, n_members: int, seed: int = 0) -> LogLosses:
    labels, y = votes(chance, n_members, seed)
    outputs = np.eye(2)[labels]
    adapter = find_adapter(CustomEnsemble(outputs, None, aggregation="mean_proba"))
    metric = resolve_metric("neg_log_loss", adapter)
    sample = Sample(RowBlock(outputs, np.ones(labels.shape, dtype=bool), y, 2), np.arange(y.size), np.ones(y.size))
    return log_losses(metric_rows(metric, adapter, sample, y), None)


@pytest.mark.parametrize("power", [0.4, 1.0, 2.0])
def test_expected_zeros_are_those_of_the_chances(power: float) -> None:
    """Of rows whose chances have a density that is a power of them, at fewer and at more than 40 members."""
    chance = np.random.default_rng(0).beta(power, 1.0, 40_000)
    sizes = np.array([5.0, 20.0, 100.0])
    exact = [np.sum((1.0 - chance) ** size) for size in sizes]
    np.testing.assert_allclose(losses_of(chance, 40).number(sizes), exact, rtol=0.15)


def test_members_that_never_give_0_have_no_zeros() -> None:
    rng = np.random.default_rng(0)
    y, second = rng.integers(0, 2, 200), rng.uniform(0.05, 0.95, (30, 200))
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    report = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout")
    assert report.error_curve.metric_basis.zeros is None
    assert report.error_curve.sizes[0] == 1


class TestTheCurve:
    def test_begins_where_the_log_loss_is_finite(self) -> None:
        """Some rows have a chance of one in ten: 60 members are enough for as many of them, and 10 are not."""
        chance = np.where(np.arange(400) < 60, 0.1, 0.8)
        report = analyze(*_shuffled(chance, 60), metric="neg_log_loss", data="holdout")
        found, curve = zeros_of(report), report.error_curve
        # Where as many rows have a zero with a chance of one in ten.
        exact = np.log(-np.log(0.9) / 60) / np.log(0.9)
        assert found.finite_from == pytest.approx(exact, rel=0.5)
        assert curve.sizes[0] == found.finite_from
        assert f"Finite log loss: from {found.finite_from} members on, where the curve begins, with" in " ".join(
            report.details().split()
        )
        assert found.chance >= 0.9
        assert report.recommended_size >= found.finite_from
        assert -curve.at(200) == pytest.approx(clipped_loss(chance, 200), abs=0.05)
        assert curve.interval_at(200)[0] < -clipped_loss(chance, 200) < curve.interval_at(200)[1]

    def test_of_fewer_members_is_stated_as_scikit_learn_prints_it(self) -> None:
        chance = np.random.default_rng(2).beta(1.5, 0.7, 400)
        report = analyze(*_shuffled(chance, 16), metric="neg_log_loss", data="holdout")
        found = zeros_of(report)
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


def _shuffled(chance: Array, n_members: int) -> tuple[CustomEnsemble, None, Array]:
    ensemble, y = voters(chance, n_members)
    return ensemble, None, y


def test_the_size_is_the_smallest_whose_chance_of_no_zero_is_large() -> None:
    found = losses_of(np.random.default_rng(0).beta(1.5, 1.0, 1000), 40)
    size = found.finite_from(20_001, 0.0)
    before, there, earlier = found.number(np.array([size - 1.0, size, size // 2]))
    assert np.exp(-there) >= 0.9 > np.exp(-before)
    assert found.finite_from(size - 1, 0.0) is None
    allowed = float(earlier) * -np.log(EPS) / 1000
    assert found.finite_from(20_001, allowed) == pytest.approx(size // 2, abs=1)
