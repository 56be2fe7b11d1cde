from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.extrapolation import extrapolate, subset_sizes

number = st.floats(-5, 5)


def law(a: float, b: float, c: float, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(a + b / sizes + c / sizes**2)


@given(number, number, number, st.integers(3, 400))
def test_law_in_inverse_size_is_exact_beyond_the_subsets(a: float, b: float, c: float, limit: int) -> None:
    sizes = subset_sizes(limit)
    fit = extrapolate(sizes, law(a, b, c, sizes))
    beyond = np.array([limit, limit + 1, 7 * limit, 10**6])
    np.testing.assert_allclose(fit.at(beyond), law(a, b, c, beyond), rtol=0, atol=1e-8)
    assert fit.at([np.inf])[0] == pytest.approx(a, abs=1e-8)


def test_small_sizes_are_the_averages_themselves() -> None:
    sizes = subset_sizes(101)
    averages = 1.0 / np.sqrt(sizes)
    small = sizes[sizes < 101 / 6]
    assert small.size >= 4
    np.testing.assert_allclose(extrapolate(sizes, averages).at(small), 1 / np.sqrt(small), rtol=0, atol=1e-15)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 51, 999])
def test_subset_sizes_reach_from_one_to_the_limit(limit: int) -> None:
    sizes = subset_sizes(limit)
    assert (sizes[0], sizes[-1]) == (1, limit)
    assert sizes.size <= 16
    assert (np.diff(sizes) > 0).all()


def test_two_sizes_give_a_straight_line() -> None:
    fit = extrapolate(np.array([1, 2]), np.array([3.0, 2.0]))
    np.testing.assert_allclose(fit.at([1, 2, 4, np.inf]), [3.0, 2.0, 1.5, 1.0], atol=1e-12)
