from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import beta, norm

from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.errors import InputError
from ens_plugin.papers.ensemble_size_2013 import (
    HALF_LINE,
    borderline_density,
    borderline_size,
    limiting_disagreement,
    limiting_row_size_tail,
    row_size_tail,
)
from ens_plugin.papers.wrong_votes import fit_mixture

SHAPES = [(2.0, 2.0), (1.0, 1.0), (1.5, 4.0)]


def quantiles(a: float, b: float, count: int = 40_000) -> NDArray[np.float64]:
    """Rows spread evenly over a beta distribution: no sampling noise."""
    return np.asarray(beta.ppf((np.arange(count) + 0.5) / count, a, b), dtype=np.float64)


def test_constant_is_the_papers_integral() -> None:
    """2013 eq. 14: the integral of the normal distribution function from minus infinity to 0."""
    assert quad(norm.cdf, -np.inf, 0)[0] == pytest.approx(HALF_LINE, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_disagreement_follows_the_law_with_its_constant(a: float, b: float) -> None:
    """2013 eq. 14 against the exact agreement: relative error of order 1/T."""
    sizes = [1001, 10_001]
    law = limiting_disagreement(float(beta.pdf(0.5, a, b)), sizes)
    exact = 1 - agreement(quantiles(a, b, 10_000), None, sizes)
    np.testing.assert_allclose(exact, law, rtol=5e-3)


def test_beta_2_2_at_1001() -> None:
    """The landmark of the literature review: 0.5976 for a law of 0.5984, in units of 1/sqrt(T)."""
    exact = float(1 - agreement(quantiles(2, 2), None, [1001])[0])
    assert exact * np.sqrt(1001) == pytest.approx(0.5976, abs=1e-4)
    assert limiting_disagreement(1.5, [1001])[0] * np.sqrt(1001) == pytest.approx(0.5984, abs=1e-4)


@pytest.mark.fast_cases("0.99-2.0-2.0", "0.9-1.0-1.0")
@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_tail_of_row_sizes_follows_the_law(a: float, b: float, confidence: float) -> None:
    """2013 eq. 13 against the exact sizes; 40 000 rows resolve a share to 1e-4 of the law."""
    sizes = [1001, 4001]
    law = limiting_row_size_tail(float(beta.pdf(0.5, a, b)), sizes, confidence)
    np.testing.assert_allclose(row_size_tail(quantiles(a, b), sizes, confidence), law, rtol=0.01)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_recommended_size_follows_the_law(a: float, b: float) -> None:
    """2013 eq. 16, for a confidence close to 1."""
    exact = recommended_size(quantiles(a, b), None, 0.995, max_size=10**6)
    assert exact == pytest.approx(borderline_size(float(beta.pdf(0.5, a, b)), 0.995), rel=0.01)


@given(st.floats(0.01, 5), st.floats(0.6, 0.999))
def test_size_is_where_the_disagreement_is_what_is_allowed(density: float, confidence: float) -> None:
    size = borderline_size(density, confidence)
    assert density * HALF_LINE / np.sqrt(size) == pytest.approx(1 - confidence)


@given(st.floats(0, 5))
def test_laws_fall_as_one_over_root_size(density: float) -> None:
    for law in (limiting_disagreement, limiting_row_size_tail):
        one, hundred, end = law(density, [100, 10_000, np.inf])
        assert hundred == pytest.approx(one / 10)
        assert end == 0


def test_density_of_known_distributions() -> None:
    assert borderline_density(quantiles(2, 2), width=0.02) == pytest.approx(1.5, rel=1e-3)
    assert borderline_density(quantiles(1, 1)) == pytest.approx(1.0, rel=1e-3)
    assert borderline_density([0.1, 0.9]) == 0.0


def test_density_counts_the_edge_half_whatever_the_rounding() -> None:
    assert borderline_density([0.45, 0.55, 0.0, 1.0], width=0.1) == pytest.approx(0.25 / 0.1)
    assert borderline_density([0.4, 0.6, 0.0, 1.0], width=0.2) == pytest.approx(0.25 / 0.2)


@given(st.permutations(range(5)))
def test_density_takes_weights_and_no_order_and_either_label(order: list[int]) -> None:
    p, w = np.array([0.1, 0.48, 0.5, 0.53, 0.9])[order], np.array([1.0, 2.0, 1.0, 4.0, 2.0])[order]
    assert borderline_density(p, w) == pytest.approx(7.0 / 10.0 / 0.1)
    assert borderline_density(1 - p, w) == pytest.approx(7.0 / 10.0 / 0.1)


def test_density_of_a_fitted_distribution() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, size=20_000)
    fit = fit_mixture(rng.binomial(30, p), np.full(p.size, 30))
    assert borderline_density(fit.support, fit.weights) == pytest.approx(float(beta.pdf(0.5, 2, 3)), rel=0.05)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="probability must lie in"):
        borderline_density([1.1])
    with pytest.raises(InputError, match="weight must have length 1"):
        borderline_density([0.1], [1, 1])
    with pytest.raises(InputError, match="width must lie strictly"):
        borderline_density([0.1], width=1.0)
    for density in (-0.1, np.nan, np.inf):
        with pytest.raises(InputError, match="density must be"):
            limiting_disagreement(density, [10])
        with pytest.raises(InputError, match="density must be"):
            limiting_row_size_tail(density, [10])
        with pytest.raises(InputError, match="density must be"):
            borderline_size(density)
    with pytest.raises(InputError, match="sizes must hold"):
        limiting_disagreement(1.0, [0.5])
    with pytest.raises(InputError, match="sizes must hold"):
        limiting_row_size_tail(1.0, [0])
    with pytest.raises(InputError, match="confidence must lie"):
        limiting_row_size_tail(1.0, [10], 0.3)
    with pytest.raises(InputError, match="confidence must lie"):
        borderline_size(1.0, 1.0)
