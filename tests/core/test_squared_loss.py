from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.losses import LossMoments, SquaredLoss, fit_moments, loss_moments
from ens_plugin.errors import InputError

FloatArray = NDArray[np.float64]


def fit_outputs(outputs: list[FloatArray], target: FloatArray, weight: FloatArray | None = None) -> SquaredLoss:
    mean = [row.mean() for row in outputs]
    variance = [row.var(ddof=1) for row in outputs]
    return fit_moments(loss_moments(mean, variance, [row.size for row in outputs], target, weight))


@pytest.mark.parametrize("n_members", [2, 3, 7])
def test_curve_is_the_mean_over_all_subsets_of_each_rows_members(n_members: int) -> None:
    """Exactly, before the cut at 0, for every size up to the rows' members."""
    rng = np.random.default_rng(n_members)
    outputs = list(rng.normal(size=(5, n_members)) + rng.normal(size=(5, 1)))
    target = rng.normal(size=5)
    fit = fit_outputs(outputs, target)
    for size in range(1, n_members + 1):
        brute = [
            np.mean([(row[list(subset)].mean() - y) ** 2 for subset in combinations(range(n_members), size)])
            for row, y in zip(outputs, target, strict=True)
        ]
        assert fit.raw_asymptote + fit.member_variance / size == pytest.approx(np.mean(brute), rel=1e-12)


def test_weights_are_repeated_rows_in_the_curve() -> None:
    rng = np.random.default_rng(0)
    outputs, target, weight = list(rng.normal(size=(4, 6))), rng.normal(size=4), np.array([1, 3, 2, 1])
    repeated = fit_outputs(
        [row for row, w in zip(outputs, weight, strict=True) for _ in range(w)], target.repeat(weight)
    )
    np.testing.assert_allclose(
        fit_outputs(outputs, target, weight.astype(float)).error([1, 5, np.inf]),
        repeated.error([1, 5, np.inf]),
        rtol=1e-12,
    )


@pytest.mark.slow
def test_curve_is_unbiased_over_seeds() -> None:
    """Fresh members for fixed rows: the mean over 4000 repetitions within four standard errors."""
    rng = np.random.default_rng(1)
    bias, sd, n = np.array([1.0, -0.5, 0.2]), np.array([0.4, 2.0, 0.1]), 5
    estimates = []
    for members in bias + sd * rng.standard_normal((4000, n, 3)):
        fit = fit_outputs(list(members.T), np.zeros(3))
        estimates.append(fit.raw_asymptote + fit.member_variance / np.array([1, 5, 100, np.inf]))
    truth = np.mean(bias**2) + np.mean(sd**2) / np.array([1, 5, 100, np.inf])
    standard_error = np.std(estimates, axis=0) / np.sqrt(4000)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 4 * standard_error).all()


@pytest.mark.slow
def test_covariance_is_that_of_a_bootstrap_over_rows() -> None:
    rng = np.random.default_rng(2)
    n_rows = 150
    outputs = rng.normal(size=(n_rows, 12)) * rng.gamma(2.0, size=(n_rows, 1)) + rng.normal(size=(n_rows, 1))
    target = rng.normal(size=n_rows)
    mean, variance, trials = outputs.mean(axis=1), outputs.var(axis=1, ddof=1), np.full(n_rows, 12)
    fit = fit_moments(loss_moments(mean, variance, trials, target))
    draws = []
    for _ in range(3000):
        rows = rng.integers(0, n_rows, n_rows)
        again = fit_moments(loss_moments(mean[rows], variance[rows], trials, target[rows]))
        draws.append([again.raw_asymptote, again.member_variance])
    ratio = np.cov(np.array(draws).T) / fit.covariance
    np.testing.assert_allclose(np.diag(ratio), 1.0, atol=0.12)
    assert ratio[0, 1] == pytest.approx(1.0, abs=0.25)


