"""The variance of a mean loss over seeds, by loops over pairs of rows, and by simulation."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.seed_variance import (
    mean_pair_covariance,
    pair_products,
    variance_on_fresh_rows,
    variance_on_held_out_rows,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def correlated(n_members: int, n_rows: int, seed: int, share: float = 0.4) -> tuple[Floats, Mask, Floats]:
    """Outputs whose rows share a few factors, who counts, and slopes."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_members, 3))
    outputs = factors @ rng.gamma(2.0, 0.5, size=(3, n_rows)) + rng.normal(size=(n_members, n_rows)) + 5.0
    return outputs, rng.random((n_members, n_rows)) < share, rng.normal(1.0, 0.5, n_rows)


def by_pairs(outputs: Floats, counted: Mask, slopes: Floats) -> tuple[float, float]:
    """The mean covariance of pairs of different rows by the members less one, and that of rows with themselves."""
    scaled, freedom, own = [], [], []
    for i in range(slopes.size):
        own.append(slopes[i] ** 2 * outputs[counted[:, i], i].var(ddof=1) if counted[:, i].sum() > 1 else 0.0)
        for j in range(i):
            both = counted[:, i] & counted[:, j]
            if both.sum() > 1:
                freedom.append(both.sum() - 1)
                scaled.append(slopes[i] * slopes[j] * np.cov(outputs[both, i], outputs[both, j])[0, 1] * freedom[-1])
    return float(np.sum(scaled) / np.sum(freedom)), float(np.sum(own))


def test_products_are_those_of_all_pairs_of_different_rows() -> None:
    outputs, counted, slopes = correlated(7, 9, 0, 0.8)
    groups = np.array([3, 1, 3, 2, 2, 5, 1, 3, 9])
    mean = np.array([outputs[counted[:, row], row].mean() for row in range(9)])
    parts = (outputs - mean) * counted * slopes
    apart = groups[:, None] != groups
    for given, is_pair in ((None, ~np.eye(9, dtype=bool)), (groups, apart)):
        found, squares = pair_products(outputs, counted, slopes, given)
        expected = [np.outer(own, own)[is_pair].sum() for own in parts]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert squares.sum() == pytest.approx(sum(np.outer(own, own)[~is_pair].sum() for own in parts))


@pytest.mark.parametrize(("n_members", "off"), [(100, 0.03), (30, 0.05)])
def test_members_in_common_are_nearly_those_of_independent_bags(n_members: int, off: float) -> None:
    """The mean over pairs is that of a loop over pairs, each with its own members, but for noise of 8 %."""
    ratios = []
    for seed in range(60):
        data = correlated(n_members, 40, seed)
        ratios.append(mean_pair_covariance(*data)[0] / by_pairs(*data)[0])
    assert np.mean(ratios) == pytest.approx(1.0, abs=off)
    assert np.std(ratios) < 0.08


def test_a_rows_own_part_is_exact() -> None:
    data = correlated(25, 30, 0)
    assert mean_pair_covariance(*data)[2] == pytest.approx(by_pairs(*data)[1], rel=1e-10)


@pytest.mark.parametrize("n_members", [2, 3, 15])
def test_held_out_rows_are_exact(n_members: int) -> None:
    outputs, _, slopes = correlated(n_members, 12, 0)
    everyone = np.ones(outputs.shape, dtype=bool)
    covariance = np.cov(outputs.T) * np.outer(slopes, slopes)
    pairs = covariance.sum() - np.trace(covariance)
    assert mean_pair_covariance(outputs, everyone, slopes)[0] == pytest.approx(pairs / (12 * 11), rel=1e-10)
    own = slopes**2 * outputs.var(axis=0, ddof=1) / n_members
    found = variance_on_held_out_rows(outputs, slopes, own, n_members, 12)
    assert found == pytest.approx(max(pairs, 0.0) / 144 / n_members + own.sum() / 144, rel=1e-10)


def test_a_small_case_in_rationals() -> None:
    """Two rows, three members: C_12 = 1/2, C_11 = 1, C_22 = 1/3; slopes 1 and 2; B = 3."""
    outputs = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
    pairs, own = 2 * 2 * Fraction(1, 2), np.array([1.0, 4.0 / 3.0]) / 3
    found = variance_on_held_out_rows(outputs, np.array([1.0, 2.0]), own, 3, 2)
    assert found == pytest.approx(float((pairs + 1 + Fraction(4, 3)) / 12), rel=1e-12)


@pytest.mark.slow
def test_truth_over_seeds_of_a_linear_loss() -> None:
    """Slopes 1: the loss is the mean output over rows and members, whose variance is known."""
    n_rows, size, repeats = 25, 10, 1500
    rng = np.random.default_rng(3)
    loadings = rng.normal(size=(2, n_rows)) + 0.5
    covariance = loadings.T @ loadings + np.eye(n_rows)
    truth = float(covariance.sum()) / (n_rows**2 * size)
    estimates = []
    for _ in range(repeats):
        outputs = rng.normal(size=(size, 2)) @ loadings + rng.normal(size=(size, n_rows))
        own = outputs.var(axis=0, ddof=1) / size
        estimates.append(variance_on_held_out_rows(outputs, np.ones(n_rows), own, size, n_rows))
    assert np.mean(estimates) == pytest.approx(truth, abs=4 * np.std(estimates) / np.sqrt(repeats))


