"""The log loss of members some of which give labels probability 0: against sums over votes and simulated rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from ens_plugin.core.log_loss import (
    CLIPPED_LOSS,
    SHARES,
    OwnShares,
    VoteShares,
    _posterior,
    fit_vote_shares,
    log_loss,
    none_of,
    votes_per_member,
)
from ens_plugin.core.row_model import GRID, binomial_likelihood
from tests.forests import Array


def by_sum(share: Array, size: int, none: float = CLIPPED_LOSS) -> Array:
    """The log loss of votes for labels with these shares, by the sum over their numbers, of which 0 has its own."""
    counts = np.arange(size + 1)
    losses = np.append(none, -np.log(counts[1:] / size))
    return np.asarray(binom.pmf(counts, size, np.asarray(share)[:, None]) @ losses)


def drawn(power: float, n_rows: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Shares whose density is a power of them, numbers of votes, and numbers of members of 28 to 47."""
    rng = np.random.default_rng(seed)
    share, trials = rng.beta(power, 1.0, n_rows), rng.integers(28, 48, n_rows).astype(float)
    return share, rng.binomial(trials.astype(int), share).astype(float), trials


def fitted(own: Array, trials: Array) -> OwnShares:
    return of_votes(fit_vote_shares(own, trials, np.ones(own.size)))


def of_votes(shares: VoteShares) -> OwnShares:
    return OwnShares(shares, shares)


