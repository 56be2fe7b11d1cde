"""The learner, cross-validation and statistics of the 1996 benchmark against plain versions of themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.papers import wavelengths
from benchmarks.papers.bagging_error_1996 import PAPER, REPRODUCED, STATISTICS, Comparison, relative_delta
from benchmarks.papers.wavelengths import WIDTH_LAWS, bag, cross_validate, draw_counts, draw_samples, fit, predict

FloatArray = NDArray[np.float64]
LAW = WIDTH_LAWS["squared widths uniform"]


def plain_fit(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the kept wavelengths and least squares on their cosines and sines, as defined in the paper."""
    dropped = int(np.floor(10 * np.sum(x + y)) % 4)
    kept = np.delete([0.5, 1.0, 2.0, 4.0], dropped)
    return kept, np.linalg.lstsq(plain_design(x, kept), y, rcond=None)[0]


def plain_design(x: FloatArray, kept: FloatArray) -> FloatArray:
    return np.column_stack([f(2 * np.pi * x / length) for length in kept for f in (np.cos, np.sin)])


def plain_predict(x: FloatArray, y: FloatArray, points: FloatArray) -> FloatArray:
    kept, coefficients = plain_fit(x, y)
    return plain_design(points, kept) @ coefficients


def test_learner_is_least_squares_on_three_wavelengths() -> None:
    rng = np.random.default_rng(0)
    sample = draw_samples(20, 25, 10, LAW, rng)
    counts = draw_counts((20, 4), np.arange(25), 25, rng)
    outputs = predict(fit(sample.x, sample.y, counts), sample.test_x)
    for target, bags in enumerate(counts.astype(int)):
        for member, times in enumerate(bags):
            x, y = (np.repeat(values[target], times) for values in (sample.x, sample.y))
            expected = plain_predict(x, y, sample.test_x[target])
            np.testing.assert_allclose(outputs[target, member], expected, rtol=1e-6, atol=1e-8)


def test_bags_are_bootstraps_and_the_mask_is_what_they_left_out() -> None:
    rng = np.random.default_rng(2)
    counts = draw_counts((30, 50), np.array([0, 2, 3, 5]), 6, rng)
    assert (counts.sum(axis=2) == 4).all()
    assert (counts[:, :, [1, 4]] == 0).all()
    np.testing.assert_allclose(counts[:, :, [0, 2, 3, 5]].mean(axis=(0, 1)), 1.0, atol=0.12)
    outputs, out_of_bag, test_outputs = bag(draw_samples(30, 25, 7, LAW, rng), 50, rng)
    assert (outputs.shape, out_of_bag.shape, test_outputs.shape) == ((30, 50, 25), (30, 50, 25), (30, 50, 7))
    assert out_of_bag.mean() == pytest.approx((1 - 1 / 25) ** 25, abs=0.01)


@pytest.mark.parametrize("n_folds", [5, 12])
def test_cross_validation_of_the_learner_fold_by_fold(n_folds: int) -> None:
    rng = np.random.default_rng(3)
    sample = draw_samples(3, 12, 8, LAW, rng)
    found = cross_validate(sample, n_folds, None, rng)
    for target in range(3):
        x, y, test_x, test_y = (part[target] for part in (sample.x, sample.y, sample.test_x, sample.test_y))
        square, test_error = [], []
        for held_out in _folds(12, n_folds):
            rest = np.setdiff1d(np.arange(12), held_out)
            square.append((plain_predict(x[rest], y[rest], x[held_out]) - y[held_out]) ** 2)
            test_error.append((plain_predict(x[rest], y[rest], test_x) - test_y) ** 2)
        assert found.estimate[target] == pytest.approx(np.concatenate(square).mean(), rel=1e-6)
        np.testing.assert_allclose(found.test_error[target], np.mean(test_error, axis=0), rtol=1e-6)


