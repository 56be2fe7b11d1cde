from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from ens_plugin.core.error_curve import hypergeometric_limit
from ens_plugin.errors import InputError
from ens_plugin.papers.wrong_votes import binomial_curve, hypergeometric_curve

rows_of_counts = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 5)).map(lambda row: (min(row[:2]), row[0], row[2])),
    min_size=1,
    max_size=12,
)


def columns(rows: list[tuple[int, int, int]]) -> tuple[list[int], list[int], list[int]]:
    wrong, trials, weight = zip(*rows, strict=True)
    return list(wrong), list(trials), list(weight)


def plug_in(wrong: int, trials: int, size: int) -> Fraction:
    p = Fraction(wrong, trials)
    share = {1: Fraction(1), 0: Fraction(1, 2), -1: Fraction(0)}
    return sum(
        (
            share[(2 * k > size) - (2 * k < size)] * comb(size, k) * p**k * (1 - p) ** (size - k)
            for k in range(size + 1)
        ),
        Fraction(0),
    )


@given(rows_of_counts)
def test_binomial_is_the_weighted_mean_of_exact_tails(rows: list[tuple[int, int, int]]) -> None:
    wrong, trials, weight = columns(rows)
    sizes = [1, 2, 5, 8]
    for size, error in zip(sizes, binomial_curve(wrong, trials, sizes, weight), strict=True):
        exact = sum(w * plug_in(k, n, size) for k, n, w in rows) / sum(weight)
        assert error == pytest.approx(float(exact), abs=1e-14)


@given(rows_of_counts)
def test_asymptote_is_the_out_of_bag_error_with_half_of_the_ties(rows: list[tuple[int, int, int]]) -> None:
    wrong, trials, weight = columns(rows)
    exact = sum(w * (2 * k > n) + Fraction(w * (2 * k == n), 2) for k, n, w in rows) / sum(weight)
    assert binomial_curve(wrong, trials, [np.inf], weight)[0] == pytest.approx(float(exact), abs=1e-14)


@given(rows_of_counts)
def test_integer_weights_are_repeated_rows(rows: list[tuple[int, int, int]]) -> None:
    wrong, trials, weight = columns(rows)
    long_wrong, long_trials = np.repeat(wrong, weight), np.repeat(trials, weight)
    sizes = [1, 4, 9, np.inf]
    np.testing.assert_allclose(
        binomial_curve(wrong, trials, sizes, weight), binomial_curve(long_wrong, long_trials, sizes), atol=1e-14
    )


@given(rows_of_counts, st.randoms(use_true_random=False))
def test_order_of_the_rows_does_not_matter(rows: list[tuple[int, int, int]], random: object) -> None:
    wrong, trials, weight = columns(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    sizes = [1, 3, 6, np.inf]
    np.testing.assert_array_equal(
        binomial_curve(*columns(shuffled)[:2], sizes, columns(shuffled)[2]),
        binomial_curve(wrong, trials, sizes, weight),
    )
    low = [1] if min(trials) < 3 else [1, 3]
    np.testing.assert_array_equal(
        hypergeometric_curve(*columns(shuffled)[:2], low, columns(shuffled)[2]),
        hypergeometric_curve(wrong, trials, low, weight),
    )


def test_binomial_stays_a_share_for_two_thousand_members() -> None:
    rng = np.random.default_rng(0)
    trials = rng.binomial(2000, 0.368, size=500)
    wrong = rng.binomial(trials, rng.beta(0.3, 2.0, size=500))
    sizes = np.arange(1, 2002, 2)
    expected = np.asarray(binom.sf((sizes[:, None] - 1) / 2, sizes[:, None], wrong / trials)).mean(axis=1)
    np.testing.assert_allclose(binomial_curve(wrong, trials, sizes), expected, rtol=0, atol=1e-13)


def test_hypergeometric_is_the_mean_over_all_subsets_of_the_members() -> None:
    rng = np.random.default_rng(1)
    votes = rng.random((4, 8)) < 0.4
    sizes = [1, 3, 5, 7]
    expected = [
        np.mean([[row[list(subset)].sum() * 2 > size for subset in combinations(range(8), size)] for row in votes])
        for size in sizes
    ]
    np.testing.assert_allclose(
        hypergeometric_curve(votes.sum(axis=1), np.full(4, 8), sizes), expected, rtol=0, atol=1e-14
    )


def test_hypergeometric_at_even_sizes_counts_half_of_the_ties() -> None:
    wrong, trials = np.array([2, 3]), np.array([8, 7])
    size = 6
    more = np.asarray(hypergeom.sf(size / 2, trials, wrong, size))
    ties = np.asarray(hypergeom.pmf(size / 2, trials, wrong, size))
    expected = (more + ties / 2).mean()
    np.testing.assert_allclose(hypergeometric_curve(wrong, trials, [size])[0], expected, rtol=0, atol=1e-14)


def test_rows_with_too_few_members_leave_the_mean() -> None:
    wrong, trials = [1] + [2] * 9, [2] + [5] * 9
    weight = np.arange(1.0, 11.0)
    np.testing.assert_allclose(
        hypergeometric_curve(wrong, trials, [3], weight),
        hypergeometric_curve(wrong[1:], trials[1:], [3], weight[1:]),
        atol=1e-15,
    )


@given(st.lists(st.integers(1, 8), min_size=1, max_size=45))
def test_limit_is_the_largest_odd_size_that_nine_in_ten_rows_reach(trials: list[int]) -> None:
    reached = [size for size in range(1, 9, 2) if 10 * sum(n >= size for n in trials) >= 9 * len(trials)]
    assert hypergeometric_limit(trials) == max(reached, default=0)


def test_above_the_limit_the_message_says_what_can_be_answered() -> None:
    with pytest.raises(InputError, match=r"size 7 is above 5.*pass smaller sizes"):
        hypergeometric_curve([1, 2, 3], [5, 6, 9], [1, 7])
    with pytest.raises(InputError, match="size 8 is above 5"):
        hypergeometric_curve([1, 2, 3], [5, 6, 9], [8, 3])
    with pytest.raises(InputError, match="size inf is above 5"):
        hypergeometric_curve([1, 2, 3], [5, 6, 9], [np.inf])


@pytest.mark.parametrize(
    ("wrong", "trials", "weight", "named"),
    [
        ([1, 2], [3], None, "trials"), ([4], [3], None, "wrong"), ([-1], [3], None, "wrong"),
        ([0], [0], None, "trials"), ([np.nan], [3], None, "wrong"), (["a"], [3], None, "wrong"),
        ([1], [3], [1, 2], "weight"), ([1], [3], [-1], "weight"), ([1], [3], [0], "weight"),
    ],
)  # fmt: skip
def test_bad_argument_is_named(wrong: list[float], trials: list[float], weight: list[float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        binomial_curve(wrong, trials, [1], weight)
    with pytest.raises(InputError, match=named):
        hypergeometric_curve(wrong, trials, [1], weight)
