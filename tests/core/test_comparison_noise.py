from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.comparison import influence_on_variance, squared_losses_at
from ens_plugin.core.seed_variance import shared_luck_variance
from ens_plugin.core.tally import RowBlock, tally_values


def test_shared_luck_is_the_covariance_of_pairs_on_held_out_rows() -> None:
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20, 1)) * rng.uniform(0.5, 1.5, 15) + rng.normal(size=(20, 15))
    slopes = rng.uniform(0.5, 1.5, 15)
    covariance = np.cov(outputs.T) * slopes * slopes[:, None]
    expected = (covariance.sum() - np.trace(covariance)) / 15**2 / 20
    found = shared_luck_variance(outputs, np.ones(outputs.shape, dtype=bool), slopes, 15)
    assert found == pytest.approx(expected, rel=1e-10)
    assert shared_luck_variance(outputs[:, :1], np.ones((20, 1), dtype=bool), slopes[:1], 15) == 0.0


def test_shared_luck_contains_that_of_the_bags() -> None:
    """Each member has an effect of its own on all rows: the variance over many ensembles of the mean of rows' means."""
    rng = np.random.default_rng(1)
    means, found = [], []
    for _ in range(400):
        luck = rng.normal(size=(12, 1)) + rng.normal(size=(12, 80))
        is_oob = rng.random((12, 80)) < 0.4
        is_oob[:2] = True
        means.append(np.mean((luck * is_oob).sum(axis=0) / is_oob.sum(axis=0)))
        found.append(shared_luck_variance(luck, is_oob, np.ones(80), 80))
    own = 1 / 80 * np.mean(1 / is_oob.sum(axis=0))
    assert np.mean(found) == pytest.approx(np.var(means) - own, rel=0.15)


@pytest.mark.parametrize("n_members", [2, 3, 12])
def test_influences_on_the_variance_are_those_of_leaving_a_member_out(n_members: int) -> None:
    outputs = np.random.default_rng(2).normal(size=n_members)
    influence = np.square(outputs - outputs.mean()) * influence_on_variance(np.full(1, float(n_members)))
    if n_members == 2:
        assert influence[0] == pytest.approx(influence[1])
        return
    without = np.array([np.delete(outputs, member).var(ddof=1) for member in range(n_members)])
    pseudo_values = n_members * outputs.var(ddof=1) - (n_members - 1) * without
    np.testing.assert_allclose(influence - influence.mean(), pseudo_values - pseudo_values.mean())


@pytest.mark.parametrize("n_members", [4, 5, 12])
def test_the_luck_of_the_variance_of_few_members_is_not_too_small(n_members: int) -> None:
    """The members of an ensemble err alike on all rows: the spread over ensembles of the rows' mean variance.

    The jackknife errs high where members are few, up to a half with four.  Without the factor, four have a third less.
    """
    rng = np.random.default_rng(3)
    variances, found = [], []
    for _ in range(3000):
        outputs = rng.normal(size=(n_members, 1)) * np.ones(20)
        squares = np.square(outputs - outputs.mean(axis=0)) * influence_on_variance(np.full(20, float(n_members)))
        variances.append(outputs.var(axis=0, ddof=1).mean())
        found.append(shared_luck_variance(squares, np.ones(squares.shape, dtype=bool), np.ones(20), 20))
    # Of pairs of different rows: 19 in 20 of the variance.
    assert 0.95 * np.var(variances) <= np.mean(found) <= (1.0 + 2.0 / n_members) * np.var(variances)


def test_shared_luck_out_of_bag_is_its_sum_over_members() -> None:
    """Row by row, with rows of no member, of one, which tells nothing of its spread, and of two."""
    rng = np.random.default_rng(6)
    outputs, slopes = rng.normal(size=(12, 1)) + rng.normal(size=(12, 30)), rng.uniform(0.5, 1.5, 30)
    counted = rng.random((12, 30)) < 0.4
    counted[:, :9] = np.arange(12)[:, None] < np.repeat([0, 1, 2], 3)
    influence = np.zeros(outputs.shape)
    for row, own in enumerate(counted.T):
        n = own.sum()
        if n > 1:
            apart = outputs[own, row] - outputs[own, row].mean()
            influence[own, row] = slopes[row] * apart * np.sqrt(n / (n - 1)) / n
    expected = (np.square(influence.sum(axis=1)).sum() - np.square(influence).sum()) / 30**2
    assert expected > 0.0
    assert shared_luck_variance(outputs, counted, slopes, 30) == pytest.approx(expected, rel=1e-10)
    # Of more rows, of which these are a sample, fewer pairs are left out.
    of_more = shared_luck_variance(outputs, counted, slopes, 300)
    assert of_more == pytest.approx(expected * 30**2 / (30 * 29) * 299 / 300, rel=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_shared_luck_of_votes_is_that_of_numbers(share: float) -> None:
    rng = np.random.default_rng(2)
    votes = rng.random((30, 200)) < share + 0.4 * rng.random((30, 1))
    counted, slopes = rng.random((30, 200)) < 0.2, rng.uniform(0.5, 1.5, 200)
    counted[:, 0], counted[:, 1] = False, np.arange(30) == 7
    found = shared_luck_variance(votes, counted, slopes, 1000)
    assert found == pytest.approx(shared_luck_variance(votes.astype(np.float64), counted, slopes, 1000), rel=1e-10)
    assert found > 0.0


def test_squared_losses_at_a_size_average_to_the_curve() -> None:
    rng = np.random.default_rng(4)
    truth, noise = rng.normal(size=2000), rng.normal(size=(30, 2000))
    is_oob = rng.random(noise.shape) < 0.4
    losses = squared_losses_at(tally_values(RowBlock(truth + noise, is_oob, truth + 0.5, 0)), 30)
    assert losses.mean() == pytest.approx(0.25 + 1 / 30, abs=0.02)
    is_oob[1:, 0] = False
    assert np.isnan(squared_losses_at(tally_values(RowBlock(truth + noise, is_oob, truth, 0)), 30)[0])
