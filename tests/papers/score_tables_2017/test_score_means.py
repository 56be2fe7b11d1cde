from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc, expit, logit, ndtr

from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_tables import log_mean_moments, mean_below_half
from tests.papers.score_tables_2017.score_examples import three_below_half

FloatArray = NDArray[np.float64]


def uniform(p: FloatArray) -> FloatArray:
    return np.asarray(p)


def irwin_hall_below(n: int, x: Fraction) -> Fraction:
    """P(sum of n uniforms <= x), exactly."""
    total = sum((Fraction((-1) ** j * comb(n, j)) * max(x - j, Fraction(0)) ** n for j in range(n + 1)), Fraction(0))
    factorial = 1
    for k in range(2, n + 1):
        factorial *= k
    return total / factorial


def squeezed(low: float, high: float) -> object:
    return lambda p: np.clip((p - low) / (high - low), 0.0, 1.0)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 12, 20])
def test_uniform_members_follow_irwin_and_hall(size: int) -> None:
    """Uniform on [0, 0.9]: the sum of K is below K/2 if that of K standard uniforms is below K/1.8."""
    exact = float(irwin_hall_below(size, Fraction(size) * Fraction(5, 9)))
    found = mean_below_half(squeezed(0.0, 0.9), 0.0, 0.9, [size])[0]  # type: ignore[arg-type]
    assert found == pytest.approx(exact, abs=2e-6)


@pytest.mark.fast_cases("0.4-3.0", "0.05-0.1", "-0.7-1.0")
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 4.0])
@pytest.mark.parametrize("ratio", [-0.7, 0.05, 0.4])
def test_three_members_by_direct_integration(spread: float, ratio: float) -> None:
    mean = ratio * spread

    def cumulative(p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(ndtr((logit(p) - mean) / spread))

    low, high = expit([mean - 9 * spread, mean + 9 * spread])
    found = mean_below_half(cumulative, float(low), float(high), [1, 2, 3])
    assert found[0] == pytest.approx(ndtr(-ratio), abs=1e-8)
    assert found[1] == pytest.approx(ndtr(-ratio * np.sqrt(2)), abs=2e-6)
    assert found[2] == pytest.approx(three_below_half(mean, spread), abs=5e-6)


def test_symmetric_members_are_undecided() -> None:
    found = mean_below_half(lambda p: np.asarray(betainc(2.0, 2.0, p)), 0.0, 1.0, [1, 2, 5, 30, 1000])
    np.testing.assert_allclose(found, 0.5, atol=1e-9)


@given(st.floats(0.3, 6.0), st.floats(0.3, 6.0), st.sampled_from([1, 3, 6, 19, 150]))
def test_range_and_symmetry(alpha: float, beta: float, size: int) -> None:
    one = mean_below_half(lambda p: np.asarray(betainc(alpha, beta, p)), 0.0, 1.0, [size])[0]
    other = mean_below_half(lambda p: np.asarray(betainc(beta, alpha, p)), 0.0, 1.0, [size])[0]
    assert 0.0 <= one <= 1.0
    assert one + other == pytest.approx(1.0, abs=1e-8)


def test_more_members_decide_for_the_likelier_side() -> None:
    found = mean_below_half(lambda p: np.asarray(betainc(3.0, 2.0, p)), 0.0, 1.0, [1, 3, 5, 11, 40, 300])
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_log_moments_by_enumeration(size: int) -> None:
    p, w = np.array([0.02, 0.3, 0.9]), np.array([0.2, 0.5, 0.3])
    logs, chances = [], []
    for members in product(range(3), repeat=size):
        logs.append(np.log(np.mean(p[list(members)])))
        chances.append(np.prod(w[list(members)]))
    mean = float(np.dot(chances, logs))
    variance = float(np.dot(chances, (np.array(logs) - mean) ** 2))
    found_mean, found_variance = log_mean_moments(p, w, [size])
    assert found_mean[0] == pytest.approx(mean, abs=1e-12)
    assert found_variance[0] == pytest.approx(variance, abs=1e-10)


def test_log_moments_in_the_far_tail() -> None:
    p = np.array([1e-30, 1.0])
    mean, variance = log_mean_moments(p, [0.5, 0.5], [1, 2])
    assert mean[0] == pytest.approx(np.log(1e-30) / 2)
    assert mean[1] == pytest.approx(0.25 * np.log(1e-30) + 0.5 * np.log(0.5))
    assert variance[0] == pytest.approx((np.log(1e-30) / 2) ** 2, rel=1e-9)


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=6))
def test_log_mean_rises_with_size_to_that_of_the_expectation(values: list[float]) -> None:
    mean, variance = log_mean_moments(values, np.ones(len(values)), [1, 2, 4, 64, 10_000])
    assert (np.diff(mean) >= -1e-10).all()
    assert mean[-1] <= np.log(np.mean(values)) + 1e-10
    assert (variance >= 0).all()
    shuffled = log_mean_moments(values[::-1], np.ones(len(values)), [1, 2, 4, 64, 10_000])[0]
    np.testing.assert_allclose(mean, shuffled, atol=1e-12)


@pytest.mark.parametrize(
    ("low", "high", "sizes", "word"),
    [
        (0.5, 0.5, [1], "low and high"),
        (-0.1, 1.0, [1], "low and high"),
        (0.0, 1.5, [1], "low and high"),
        (0.0, 1.0, [0], "sizes"),
        (0.0, 1.0, [np.inf], "sizes"),
        (0.0, 1.0, [2.5], "sizes"),
    ],
)
def test_bad_input_of_the_tail(low: float, high: float, sizes: list[float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        mean_below_half(uniform, low, high, sizes)


@pytest.mark.parametrize(
    ("p", "w", "sizes", "word"),
    [
        ([0.0, 0.5], [0.5, 0.5], [1], "probability"),
        ([0.5, 1.5], [0.5, 0.5], [1], "probability"),
        ([0.5, np.nan], [0.5, 0.5], [1], "probability"),
        ([0.5, 0.6], [0.5], [1], "weight"),
        ([0.5, 0.6], [-1.0, 2.0], [1], "weight"),
        ([0.5, 0.6], [0.5, 0.5], [0.5], "sizes"),
        ([0.5, 0.6], [0.5, 0.5], [np.inf], "sizes"),
    ],
)
def test_bad_input_of_the_logarithm(p: list[float], w: list[float], sizes: list[float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        log_mean_moments(p, w, sizes)
