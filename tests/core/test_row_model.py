from __future__ import annotations

import numpy as np
from scipy.stats import binom

from ens_plugin.core.row_model import GRID, RowGroups, binomial_likelihood, mean_posterior


def test_the_likelihood_of_votes_is_binomial() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 60, 80).astype(np.float64)
    k = np.floor(rng.random(80) * (n + 1.0))
    expected = binom.pmf(k[:, None], n[:, None], GRID)
    expected /= expected.max(axis=1, keepdims=True)
    np.testing.assert_allclose(binomial_likelihood(k, n), expected, rtol=1e-9, atol=1e-200)


def test_votes_need_not_be_whole() -> None:
    k, n = np.array([2.5, 0.0]), np.array([7.25, 3.5])
    expected = GRID ** k[:, None] * (1.0 - GRID) ** (n - k)[:, None]
    np.testing.assert_allclose(binomial_likelihood(k, n), expected / expected.max(axis=1, keepdims=True), rtol=1e-9)


def test_mean_posterior_is_bayes_rule_averaged_over_rows() -> None:
    rng = np.random.default_rng(1)
    likelihood, counts, weights = (
        rng.random((30, 400)),
        rng.integers(1, 4, 30).astype(float),
        rng.dirichlet(np.ones(400)),
    )
    expected = np.zeros(400)
    for own, count in zip(likelihood, counts, strict=True):
        expected += count * own * weights / (own @ weights) / counts.sum()
    np.testing.assert_allclose(mean_posterior(RowGroups(likelihood, counts), weights), expected, rtol=1e-12)
