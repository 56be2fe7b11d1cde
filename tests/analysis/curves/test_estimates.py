"""The parts of a report, from tallies of simulated votes whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.analysis import Evidence
from ens_plugin.analysis.curves import estimate_regression
from ens_plugin.analysis.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.labels import estimate_labels
from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock, tally_labels, tally_values
from ens_plugin.core.weights import RowWeight

FloatArray = NDArray[np.float64]

SETTINGS = ResolvedOptions(
    data="holdout",
    respects=("agreement",),
    tolerance=None,
    agreement_tolerance=0.05,
    interval_level=0.95,
    max_size=20001,
    sizes=np.array([1, 3, 11, 40, 101, 1001]),
    random_state=0,
)


def classify(outputs: NDArray[Any], target: NDArray[np.int64], n_labels: int, **options: Any) -> Estimates:
    block = RowBlock(outputs, np.ones(outputs.shape[:2], dtype=bool), target, n_labels)
    tally = tally_labels(block)
    weight = np.ones(target.size)
    sample = Sample(block, np.arange(target.size), weight)
    settings = replace(SETTINGS, **options)
    return estimate_labels(Evidence(tally, sample, RowWeight(weight)), len(outputs), settings, has_scores=False)


def votes(n_members: int, n_rows: int, seed: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Hard votes against a true label 0, and each row's probability of a wrong one."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 2.4, n_rows)
    return (rng.random((n_members, n_rows)) < p).astype(np.int64), p


@pytest.fixture(scope="module")
def hard() -> tuple[Estimates, FloatArray]:
    outputs, p = votes(40, 3000, 0)
    return classify(outputs, np.zeros(3000, dtype=np.int64), 2), p


def test_curve_is_the_true_error(hard: tuple[Estimates, FloatArray]) -> None:
    estimates, p = hard
    curve = estimates.error_curve
    truth = [float(np.mean(binom.sf(size / 2, size, p) + binom.pmf(size / 2, size, p) / 2)) for size in curve.sizes]
    np.testing.assert_allclose(curve.error, truth, rtol=0, atol=4 * np.sqrt(0.2 * 0.8 / 3000) / np.sqrt(4))
    assert curve.asymptote == pytest.approx(np.mean(p > 0.5), abs=0.015)
    assert curve.check < 0.005


def test_recommended_size_is_that_of_the_true_probabilities(hard: tuple[Estimates, FloatArray]) -> None:
    estimates, p = hard
    advice = estimates.sizes["agreement"]()
    truth = recommended_size(p, confidence=0.95)
    assert advice.interval[0] <= truth <= advice.size <= advice.interval[1]
    assert advice.size < 1.4 * truth
    side = np.maximum(p, 1 - p)
    assert advice.agreement == pytest.approx(np.mean(binom.sf(19, 39, side)), abs=0.01)
    np.testing.assert_allclose(
        1.0 - advice.losses,
        [np.mean(binom.sf((size - 1) // 2, size - (size % 2 == 0), side)) for size in advice.sizes],
        atol=0.015,
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_members", [7, 40])
def test_the_curve_begins_with_the_error_of_one_member(n_members: int, seed: int) -> None:
    """One fact has one number; of all sizes, only the smallest change by it."""
    outputs, _ = votes(n_members, 300, 10 + seed)
    estimates = classify(outputs, np.zeros(300, dtype=np.int64), 2)
    curve = estimates.error_curve
    assert estimates.bias_variance.member_error == pytest.approx(outputs.mean(), rel=1e-12)
    assert curve.at(1) == pytest.approx(outputs.mean(), rel=1e-12)
    low, high = curve.interval_at(1)
    assert low < outputs.mean() < high
    draws = estimates.error_draws
    assert draws is not None
    assert draws.values[0] == pytest.approx(outputs.mean() - curve.asymptote, rel=1e-12)


def test_votes_on_two_labels_are_as_good_at_an_even_size_as_at_the_odd_one_below() -> None:
    outputs, _ = votes(12, 400, 5)
    curve = classify(outputs, np.ones(400, dtype=np.int64), 2, sizes=np.array([1, 3, 5, 10])).error_curve
    for size in (2, 4, 6, 10):
        assert curve.at(size) == curve.at(size - 1)
        assert curve.interval_at(size) == curve.interval_at(size - 1)


def test_two_votes_for_more_labels_are_as_good_as_one_and_four_are_better_than_three() -> None:
    rng = np.random.default_rng(6)
    shares = rng.dirichlet([3.0, 1.0, 1.0, 0.6], 2500)
    outputs = (rng.random((25, 2500, 1)) > shares.cumsum(axis=1)[None]).sum(axis=2).clip(max=3)
    target = np.zeros(2500, dtype=np.int64)
    of_two = classify(outputs[:2], target, 4).bias_variance
    assert of_two.ensemble_error == pytest.approx(of_two.member_error, abs=1e-12)
    odd = classify(outputs, target, 4, sizes=np.array([1, 3, 5])).error_curve
    every = classify(outputs, target, 4, sizes=np.arange(1, 6)).error_curve
    for curve in (odd, every):
        assert curve.at(2) == curve.at(1)
        assert curve.at(3) > curve.at(4) > curve.at(5)
    drawn = [outputs[rng.permutation(25)[:2]] for _ in range(200)]
    ties_split = np.mean([np.mean(pair != 0) for pair in drawn])
    assert every.error[1] == pytest.approx(ties_split, abs=0.003)


def test_every_size_is_its_own_where_probabilities_are_averaged() -> None:
    rng = np.random.default_rng(7)
    wrong = np.clip(rng.beta(1.2, 2.0, 800) + rng.uniform(-0.2, 0.2, (20, 800)), 0.0, 1.0)
    outputs = np.stack([1 - wrong, wrong], axis=2)
    curve = classify(outputs, np.zeros(800, dtype=np.int64), 2, sizes=np.array([1, 2, 3])).error_curve
    assert curve.ties_to == 0
    assert curve.at(1) > curve.at(2) == curve.error[1] > curve.at(3)


def test_soft_votes_are_worth_more_than_hard_ones() -> None:
    """Members that predict p + noise: the error is the share of p > 1/2 at infinity, of p + noise > 1/2 at size 1."""
    rng = np.random.default_rng(3)
    n_rows, n_members = 2500, 20
    p = 0.15 + 0.7 * rng.beta(1.2, 2.0, n_rows)
    wrong = np.clip(p + rng.uniform(-0.15, 0.15, (n_members, n_rows)), 0.0, 1.0)
    outputs = np.stack([1 - wrong, wrong], axis=2)
    curve = classify(outputs, np.zeros(n_rows, dtype=np.int64), 2).error_curve
    fresh = p + rng.uniform(-0.15, 0.15, (11, 200, n_rows)).mean(axis=0)
    assert curve.error[0] == pytest.approx(np.mean(wrong > 0.5), abs=1e-9)
    assert curve.at(11) == pytest.approx(np.mean(fresh > 0.5), abs=0.006)
    assert curve.asymptote == pytest.approx(np.mean(p > 0.5), abs=0.01)


def test_regression_size_and_curve_are_those_of_the_true_moments() -> None:
    rng = np.random.default_rng(5)
    n_rows, n_members, noise = 4000, 12, 1.3
    bias = rng.normal(size=n_rows)
    outputs = bias + noise * rng.standard_normal((n_members, n_rows))
    block = RowBlock(outputs, np.ones(outputs.shape, dtype=bool), np.zeros(n_rows), 0)
    tally = tally_values(block)
    weight = np.ones(n_rows)
    settings = replace(SETTINGS, respects=("error",), tolerance=0.05)
    estimates = estimate_regression(
        Evidence(tally, Sample(block, np.arange(n_rows), weight), RowWeight(weight)), n_members, settings
    )
    limit, variance = np.mean(bias**2), noise**2
    curve = estimates.error_curve
    np.testing.assert_allclose(curve.error, limit + variance / curve.sizes, rtol=0.03)
    truth = int(np.ceil(variance / (0.05 * limit)))
    advice = estimates.sizes["error"]()
    assert advice.tolerance == pytest.approx(0.05 * limit, rel=0.06)
    assert advice.interval[0] <= truth <= advice.size <= advice.interval[1]
    assert advice.size < 1.06 * truth
    np.testing.assert_allclose(advice.losses, variance / advice.sizes, rtol=0.03)


N_ROWS = 3000


def found_variance(outputs: NDArray[np.float64], *, has_scores: bool = False) -> float:
    """Return the estimate from members' outputs by label on rows whose true label is the first."""
    counted = np.random.default_rng(9).random(outputs.shape[:2]) < 0.8
    counted[:3] = True
    block = RowBlock(outputs, counted, np.zeros(outputs.shape[1], dtype=np.int64), outputs.shape[2])
    tally = tally_labels(block)
    weight = np.ones(outputs.shape[1])
    sample = Sample(block, np.arange(weight.size), weight)
    rows = Evidence(tally, sample, RowWeight(weight))
    found = estimate_labels(rows, len(outputs), SETTINGS, has_scores=has_scores).bias_variance
    assert abs(found.member_error - found.bias) <= found.member_variance + 0.01
    return found.member_variance


