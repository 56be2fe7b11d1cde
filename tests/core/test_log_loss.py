"""The log loss by ensemble size, against simulated means of members."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from ens_plugin.core.losses import expected_log_loss, inverse_probability, relative_variance
from tests.forests import Array


def drawn(n_rows: int, n_members: int, seed: int, spread: float = 3.0) -> tuple[Array, Array]:
    """Chances of rows, and probabilities of independent members with these means; variance p(1 - p)/(spread + 1)."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(4.0, 1.5, n_rows) * 0.9 + 0.05
    return chance, rng.beta(spread * chance, spread * (1.0 - chance), (n_members, n_rows))


def estimated(outputs: Array, sizes: tuple[float, ...]) -> Array:
    n_members, n_rows = outputs.shape
    mean, trials = outputs.mean(axis=0), np.full(n_rows, float(n_members))
    share = relative_variance(mean, outputs.var(axis=0, ddof=1), trials)
    return np.array([expected_log_loss(mean, trials, share, size).mean() for size in sizes])


@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_share_of_the_variance_of_a_vote(spread: float) -> None:
    chance, outputs = drawn(4000, 20, 0, spread)
    mean, trials = outputs.mean(axis=0), np.full(chance.size, 20.0)
    share = relative_variance(mean, outputs.var(axis=0, ddof=1), trials)
    assert share == pytest.approx(1.0 / (spread + 1.0), rel=0.05)


@pytest.mark.fast_cases("15")
@pytest.mark.parametrize("n_members", [15, 40])
def test_losses_beyond_the_members_are_those_of_more_members(n_members: int) -> None:
    sizes = (2.0 * n_members, 100.0, np.inf)
    # The mean loss of so many rows has a standard error of 0.001.
    chance, outputs = drawn(40_000, n_members, 1)
    rng = np.random.default_rng(2)
    truth = []
    for size in sizes[:-1]:
        # A row's mean of `size` members, simulated.
        means = np.mean([rng.beta(3.0 * chance, 3.0 * (1.0 - chance)) for _ in range(int(size))], axis=0)
        truth.append(-np.log(means).mean())
    truth.append(-np.log(chance).mean())
    found = estimated(outputs, sizes)
    observed = -np.log(outputs.mean(axis=0)).mean()
    # Within a tenth of the way from the members at hand to infinity, and the noise of the rows.
    np.testing.assert_allclose(found, truth, rtol=0, atol=0.1 * (observed - truth[-1]) + 2e-3)


def beta_loss(probability: float, concentration: float) -> float:
    """Return the mean of -log of a beta variable, by integration over its quantiles."""
    law = beta(probability * concentration, (1.0 - probability) * concentration)
    return float(quad(lambda level: -np.log(max(law.ppf(level), 1e-300)), 0.0, 1.0, limit=100)[0])


def by_integration(mean: float, concentration: float) -> float:
    """Return the unbiased estimate of an inverse probability from one mean, as its definition has it."""
    weight = quad(lambda v: np.exp(-concentration * v) / (1.0 - (1.0 - mean) * np.exp(-v)), 0.0, np.inf, limit=200)[0]
    return concentration * float(weight)


@pytest.mark.parametrize("concentration", [0.5, 8.0, 60.0, 900.0])
@pytest.mark.parametrize("mean", [0.002, 0.03, 0.4, 0.98, 1.0])
def test_inverse_probabilities_are_the_integral(mean: float, concentration: float) -> None:
    found = inverse_probability(np.array([mean]), np.array([concentration]))[0]
    assert found == pytest.approx(by_integration(mean, concentration), rel=2e-4)


@pytest.mark.parametrize("probability", [0.02, 0.1, 0.5])
def test_inverse_probabilities_are_unbiased(probability: float) -> None:
    """An inverse mean of beta draws is up to twice as large."""
    rng = np.random.default_rng(0)
    draws = rng.beta(50.0 * probability, 50.0 * (1.0 - probability), 400_000)
    found = inverse_probability(draws, np.full(draws.size, 50.0))
    assert found.mean() == pytest.approx(1.0 / probability, abs=4.0 * found.std() / np.sqrt(draws.size))


