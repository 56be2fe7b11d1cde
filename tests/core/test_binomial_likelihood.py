"""Likelihoods of votes on the grid, whole or as a product of two matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.core.row_model import GRID, BandMatrix, ProductMatrix, binomial_likelihood


def drawn_votes(fewest: int, most: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw votes of 2000 groups, among them unanimous ones and those of the fewest and the most votes."""
    rng = np.random.default_rng(seed)
    n = rng.integers(fewest, most + 1, 2000)
    n[:4] = fewest, most, fewest, most
    k = rng.binomial(n, rng.beta(0.3, 0.3, n.size))
    k[:4] = 0, 0, fewest, most
    return k.astype(np.float64), n.astype(np.float64)


def scaled_probabilities(k: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    """The likelihoods by scipy's binomial distribution, of which the largest is 1."""
    log_probability = binom.logpmf(k[:, None], n[:, None], GRID)
    return np.asarray(np.exp(log_probability - log_probability.max(axis=1, keepdims=True)))


@pytest.mark.parametrize(("fewest", "most"), [(1, 3), (48, 102), (120, 170)])
def test_whole_votes_make_a_product_of_two_matrices(fewest: int, most: int) -> None:
    k, n = drawn_votes(fewest, most, seed=most)
    found = binomial_likelihood(k, n)
    assert isinstance(found, ProductMatrix)
    assert found.shape == (k.size, GRID.size)
    np.testing.assert_allclose(np.asarray(found), scaled_probabilities(k, n), rtol=1e-11, atol=1e-240)


def test_products_are_those_with_the_whole_matrix() -> None:
    found = binomial_likelihood(*drawn_votes(20, 60, seed=0))
    whole = np.asarray(found)
    rng = np.random.default_rng(1)
    points, groups = rng.random((3, whole.shape[1])), rng.random((3, whole.shape[0]))
    np.testing.assert_allclose(found @ points[0], whole @ points[0], rtol=1e-12)
    np.testing.assert_allclose(points @ found.T, points @ whole.T, rtol=1e-12)
    np.testing.assert_allclose(groups[0] @ found, groups[0] @ whole, rtol=1e-12)
    np.testing.assert_allclose(groups @ found, groups @ whole, rtol=1e-12)


@pytest.mark.parametrize("changed", ["part of a vote", "part of a member", "few groups", "many votes"])
def test_other_votes_make_the_whole_matrix(changed: str) -> None:
    k, n = drawn_votes(150, 210 if changed == "many votes" else 170, seed=2)
    if changed == "part of a vote":
        k[7] = n[7] - 0.5
    if changed == "part of a member":
        n[7] -= 0.5
    if changed == "few groups":
        k, n = k[:200], n[:200]
    found = binomial_likelihood(k, n)
    assert isinstance(found, np.ndarray)
    log_likelihood = k[:, None] * np.log(GRID) + (n - k)[:, None] * np.log1p(-GRID)
    expected = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-240)


def test_blocks_are_multiplied_as_the_whole_matrix() -> None:
    blocks = [(slice(0, 1), slice(0, 1), np.array([[7.0]])), (slice(1, 3), slice(1, 2), np.array([[8.0, 9.0]]))]
    band = BandMatrix(np.array([1, 0, 2]), 2, blocks)
    whole = np.array([[0.0, 8.0], [7.0, 0.0], [0.0, 9.0]])
    np.testing.assert_array_equal(np.asarray(band), whole)
    np.testing.assert_array_equal(band @ np.array([1.0, 10.0]), whole @ [1.0, 10.0])
    np.testing.assert_array_equal(np.array([1.0, 2.0, 3.0]) @ band, np.array([1.0, 2.0, 3.0]) @ whole)
