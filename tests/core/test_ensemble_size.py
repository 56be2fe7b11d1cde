from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, norm

from ens_plugin.core.error_curve import agreement, recommended_size, smallest_odd_size
from ens_plugin.errors import InputError

FloatArray = NDArray[np.float64]

points = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 9)), min_size=1, max_size=6)


def expected_agreement(p: FloatArray, w: FloatArray, sizes: ArrayLike) -> FloatArray:
    """2013 eq. 9 and 17, term by term: the majority of an odd size is on the side of max(p, 1 - p)."""
    size = np.asarray(sizes)[..., None]
    return np.asarray(binom.sf((size - 1) / 2, size, np.maximum(p, 1 - p)) @ w / w.sum())


@given(points)
def test_agreement_is_the_probability_of_the_likelier_side(chosen: list[tuple[int, int]]) -> None:
    p = np.array([point / 100 for point, _ in chosen])
    w = np.array([weight for _, weight in chosen], dtype=np.float64)
    sizes = [1, 3, 21, 301]
    np.testing.assert_allclose(agreement(p, w, sizes), expected_agreement(p, w, sizes), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(agreement(p, w, [4, 22]), agreement(p, w, [3, 21]))


def test_infinite_ensemble_agrees_with_itself_except_on_rows_it_cannot_decide() -> None:
    np.testing.assert_array_equal(agreement([0.1, 0.9, 0.5, 0.2], None, [np.inf]), [0.875])


@given(points, st.sampled_from([0.6, 0.9, 0.99]))
def test_recommended_size_is_the_smallest_odd_size_that_agrees(chosen: list[tuple[int, int]], wanted: float) -> None:
    p = np.array([point / 100 for point, _ in chosen])
    w = np.array([weight for _, weight in chosen], dtype=np.float64)
    sizes = np.arange(1, 302, 2)
    known = expected_agreement(p, w, sizes)
    enough = sizes[known >= wanted + 1e-12].tolist()
    undecidable_in_floats = sizes[np.abs(known - wanted) < 1e-12].tolist()
    expected = enough[0] if enough else None
    assert recommended_size(p, w, wanted, max_size=301) in [expected, *undecidable_in_floats]


def test_single_row_in_exact_arithmetic() -> None:
    """p = 0.3: pi(3) = 0.216 and pi(5) = 0.16308, so 80 % takes five members and 78 % three."""
    p = Fraction(3, 10)
    three = 3 * p**2 * (1 - p) + p**3
    five = 10 * p**3 * (1 - p) ** 2 + 5 * p**4 * (1 - p) + p**5
    assert (three, five) == (Fraction(216, 1000), Fraction(16308, 100000))
    assert recommended_size([0.3], confidence=0.78) == 3
    assert recommended_size([0.3], confidence=0.80) == 5


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_rows_need_one_member(p: float) -> None:
    assert recommended_size([p, p]) == 1


def test_undecided_rows_need_more_than_any_size() -> None:
    assert recommended_size([0.5]) is None
    assert recommended_size([0.5, 0.1], confidence=0.7) is not None


@pytest.mark.parametrize(("max_size", "size"), [(85, None), (86, None), (87, 87), (88, 87)])
def test_above_max_size_there_is_no_number(max_size: int, size: int | None) -> None:
    """87 by scipy's tail; an even max_size allows the odd size below."""
    p, w = np.array([0.1, 0.2, 0.4]), np.ones(3)
    assert expected_agreement(p, w, 85) < 0.99 <= expected_agreement(p, w, 87)
    assert recommended_size([0.1, 0.2, 0.4], max_size=max_size) == size


def test_asymptotic_law_for_a_known_density() -> None:
    """2013 eq. 14: 1 - A(T) is about f(1/2) / sqrt(2 pi T); Beta(2, 2) has f(1/2) = 1.5."""
    cells = (np.arange(4000) + 0.5) / 4000
    share = beta.pdf(cells, 2, 2)
    size = 1001
    disagreement = 1 - agreement(cells, share, [size])[0]
    assert disagreement == pytest.approx(1.5 / np.sqrt(2 * np.pi * size), rel=2e-3)
    needed = 2 * norm.ppf(0.99) ** 2 / (8 * 0.05**2)
    assert recommended_size([0.45], confidence=0.99) == pytest.approx(needed, rel=0.02)


@pytest.mark.parametrize("confidence", [0.5, 1.0, 0.2, 1.5, np.nan, -1.0])
def test_confidence_outside_its_range_is_refused(confidence: float) -> None:
    with pytest.raises(InputError, match="confidence"):
        recommended_size([0.1], confidence=confidence)


def test_other_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="max_size"):
        recommended_size([0.1], max_size=0)
    with pytest.raises(InputError, match="probability"):
        recommended_size([1.2])
    with pytest.raises(InputError, match="weight"):
        recommended_size([0.1], [-1.0])


@given(st.integers(0, 60), st.integers(1, 120))
def test_bisection_finds_the_step_of_any_increasing_function(step: int, max_size: int) -> None:
    first = 2 * step + 1
    tried = []

    def reaches(size: float) -> float:
        tried.append(size)
        return float(size >= first)

    assert smallest_odd_size(reaches, 0.9, max_size) == (first if first <= max_size else None)
    assert all(size % 2 == 1 and size <= max_size for size in tried)
