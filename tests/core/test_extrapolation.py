from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.error_curve import extrapolate, subset_sizes

number = st.floats(-5, 5)


def law(a: float, b: float, c: float, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(a + b / sizes + c / sizes**2)


@given(number, number, st.integers(3, 400))
def test_line_in_inverse_size_is_exact_and_known_to_be(a: float, b: float, limit: int) -> None:
    sizes = subset_sizes(limit)
    fit = extrapolate(sizes, law(a, b, 0.0, sizes))
    wanted = np.array([1, limit, limit + 1, 7 * limit, 10**6])
    np.testing.assert_allclose(fit.at(wanted), law(a, b, 0.0, wanted), rtol=0, atol=1e-8)
    assert fit.at([np.inf])[0] == pytest.approx(a, abs=1e-8)
    np.testing.assert_allclose(fit.model_error(wanted), 0.0, atol=1e-7)


@given(number, number, number, st.integers(3, 400))
def test_what_a_line_leaves_out_is_bounded(a: float, b: float, c: float, limit: int) -> None:
    sizes = subset_sizes(limit)
    fit = extrapolate(sizes, law(a, b, c, sizes))
    beyond = np.array([limit, limit + 1, 7 * limit, 10**6])
    assert (np.abs(fit.at(beyond) - law(a, b, c, beyond)) <= fit.model_error(beyond) + 1e-8).all()


def test_the_bound_is_three_times_the_distance_of_a_parabola_from_the_line() -> None:
    """The parabola is the law itself; the line is through the averages at two and at three members."""
    fit = extrapolate(np.array([1, 2, 3]), law(0.2, 0.1, 0.06, np.array([1, 2, 3])))
    line = law(0.2, 0.1, 0.06, np.array([3])) + 0.06 * (1 / 2 + 1 / 3) * (1 / np.array([6, 10**9]) - 1 / 3)
    line += 0.1 * (1 / np.array([6, 10**9]) - 1 / 3)
    apart = law(0.2, 0.1, 0.06, np.array([6, 10**9])) - line
    np.testing.assert_allclose(fit.model_error([6, 10**9]), 3.0 * np.abs(apart), rtol=1e-7)


def test_averages_are_kept_at_their_sizes() -> None:
    sizes = subset_sizes(101)
    averages = 1.0 / np.sqrt(sizes)
    np.testing.assert_allclose(extrapolate(sizes, averages).at(sizes), averages, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_order_variance_is_that_of_the_fit_to_noisy_averages() -> None:
    rng = np.random.default_rng(0)
    sizes, wanted = subset_sizes(40), [1, 7, 40, 100, np.inf]
    factor = rng.normal(size=(sizes.size, sizes.size))
    draws = np.array([extrapolate(sizes, factor @ rng.normal(size=sizes.size)).at(wanted) for _ in range(3000)])
    found = extrapolate(sizes, np.zeros(sizes.size)).order_variance(wanted, factor @ factor.T)
    np.testing.assert_allclose(found, draws.var(axis=0), rtol=0.12)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 51, 999])
def test_subset_sizes_reach_from_one_to_the_limit(limit: int) -> None:
    sizes = subset_sizes(limit)
    assert (sizes[0], sizes[-1]) == (1, limit)
    assert sizes.size <= 16
    assert (np.diff(sizes) > 0).all()


def test_two_sizes_give_a_straight_line() -> None:
    fit = extrapolate(np.array([1, 2]), np.array([3.0, 2.0]))
    np.testing.assert_allclose(fit.at([1, 2, 4, np.inf]), [3.0, 2.0, 1.5, 1.0], atol=1e-12)


def test_the_line_is_that_of_least_squares_from_half_the_largest_size_on() -> None:
    sizes = subset_sizes(60)
    averages = np.random.default_rng(0).normal(size=sizes.size)
    late = sizes >= 30
    assert np.count_nonzero(late) > 2
    slope, limit = np.polyfit(1.0 / sizes[late], averages[late], 1)
    # The last average lies off the line, by less and less beyond it.
    apart = (averages[-1] - limit - slope / 60) * 60 / 800
    np.testing.assert_allclose(extrapolate(sizes, averages).at([800, np.inf]), [limit + slope / 800 + apart, limit])
