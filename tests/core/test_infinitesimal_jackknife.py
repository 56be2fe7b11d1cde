"""Sums of squared covariances against double loops, every possible draw, and a statistic whose variance is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ens_plugin.core import jackknife as infinitesimal_jackknife
from ens_plugin.core.jackknife import left_out_covariances, squared_covariance, variance_over_seeds

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("columns", [1, 3, 2048])
def test_raw_sum_is_the_double_loop(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infinitesimal_jackknife, "COLUMNS", columns)
    counts, predictions, scale = RNG.integers(0, 4, (6, 7)), RNG.normal(size=(6, 3)), RNG.uniform(0.5, 2, 7)
    expected = np.zeros(3)
    for column in range(3):
        for row in range(7):
            covariance = 0.0
            for member in range(6):
                covariance += (
                    scale[row]
                    * (counts[member, row] - counts[:, row].mean())
                    * (predictions[member, column] - predictions[:, column].mean())
                    / 6
                )
            expected[column] += covariance**2
    np.testing.assert_allclose(squared_covariance(counts, predictions, scale).raw, expected, rtol=1e-12)


def test_unbiased_sum_is_the_mean_over_distinct_members() -> None:
    """The U-statistic as it is defined, over all quadruples of distinct members."""
    counts, predictions = RNG.integers(0, 3, (6, 4)).astype(float), RNG.normal(size=6)
    kernel, other = counts @ counts.T, np.outer(predictions, predictions)
    total, number = 0.0, 0
    for i, j, k, m in product(range(6), repeat=4):
        if len({i, j, k, m}) == 4:
            total += kernel[i, j] * (other[i, j] + other[k, m] - 2 * other[i, k])
            number += 1
    found = squared_covariance(counts, predictions[:, None], np.ones(4)).unbiased
    np.testing.assert_allclose(found, total / number, rtol=1e-10)


def test_unbiased_sum_has_the_expectation_of_infinitely_many_members() -> None:
    """Over every way four members can draw two of two rows."""
    draws = np.array([[2, 0], [1, 1], [1, 1], [0, 2]])
    predictions = np.array([3.0, -1.0, 0.5, 2.0])  # a draw's second order matters to its member, too
    covariance = ((draws - draws.mean(axis=0)) * (predictions - predictions.mean())[:, None]).mean(axis=0)
    found = [
        squared_covariance(draws[list(chosen)], predictions[list(chosen), None], np.ones(2)).unbiased[0]
        for chosen in product(range(4), repeat=4)
    ]
    assert np.mean(found) == pytest.approx((covariance**2).sum(), rel=1e-12)


def test_variance_of_a_mean_is_found_for_both_ways_of_drawing() -> None:
    values = RNG.normal(size=40)
    boot = RNG.multinomial(40, np.full(40, 1 / 40), size=20_000)
    found = squared_covariance(boot, (boot @ values / 40)[:, None], np.ones(40)).unbiased[0]
    assert found == pytest.approx(values.var() / 40, rel=0.05)
    subsamples = np.argsort(RNG.random((20_000, 40)), axis=1) < 25
    scale = np.full(40, np.sqrt(40 * 39) / 15)  # n (n - 1) / (n - s)^2 of Wager and Athey, its root
    found = squared_covariance(subsamples, (subsamples @ values / 25)[:, None], scale).unbiased[0]
    assert found == pytest.approx(values.var(ddof=1) / 40, rel=0.05)


@pytest.mark.parametrize(("n_members", "own_sd", "n_drawn", "rel"), [(60, 1.0, 300, 0.2), (300, 0.5, 400, 0.1)])
def test_noise_is_that_of_other_members(n_members: int, own_sd: float, n_drawn: int, rel: float) -> None:
    """Of many members, what the sum itself adds is most of it."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=30)
    found = []
    for _ in range(n_drawn):
        counts = rng.multinomial(30, np.full(30, 1 / 30), size=n_members)
        predictions = counts @ values / 30 + rng.normal(0, own_sd, n_members)
        found.append(squared_covariance(counts, predictions[:, None], np.ones(30)))
    spread = np.std([one.unbiased[0] for one in found])
    assert np.mean([one.noise[0] for one in found]) == pytest.approx(spread, rel=rel)


def test_variance_over_seeds_is_that_of_a_mean() -> None:
    np.testing.assert_allclose(variance_over_seeds(np.array([[1.0], [3.0], [5.0]])), [4 / 3])


@pytest.mark.parametrize("columns", [8, 2048])
def test_sums_without_parts_are_those_of_the_members_that_are_left(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(infinitesimal_jackknife, "COLUMNS", columns)
    rng = np.random.default_rng(2)
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=70)
    predictions, scale = rng.normal(100.0, 1.0, (70, 4)) + counts[:, :4], rng.random(30) + 0.5
    used = rng.random((70, 4)) < 0.6
    used[5:, 3] = False
    found = left_out_covariances(counts, predictions, used, scale, 7)
    for part, row in product(range(8), range(3)):
        kept = used[:, row].copy()
        if part:
            kept[part - 1 :: 7] = False
        expected = squared_covariance(counts[kept], predictions[kept][:, [row]], scale).unbiased[0]
        assert found[part, row] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert np.isnan(found[1:, 3]).any(), "fewer than four members have no estimate"