def test_constant_weights_change_nothing() -> None:
    rng = np.random.default_rng(3)
    outputs, target = list(rng.normal(size=(6, 4))), rng.normal(size=6)
    plain, weighted = fit_outputs(outputs, target), fit_outputs(outputs, target, np.full(6, 9.0))
    np.testing.assert_allclose(weighted.covariance, plain.covariance, rtol=1e-12)
    assert weighted.raw_asymptote == pytest.approx(plain.raw_asymptote, rel=1e-12)


def test_interval_is_the_normal_one_of_a_linear_combination() -> None:
    fit = SquaredLoss(4.0, 2.0, np.array([[0.04, -0.01], [-0.01, 0.09]]))
    lower, upper = fit.interval([2], 0.95)
    sd = np.sqrt(0.04 - 2 * 0.01 / 2 + 0.09 / 4)
    np.testing.assert_allclose([lower[0], upper[0]], [5 - 1.959964 * sd, 5 + 1.959964 * sd], rtol=1e-6)


def test_negative_asymptote_is_reported_as_zero_and_kept_raw() -> None:
    outputs = [np.array([-1.0, 1.0]), np.array([-2.0, 2.0])]
    fit = fit_outputs(outputs, np.zeros(2))
    assert fit.raw_asymptote == pytest.approx(-np.mean([2.0 / 2, 8.0 / 2]))
    assert fit.asymptote == 0.0
    assert fit.error([np.inf])[0] == 0.0
    assert (fit.interval([1, 100, np.inf], 0.95)[0] >= 0).all()
    # The loss does not depend on the limit: it is the variance of one member, (2 + 8)/2, over the size.
    assert fit.losses([1, 100, np.inf]).tolist() == [5.0, 0.05, 0.0]
    assert fit.size_within(0.01, 20001) == 500


def test_size_interval_above_the_largest_size_starts_there() -> None:
    fit = SquaredLoss(1.0, 1000.0, np.diag([1e-6, 1e-6]))
    assert fit.size_within(0.01, 20001) is None
    assert fit.size_interval(0.01, 20001, 0.95) == (20001, None)


def test_an_asymptote_far_inside_its_own_error_does_not_widen_the_size() -> None:
    """The variance of one member is 1 with an error of 0.1, and a hundredth is allowed."""
    fit = SquaredLoss(1e-6, 1.0, np.diag([1e-2, 1e-2]))
    assert fit.size_interval(0.01, 20001, 0.95) == (81, 120)  # 80.4 and 119.6


def test_members_that_agree_need_no_company() -> None:
    fit = fit_outputs([np.full(4, 1.0), np.full(4, 2.0)], np.array([0.0, 1.0]))
    np.testing.assert_array_equal(fit.error([1, 50, np.inf]), [1.0, 1.0, 1.0])
    assert fit.size_within(0.01, 20001) == 1
    assert fit.size_interval(0.01, 20001, 0.95) == (1, 1)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(1e-3, 1.0))
def test_recommended_size_is_the_smallest_within_the_tolerance(a: float, v: float, tolerance: float) -> None:
    fit = SquaredLoss(a, v, np.zeros((2, 2)))
    size = fit.size_within(tolerance, 10**9)
    assert v / size <= tolerance * (1 + 1e-9)
    assert size == 1 or v / (size - 1) > tolerance * (1 - 1e-9)
    assert fit.size_within(tolerance, size) == size
    assert size == 1 or fit.size_within(tolerance, size - 1) is None


@pytest.mark.slow
def test_size_interval_covers_the_size_as_often_as_it_says() -> None:
    """Of 400 repetitions on simulated rows, 95 % within 4 standard errors."""
    rng = np.random.default_rng(4)
    truth = 0.5 / 0.05
    inside = 0
    for _ in range(400):
        outputs = rng.normal(size=(80, 1)) + np.sqrt(0.5) * rng.normal(size=(80, 8))
        fit = fit_outputs(list(outputs), np.zeros(80))
        low, high = fit.size_interval(0.05, 20001, 0.95)
        inside += low <= truth <= (np.inf if high is None else high)
    assert inside / 400 == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 400))


