"""The size from which on an error is close to its limit, against a search through all odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.error_curve import Anchor
from ens_plugin.core.intervals import N_DRAWS, ErrorDraws, combine_draws, draw_errors, draw_posteriors, size_of_approach
from ens_plugin.core.votes import fit_mixture, majority_error

SIZES = np.append(np.unique((np.geomspace(1, 2001, 60).astype(int) - 1) // 2 * 2 + 1).astype(float), np.inf)


def curve(slope: float, bend: float) -> ErrorDraws:
    error = 0.1 + slope / SIZES + bend / SIZES**2
    return ErrorDraws(SIZES, error, np.tile(error, (N_DRAWS, 1)))


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
    draws = np.array([curve(*shape).error for shape in shapes])
    found = ErrorDraws(SIZES, draws[0], draws).size_draws(0.0001)
    exact = np.array([searched(*shape, 0.0001) for shape in shapes])
    assert np.isinf(exact).sum() == 2
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    known = np.isfinite(exact)
    np.testing.assert_allclose(found[known], exact[known], rtol=0.04)


def test_an_error_below_its_limit_is_close_enough() -> None:
    assert curve(-0.1, 0.0).size_within(0.01, 2001) == 1


def test_the_loss_is_linear_in_the_inverse_size() -> None:
    error = np.array([0.3, 0.2, 0.1])
    found = ErrorDraws(np.array([1.0, 3.0, np.inf]), error, error[None])
    assert found.losses([1, 2, 3, 6, 10**12]) == pytest.approx([0.2, 0.125, 0.1, 0.05, 0.0], abs=1e-9)


def test_an_error_that_goes_to_0_has_a_size_too() -> None:
    """At 21 the error of 0.1/B is 0.0048, at 19 it is 0.0053."""
    error = 0.1 / SIZES
    found = ErrorDraws(SIZES, error, np.tile(error, (N_DRAWS, 1)))
    assert found.losses([1, 5]) == pytest.approx([0.1, 0.02])
    assert found.size_within(0.005, 2001) == 21
    assert found.size_interval(0.005, 2001, 0.9) == (21, 21)


def test_parts_add_up_by_their_shares() -> None:
    one, other = curve(0.05, 0.0), curve(0.1, 0.0)
    both = combine_draws([one, other], np.array([0.25, 0.75]))
    np.testing.assert_allclose(both.error, 0.25 * one.error + 0.75 * other.error)
    np.testing.assert_allclose(both.draws, both.error[None].repeat(N_DRAWS, axis=0))


def test_parts_have_draws_of_their_own_and_shifts_by_their_shares() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(0.2, 0.01, (N_DRAWS, SIZES.size))
    error = np.full(SIZES.size, 0.2)
    tied, untied = ErrorDraws(SIZES, error, draws, 0.01 * np.ones(SIZES.size)), ErrorDraws(SIZES, error, draws)
    both = combine_draws([tied, untied], np.array([0.25, 0.75]))
    assert both.even_shift is not None
    np.testing.assert_allclose(both.even_shift, 0.0025)
    # The variances of independent parts add up: 1/16 and 9/16.
    assert both.draws.std(axis=0).mean() == pytest.approx(0.01 * np.sqrt(10.0) / 4.0, rel=0.06)
    assert combine_draws([untied, untied], np.array([0.5, 0.5])).even_shift is None


def test_an_anchor_moves_the_error_and_its_draws() -> None:
    p = np.random.default_rng(0).beta(2.0, 3.0, 300)
    found = fit_mixture(np.random.default_rng(1).binomial(40, p), np.full(300, 40))
    anchor = Anchor(np.array([1, 3]), np.zeros(2), np.ones(2), np.array([0.05, -0.02]))
    drawn = [draw_posteriors(found, 0)]
    plain, moved = (draw_errors([found], each, 2001, drawn) for each in (None, anchor))
    expected = 0.05 / plain.sizes - 0.02 / plain.sizes**2
    np.testing.assert_allclose(moved.error - plain.error, expected, atol=1e-12)
    np.testing.assert_allclose(moved.draws - plain.draws, np.tile(expected, (N_DRAWS, 1)), atol=1e-12)
    np.testing.assert_allclose(plain.error, found.error(plain.sizes))
    two = draw_errors([found, found], None, 2001, [drawn[0], None])
    np.testing.assert_allclose(two.draws - plain.error, (plain.draws - plain.error) / 2.0, atol=1e-12)


def test_the_loss_of_a_draw_whose_limit_is_below_0_is_from_that_limit() -> None:
    """It is 0.106 at 3 members, 0.004 at 5 and 0.001 at 7."""
    sizes = np.array([1.0, 3.0, 5.0, 7.0, np.inf])
    draws = np.array([[0.3, 0.1, -0.002, -0.005, -0.006]])
    found = ErrorDraws(sizes, draws[0], draws)
    assert [found.size_draws(tolerance).tolist() for tolerance in (0.1, 0.003)] == [[5.0], [7.0]]


@pytest.mark.parametrize("n_members", [40, 1000])
def test_the_draws_vary_as_samples_of_rows_do_however_many_members_there_are(n_members: int) -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1.0, 51.0, np.inf])
    wanted = rng.beta(2.0, 3.0, (4000, 300))
    points = np.linspace(0.0, 1.0, 2001)
    at_51 = np.interp(wanted, points, majority_error(points, [51])[0])
    of_samples = np.stack([wanted, at_51, wanted > 0.5])
    sampled = of_samples.mean(axis=2).std(axis=1)
    spreads = []
    for seed in range(8):
        p = np.random.default_rng(seed).beta(2.0, 3.0, 300)
        found = fit_mixture(np.random.default_rng(seed).binomial(n_members, p), np.full(300, n_members))
        drawn = draw_errors([found], None, 2001, [draw_posteriors(found, 0)])
        at = [int(np.argmin(np.abs(drawn.sizes - size))) for size in sizes[:2]] + [-1]
        spreads.append(drawn.draws[:, at].std(axis=0))
    ratio = np.mean(spreads, axis=0) / sampled
    assert np.all(ratio > 0.6), ratio
    assert np.all(ratio < 1.7), ratio


def test_errors_of_a_jackknife_spread_the_draws_by_their_squares() -> None:
    error = 0.1 + 0.2 / SIZES
    found = ErrorDraws(SIZES, error, np.tile(error, (40_000, 1)))
    errors = 0.01 * np.random.default_rng(0).standard_normal((12, 1)) * np.ones(SIZES.size)
    # Of 11 degrees of freedom, the variance of Student's distribution is 11/9.
    sd = np.sqrt(np.sum(errors**2, axis=0) * 11.0 / 9.0)
    np.testing.assert_allclose(found.spread(errors, 0).draws.std(axis=0), sd, rtol=0.03)
    assert found.spread(np.empty((0, SIZES.size)), 0) is found


def test_an_excess_is_linear_in_the_inverse_of_the_size_between_sizes() -> None:
    sizes = np.array([1.0, 2.0, 4.0, np.inf])
    assert size_of_approach(sizes, np.array([2.0, 1.0, -1.0])) == pytest.approx(8.0 / 3.0)
    assert size_of_approach(sizes, np.array([2.0, 1.0, 0.5])) == np.inf
