from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit, logsumexp, ndtr
from scipy.stats import norm

from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017 import score_tables
from ens_plugin.papers.score_tables_2017.score_tables import (
    build_effects,
    build_score_tables,
    log_mean_moments,
    score_quadrature,
)
from tests.papers.score_tables_2017.score_examples import normal_mean, tables, three_below_half


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 20.0, 64.0])
@pytest.mark.parametrize("mean", [-4.0, 0.1, 2.5])
def test_quadrature_of_the_logistic_function(mean: float, spread: float) -> None:
    nodes, weights = score_quadrature(spread)
    exact = expit(mean) if spread == 0 else normal_mean(expit, mean, spread)
    assert weights @ expit(mean + spread * nodes) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(
    ("mean", "spread"), [(0.0, 0.0), (0.37, 0.9), (-3.1, 2.2), (8.3, 7.7), (-40.0, 30.0), (1.0, 63.0)]
)
def test_moments_of_one_member_by_adaptive_quadrature(mean: float, spread: float) -> None:
    def expected(function: object) -> float:
        return float(function(mean)) if spread == 0 else normal_mean(function, mean, spread)  # type: ignore[operator]

    a, s = np.array([mean]), np.array([spread])
    for power, found in enumerate(tables().miss_moments(a, s)[:, 0], start=1):
        assert found == pytest.approx(expected(lambda c, power=power: expit(-c) ** power), abs=5e-6)
    first, second = tables().log_loss_moments(a, s)[:, 0]
    assert first == pytest.approx(expected(lambda c: np.logaddexp(0.0, -c)), rel=1e-5, abs=1e-5)
    assert second == pytest.approx(expected(lambda c: np.logaddexp(0.0, -c) ** 2), rel=1e-5, abs=1e-5)


def test_far_means_need_no_table() -> None:
    a, s = np.array([-500.0, 500.0]), np.array([1.0, 1.0])
    np.testing.assert_allclose(tables().log_loss_moments(a, s)[0], [500.0, 0.0], atol=1e-4)
    np.testing.assert_allclose(tables().miss_moments(a, s)[0], [1.0, 0.0], atol=1e-4)


@settings(max_examples=settings.default.max_examples // 5)
@given(st.floats(-1.0, 1.0), st.floats(0.05, 4.0))
def test_one_two_and_three_members_are_known(ratio: float, spread: float) -> None:
    a, s = np.array([ratio * spread]), np.array([spread])
    assert tables().below_half(a, s, 1)[0] == pytest.approx(ndtr(-ratio), abs=1e-12)
    assert tables().below_half(a, s, 2)[0] == pytest.approx(ndtr(-ratio * np.sqrt(2)), abs=1e-12)
    assert tables().below_half(a, s, 3)[0] == pytest.approx(three_below_half(a[0], spread), abs=3e-5)


@pytest.mark.parametrize("size", [4, 9, 17, 18, 22, 24, 25, 26, 40, 77, 150, 601, 5000])
def test_tail_against_the_fft_off_the_nodes(size: int) -> None:
    rng = np.random.default_rng(size)
    spread = rng.uniform(0.1, 5.0, 6)
    mean = rng.uniform(-3.0, 3.0, 6) * spread / np.sqrt(size)
    exact = [score_tables._below_half_at(a, s, np.array([float(size)]))[0] for a, s in zip(mean, spread, strict=True)]
    np.testing.assert_allclose(tables().below_half(mean, spread, size), exact, atol=5e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 33, 700, 10**5, np.inf])
def test_log_mean_against_the_laplace_transform_off_the_nodes(size: float) -> None:
    rng = np.random.default_rng(7)
    for spread in rng.uniform(0.0, 5.0, 8):
        mean = rng.uniform(-6.0, 6.0)
        nodes, weights = score_quadrature(spread)
        p = expit(mean + spread * nodes)
        exact = (
            (np.log(weights @ p), 0.0)
            if np.isinf(size)
            else tuple(part[0] for part in log_mean_moments(p, weights, [size]))
        )
        found = tables().log_mean(np.array([mean]), np.array([spread]), size)[:, 0]
        assert found[0] == pytest.approx(exact[0], abs=1e-4)
        assert found[1] == pytest.approx(exact[1], abs=1e-3)