@pytest.mark.parametrize("luck", [0.0, 0.02])
def test_the_upper_bound_of_the_loss_at_the_upper_end_is_within_the_tolerance(luck: float) -> None:
    """By 20 000 normal draws of the variance of one member, the loss at that size is allowed in 95 %."""
    fit = SquaredLoss(0.3, 0.5, np.diag([1e-4, 1e-3]), luck=luck)
    _, high = fit.size_interval(0.001, 20001, 0.9)
    sd = np.hypot(np.sqrt(1e-3), luck)
    variance = 0.5 + sd * np.random.default_rng(0).standard_normal(20_000)
    assert np.mean(variance / high <= 0.001) == pytest.approx(0.95, abs=0.006)


def test_no_size_loses_nothing() -> None:
    """A tolerance of 0, a share of a limit of 0, is met by no size, but by members that are all alike."""
    varied, alike = SquaredLoss(1.0, 1.0, np.zeros((2, 2))), SquaredLoss(1.0, 0.0, np.zeros((2, 2)))
    assert varied.size_within(0.0, 100) is None
    assert varied.size_interval(0.0, 100, 0.95) == (100, None)
    assert alike.size_interval(0.0, 100, 0.95) == (1, 1)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mean": [np.nan, 1.0]}, "mean"), ({"variance": [1.0]}, "variance"), ({"trials": [1.0, 5.0]}, "trials"),
        ({"target": [np.inf, 1.0]}, "target"), ({"weight": [0.0, 0.0]}, "weight"),
    ],
)  # fmt: skip
def test_bad_argument_is_named(change: dict[str, list[float]], named: str) -> None:
    good = {"mean": [1.0, 2.0], "variance": [1.0, 1.0], "trials": [3.0, 3.0], "target": [1.0, 1.0]}
    with pytest.raises(InputError, match=named):
        fit_moments(loss_moments(**{**good, **change}))


@pytest.mark.parametrize("n_parts", [1, 2, 9])
def test_moments_of_parts_merge_to_those_of_all_rows(n_parts: int) -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(size=50) + 1e3, rng.random(50), rng.integers(2, 9, 50), rng.normal(size=50) + 1e3])
    weight = rng.random(50)
    merged = reduce(
        LossMoments.merge,
        [loss_moments(*rows[:, part], weight[part]) for part in np.array_split(rng.permutation(50), n_parts)],
    )
    found, exact = fit_moments(merged), fit_moments(loss_moments(*rows, weight))
    assert found.raw_asymptote == pytest.approx(exact.raw_asymptote, rel=1e-12)
    assert found.member_variance == pytest.approx(exact.member_variance, rel=1e-12)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-12)
    np.testing.assert_allclose(found.skewness, exact.skewness, rtol=1e-9)
    np.testing.assert_allclose(found.interval([1, np.inf], 0.95), exact.interval([1, np.inf], 0.95), rtol=1e-9)
    assert merged.carriers() == loss_moments(*rows, weight).carriers()


@pytest.mark.parametrize(
    ("losses", "truth"),
    [
        (lambda rng: rng.standard_t(3, size=500), 3.0),
        (lambda rng: np.exp(rng.normal(size=500)) - np.exp(0.5), np.exp(1.0) * (np.exp(1.0) - 1.0)),
        (lambda rng: rng.normal(size=500) * np.where(rng.random(500) < 0.01, 10.0, 1.0), 1.99),
    ],
    ids=["t3", "lognormal", "outliers"],
)
def test_interval_holds_the_mean_of_losses_with_a_long_tail(losses: Callable[..., FloatArray], truth: float) -> None:
    """At least 88 % of 100 repetitions with 500 rows, where a normal interval has 70 to 80 %."""
    inside, zeros = 0, np.zeros(500)
    for seed in range(100):
        fit = fit_moments(loss_moments(losses(np.random.default_rng(seed)), zeros, zeros + 10, zeros))
        lower, upper = fit.interval([np.inf], 0.95)
        inside += int(lower[0] <= truth <= upper[0])
    assert inside >= 88