@pytest.mark.slow
def test_a_subset_of_the_rows_estimates_the_sum_over_all() -> None:
    outputs, _, slopes = correlated(40, 60, 2)
    own = slopes**2 * outputs.var(axis=0, ddof=1) / 40
    whole = variance_on_held_out_rows(outputs, slopes, own, 40, 60)
    rng, parts = np.random.default_rng(0), []
    for _ in range(1000):
        rows = rng.permutation(60)[:20]
        parts.append(variance_on_held_out_rows(outputs[:, rows], slopes[rows], own[rows], 40, 60))
    assert np.mean(parts) == pytest.approx(whole, abs=4 * np.std(parts) / np.sqrt(len(parts)))


def test_the_noise_over_members_is_that_of_a_simulation() -> None:
    """Independent outputs: the mean over pairs is 0, and its variance by simulation is the stated one."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        found.append(mean_pair_covariance(rng.normal(size=(40, 30)), rng.random((40, 30)) < 0.4, np.ones(30))[:2])
    means, noise = np.transpose(found)
    assert abs(means.mean()) < 4 * means.std() / np.sqrt(300)
    assert noise.mean() == pytest.approx(means.var(ddof=1), rel=0.25)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_outputs_does_not_matter(unit: float) -> None:
    outputs, counted, slopes = correlated(25, 30, 1)
    plain = variance_on_fresh_rows(outputs, counted, slopes, 25, 30)
    assert variance_on_fresh_rows(outputs * unit, counted, slopes, 25, 30) == pytest.approx(plain * unit**2, rel=1e-9)


def test_votes_of_any_type_are_numbers() -> None:
    outputs, counted, slopes = correlated(25, 30, 6)
    votes = outputs > 6
    expected = variance_on_fresh_rows(votes.astype(np.float64), counted, slopes, 25, 30)
    for kind in (np.bool_, np.int8, np.float32):
        found = variance_on_fresh_rows(votes.astype(kind), counted, slopes, 25, 30)
        assert found == pytest.approx(expected, rel=1e-6)


def test_many_rows_take_little_memory() -> None:
    data = correlated(30, 60_000, 3)
    tracemalloc.start()
    try:
        mean_pair_covariance(*data)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_without_pairs_a_rows_own_variance_is_left() -> None:
    """No member counts for both rows."""
    outputs, slopes = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 4.0], [1.0, 0.0]]), np.array([1.0, 2.0])
    counted = np.array([[True, False], [True, False], [False, True], [False, True]])
    own = (2.0 + 4 * 8.0) / 2
    assert variance_on_fresh_rows(outputs, counted, slopes, 4, 2) == pytest.approx(0.8 * own / 2 / 4)
    assert variance_on_fresh_rows(outputs[:, :1], counted[:, :1], slopes[:1], 4, 1) == pytest.approx(0.8 * 2.0 / 4)


@pytest.mark.parametrize(("kind", "is_floor"), [("shared", False), ("own", False), ("opposed", True)])
def test_a_noisy_mean_over_pairs_counts_less_and_a_negative_one_at_most_so_much(kind: str, is_floor: bool) -> None:
    outputs, counted, slopes = correlated(25, 30, 0)
    if kind == "own":
        outputs = np.random.default_rng(1).normal(size=outputs.shape)
    if kind == "opposed":
        # Three rows whose outputs add up to 0.
        outputs = outputs[:, :2] @ np.array([[1.0, -0.5, -0.5], [0.0, 0.8, -0.8]])
        counted, slopes = np.ones((25, 3), dtype=bool), np.ones(3)
    pairs, noise, total = mean_pair_covariance(outputs, counted, slopes)
    own = total / slopes.size**2
    signal = own**2 + max(pairs**2 - noise, 0.0)
    kept = signal / (signal + noise)
    assert (kept * pairs + 0.8 * own < 0.25 * own) == is_floor
    assert (kept < 0.9) == (kind == "own")
    expected = max(kept * pairs + 0.8 * own, 0.25 * own) / 25
    assert variance_on_fresh_rows(outputs, counted, slopes, 25, slopes.size) == pytest.approx(expected, rel=1e-9)


def test_a_luck_that_all_rows_share_is_found_and_one_of_each_row_is_not() -> None:
    rng = np.random.default_rng(3)
    counted = rng.random((200, 400)) < 0.37
    own = rng.normal(size=(200, 400))
    luck = rng.normal(size=(200, 1))
    shared = variance_on_fresh_rows(luck + own, counted, np.ones(400), 200, 400) * 200
    alone = variance_on_fresh_rows(own, counted, np.ones(400), 200, 400) * 200
    assert shared == pytest.approx(luck.var(ddof=1), abs=0.1)
    assert alone == pytest.approx(0.8 / 400, abs=0.7 / 400)


def test_copies_of_all_rows_do_not_change_the_variance() -> None:
    outputs, counted, slopes = correlated(40, 50, 5)
    alone = variance_on_fresh_rows(outputs, counted, slopes, 40, 50)
    twice = np.repeat(np.arange(50), 2)
    of_groups = variance_on_fresh_rows(outputs[:, twice], counted[:, twice], slopes[twice], 40, 50, twice)
    assert of_groups == pytest.approx(alone, rel=1e-9)
    assert variance_on_fresh_rows(outputs, counted, slopes, 40, 50, np.arange(50)) == pytest.approx(alone, rel=1e-9)
