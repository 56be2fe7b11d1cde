"""The closed form of squared and logarithmic losses: against simulated rows and members, and the size by it."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin import CustomEnsemble, SizeRecommendation, analyze
from ens_plugin.analysis.variance import log_terms, member_log_terms
from ens_plugin.core.comparison import shared_luck_variance
from ens_plugin.core.losses import expected_log_loss, inverse_probability, relative_variance
from tests.forests import Array

N_MEMBERS = 20


def drawn(rng: np.random.Generator, n_rows: int, spreads: Array) -> Array:
    """Probabilities of the rows' labels, shape (n_members, n_rows); each member has a concentration of its own."""
    chance = rng.beta(4.0, 1.5, n_rows) * 0.9 + 0.05
    return np.stack([rng.beta(spread * chance, spread * (1.0 - chance)) for spread in spreads])


def moments(outputs: Array) -> tuple[Array, Array, Array]:
    return outputs.mean(axis=0), outputs.var(axis=0, ddof=1), np.full(outputs.shape[1], float(len(outputs)))


def mean_slope(outputs: Array) -> float:
    found = log_terms(*moments(outputs), np.ones(outputs.shape[1]))
    assert found is not None
    return float(found[1].mean())


def test_the_slope_of_the_log_loss_is_that_of_its_curve() -> None:
    mean, variance, trials = moments(drawn(np.random.default_rng(0), 300, np.full(N_MEMBERS, 3.0)))
    share, found = relative_variance(mean, variance, trials), log_terms(mean, variance, trials, np.ones(mean.size))
    assert found is not None
    losses = expected_log_loss(mean, trials, share, np.array([1e6, np.inf])).mean(axis=1)
    assert found[1].mean() == pytest.approx(1e6 * (losses[0] - losses[1]), rel=1e-3)
    np.testing.assert_allclose(found[0] - found[1] / trials, expected_log_loss(mean, trials, share, np.inf))


def test_the_share_in_common_moves_no_weighted_mean() -> None:
    """What rows add to it cancels in the mean of rows that count five times as much as others, too."""
    outputs = drawn(np.random.default_rng(4), 300, np.full(N_MEMBERS, 3.0))
    mean, variance, trials = moments(outputs)
    weight = np.where(np.arange(mean.size) % 2 == 0, 5.0, 1.0)
    found = log_terms(mean, variance, trials, weight)
    assert found is not None
    share = relative_variance(mean, variance, trials)
    losses = expected_log_loss(mean, trials, share, np.array([1e6, np.inf]))
    slopes = 1e6 * (losses[0] - losses[1])
    assert np.average(found[1], weights=weight) == pytest.approx(np.average(slopes, weights=weight), rel=1e-3)


def test_the_slopes_of_the_rows_vary_as_their_mean_does() -> None:
    rng = np.random.default_rng(1)
    means, expected = [], []
    for _ in range(400):
        found = log_terms(*moments(drawn(rng, 200, np.full(N_MEMBERS, 3.0))), np.ones(200))
        assert found is not None
        means.append(found[1].mean())
        expected.append(found[1].var(ddof=1) / 200.0)
    assert np.std(means) == pytest.approx(np.sqrt(np.mean(expected)), rel=0.12)


def test_the_slopes_of_rows_whose_members_differ_more_or_less_vary_as_their_mean_does() -> None:
    """Without what each row adds to the share that all have in common, a third of the spread would be left out."""
    rng = np.random.default_rng(1)
    means, expected = [], []
    for _ in range(400):
        chance, spread = rng.beta(4.0, 1.5, 200) * 0.9 + 0.05, rng.choice([0.3, 30.0], 200)
        outputs = rng.beta(spread * chance, spread * (1.0 - chance), (N_MEMBERS, 200))
        found = log_terms(*moments(outputs), np.ones(200))
        assert found is not None
        means.append(found[1].mean())
        expected.append(found[1].var(ddof=1) / 200.0)
    assert np.std(means) == pytest.approx(np.sqrt(np.mean(expected)), rel=0.12)


def test_the_slopes_of_rows_of_unequal_weight_vary_as_their_weighted_mean_does() -> None:
    """Rows that are hard to tell count five times as much as others; to the share in common, all count alike."""
    rng = np.random.default_rng(1)
    means, expected = [], []
    for _ in range(400):
        chance, spread = rng.beta(4.0, 1.5, 200) * 0.9 + 0.05, rng.choice([0.3, 30.0], 200)
        outputs = rng.beta(spread * chance, spread * (1.0 - chance), (N_MEMBERS, 200))
        weight = np.where(chance < 0.6, 5.0, 1.0)
        found = log_terms(*moments(outputs), weight)
        assert found is not None
        means.append(np.average(found[1], weights=weight))
        expected.append(weight**2 @ (found[1] - means[-1]) ** 2 / weight.sum() ** 2)
    assert np.std(means) == pytest.approx(np.sqrt(np.mean(expected)), rel=0.12)


