from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.core.votes import majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.error_curves_2007 import (
    expected_plugin_curve,
    expected_plugin_error,
    plugin_bias,
    plugin_bias_curve,
)
from ens_plugin.papers.wrong_votes import binomial_curve

FloatArray = NDArray[np.float64]

# SciPy's own binomial overflows for denormal probabilities.
probabilities = st.lists(st.floats(1e-12, 1), min_size=1, max_size=3)
sizes = st.lists(st.sampled_from([1.0, 3.0, 21.0, 1001.0, np.inf]), min_size=1, max_size=3)


def majority(share: float, size: float) -> float:
    if np.isinf(size):
        return float(share > 0.5) + 0.5 * float(share == 0.5)
    return float(binom.sf(size // 2, int(size), share))


def expected(p: float, votes: int, size: float) -> float:
    """2007 eq. 10, term by term."""
    return sum(float(binom.pmf(m, votes, p)) * majority(m / votes, size) for m in range(votes + 1))


@given(probabilities, st.integers(1, 12), sizes)
def test_expectation_is_the_papers_sum(p: list[float], votes: int, wanted: list[float]) -> None:
    known = [[expected(point, votes, size) for point in p] for size in wanted]
    np.testing.assert_allclose(expected_plugin_error(p, votes, wanted), known, rtol=0, atol=1e-12)


@given(probabilities)
def test_one_vote_is_the_diagonal_at_every_size(p: list[float]) -> None:
    """2007, Fig. 1: the M = 1 line is straight, also in the limit."""
    np.testing.assert_allclose(expected_plugin_error(p, 1, [1, 1001, np.inf]), [p, p, p], atol=1e-15)


@given(st.floats(0, 0.49), st.integers(1, 60), sizes)
def test_bias_is_upwards_below_one_half_and_mirrored_above(p: float, votes: int, wanted: list[float]) -> None:
    """2007 section 3.1. For 1/2 - p too small to matter the bias may round to nothing."""
    below, above = plugin_bias([p, 1 - p], votes, wanted).T
    assert np.all(below >= -1e-12)
    np.testing.assert_allclose(below, -above, atol=1e-12)


@given(st.floats(0.01, 0.4), st.sampled_from([np.inf, 101.0]))
def test_bias_falls_with_votes_and_vanishes(p: float, size: float) -> None:
    bias = [plugin_bias([p], votes, [size])[0, 0] for votes in (5, 15, 45, 135)]
    assert all(more <= fewer + 1e-12 for fewer, more in pairwise(bias))
    assert plugin_bias([p], 40_000, [size])[0, 0] < 1e-3


def test_many_votes_and_probabilities_at_the_ends_stay_finite() -> None:
    np.testing.assert_array_equal(expected_plugin_error([0.0, 1.0], 5000, [1, 1001, np.inf]), [[0, 1]] * 3)
    assert expected_plugin_error([0.5], 5000, [np.inf])[0, 0] == pytest.approx(0.5, abs=1e-11)


@pytest.mark.slow
def test_curve_is_what_the_estimator_gives_on_average() -> None:
    """2007 eq. 9 against the estimator itself on 1000 draws of the votes, five standard errors."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.0, 4.0, size=40)
    n = rng.integers(5, 30, size=40)
    w = rng.uniform(0.5, 2.0, size=40)
    wanted = [1.0, 11.0, 201.0, np.inf]
    drawn = np.array([binomial_curve(rng.binomial(n, p), n, wanted, w) for _ in range(1000)])
    spread = drawn.std(axis=0) / np.sqrt(1000)
    assert np.all(np.abs(drawn.mean(axis=0) - expected_plugin_curve(p, n, wanted, w)) < 5 * spread)


@given(st.permutations(range(5)))
def test_curve_does_not_depend_on_the_order_of_rows(order: list[int]) -> None:
    p, n, w = np.array([0.1, 0.2, 0.45, 0.6, 0.2]), np.array([5, 9, 5, 18, 7]), np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    np.testing.assert_allclose(
        plugin_bias_curve(p[order], n[order], [3, np.inf], w[order]),
        plugin_bias_curve(p, n, [3, np.inf], w),
        atol=1e-14,
    )


def test_bias_curve_is_the_weighted_mean_of_single_rows() -> None:
    p, w = [0.1, 0.4, 0.7], np.array([1.0, 2.0, 1.0])
    single = plugin_bias(p, 18, [3, 1001, np.inf]) @ w / 4
    np.testing.assert_allclose(plugin_bias_curve(p, [18] * 3, [3, 1001, np.inf], w), single, atol=1e-14)
    truth = majority_error(p, [1001]) @ w / 4
    assert expected_plugin_curve(p, [18] * 3, [1001], w) == pytest.approx(single[1] + truth, abs=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-0.1], 5, [3]), "probability must lie in"),
        (([1.5], 5, [3]), "probability must lie in"),
        (([np.nan], 5, [3]), "probability holds NaN"),
        (([[0.1]], 5, [3]), "probability must have one dimension"),
        (([0.1], 0, [3]), "n_votes must be a whole number"),
        (([0.1], 10**30, [3]), "n_votes must be a whole number of at most 1000000"),
        (([0.1], 2.5, [3]), "n_votes must be a whole number"),
        (([0.1], 5, [0]), "sizes must hold whole numbers"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    for function in (expected_plugin_error, plugin_bias):
        with pytest.raises(InputError, match=message):
            function(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2.0], [5], [3]), "probability must lie in"),
        (([0.1], [0], [3]), "trials must hold whole numbers"),
        (([0.1], [1.5], [3]), "trials must hold whole numbers"),
        (([0.1], [5, 6], [3]), "trials must have length 1"),
        (([0.1], [5], [3], [1, 2]), "weight must have length 1"),
        (([0.1], [5], [np.nan]), "sizes must hold whole numbers"),
    ],
)
def test_bad_rows_are_named(arguments: tuple[Any, ...], message: str) -> None:
    for function in (expected_plugin_curve, plugin_bias_curve):
        with pytest.raises(InputError, match=message):
            function(*arguments)