def test_interval_of_normal_noise_hardly_widens() -> None:
    """No wider than 1.15 normal intervals at 500 rows, and right in 93 to 99 of 100 repetitions."""
    inside, widths, zeros = 0, [], np.zeros(500)
    for seed in range(100):
        fit = fit_moments(loss_moments(np.random.default_rng(seed).normal(size=500), zeros, zeros + 10, zeros))
        lower, upper = fit.interval([np.inf], 0.95)
        inside += int(lower[0] <= 1.0 <= upper[0])
        widths.append((upper[0] - lower[0]) / (2 * 1.96 * np.sqrt(fit.covariance[0, 0])))
    assert 93 <= inside <= 99
    assert np.median(widths) <= 1.15


def test_rows_that_carry_half_of_the_squared_error_are_counted() -> None:
    error = np.append(np.ones(97), [20.0, 20.0, 1.0])
    zeros = np.zeros(100)
    assert loss_moments(error, zeros, zeros + 5, zeros).carriers() == 2
    assert loss_moments(np.ones(2000), np.zeros(2000), np.full(2000, 5), np.zeros(2000)).carriers() is None


@pytest.mark.slow
def test_covariance_knows_that_weights_go_with_losses() -> None:
    """Rows drawn in proportion to nothing, weighted by their own scale: against 2000 repetitions."""
    rng = np.random.default_rng(5)
    estimates, variances, zeros = [], [], np.zeros(200)
    for _ in range(2000):
        scale = rng.uniform(0.2, 3.0, 200)
        fit = fit_moments(loss_moments(np.sqrt(scale) * rng.normal(size=200), zeros, zeros + 5, zeros, scale))
        estimates.append(fit.raw_asymptote)
        variances.append(fit.covariance[0, 0])
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.12)


@pytest.mark.parametrize("spread", [0.0, 2.5])
def test_the_variance_over_rows_is_unbiased_whatever_the_weights(spread: float) -> None:
    """Of weights whose logarithms have a deviation of 2.5, it came out at half of what it is."""
    rng = np.random.default_rng(5)
    estimates, variances = [], []
    for _ in range(4000):
        mean, weight = rng.normal(size=60), np.exp(spread * rng.normal(size=60))
        loss = fit_moments(loss_moments(mean, np.full(60, 0.5), np.full(60, 10), np.zeros(60), weight))
        estimates.append(loss.raw_asymptote)
        variances.append(loss.covariance[0, 0])
    # Of 4000 draws of squares with such weights, the ratio is known to some 5 %.
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.15)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.8])
def test_the_interval_of_the_size_is_that_of_the_variance_and_of_the_luck_of_the_members(correlation: float) -> None:
    """The variance of one member is known to 1 % by the rows and to 2 % by the members; the limit plays no part."""
    covariance = np.array([[1e-4, correlation * 0.1], [correlation * 0.1, 100.0]])
    loss = SquaredLoss(1.0, 1000.0, covariance, luck=20.0)
    low, high = loss.size_interval(0.01, 10**7, 0.95)
    sd = np.hypot(0.01, 0.02)
    assert [1.0 - low / 1e5, high / 1e5 - 1.0] == pytest.approx([1.959964 * sd] * 2, rel=1e-3)
    # At a size, errors in both terms add up.
    lower, upper = loss.interval([500], 0.95)
    sd = np.sqrt(1e-4 + 100.0 / 500**2 + 2.0 * correlation * 0.1 / 500 + (20.0 / 500) ** 2)
    assert [3.0 - lower[0], upper[0] - 3.0] == pytest.approx([1.959964 * sd] * 2, rel=1e-6)
