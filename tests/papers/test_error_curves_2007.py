"""The plug-in estimate of 2007: its expectation by the paper's sum, and the bias stated beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin import CustomEnsemble
from ens_plugin.core.votes import majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.error_curves_2007 import (
    curves,
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


@given(st.floats(0, 0.49), st.integers(1, 60), sizes)
def test_bias_is_upwards_below_one_half_and_mirrored_above(p: float, votes: int, wanted: list[float]) -> None:
    """2007 section 3.1. For 1/2 - p too small to matter the bias may round to nothing."""
    below, above = plugin_bias([p, 1 - p], votes, wanted).T
    assert np.all(below >= -1e-12)
    np.testing.assert_allclose(below, -above, atol=1e-12)


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


@pytest.mark.parametrize("n_members", [6, 40])
def test_the_plug_in_is_the_deconvolved_error_and_its_bias(n_members: int) -> None:
    """With 6 members, 1 to 6 are out of bag for a row; the mean number in place of each row's is 0.02 off."""
    rng = np.random.default_rng(0)
    y, wrong = rng.integers(0, 2, 6000), rng.beta(1.0, 3.0, 6000)
    labels = np.where(rng.random((n_members, y.size)) < wrong, 1 - y, y)
    in_bag = rng.random(labels.shape) < 0.63
    in_bag[0, in_bag.all(axis=0)] = False
    ensemble = CustomEnsemble(labels, in_bag, aggregation="vote", classes=[0, 1])
    frame = curves(ensemble, None, y, sizes=[1, 5, 21, np.inf])
    np.testing.assert_allclose(frame.plug_in, frame.deconvolved + frame.plug_in_bias, rtol=0, atol=0.004)
