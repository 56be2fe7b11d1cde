"""How much of a target columns explain beyond chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ens_plugin.core.explained import explained


def target_of(n_rows: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(n_rows, 1))
    return values - values.mean(axis=0)


@pytest.mark.parametrize("n_columns", [1, 30, 400])
def test_columns_that_have_not_seen_the_target_explain_nothing_however_many_they_are(n_columns: int) -> None:
    found = [
        explained(list(np.random.default_rng(seed + 1000).normal(size=(n_columns, 200))), target_of(200, seed))
        for seed in range(100)
    ]
    # Each value occurs once, so that the last way compares nothing.
    shares, standard_errors = np.moveaxis(np.array(found), 2, 0)[:, :, :-1]
    assert_allclose(shares.mean(axis=0), 0.0, atol=0.015)
    assert standard_errors.mean(axis=0).max() < 0.4
    assert np.mean(standard_errors > 3.0) < 0.02


def test_a_straight_line_explains_its_share() -> None:
    target = target_of(5000, 0)
    noise = np.random.default_rng(1).normal(size=5000)
    trend = explained([0.5 * target[:, 0] + np.sqrt(0.75) * noise], target)[0]
    assert trend.share == pytest.approx(0.25, abs=0.03)
    assert trend.standard_errors > 20


def test_leaves_in_any_order_are_seen_by_their_values() -> None:
    target = target_of(1000, 0)
    leaf = np.random.default_rng(0).permutation(40)[np.argsort(np.argsort(target[:, 0])) // 25]
    trend, *_, by_value = explained([leaf.astype(float)], target)
    assert trend.share < 0.1
    assert by_value.share > 0.9


def test_columns_of_one_value_or_of_missing_values_explain_nothing() -> None:
    target = target_of(50, 0)
    for column in (np.zeros(50), np.full(50, np.nan)):
        assert max(found.share for found in explained([column], target)) < 1e-12