def test_rows_of_next_to_no_weight_have_no_large_slopes() -> None:
    """They would be taken for a long tail, and widen the interval of the size without end."""
    outputs = drawn(np.random.default_rng(1), 300, np.where(np.arange(N_MEMBERS) < 5, 0.5, 20.0))
    ordinary = log_terms(*moments(outputs), np.ones(300))
    found = log_terms(*moments(outputs), np.where(np.arange(300) % 50 == 0, 1e-10, 1.0))
    assert ordinary is not None
    assert found is not None
    assert np.abs(found[1]).max() < 5.0 * np.abs(ordinary[1]).max()
    kept = np.arange(300) % 50 != 0
    np.testing.assert_allclose(found[1][kept], ordinary[1][kept], atol=0.05 * np.abs(ordinary[1]).max())


def slope_of_weighted_members(weight: Array, outputs: Array, concentration: Array) -> float:
    """Return the mean slope by its definition, with members that count more or less than others.

    The variance is that of as many members less one as the jackknife leaves.
    """
    n = len(outputs)
    mean, alike = weight @ outputs, outputs.mean(axis=0)
    own = np.mean((outputs - alike) ** 2, axis=0)
    variance = own * n / (n - 1.0) + (weight @ (outputs - mean) ** 2 - own) * n / (n - 2.0)
    by_row = (mean + 1.0 / n) ** -2.0
    share = by_row @ variance / (by_row @ (mean * (1.0 - mean) + variance / n))
    return float(share * (inverse_probability(mean, concentration).mean() - 1.0) / 2.0)


def test_the_part_of_a_member_is_the_derivative_of_the_slope_in_its_weight() -> None:
    rng = np.random.default_rng(2)
    outputs = drawn(rng, 60, np.where(rng.random(N_MEMBERS) < 0.3, 0.5, 20.0))
    mean, variance, trials = moments(outputs)
    concentration, alike = trials / relative_variance(mean, variance, trials) - 1.0, np.full(N_MEMBERS, 1 / N_MEMBERS)
    expected = []
    for own in np.eye(N_MEMBERS) - alike:
        up, down = (slope_of_weighted_members(alike + step * own, outputs, concentration) for step in (1e-5, -1e-5))
        expected.append((up - down) / 2e-5)
    found = member_log_terms(outputs, np.ones(outputs.shape, dtype=bool)).mean(axis=1)
    np.testing.assert_allclose(found - found.mean(), expected, atol=0.02 * np.abs(expected).max())


def test_the_luck_of_the_members_is_the_spread_of_the_slope_over_members() -> None:
    """The same rows: chances and numbers do not change, concentrations of the members do."""
    rng = np.random.default_rng(2)
    slopes, expected = [], []
    for _ in range(200):
        chance = np.random.default_rng(3).beta(4.0, 1.5, 2000) * 0.9 + 0.05
        spreads = np.where(rng.random(N_MEMBERS) < 0.3, 0.5, 20.0)
        outputs = np.stack([rng.beta(spread * chance, spread * (1.0 - chance)) for spread in spreads])
        counted = np.ones(outputs.shape, dtype=bool)
        terms = member_log_terms(outputs, counted)
        expected.append(shared_luck_variance(terms, counted, np.ones(2000), 2000))
        slopes.append(mean_slope(outputs))
    assert np.std(slopes) == pytest.approx(np.sqrt(np.mean(expected)), rel=0.15)


def sized(second: Array, y: Array, metric: str) -> SizeRecommendation:
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    return analyze(ensemble, None, y, metric=metric, data="holdout", tolerance=0.05).recommendation


@pytest.mark.slow
def test_the_interval_of_the_size_allows_for_the_members_that_were_trained() -> None:
    """A fifth of the members vary much more than the others: by the rows alone, it would be far too narrow."""
    rng = np.random.default_rng(5)
    chance = rng.beta(3.0, 3.0, 1500) * 0.8 + 0.1
    y = (rng.random(1500) < chance).astype(int)
    share = 0.2 / 1.7 + 0.8 / 31.0
    size = share * np.mean(chance * (1.0 - chance)) / (0.05 * np.mean((chance - y) ** 2))
    held = []
    for _ in range(40):
        spreads = np.where(rng.random(N_MEMBERS) < 0.2, 0.7, 30.0)
        second = np.stack([rng.beta(spread * chance, spread * (1.0 - chance)) for spread in spreads])
        low, high = sized(second, y, "neg_brier_score").interval
        held.append(low <= np.ceil(size) and (high is None or np.floor(size) <= high))
    assert np.mean(held) >= 0.8
