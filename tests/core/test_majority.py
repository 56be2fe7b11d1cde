from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import beta as beta_function
from scipy.stats import binom, hypergeom

from ens_plugin.core.votes import majority_curve, majority_error, soft_majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.wrong_votes import subset_majority_error

HALF = Fraction(1, 2)
PROBABILITIES = (0.0, 1e-9, 0.03, 0.25, 0.3, 0.499, 0.5, 0.501, 0.7, 0.999, 1.0)


def exact_majority(p: Fraction, size: int) -> Fraction:
    """P[Bin(size, p) > size/2] + half of P[= size/2], in rationals."""
    total = Fraction(0)
    for wrong in range(size + 1):
        share = Fraction(1) if 2 * wrong > size else HALF if 2 * wrong == size else Fraction(0)
        total += share * comb(size, wrong) * p**wrong * (1 - p) ** (size - wrong)
    return total


def exact_subset_majority(wrong: int, trials: int, size: int) -> Fraction:
    """P[Hypergeom(trials, wrong, size) > size/2], ties half, in rationals."""
    total = Fraction(0)
    for k in range(max(0, size - trials + wrong), min(wrong, size) + 1):
        share = Fraction(1) if 2 * k > size else HALF if 2 * k == size else Fraction(0)
        total += share * comb(wrong, k) * comb(trials - wrong, size - k)
    return total / comb(trials, size)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 10, 11, 50, 51, 101])
def test_error_is_the_exact_tail_with_half_of_the_ties(size: int) -> None:
    exact = [float(exact_majority(Fraction(p), size)) for p in PROBABILITIES]
    np.testing.assert_allclose(majority_error(PROBABILITIES, [size])[0], exact, rtol=0, atol=1e-14)


def test_error_agrees_with_scipy_at_every_odd_size_up_to_2001() -> None:
    sizes = np.arange(1, 2002, 2)
    p = np.array(PROBABILITIES)
    expected = binom.sf((sizes[:, None] - 1) / 2, sizes[:, None], p)
    np.testing.assert_allclose(majority_error(p, sizes), expected, rtol=0, atol=1e-13)


def test_infinite_ensemble_is_wrong_where_most_members_are() -> None:
    np.testing.assert_array_equal(majority_error([0.0, 0.4999, 0.5, 0.5001, 1.0], [np.inf]), [[0, 0, 0.5, 1, 1]])


def test_sizes_come_back_in_the_order_asked_for() -> None:
    sizes = [101.0, np.inf, 1.0, 100.0, 3.0, 1.0]
    separate = [majority_error(PROBABILITIES, [size])[0] for size in sizes]
    np.testing.assert_array_equal(majority_error(PROBABILITIES, sizes), separate)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_error_is_a_probability_and_mirrors_around_one_half(p: list[float], sizes: list[int]) -> None:
    error = majority_error(p, sizes)
    assert ((error >= 0) & (error <= 1)).all()
    np.testing.assert_allclose(majority_error(1 - np.array(p), sizes), 1 - error, rtol=0, atol=1e-13)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=6))
def test_curve_is_the_weighted_mean_of_the_errors(points: list[tuple[float, int]]) -> None:
    p = [point for point, _ in points]
    shares = np.array([weight for _, weight in points], dtype=np.float64)
    sizes = [1, 2, 7, np.inf, 40]
    np.testing.assert_allclose(majority_curve(p, shares, sizes), majority_error(p, sizes) @ shares, atol=1e-13)


@pytest.mark.parametrize("votes", [0.3, 1.0, 2.0, 2.7, 7.0, 40.3, 500.5])
def test_votes_need_not_be_whole(votes: float) -> None:
    """Against the definition: the integral of the beta density with both parameters (b + 1) / 2."""
    a = (votes + 1) / 2
    for p in (0.02, 0.3, 0.45, 0.5, 0.66):
        points = [0.5] if p > 0.5 else None
        area = quad(lambda x: (x * (1 - x)) ** (a - 1), 0, p, points=points, epsabs=0, epsrel=1e-11, limit=300)[0]
        expected = area / beta_function(a, a)
        np.testing.assert_allclose(soft_majority_error([p], [votes])[0, 0], expected, rtol=1e-8, atol=1e-200)