def _folds(n_rows: int, n_folds: int) -> list[NDArray[np.int64]]:
    """Folds of consecutive rows, sizes that differ by at most one."""
    return [np.flatnonzero(np.arange(n_rows) * n_folds // n_rows == fold) for fold in range(n_folds)]


def test_bagged_cross_validation_never_trains_on_the_row_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    sample = draw_samples(2, 20, 3, LAW, rng)
    seen: list[FloatArray] = []

    def watched(x: FloatArray, y: FloatArray, counts: FloatArray) -> FloatArray:
        seen.append(counts)
        return fit(x, y, counts)

    monkeypatch.setattr(wavelengths, "fit", watched)
    cross_validate(sample, 20, 6, rng)
    assert len(seen) == 20
    for fold, counts in enumerate(seen):
        assert counts.shape == (2, 6, 20)
        assert (counts[:, :, fold] == 0).all()
        assert (counts.sum(axis=2) == 19).all()


def test_targets_are_cubics_with_two_normalised_gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far from noise: the integral over [-6, 6] of target less cubic is 2; here by the mean over many targets."""
    monkeypatch.setattr(wavelengths, "NOISE", 0.0)
    sample = draw_samples(20_000, 5, 5, LAW, np.random.default_rng(5))
    # Bumps at uniform centres keep a share 1 - mean(width) sqrt(2 / pi) / 2 of their mass of 1 each within [-1, 1].
    width = np.sqrt(np.random.default_rng(6).uniform(0.01, 0.09, 100_000)).mean()
    expected = 2 * (1 - width * np.sqrt(2 / np.pi) / 2) / 2
    assert sample.y.mean() == pytest.approx(expected, abs=0.03)


def test_statistics_are_numpys_and_their_errors_those_of_repetition() -> None:
    rng = np.random.default_rng(8)

    def draw() -> Comparison:
        actual = rng.gamma(2.0, size=(400, 3))
        return Comparison(0.6 * actual + 0.2 + rng.normal(0, 0.4, (400, 3)), actual)

    one = draw()
    e, a = one.estimated.ravel(), one.actual.ravel()
    slope, intercept = np.polyfit(a, e, 1)
    expected = [e.mean(), a.mean(), np.abs(e - a).mean(), np.corrcoef(e, a)[0, 1], slope, intercept]
    np.testing.assert_allclose(one.statistics()[0], expected, rtol=1e-9)
    runs = [draw().statistics() for _ in range(200)]
    ratio = np.std([value for value, _ in runs], axis=0) / np.mean([se for _, se in runs], axis=0)
    np.testing.assert_allclose(ratio, 1.0, atol=0.2)


def test_less_one_drops_the_target_of_the_largest_actual_error() -> None:
    actual = np.array([[1.0, 2.0], [0.0, 9.0], [5.0, 5.0], [8.0, 0.0]])
    found = Comparison(actual + 1.0, actual).less_one()
    np.testing.assert_array_equal(found.actual, actual[[0, 1, 3]])
    np.testing.assert_array_equal(found.estimated, actual[[0, 1, 3]] + 1.0)


def test_relative_delta_cancels_what_both_share() -> None:
    rng = np.random.default_rng(10)
    actual = rng.gamma(2.0, size=(200, 3))
    difference = rng.normal(size=(200, 3)) * rng.gamma(0.1, size=(200, 1))
    half, whole = Comparison(actual + difference / 2, actual), Comparison(actual + difference, actual)
    ratio, se = relative_delta(half, whole)
    assert ratio == pytest.approx(0.5, rel=1e-12)
    assert se == pytest.approx(0.0, abs=1e-12)
    runs = []
    for _ in range(300):
        one, other = (Comparison(rng.normal(size=(200, 2)), np.zeros((200, 2))) for _ in range(2))
        runs.append(relative_delta(one, other))
    ratios, errors = np.array(runs).T
    assert ratios.std() == pytest.approx(errors.mean(), rel=0.15)


def test_targets_of_the_benchmark_are_figures_of_the_paper() -> None:
    for row, statistic in REPRODUCED:
        assert PAPER[row][STATISTICS.index(statistic)] is not None