@pytest.mark.parametrize("n_members", [12, 60])
@pytest.mark.parametrize(("low", "high", "off"), [(0.1, 0.9, 0.01), (0.0, 0.7, 0.01), (0.35, 1.0, 0.025)])
def test_two_labels_with_one_of_two_probabilities(low: float, high: float, off: float, n_members: int) -> None:
    """A member predicts the wrong label with probability `high` on a share of its draws, and else `low`."""
    rng = np.random.default_rng(1)
    share = rng.beta(1.0, 1.5, N_ROWS)
    wrong = np.where(rng.random((n_members, N_ROWS)) < share, high, low)
    is_wrong = low + (high - low) * share > 0.5
    truth = np.where(is_wrong, 1.0 - share, share).mean()
    outputs = np.stack([1.0 - wrong, wrong], axis=2)
    # Noise that no label depends on, so that the outputs are probabilities and not votes.
    outputs = np.abs(outputs - rng.uniform(0.0, 0.01, outputs.shape))
    assert found_variance(outputs) == pytest.approx(truth, abs=off)


@pytest.mark.parametrize("n_members", [12, 60])
def test_two_labels_by_skewed_raw_scores(n_members: int) -> None:
    """Most members' scores are a little below 0, and few are far above it."""
    rng = np.random.default_rng(2)
    share = rng.beta(1.0, 3.0, N_ROWS)
    score = np.where(rng.random((n_members, N_ROWS)) < share, 3.0, -1.0) + rng.uniform(-0.5, 0.5, (n_members, N_ROWS))
    truth = np.where(4.0 * share > 1.0, 1.0 - share, share).mean()
    outputs = np.stack([-score / 2.0, score / 2.0], axis=2)
    assert found_variance(outputs, has_scores=True) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("n_labels", [3, 10])
@pytest.mark.parametrize("n_members", [8, 50])
def test_few_members_of_many_labels(n_labels: int, n_members: int) -> None:
    """The other members of a few predict the infinite ensemble's label too seldom to stand for it."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.append(4.0, np.full(n_labels - 1, 2.0 / (n_labels - 1))), N_ROWS)
    labels = (rng.random((n_members, N_ROWS, 1)) > shares.cumsum(axis=1)).sum(axis=2).clip(max=n_labels - 1)
    outputs = np.eye(n_labels)[labels]
    assert found_variance(outputs) == pytest.approx(1.0 - shares.max(axis=1).mean(), abs=0.015)
