from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from ens_plugin.core.bags import Bags
from ens_plugin.core.losses import fit_moments, loss_moments
from ens_plugin.core.weights import RowWeight, design_effect, group_sums, small_number_factor


def test_sums_by_group_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=50), rng.integers(3, 9, 50)
    expected = [values[groups == group].sum() for group in np.unique(groups)]
    np.testing.assert_allclose(group_sums(values, groups), expected)


def test_rows_of_their_own_have_no_design_effect() -> None:
    rng = np.random.default_rng(0)
    weight = rng.lognormal(size=4000)
    losses = (rng.random(4000) < 0.2).astype(float)
    assert design_effect(losses, weight, np.arange(4000)) == pytest.approx(1.0, abs=0.1)


def test_copies_are_worth_one_row_each() -> None:
    losses = np.repeat((np.random.default_rng(0).random(500) < 0.2).astype(float), 7)
    found = design_effect(losses, np.ones(losses.size), np.repeat(np.arange(500), 7))
    assert found == pytest.approx(7 * 500 / 499)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_equal_losses_leave_one_row_for_each_group(level: float) -> None:
    assert design_effect(np.full(12, level), np.ones(12), np.repeat([0, 1, 2], 4)) == pytest.approx(4.0)


def test_the_effect_is_that_of_the_variance_of_the_mean() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), rng.integers(1, 15, 40))
    weight = rng.uniform(0.5, 2.0, groups.size)
    share = weight / weight.sum()
    means, estimates = [], []
    for _ in range(3000):
        chance = rng.beta(1, 3, 40)[groups]
        losses = (rng.random(groups.size) < chance).astype(float)
        means.append(share @ losses)
        spread = share @ (losses - means[-1]) ** 2
        estimates.append(design_effect(losses, weight, groups) * spread * (share @ share))
    assert np.mean(estimates) / np.var(means) == pytest.approx(1.0, abs=0.12)


def test_few_groups_widen_a_normal_interval_to_students() -> None:
    factor = small_number_factor(np.ones(12), np.repeat([0, 1, 2], 4), 0.9)
    assert factor == pytest.approx((t.ppf(0.95, 2) / norm.ppf(0.95)) ** 2)
    # Of 1.2 effective groups there are two at least.
    factor = small_number_factor(np.array([9.0, 1.0]), np.array([0, 1]), 0.9)
    assert factor == pytest.approx((t.ppf(0.95, 1) / norm.ppf(0.95)) ** 2)


def test_groups_without_weight_do_not_count() -> None:
    losses, groups = np.random.default_rng(3).random(16), np.arange(16) // 2
    weight = np.where(groups < 4, 1.0, 0.0)
    of_some = design_effect(losses[:8], weight[:8], groups[:8])
    assert of_some > 1.0
    assert design_effect(losses, weight, groups) == pytest.approx(of_some)


def test_weights_are_scaled_by_the_design_effect() -> None:
    weight = RowWeight(np.ones(10), groups=np.arange(10) // 2, design_effect=2.0)
    assert weight.n_effective == pytest.approx(5.0)
    assert weight.effective().sum() == pytest.approx(5.0)
    some = weight.select(np.arange(10) < 4)
    assert some.groups.tolist() == [0, 0, 1, 1]
    assert some.n_effective == pytest.approx(2.0)


@pytest.mark.parametrize("n_rows", [1, 8, 13])
def test_a_row_is_drawn_with_any_of_its_group(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    drawn, groups = rng.random((6, n_rows)) < 0.3, rng.integers(0, 4, n_rows)
    expected = [[bool(member[groups == group].any()) for group in groups] for member in drawn]
    assert Bags.from_mask(drawn).by_group(groups).in_bag().tolist() == expected


def test_squared_losses_of_a_group_count_as_their_mean() -> None:
    rng = np.random.default_rng(0)
    mean, target, weight = rng.normal(size=(3, 60))
    variance, trials, weight = rng.random(60), np.full(60, 9.0), np.exp(weight)
    by_row = fit_moments(loss_moments(mean, variance, trials, target, weight))
    copies = [np.repeat(values, 4) for values in (mean, variance, trials, target, weight / 4)]
    by_group = fit_moments(loss_moments(*copies, groups=np.repeat(np.arange(60), 4)))
    assert by_group.raw_asymptote == pytest.approx(by_row.raw_asymptote)
    np.testing.assert_allclose(by_group.covariance, by_row.covariance)
