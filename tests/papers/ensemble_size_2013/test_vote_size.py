from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, norm

from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.errors import InputError
from ens_plugin.papers.ensemble_size_2013 import deconvolved_size, normal_row_size, plugin_size, row_size, row_size_tail

FloatArray = NDArray[np.float64]

probabilities = st.lists(st.integers(0, 100).map(lambda point: point / 100), min_size=1, max_size=8)
confidences = st.sampled_from([0.6, 0.9, 0.99, 0.999])


def right_label(p: float, size: float) -> float:
    """2013 eq. 9 at odd sizes, by SciPy's binomial."""
    return float(binom.sf(size // 2, size, max(p, 1 - p)))


@given(probabilities, confidences)
def test_row_size_is_the_smallest_odd_size_that_settles_the_row(p: list[float], confidence: float) -> None:
    for point, size in zip(p, row_size(p, confidence), strict=True):
        if point == 0.5:
            assert np.isinf(size)
            continue
        assert size % 2 == 1
        assert right_label(point, size) >= confidence - 1e-12
        assert size == 1 or right_label(point, size - 2) < confidence + 1e-12


def test_row_size_agrees_with_the_recommended_size_of_one_row() -> None:
    p = np.array([0.02, 0.2, 0.38, 0.44, 0.49, 0.6, 0.99])
    assert row_size(p, 0.99).tolist() == [recommended_size([point], max_size=10**6) for point in p]


def test_row_size_above_the_largest_size_is_infinite() -> None:
    exact = row_size([0.45])[0]
    assert row_size([0.45], max_size=int(exact))[0] == exact
    assert np.isinf(row_size([0.45], max_size=int(exact) - 1)[0])
    assert np.isinf(row_size([0.45], max_size=1)[0])


@given(probabilities, st.permutations(range(3)))
def test_row_size_depends_on_each_row_alone(p: list[float], order: list[int]) -> None:
    rows = np.array([0.2, 0.47, 0.81])
    np.testing.assert_array_equal(row_size(rows[order]), row_size(rows)[order])
    np.testing.assert_array_equal(row_size(np.concatenate([rows, p]))[:3], row_size(rows))
    np.testing.assert_array_equal(row_size(p), row_size(1.0 - np.array(p).round(2)))


def test_row_size_grows_towards_one_half_and_with_confidence() -> None:
    p = np.linspace(0.0, 0.499, 60)
    assert np.all(np.diff(row_size(p)) >= 0)
    assert np.all(row_size(p, 0.999) >= row_size(p, 0.99))


def test_normal_approximation_is_the_formula_and_good_near_one_half() -> None:
    """2013 eq. 12; exact minus approximate is of order 1 close to 1/2."""
    z = float(norm.ppf(0.99))
    assert normal_row_size([0.3])[0] == pytest.approx(z**2 * 0.21 / 0.04)
    assert np.isinf(normal_row_size([0.5])[0])
    p = np.array([0.49, 0.495, 0.505, 0.501])
    np.testing.assert_allclose(row_size(p), normal_row_size(p), rtol=0, atol=6)


def test_tail_is_the_share_of_rows_with_larger_sizes() -> None:
    rng = np.random.default_rng(0)
    p, w = rng.beta(2, 2, size=300), rng.uniform(0, 2, size=300)
    own = row_size(p)
    wanted = np.array([1, 7, 31, 1001, np.inf, own[0]])
    shares = [w[own > size].sum() / w.sum() for size in wanted]
    np.testing.assert_allclose(row_size_tail(p, wanted, weight=w), shares, atol=1e-13)


@given(probabilities, confidences)
def test_tail_lies_between_0_and_1_and_falls(p: list[float], confidence: float) -> None:
    tail = row_size_tail(p, [1, 5, 25, 125, 10_001], confidence)
    assert np.all((tail >= 0) & (tail <= 1))
    assert np.all(np.diff(tail) <= 0)


def test_undecidable_rows_are_never_settled() -> None:
    assert row_size_tail([0.5, 0.1], [np.inf])[0] == 0.5


def test_plugin_size_is_eq_17() -> None:
    k, n = np.array([1, 12, 30, 80]), np.array([100, 90, 70, 100])
    size = plugin_size(k, n, 0.98)
    assert size is not None
    assert agreement(k / n, None, [size])[0] >= 0.98 > agreement(k / n, None, [size - 2])[0]


@given(st.permutations(range(4)))
def test_sizes_need_no_labels_and_no_order(order: list[int]) -> None:
    """Votes for one label or wrong votes: only the distance from 1/2 matters."""
    k, n = np.array([1, 12, 30, 80])[order], np.array([100, 90, 70, 100])[order]
    swapped = np.where(np.arange(4) % 2, k, n - k)
    assert plugin_size(k, n) == plugin_size(swapped, n) == plugin_size(n - k, n)
    assert plugin_size(k, n) == plugin_size([1, 12, 30, 80], [100, 90, 70, 100])


def test_size_above_the_largest_is_none() -> None:
    assert plugin_size([50], [100]) is None
    assert plugin_size([45], [100], max_size=101) is None


def test_few_votes_mislead_the_plug_in_and_not_the_deconvolved_size() -> None:
    """Error probabilities from Beta(1, 3): the true size is known; 12 votes a row."""
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, size=6000)
    n = np.full(p.size, 12)
    k = rng.binomial(n, p)
    truth = recommended_size(p)
    few = deconvolved_size(k, n)
    assert truth is not None
    assert few is not None
    assert abs(np.log2(few / truth)) < 0.5
    plain = plugin_size(k, n, max_size=10**6)
    assert plain is None or plain > 2 * truth


def test_deconvolved_size_from_unlabelled_votes() -> None:
    """Two heaps of rows, as in 2013 Fig. 1 (right): wrong with Beta(1, 5), the truth not known."""
    rng = np.random.default_rng(2)
    wrong = rng.beta(1, 5, size=6000)
    p = np.where(rng.random(6000) < 0.5, wrong, 1 - wrong)
    n = np.full(p.size, 40)
    few, truth = deconvolved_size(rng.binomial(n, p), n), recommended_size(p)
    assert few is not None
    assert truth is not None
    assert abs(np.log2(few / truth)) < 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.2],), "probability must lie in"),
        (([np.inf],), "probability holds NaN"),
        (([],), "probability is empty"),
        (([0.2], 0.5), "confidence must lie strictly"),
        (([0.2], 1.0), "confidence must lie strictly"),
    ],
)
def test_bad_rows_are_named(arguments: tuple[Any, ...], message: str) -> None:
    for function in (row_size, normal_row_size):
        with pytest.raises(InputError, match=message):
            function(*arguments)


def test_other_bad_arguments_of_rows_are_named() -> None:
    with pytest.raises(InputError, match="max_size must be a whole number"):
        row_size([0.2], max_size=0)
    with pytest.raises(InputError, match="sizes must hold whole numbers"):
        row_size_tail([0.2], [0])
    with pytest.raises(InputError, match="weight must have length 1"):
        row_size_tail([0.2], [3], weight=[1, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [2]), "votes must lie between 0 and trials"),
        (([-1], [2]), "votes must lie between 0 and trials"),
        (([1], [0]), "trials must be positive"),
        (([1, 1], [2]), "trials must have length 2"),
        (([np.nan], [2]), "votes holds NaN"),
        (([1], [2], 0.4), "confidence must lie strictly"),
        (([1], [2], 0.9, 0), "max_size must be a whole number"),
    ],
)
def test_bad_votes_are_named(arguments: tuple[Any, ...], message: str) -> None:
    for function in (plugin_size, deconvolved_size):
        with pytest.raises(InputError, match=message):
            function(*arguments)
