"""The size from which on an error is close to its limit, against a search through all odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.intervals import N_DRAWS, DrawnCurve, sizes_of_approach

SIZES = np.append(np.unique((np.geomspace(1, 2001, 60).astype(int) - 1) // 2 * 2 + 1).astype(float), np.inf)


def curve(slope: float, bend: float) -> DrawnCurve:
    error = 0.1 + np.maximum(slope / SIZES + bend / SIZES**2, 0.0)
    return DrawnCurve(SIZES, error, np.tile(error, (N_DRAWS, 1)), np.inf)


def searched(slope: float, bend: float, tolerance: float) -> float:
    odd = np.arange(1.0, 2002.0, 2.0)
    far = np.flatnonzero(slope / odd + bend / odd**2 > tolerance)
    if far.size == 0:
        return 1.0
    return np.inf if far[-1] == odd.size - 1 else float(odd[far[-1] + 1])


@pytest.mark.parametrize("tolerance", [0.0001, 0.001, 0.002])
@pytest.mark.parametrize(("slope", "bend"), [(0.05, 0.0), (0.2, -0.1), (0.3, -1.0), (-0.05, 0.2), (-0.1, 0.0)])
def test_the_first_close_size(slope: float, bend: float, tolerance: float) -> None:
    found, exact = curve(slope, bend).size_within(tolerance, 2001), searched(slope, bend, tolerance)
    assert (found or np.inf) == exact or abs((found or np.inf) / exact - 1.0) < 0.04


def test_the_size_of_each_draw_is_found_alone() -> None:
    shapes = [(0.05, 0.0), (0.3, -1.0), (-0.1, 0.0), (5.0, 0.0), (0.2, -0.1)]
    draws = np.array([curve(*shape).values for shape in shapes])
    found = DrawnCurve(SIZES, draws[0], draws, np.inf).size_draws(0.0001)
    exact = np.array([searched(*shape, 0.0001) for shape in shapes])
    assert np.isinf(exact).sum() == 2
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    known = np.isfinite(exact)
    np.testing.assert_allclose(found[known], exact[known], rtol=0.04)


def test_an_error_below_its_limit_is_close_enough() -> None:
    assert curve(-0.1, 0.0).size_within(0.01, 2001) == 1


def test_the_loss_is_linear_in_the_inverse_size() -> None:
    error = np.array([0.3, 0.2, 0.1])
    found = DrawnCurve(np.array([1.0, 3.0, np.inf]), error, error[None])
    assert found.losses([1, 2, 3, 6, 10**12]) == pytest.approx([0.2, 0.125, 0.1, 0.05, 0.0], abs=1e-9)


def test_an_error_that_goes_to_0_has_a_size_too() -> None:
    """At 21 the error of 0.1/B is 0.0048, at 19 it is 0.0053."""
    error = 0.1 / SIZES
    found = DrawnCurve(SIZES, error, np.tile(error, (N_DRAWS, 1)), np.inf)
    assert found.losses([1, 5]) == pytest.approx([0.1, 0.02])
    assert found.size_within(0.005, 2001) == 21
    assert found.size_interval(0.005, 2001, 0.9) == (21, 21)


def test_the_loss_of_a_draw_whose_limit_is_below_0_is_from_that_limit() -> None:
    """It is 0.106 at 3 members, 0.004 at 5 and 0.001 at 7."""
    sizes = np.array([1.0, 3.0, 5.0, 7.0, np.inf])
    draws = np.array([[0.3, 0.1, -0.002, -0.005, -0.006]])
    found = DrawnCurve(sizes, draws[0], draws, np.inf)
    assert [found.size_draws(tolerance).tolist() for tolerance in (0.1, 0.003)] == [[5.0], [7.0]]


def test_an_excess_is_linear_in_the_inverse_of_the_size_between_sizes() -> None:
    sizes = np.array([1.0, 2.0, 4.0, np.inf])
    found = sizes_of_approach(sizes, np.array([[2.0, 1.0, -1.0], [2.0, 1.0, 0.5]]))
    assert found == pytest.approx([8.0 / 3.0, np.inf])