@pytest.mark.parametrize("size", [1, 2, 7, 60, 1000])
def test_the_loss_is_the_sum_over_the_numbers_of_votes(size: int) -> None:
    share = np.array([1e-15, 1e-4, 0.01, 0.3, 0.9, 0.999])
    np.testing.assert_allclose(log_loss(share, size), by_sum(share, size, np.log(size)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(none_of(share, size), binom.pmf(0, size, share), rtol=1e-11)


def test_the_loss_of_infinitely_many_votes_is_that_of_their_share() -> None:
    share = np.array([1e-20, 1e-9, 0.2, 0.9])
    np.testing.assert_allclose(log_loss(share, np.inf), [CLIPPED_LOSS, *-np.log(share[1:])])
    np.testing.assert_allclose(log_loss(share[2:], 1e6), -np.log(share[2:]) + (1.0 / share[2:] - 1.0) / 2e6, atol=1e-9)


def test_the_loss_of_a_part_of_a_vote_more_is_between_those_of_whole_votes() -> None:
    losses = [log_loss(np.array([0.4, 0.7]), size) for size in (9.0, 9.5, 10.0)]
    assert (losses[0] > losses[1]).all()
    assert (losses[1] > losses[2]).all()


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_members_are_worth_the_votes_that_vary_as_they_do(spread: float) -> None:
    rng = np.random.default_rng(0)
    chance = rng.beta(4.0, 1.5, 4000) * 0.9 + 0.05
    outputs = rng.beta(spread * chance, spread * (1.0 - chance), (20, 4000))
    moments = outputs.mean(axis=0), outputs.var(axis=0, ddof=1)
    found = votes_per_member(*moments, np.full(4000, 20.0), np.ones(4000))
    assert found == pytest.approx(spread + 1.0, rel=0.05)


@pytest.mark.parametrize("n_members", [2, 3, 40])
def test_votes_are_worth_one_vote_each(n_members: int) -> None:
    outputs = (np.random.default_rng(5).random((n_members, 60)) < 0.7).astype(float)
    found = votes_per_member(
        outputs.mean(axis=0), outputs.var(axis=0, ddof=1), np.full(60, float(n_members)), np.ones(60)
    )
    assert found == pytest.approx(1.0, abs=1e-12)


def test_rows_tell_what_a_member_is_worth_by_their_squared_inverse_probability() -> None:
    mean, variance, trials = np.array([0.1, 0.5]), np.array([0.02, 0.2]), np.array([10.0, 20.0])
    weight = [2.0 / (0.1 + 0.1) ** 2, 1.0 / (0.5 + 0.05) ** 2]
    votes = weight[0] * (0.09 + 0.002) + weight[1] * (0.25 + 0.01)
    exact = votes / (weight[0] * 0.02 + weight[1] * 0.2)
    assert votes_per_member(mean, variance, trials, np.array([2.0, 1.0])) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("power", [0.4, 1.0, 2.0])
def test_expected_zeros_are_those_of_the_shares(power: float) -> None:
    share, own, trials = drawn(power, 1_000_000)
    sizes = np.array([5.0, 20.0, 40.0, 100.0])
    exact = [np.sum((1.0 - share) ** size) for size in sizes]
    np.testing.assert_allclose(fitted(own, trials).zero_chances(sizes).sum(axis=1), exact, rtol=0.15)


@pytest.mark.parametrize("power", [0.4, 1.0, 2.0])
def test_expected_log_losses_are_those_of_the_shares(power: float) -> None:
    share, own, trials = drawn(power, 400_000)
    found = fitted(own, trials).losses(np.array([10.0, 60.0, 500.0, np.inf])).mean(axis=1)
    grid = np.quantile(share, (np.arange(2000) + 0.5) / 2000)
    exact = [*(by_sum(grid, size).mean() for size in (10, 60, 500)), np.minimum(-np.log(share), CLIPPED_LOSS).mean()]
    np.testing.assert_allclose(found, exact, rtol=0.02)


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_a_row_has_the_posterior_of_its_votes_below_the_last_point_of_the_grid(own: float) -> None:
    """There the density is a power of the share, which the fit tells, times the likelihood of the votes."""
    _, votes, trials = drawn(1.5, 2000)
    wrong, n_votes = np.array([40.0 - own]), np.array([40.0])
    likelihood = binomial_likelihood(wrong, n_votes)
    coefficients = fitted(votes, trials).probability.density.coefficients
    weights, n_parts = _posterior(coefficients, likelihood, n_votes, wrong)[0], SHARES.size - GRID.size + 1
    # Of rows without a vote and with one, the parts tell the same power.
    power = np.log(weights[-1] / weights[-2]) / np.log(SHARES[-1] / SHARES[-2]) - 1.0 - own

    def density(share: float) -> float:
        return float(share ** (power + own) * (1.0 - share) ** (40.0 - own))

    last = 1.0 / GRID.size
    for edge in (last / 2.0, last / 20.0):
        exact = quad(density, 0.0, edge)[0] / quad(density, 0.0, last)[0]
        below = weights[-n_parts:][SHARES[-n_parts:] < edge].sum() / weights[-n_parts:].sum()
        # Parts are cut where they begin, within a tenth of a logarithm.
        assert below == pytest.approx(exact, rel=0.12 * (power + own + 1.0))


def test_the_mean_loss_varies_over_samples_of_rows_as_rows_and_density_do() -> None:
    sizes = np.array([40.0, 400.0, np.inf])
    means, variances = [], []
    for seed in range(200):
        _, own, trials = drawn(2.0, 400, seed)
        found = fitted(own, trials)
        losses, share = found.losses(sizes), np.full(400, 1.0 / 400)
        means.append(losses.mean(axis=1))
        variances.append(losses.var(axis=1) / 400 + np.diag(found.density_covariance(sizes, share)))
    ratio = np.std(means, axis=0) / np.sqrt(np.mean(variances, axis=0))
    np.testing.assert_allclose(ratio, 1.0, atol=0.2)


def test_weights_are_of_as_many_equal_rows() -> None:
    _, own, trials = drawn(1.5, 300)
    weight = np.random.default_rng(1).integers(1, 4, 300)
    several = fitted(np.repeat(own, weight), np.repeat(trials, weight))
    found = of_votes(fit_vote_shares(own, trials, weight.astype(float)))
    np.testing.assert_allclose(
        found.losses(np.array([50.0, np.inf])),
        several.losses(np.array([50.0, np.inf]))[:, np.cumsum(weight) - 1],
        rtol=1e-6,
    )


def test_zeros_of_probabilities_are_told_by_the_members_that_give_more() -> None:
    """Members give 0, a third or a half: by the votes that vary as they do, zeros would be twice as many."""
    rng = np.random.default_rng(3)
    chance = rng.beta(1.5, 1.0, 100_000)

    def members(n_members: int) -> Array:
        values = rng.choice([1.0 / 3.0, 1.0 / 2.0], (n_members, chance.size))
        return np.where(rng.random(values.shape) < chance, values, 0.0)

    outputs, trials, rows = members(30), np.full(chance.size, 30.0), np.ones(chance.size)
    votes = votes_per_member(outputs.mean(axis=0), outputs.var(axis=0, ddof=1), trials, rows)
    positive = fit_vote_shares((outputs > 0.0).sum(axis=0).astype(float), trials, rows)
    found = OwnShares(fit_vote_shares(outputs.sum(axis=0), trials, rows, votes), positive)
    sizes = np.array([15.0, 45.0])
    zeros = [np.mean((1.0 - chance) ** size) for size in sizes]
    np.testing.assert_allclose(found.zero_chances(sizes).mean(axis=1), zeros, rtol=0.1)
    losses = [-np.log(np.maximum(members(int(size)).mean(axis=0), np.exp(-CLIPPED_LOSS))).mean() for size in sizes]
    np.testing.assert_allclose(found.losses(sizes).mean(axis=1), losses, rtol=0.02)