def test_the_slope_has_no_bias_from_few_members() -> None:
    """With half a count added to the mean in place of the unbiased inverse, it would be 3 % too steep."""
    chance, outputs = drawn(60_000, 18, 6, spread=1.0)
    found = estimated(outputs, (1000.0, np.inf))
    right = np.mean((1.0 - chance) / chance) / 2.0 / 2.0 / 1000.0
    assert found[0] - found[1] == pytest.approx(right, rel=0.015)


@pytest.mark.parametrize(("mean", "n_members", "share"), [(0.6, 12, 0.3), (0.25, 30, 0.5), (0.9, 4, 0.1)])
@pytest.mark.parametrize("size", [5.0, 40.0, 1000.0])
def test_the_change_is_that_of_beta_distributions(mean: float, n_members: int, share: float, size: float) -> None:
    own = n_members / share - 1.0
    limit = 1.0 / by_integration(mean, own)
    expected = -np.log(mean) + beta_loss(limit, size / share - 1.0) - beta_loss(limit, own)
    found = expected_log_loss(np.array([mean]), np.array([float(n_members)]), share, size)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n_members", [2, 3, 40])
def test_votes_have_the_variance_of_votes(n_members: int) -> None:
    outputs = (np.random.default_rng(5).random((n_members, 60)) < 0.7).astype(float)
    share = relative_variance(outputs.mean(axis=0), outputs.var(axis=0, ddof=1), np.full(60, float(n_members)))
    assert share == pytest.approx(1.0, abs=1e-12)


def test_the_share_is_a_ratio_of_sums_weighted_by_the_squared_inverse_probability() -> None:
    mean, variance, trials = np.array([0.1, 0.5]), np.array([0.02, 0.2]), np.array([10.0, 20.0])
    weight = [1.0 / (0.1 + 0.1) ** 2, 1.0 / (0.5 + 0.05) ** 2]
    votes = weight[0] * (0.09 + 0.002) + weight[1] * (0.25 + 0.01)
    share = (weight[0] * 0.02 + weight[1] * 0.2) / votes
    assert relative_variance(mean, variance, trials) == pytest.approx(share, rel=1e-12)


def test_one_vote_has_a_finite_loss() -> None:
    """A single vote has a concentration of 0, for which 1/20 is taken."""
    found = expected_log_loss(np.array([0.5]), np.array([20.0]), 1.0, 1.0)
    limit = 1.0 / by_integration(0.5, 19.0)
    expected = np.log(2.0) + beta_loss(limit, 0.05) - beta_loss(limit, 19.0)
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_distance_from_infinity_is_that_of_the_variance() -> None:
    """At large sizes, half the mean of the relative variance over the size."""
    chance, outputs = drawn(20000, 60, 3)
    found = estimated(outputs, (1000.0, np.inf))
    right = np.mean((1.0 - chance) / chance) / 4.0 / 2.0 / 1000.0
    assert found[0] - found[1] == pytest.approx(right, rel=0.05)


def test_loss_at_the_members_at_hand_is_the_observed_one() -> None:
    _, outputs = drawn(50, 12, 4)
    found = estimated(outputs, (12.0,))
    np.testing.assert_allclose(found, -np.log(outputs.mean(axis=0)).mean())


def test_members_that_agree_have_one_loss_at_every_size() -> None:
    mean, trials = np.array([0.2, 0.9]), np.array([5.0, 7.0])
    assert relative_variance(mean, np.zeros(2), trials) == 0.0
    np.testing.assert_allclose(expected_log_loss(mean, trials, 0.0, 3.0), -np.log(mean))


def test_certain_rows_lose_nothing() -> None:
    found = expected_log_loss(np.array([1.0]), np.array([20.0]), 0.4, np.inf)
    assert found == pytest.approx(0.0)
