"""The variance of a sum over pairs of rows: the double sum of its definition, and what fresh rows show."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.intervals import dyadic_variance


@pytest.mark.parametrize("n_rows", [2, 5, 12, 40])
def test_is_the_double_sum_over_terms_that_share_a_row(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    first, second = rng.integers(0, n_rows, (2, 40))
    first[:2] = [0, 1]
    # A shared part makes the double sum larger than that of the first rows.
    own = rng.normal(size=n_rows)
    terms = own[first] + own[second]
    total = sum(
        one * other
        for one, *pair in zip(terms, first, second, strict=True)
        for other, *another in zip(terms, first, second, strict=True)
        if set(pair) & set(another)
    )
    # Of 40 rows some are first in no term.
    n_units = np.unique(first).size
    assert total > 0
    assert dyadic_variance(terms, first, second) == pytest.approx(total * n_units / (n_units - 1))


def test_terms_of_one_row_each_give_the_variance_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=30)
    rows = np.arange(30)
    assert dyadic_variance((values - values.mean()) / 30, rows, rows) == pytest.approx(values.var(ddof=1) / 30)


def test_is_at_least_that_of_the_first_rows() -> None:
    terms, rows = np.array([1.0, -1.0, 0.0, 0.0]), np.arange(4)
    # Each row gets what the other loses: the sum over both hardly varies.
    assert dyadic_variance(terms, rows, rows[[1, 0, 3, 2]]) == pytest.approx(2.0 * 4 / 3)


def test_one_row_has_no_variance() -> None:
    assert dyadic_variance(np.array([1.0]), np.array([0]), np.array([0])) == 0.0


def test_is_the_variance_over_fresh_rows_of_a_permutation_importance() -> None:
    """A model that is known: y = x + noise, predicted by x; its importance is 2 Var(x) = 2."""
    rng, n_rows, n_repeats = np.random.default_rng(0), 80, 3
    found, estimates, naive = [], [], []
    for _ in range(1500):
        x, noise = rng.normal(size=(2, n_rows))
        orders = [rng.permutation(n_rows) for _ in range(n_repeats)]
        rises = np.array([(x + noise - x[order]) ** 2 - noise**2 for order in orders])
        mean = rises.mean()
        terms = (rises - mean).ravel() / (n_rows * n_repeats)
        found.append(mean)
        estimates.append(dyadic_variance(terms, np.tile(np.arange(n_rows), n_repeats), np.concatenate(orders)))
        naive.append(rises.mean(axis=0).var(ddof=1) / n_rows)
    assert np.mean(found) == pytest.approx(2.0, rel=0.03)
    assert np.mean(estimates) == pytest.approx(np.var(found), rel=0.1)
    # Without the rows that the values come from, the variance would be a third too small.
    assert np.mean(naive) < 0.75 * np.var(found)