@given(st.floats(-3, 3), st.floats(0, 6), st.integers(1, 3000))
def test_labels_are_symmetric_and_tails_are_probabilities(mean: float, spread: float, size: int) -> None:
    a, s = np.array([mean]), np.array([spread])
    one, other = tables().below_half(a, s, size)[0], tables().below_half(-a, s, size)[0]
    assert 0.0 <= one <= 1.0
    assert one + other == pytest.approx(1.0, abs=1e-12)


def test_no_spread_is_a_step_for_any_size() -> None:
    found = tables().below_half(np.array([-1.0, 0.0, 1.0]), np.zeros(3), 11)
    np.testing.assert_array_equal(found, [1.0, 0.5, 0.0])


def test_spreads_without_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="vary too much"):
        tables().miss_moments(np.zeros(1), np.array([65.0]))
    with pytest.raises(InputError, match="at most 16"):
        tables().log_mean(np.zeros(1), np.array([17.0]), 3)


@pytest.mark.long
@pytest.mark.slow
def test_building_gives_the_kept_effects() -> None:
    # Not to the bit: sums depend on the processor and on the threads of the BLAS, and an effect read from a tail of
    # 1e-11 keeps six digits of theirs. What counts is the tail it gives back.
    few, many = build_effects()
    kept = tables()
    means = np.concatenate([[0.01], score_tables.EFFECT_MEANS[1:]])[:, None]
    roots = np.sqrt(score_tables.FEW_SIZES)[:, None, None]
    np.testing.assert_allclose(ndtr(-few * means * roots), ndtr(-kept.few * means * roots), atol=1e-12)
    np.testing.assert_allclose(ndtr(-many * means), ndtr(-kept.many * means), atol=1e-12)


@pytest.mark.slow
def test_building_gives_the_tables_on_the_disk() -> None:
    built, kept = build_score_tables(), tables()
    np.testing.assert_allclose(built.single, kept.single, rtol=1e-9, atol=1e-12)
    # Sums of the BLAS differ by 1e-12, and derivatives in b are differences over 1e-4.
    for name in ("log_gain", "log_variance"):
        np.testing.assert_allclose(getattr(built, name), getattr(kept, name), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("column", [1, 5, 13, 25, 37])
@pytest.mark.parametrize("row", [20, 48, 60, 96])
def test_the_log_tables_are_those_of_one_row_at_a_time(column: int, row: int) -> None:
    spread = float(np.sinh(score_tables.LOG_SPREADS[column]))
    mean = score_tables.LOG_MEANS[row] * np.sqrt(1.0 + spread**2)
    nodes, weights = score_quadrature(spread)
    score = mean + spread * nodes
    mixed, variance = log_mean_moments(expit(score), weights, np.exp(score_tables.LOG_SIZES))
    gain = np.append(mixed, np.log(weights @ expit(score))) + weights @ np.logaddexp(0.0, -score)
    np.testing.assert_allclose(tables().log_gain[:, row, column], gain / spread**2, atol=1e-6)
    np.testing.assert_allclose(tables().log_variance[:, row, column], variance / spread**2, atol=1e-6)


def test_the_log_tables_without_spread_are_derivatives() -> None:
    """By a Taylor series, the variance of log p is b (1-p)^2, and K members gain (1 - 1/K) b (1-p)^2 / 2."""
    miss = expit(-score_tables.LOG_MEANS)
    size = np.exp(score_tables.LOG_SIZES)[:, None]
    np.testing.assert_allclose(tables().log_variance[:, :, 0], miss**2 / size, atol=2e-4)
    np.testing.assert_allclose(tables().log_gain[:-1, :, 0], (1.0 - 1.0 / size) * miss**2 / 2.0, atol=2e-4)


def test_infinitely_many_hopeless_members_have_the_log_of_their_expectation() -> None:
    """At 12 spreads below zero, nearly all of E p comes from scores far above the mean."""
    spread = 16.0
    scale = np.sqrt(1.0 + spread**2)
    scores = np.linspace(-60.0, 300.0, 400_001)
    density = norm.logpdf(scores, -12.0 * scale, spread) + log_expit(scores)
    exact = logsumexp(density) + np.log(scores[1] - scores[0])
    assert tables().log_mean(np.array([-12.0 * scale]), np.array([spread]), np.inf)[0, 0] == pytest.approx(
        exact, rel=1e-3
    )


def test_large_sizes_of_the_tables_have_no_ties() -> None:
    sizes = score_tables.MANY_SIZES[1:]
    assert (sizes % 2 == 1).all()
    assert (np.diff(sizes) < 0).all()