@pytest.mark.parametrize("size", [100_001, 100_002, 2_000_000, 1_000_000_000])
def test_large_sizes_come_from_the_closed_form(size: int) -> None:
    p = np.array([0.0, 0.3, 0.4999, 0.49999, 0.5, 0.500001, 1.0])
    odd = (size + 1) // 2 * 2 - 1
    expected = binom.sf(odd // 2, odd, p)
    np.testing.assert_allclose(majority_error(p, [size])[0], expected, rtol=1e-8, atol=1e-12)
    assert majority_curve(p, np.full(7, 1 / 7), [3, size])[1] == pytest.approx(expected.mean(), rel=1e-8)


def test_whole_odd_votes_are_hard_votes() -> None:
    sizes = [1, 3, 9, 101, 1001]
    hard = majority_error(PROBABILITIES, sizes)
    np.testing.assert_allclose(soft_majority_error(PROBABILITIES, sizes), hard, rtol=0, atol=1e-13)


def test_infinitely_many_soft_votes_decide_like_hard_ones() -> None:
    p = [0.0, 0.49, 0.5, 0.51, 1.0]
    np.testing.assert_array_equal(soft_majority_error(p, [np.inf]), majority_error(p, [np.inf]))


def test_subset_error_is_the_mean_over_all_subsets() -> None:
    trials = 9
    for wrong in range(trials + 1):
        votes = np.repeat([1, 0], [wrong, trials - wrong])
        rows = subset_majority_error([wrong], [trials], trials)[:, 0]
        for row, size in zip(rows, range(1, trials + 1, 2), strict=True):
            subsets = [votes[list(subset)].sum() * 2 > size for subset in combinations(range(trials), size)]
            assert row == pytest.approx(np.mean(subsets), abs=1e-14)


@pytest.mark.parametrize("trials", [1, 2, 5, 18, 37, 184])
def test_subset_error_is_the_exact_rational(trials: int) -> None:
    wrong = np.unique(np.linspace(0, trials, 9).astype(int))
    ours = subset_majority_error(wrong, np.full(wrong.size, trials), trials)
    for row, size in zip(ours, range(1, trials + 1, 2), strict=True):
        exact = [float(exact_subset_majority(int(k), trials, size)) for k in wrong]
        np.testing.assert_allclose(row, exact, rtol=0, atol=3e-15)


def test_subset_error_is_stable_for_two_thousand_members() -> None:
    wrong = np.array([0, 3, 500, 950, 999, 1000, 1001, 1500, 2001])
    ours = subset_majority_error(wrong, np.full(wrong.size, 2001), 2001)
    sizes = np.arange(1, 2002, 2)
    expected = hypergeom.sf(((sizes - 1) / 2)[:, None], 2001, wrong[None], sizes[:, None])
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)


def test_rows_drop_out_of_sizes_they_do_not_reach() -> None:
    rows = subset_majority_error([1, 2, 2], [2, 3, 6], 7)
    expected_nan = np.array([[False, False, False], [True, False, False], [True, True, False], [True, True, True]])
    np.testing.assert_array_equal(np.isnan(rows), expected_nan)


@given(st.integers(2, 12), st.data())
def test_an_even_subset_is_worth_the_odd_one_below(trials: int, data: st.DataObject) -> None:
    """The identity by which even sizes are answered, in rationals."""
    wrong = data.draw(st.integers(0, trials))
    size = data.draw(st.integers(1, trials // 2)) * 2
    assert exact_subset_majority(wrong, trials, size) == exact_subset_majority(wrong, trials, size - 1)


@pytest.mark.parametrize(
    ("probability", "sizes", "named"),
    [
        ([-0.1], [1], "probability"), ([1.1], [1], "probability"), ([np.nan], [1], "probability"),
        ([], [1], "probability"), ([[0.5]], [1], "probability"), ([0.5], [0], "sizes"), ([0.5], [1.5], "sizes"),
        ([0.5], [np.nan], "sizes"), ([0.5], [-np.inf], "sizes"), ([0.5], [], "sizes"),
    ],
)  # fmt: skip
def test_bad_argument_is_named(probability: NDArray[np.float64], sizes: list[float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        majority_error(probability, sizes)
    with pytest.raises(InputError, match=named):
        majority_curve(probability, np.ones(len(probability)), sizes)


@pytest.mark.parametrize("votes", [0.0, -1.0, np.nan])
def test_no_votes_are_refused(votes: float) -> None:
    with pytest.raises(InputError, match="votes"):
        soft_majority_error([0.5], [votes])


@pytest.mark.parametrize(("wrong", "trials"), [([0.5], [3]), ([1], [2.5]), ([4], [3]), ([-1], [3]), ([0], [0])])
def test_subsets_need_whole_counts_within_the_trials(wrong: list[float], trials: list[float]) -> None:
    with pytest.raises(InputError, match=r"wrong|trials"):
        subset_majority_error(wrong, trials, 1)
