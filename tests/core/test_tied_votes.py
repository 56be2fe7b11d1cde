from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin import CustomEnsemble, EnsembleReport, ErrorCurve, analyze
from ens_plugin.core.error_curve import tie_probability
from ens_plugin.core.row_model import GRID
from ens_plugin.core.sample import rates_of_subsets
from ens_plugin.core.tally import RowBlock

RARE, SECOND_ERRS, FIRST_ERRS = 0.1, (2.0, 1.0), (0.6, 4.0)


def unbalanced(n_rows: int, n_members: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Votes on two labels, the second of which is rare and mostly missed: labels and target."""
    rng = np.random.default_rng(seed)
    target = (rng.random(n_rows) < RARE).astype(np.int64)
    wrong = np.where(target == 1, rng.beta(*SECOND_ERRS, n_rows), rng.beta(*FIRST_ERRS, n_rows))
    votes = rng.random((n_members, n_rows)) < wrong
    return np.where(votes, 1 - target, target), target


def exact_shift(size: int) -> float:
    """By integration of the densities that the votes were drawn from."""
    points = (np.arange(200_000) + 0.5) / 200_000
    ties = binom.pmf(size // 2, size, points)

    def mean(exponents: tuple[float, float]) -> float:
        density = points ** (exponents[0] - 1) * (1 - points) ** (exponents[1] - 1)
        return float(ties @ density / density.sum())

    return (RARE * mean(SECOND_ERRS) - (1 - RARE) * mean(FIRST_ERRS)) / 2


def curve_of(labels: NDArray[Any], target: NDArray[Any], **options: Any) -> ErrorCurve:
    ensemble = CustomEnsemble(labels, None, aggregation="vote", classes=np.array([0, 1]))
    return analyze(ensemble, None, target, data="holdout", **options).error_curve


def test_the_probability_of_a_tie_is_exact() -> None:
    for size in (2, 10):
        expected = [Fraction(comb(size, size // 2)) * Fraction(p * (9 - p), 81) ** (size // 2) for p in range(10)]
        found = tie_probability(np.arange(10) / 9, [size])[0]
        np.testing.assert_allclose(found, [float(value) for value in expected], rtol=1e-12)
    of_grid = tie_probability(GRID, [2, 100, 2000])
    np.testing.assert_allclose(of_grid, binom.pmf([[1], [50], [1000]], [[2], [100], [2000]], GRID), rtol=0, atol=1e-13)
    assert tie_probability([0.5], [10**6])[0, 0] == pytest.approx(np.sqrt(2 / np.pi / 10**6), rel=1e-5)


@pytest.mark.parametrize("n_members", [10, 100])
def test_the_shift_is_that_of_the_rows_of_each_label(n_members: int) -> None:
    """Fifteen samples of 600 rows, 60 of them of the rare label: right on average, within three standard errors."""
    sizes = np.array([2, 9, 10, 100])
    found = []
    for seed in range(15):
        labels, target = unbalanced(600, n_members, seed)
        is_oob = np.random.default_rng(1000 + seed).random(labels.shape) < 0.4
        is_oob[0] = True
        is_oob[1] = True
        ensemble = CustomEnsemble(labels, ~is_oob, aggregation="vote", classes=np.array([0, 1]))
        curve = analyze(ensemble, None, target).error_curve
        found.append([curve.at(size + size % 2) - curve.at(size + size % 2 - 1) for size in sizes])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    expected = np.array([exact_shift(size) for size in (2, 10, 10, 100)])
    assert (np.abs(np.mean(found, axis=0) - expected) < 3 * error + 0.05 * np.abs(expected)).all()
    assert (expected[:3] < -4 * error[:3]).all()


def test_even_sizes_follow_the_models_own_rule() -> None:
    """The average over subsets of an ensemble that gives ties to the first label; halves are off by up to 6 points."""
    labels, target = unbalanced(1500, 60, 0)
    sizes = np.array([2, 4, 10, 20, 40])
    block = RowBlock(labels, np.ones(labels.shape, dtype=bool), target, 2)
    drawn = rates_of_subsets(block, sizes, np.random.default_rng(0)).wrong.mean(axis=1)
    curve = curve_of(labels, target)
    np.testing.assert_allclose([curve.at(size) for size in sizes], drawn, atol=0.006)
    assert curve.at(1) - curve.at(2) > 0.06
    for size in sizes:
        low, high = curve.interval_at(size)
        assert low < curve.at(size) < high


def test_the_error_of_an_even_ensemble_is_reported_by_its_rule() -> None:
    labels, target = unbalanced(2000, 10, 3)
    ensemble = CustomEnsemble(labels, None, aggregation="vote", classes=np.array([0, 1]))
    report = analyze(ensemble, None, target, data="holdout")
    predicted = labels.sum(axis=0) > 5
    assert report.error == pytest.approx(np.mean(predicted != target), abs=0.008)
    assert report.bias_variance.ensemble_error == pytest.approx(report.error, abs=1e-12)
    assert report.error < report.error_curve.at(9) - 0.005
    untabulated = replace(report.error_curve, **without(report.error_curve, 9))
    assert untabulated.at(9) == pytest.approx(report.error_curve.at(9), abs=1e-12)
    again = EnsembleReport.from_json(report.to_json())
    assert again.error_curve.at(10) == report.error_curve.at(10)
    assert again.error_curve.at(50) == report.error_curve.at(50)


def without(curve: ErrorCurve, size: int) -> dict[str, Any]:
    """The columns of a curve without one size."""
    rest = curve.sizes != size
    return {name: getattr(curve, name)[rest] for name in ("sizes", "error", "lower", "upper", "even_shift")}


def test_which_label_comes_first_decides() -> None:
    labels, target = unbalanced(2000, 20, 5)
    first, second = curve_of(labels, target), curve_of(1 - labels, 1 - target)
    for size in (1, 9, 21):
        # The same rows have other draws, which are noise of the integration.
        assert first.at(size) == pytest.approx(second.at(size), abs=2e-4)
    assert first.at(2) + second.at(2) == pytest.approx(2 * first.at(1), abs=2e-4)
    assert first.at(2) < first.at(1) < second.at(2)
    assert first.asymptote == pytest.approx(second.asymptote, abs=5e-4)


def test_a_label_of_few_rows_is_no_trouble() -> None:
    labels, target = unbalanced(400, 20, 6)
    few = np.flatnonzero((target == 0) | (np.cumsum(target) <= 5))
    assert np.isfinite(curve_of(labels[:, few], target[few]).at(20))
