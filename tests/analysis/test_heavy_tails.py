"""Squared loss on targets with a long tail, and rows that carry most of the loss."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin import CustomEnsemble, EnsembleReport, analyze

FloatArray = NDArray[np.float64]


def report_of(noise: FloatArray) -> EnsembleReport:
    """Report on 40 held-out members that are right but for a little noise of their own."""
    rng = np.random.default_rng(0)
    outputs = 0.3 * rng.normal(size=(40, noise.size))
    ensemble = CustomEnsemble(outputs, None, aggregation="mean")
    return analyze(ensemble, None, noise, data="holdout")


def test_interval_reaches_further_up_than_down_where_losses_are_skewed() -> None:
    curve = report_of(np.random.default_rng(1).standard_t(3, size=400)).error_curve
    low, high = curve.asymptote_interval
    assert high - curve.asymptote > 1.5 * (curve.asymptote - low)


def test_rows_that_carry_most_of_the_loss_are_counted_in_a_warning() -> None:
    noise = np.random.default_rng(2).normal(size=1000)
    noise[:8] = 20.0
    report = report_of(noise)
    assert any("rows have more than half of the squared error of all 1000" in text for text in report.warnings)


def test_too_few_rows_with_most_of_the_loss_are_a_doubt() -> None:
    noise = np.random.default_rng(3).normal(size=300)
    noise[:2] = 40.0
    report = report_of(noise)
    assert "Half of the squared error lies on 2 of 300 rows" in report.basis.doubts[0]
    assert not report.is_actionable
    assert "Do not use these figures." in report.summary()


def test_a_tail_without_a_mean_is_a_doubt_and_one_without_a_variance_is_not() -> None:
    """The square of Student's t of 2.5 degrees of freedom has a tail of shape 0.8; from 1 on there is no mean."""
    assert report_of(np.random.default_rng(4).standard_cauchy(size=3000)).basis.doubts
    for seed in range(3):
        assert not report_of(np.random.default_rng(seed).standard_t(2.5, size=3000)).basis.doubts


@pytest.mark.fast_cases("30")
@pytest.mark.parametrize("n_rows", [30, 100, 1000])
def test_normal_noise_is_neither_warned_of_nor_doubted(n_rows: int) -> None:
    for seed in range(10):
        report = report_of(np.random.default_rng(seed).normal(size=n_rows))
        assert not report.basis.doubts
        assert not any("carr" in text for text in report.warnings)


@pytest.mark.fast_cases("0.3-True")
@pytest.mark.parametrize(("spread", "is_oob"), [(0.0, True), (0.3, False), (0.3, True)])
def test_intervals_hold_the_luck_of_unequal_members(spread: float, is_oob: bool) -> None:
    """Without it, 79 % of the intervals held the error of one member where members differ by a spread of 0.3."""
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        scale = np.exp(rng.normal(0.0, spread, (30, 1)) - spread**2)  # of mean square 1
        y, outputs = rng.normal(size=300), scale * rng.normal(size=(30, 300))
        members = CustomEnsemble(outputs, (rng.random((30, 300)) < 0.6) if is_oob else None, aggregation="mean")
        report = analyze(members, None, y, data="oob" if is_oob else "holdout")
        low, high = report.error_curve.interval_at(1)
        held += low <= 2.0 <= high
    assert held >= 86


@pytest.mark.parametrize(("shared", "own"), [(0.3, 1.0), (0.1, 2.0)])
def test_the_deviation_over_seeds_is_that_of_luck_of_all_rows_and_of_each(shared: float, own: float) -> None:
    """Outputs 20 above the target: the error of 40 members on these rows rises by 40 times their mean output."""
    variances = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        outputs = rng.normal(0.0, shared, (40, 1)) + rng.normal(0.0, own, (40, 100))
        ensemble = CustomEnsemble(outputs, None, aggregation="mean")
        report = analyze(ensemble, None, rng.normal(-20.0, 1.0, 100), data="holdout")
        variances.append(report.algorithmic_sd**2)
    assert np.mean(variances) == pytest.approx(40.0**2 * (shared**2 + own**2 / 100) / 40, rel=0.15)
