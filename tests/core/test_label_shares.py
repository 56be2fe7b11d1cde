"""The row model of votes and probabilities, and its draws, against rows whose label shares are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.label_shares import (
    FEWEST_WRONG_VOTES,
    LEAST_VOTES,
    PRIOR_VOTES,
    LabelRecord,
    VoteContest,
    _log_likelihoods,
    draw_shares,
    fit_label_shares,
    record_labels,
)
from ens_plugin.core.row_model import RowGroups, binomial_likelihood, cell_weights, fit_density, fit_tilt
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from tests.records import drawn, rates_of

FloatArray = NDArray[np.float64]


def label_shares(n_rows: int, n_labels: int, seed: int) -> tuple[FloatArray, NDArray[np.int64]]:
    """Rows with a true label, one main rival near it and a little of all others."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, n_labels, n_rows)
    rows = np.arange(n_rows)
    shares = rng.dirichlet(np.full(n_labels, 0.7), n_rows) * 0.35
    right = rng.beta(2.5, 1.5, n_rows) * 0.65
    shares[rows, target] += right
    shares[rows, (target + rng.integers(1, 3, n_rows)) % n_labels] += 0.65 - right
    return shares, target


def record_of(
    shares: FloatArray, target: NDArray[np.int64], trials: Any, seed: int, weight: FloatArray | None = None
) -> LabelRecord:
    n = np.broadcast_to(np.asarray(trials), target.shape)
    votes = np.random.default_rng(seed).multinomial(n, shares).astype(np.float64)
    return LabelRecord(votes, n.astype(np.float64), target, np.ones(target.size) if weight is None else weight)


def error_of(draws: LabelDraws, size: float) -> float:
    return float(draws.mean(draws.errors([size]))[0])


def wrong_at_infinity(shares: FloatArray, target: NDArray[np.int64]) -> float:
    return float(np.mean(np.argmax(shares, axis=1) != target))


@pytest.mark.parametrize(
    ("n_labels", "trials", "allowed"),
    [(2, 4, 0.025), (2, 37, 0.015), (5, 37, 0.02), (12, 37, 0.03), (12, 200, 0.015), (30, 37, 0.02)],
)
def test_the_error_of_infinitely_many_members_is_that_of_the_shares(n_labels: int, trials: int, allowed: float) -> None:
    shares, target = label_shares(3000, n_labels, 1)
    found = error_of(drawn(record_of(shares, target, trials, 2)), np.inf)
    assert abs(found - wrong_at_infinity(shares, target)) < allowed


@pytest.mark.parametrize(("trials", "allowed"), [(4, 0.09), (11, 0.04)])
def test_few_votes_on_many_labels_leave_a_bias(trials: int, allowed: float) -> None:
    """Here the rival's share follows from the true label's, which few votes do not show: the limit is too low."""
    shares, target = label_shares(3000, 12, 1)
    found = error_of(drawn(record_of(shares, target, trials, 2)), np.inf)
    assert -allowed < found - wrong_at_infinity(shares, target) < 0.0


@pytest.mark.parametrize("n_labels", [2, 5, 12])
def test_error_and_agreement_at_a_size_are_those_of_members_of_these_shares(n_labels: int) -> None:
    shares, target = label_shares(3000, n_labels, 1)
    draws, rng = drawn(record_of(shares, target, 37, 2)), np.random.default_rng(3)
    limit = shares.argmax(axis=1)
    for size in (11, 37, 151):
        labels = [rng.multinomial(size, shares).argmax(axis=1) for _ in range(20)]
        assert error_of(draws, size) == pytest.approx(np.mean([each != target for each in labels]), abs=0.02)
        changed = float(draws.mean(draws.changes([size]))[0])
        assert changed == pytest.approx(np.mean([each != limit for each in labels]), rel=0.25)


def test_each_row_has_its_own_number_of_members() -> None:
    """Hard rows have few members and easy ones many."""
    shares, target = label_shares(4000, 4, 1)
    is_hard = shares.max(axis=1) < 0.5
    draws = drawn(record_of(shares, target, np.where(is_hard, 6, 60), 2))
    assert error_of(draws, np.inf) == pytest.approx(wrong_at_infinity(shares, target), abs=0.04)


def test_rows_without_weight_do_not_count() -> None:
    """As many rows again whose members are always wrong, each with another label."""
    shares, target = label_shares(3000, 12, 1)
    alone = error_of(drawn(record_of(shares, target, 11, 2)), np.inf)
    wrong = np.tile(np.arange(12) != 0, (3000, 1)) / 11.0
    shares, target = np.vstack([shares, wrong]), np.append(target, np.zeros(3000, dtype=np.int64))
    draws = drawn(record_of(shares, target, 11, 2, np.repeat([1.0, 0.0], 3000)))
    assert error_of(draws, np.inf) == pytest.approx(alone, abs=0.012)


def test_weights_are_repeated_rows() -> None:
    shares, target = label_shares(800, 6, 5)
    weight = np.random.default_rng(7).integers(0, 4, 800)
    record = record_of(shares, target, 7, 6, weight.astype(np.float64))
    times = LabelRecord(*(np.repeat(each, weight, axis=0) for each in record[:3]), np.ones(weight.sum()))
    one, other = fit_label_shares(record), fit_label_shares(times)
    for first, second in zip(one.densities.own, other.densities.own, strict=True):
        np.testing.assert_allclose(first.weights, second.weights, atol=1e-6)


def test_members_that_are_never_wrong_have_no_error() -> None:
    target = np.arange(200) % 4
    support = 9.0 * np.eye(4)[target]
    draws = drawn(LabelRecord(support, np.full(200, 9.0), target, np.ones(200)))
    assert error_of(draws, np.inf) < 0.003
    assert np.isfinite(draws.sd(draws.errors([9, np.inf]))).all()


def test_a_rare_label_has_a_distribution_of_its_own() -> None:
    """Thirty rows of a label that is mostly missed, beside a thousand that are hardly ever wrong."""
    rng = np.random.default_rng(0)
    target = np.repeat([0, 1], [1000, 30])
    wrong = np.where(target == 1, rng.beta(8.0, 3.0, 1030), rng.beta(1.0, 12.0, 1030))
    draws = drawn(record_of(np.where(target[:, None] == [0, 1], 1.0 - wrong[:, None], wrong[:, None]), target, 40, 1))
    part = draws.take(np.flatnonzero(target == 1))
    assert error_of(part, np.inf) == pytest.approx(np.mean(wrong[target == 1] > 0.5), abs=0.07)


@pytest.mark.parametrize("worth", [1, 4])
def test_a_mean_of_votes_is_worth_as_many(worth: int) -> None:
    """Both numbers of votes, of two labels and of five; the noise of the variance between rows is averaged out."""
    for n_labels in (2, 5):
        shares, target = label_shares(4000, n_labels, 5)
        rng = np.random.default_rng(7)
        members = rng.multinomial(worth, np.broadcast_to(shares, (9, *shares.shape))) / worth
        members = np.clip(members + 1e-9, 0.0, 1.0)  # no votes to the bit
        block = RowBlock(members, np.ones(members.shape[:2], dtype=bool), target, n_labels)
        record = record_labels(Sample(block, np.arange(4000), np.ones(4000)), np.ones(4000))
        assert record.of_shares == pytest.approx(worth, rel=0.06)
        assert record.of_margins == pytest.approx(worth, rel=0.12)


def test_many_labels_keep_the_votes_of_all() -> None:
    shares, target = label_shares(600, 40, 3)
    record = record_of(shares, target, 200, 4)
    fitted = fit_label_shares(record)
    np.testing.assert_array_equal(
        fitted.wrong_votes.sum(axis=1), record.trials - record.support[np.arange(600), target]
    )
    assert error_of(drawn(record), np.inf) == pytest.approx(wrong_at_infinity(shares, target), abs=0.03)


def test_a_row_is_compared_with_the_other_rows_of_its_label() -> None:
    support = np.array([[5.0, 3, 1], [5, 0, 4], [2, 6, 1], [1, 2, 6]])
    weight = np.array([1.0, 2.0, 1.0, 1.0])
    fitted = fit_label_shares(LabelRecord(support, np.full(4, 9.0), np.array([0, 0, 0, 2]), weight))
    # Without its own votes, or one of two equal rows: 6 and 9, 9 and 6, 3 and 9; none are left of the last label.
    overall = np.array([1.0, 11.0, 10.0]) / 22.0
    for row, others in enumerate(([0, 6, 9], [0, 9, 6], [0, 3, 9], [0, 0, 0])):
        expected = np.array(others) + PRIOR_VOTES * overall + LEAST_VOTES
        expected[[0, 0, 0, 2][row]] = 0.0
        np.testing.assert_allclose(fitted.usual[row], expected / expected.sum())


@pytest.mark.parametrize("part", [0.0, 0.3])
def test_the_likelihood_of_a_division_is_the_mean_over_drawn_divisions(
    part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the multinomial chance of the votes, as the main rival and the division are drawn without them."""
    monkeypatch.setattr("ens_plugin.core.label_shares.PARTS", np.array([part]))
    monkeypatch.setattr("ens_plugin.core.label_shares.MASSES", np.array([7.0]))
    usual = np.array([0.0, 0.4, 0.3, 0.2, 0.1])
    votes = np.array([[0.0, 2, 1, 0, 0], [0, 0, 0, 0, 3], [0, 1, 0, 1, 1]])
    rng, n = np.random.default_rng(0), 400_000
    main = np.eye(5)[rng.choice(5, n, p=usual)]
    division = rng.standard_gamma(7.0 * ((1.0 - part) * usual + part * main))
    division /= division.sum(axis=1, keepdims=True)
    exact = np.log([np.mean(np.prod(division**row, axis=1)) for row in votes])
    found = _log_likelihoods(votes, np.tile(usual, (3, 1)))[:, 0]
    np.testing.assert_allclose(found, exact, atol=0.03)


def test_rows_with_hardly_a_wrong_vote_leave_the_division_to_the_confusion_matrix() -> None:
    target = np.arange(60) % 3
    support = 8.0 * np.eye(3)[target]
    support[0, 1] = FEWEST_WRONG_VOTES - 1.0
    draws = drawn(LabelRecord(support, support.sum(axis=1), target, np.ones(60)))
    assert np.isfinite(draws.errors([5, np.inf])).all()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.45, 0.499])
@pytest.mark.parametrize("size", [3, 9, 51, 401])
def test_a_contest_of_two_labels_is_a_majority_of_votes(share: float, size: int) -> None:
    """Peizer and Pratt's distance: within 10 % of the binomial chance, or 1e-4."""
    first, second = np.full((1, 1), 1.0 - share, np.float32), np.full((1, 1), share, np.float32)
    lost = 1.0 - float(VoteContest(first, [second], 1.0).chance(size)[0, 0])
    exact = float(binom.sf(size // 2, size, share))
    assert lost == pytest.approx(exact, rel=0.1, abs=1e-4)


def test_a_tie_is_lost_half_of_the_time_at_every_size() -> None:
    half = np.full((1, 1), 0.5, np.float32)
    contest = VoteContest(half, [half], 1.0)
    assert [float(contest.chance(size)[0, 0]) for size in (1, 100, np.inf)] == [0.5, 0.5, 0.5]


def test_the_confusion_matrix_is_that_of_the_shares() -> None:
    shares, target = label_shares(4000, 4, 1)
    draws, rng = drawn(record_of(shares, target, 60, 2)), np.random.default_rng(3)
    for size in (11.0, np.inf):
        found = draws.confusion(size, draws.share[None])[0]
        labels = [rng.multinomial(int(size), shares).argmax(1) for _ in range(20)] if size < 100 else [shares.argmax(1)]
        exact = np.mean([np.histogram2d(target, each, bins=np.arange(5))[0] for each in labels], axis=0) / 4000
        np.testing.assert_allclose(found, exact, atol=0.015)
        assert found.sum() == pytest.approx(1.0)
        assert 1.0 - np.trace(found) == pytest.approx(error_of(draws, size), abs=1e-6)


@pytest.mark.parametrize("unseen", [0.0, 0.25, 1.0])
def test_gradients_are_the_derivatives_of_the_mean_over_posteriors(unseen: float) -> None:
    """With two labels, against the posterior of w on the whole grid under densities a little to both sides."""
    rng = np.random.default_rng(0)
    target, wrong = rng.integers(0, 2, 400), rng.beta(1.0, 2.5, 400)
    shares = np.where(target[:, None] == [0, 1], 1.0 - wrong[:, None], wrong[:, None])
    fitted = fit_label_shares(record_of(shares, target, 15, 1))
    draws = draw_shares(fitted, rates_of(fitted.record))
    likelihood = fitted.posterior[fitted.pair] / fitted.densities.weights[fitted.kind]
    smooth = (np.arange(400) + 0.5) ** 2 / 400**2
    values = smooth[draws.cells][None].astype(np.float32)
    rows = target == 1
    density = fitted.densities.own[1]

    def mean(coefficients: FloatArray) -> float:
        weights = cell_weights(coefficients)
        joint = likelihood[rows] * weights
        given = float((joint @ smooth / joint.sum(axis=1)).sum() / target.size)
        return unseen * float(rows.mean() * (weights @ smooth)) + (1.0 - unseen) * given

    found = draws.density_gradient(values, 1, unseen)[0]
    exact = np.array(
        [
            (mean(density.coefficients + step) - mean(density.coefficients - step)) / 2e-4
            for step in 1e-4 * np.eye(density.coefficients.size)
        ]
    )
    np.testing.assert_allclose(found, exact, atol=0.15 * np.abs(exact).max())


def test_rows_without_weight_change_nothing() -> None:
    """Not even a label all of whose rows have none, nor a part of a label with other numbers of members."""
    shares, target = label_shares(900, 3, 5)
    trials = np.where(np.arange(900) % 3 == 0, 6, 30)
    weight = np.where((target == 2) | ((target == 1) & (trials == 6)), 0.0, 1.0)
    known = weight > 0
    whole = record_of(shares, target, trials, 7, weight)
    part = LabelRecord(whole.support[known], whole.trials[known], target[known], weight[known])
    found, expected = fit_label_shares(whole), fit_label_shares(part)
    for density, other in zip(found.densities.own, expected.densities.own, strict=True):
        np.testing.assert_allclose(density.weights, other.weights, atol=1e-6)
    assert error_of(drawn(whole), np.inf) == pytest.approx(error_of(drawn(part), np.inf), abs=0.01)


def test_densities_lean_with_the_logarithm_of_the_number_of_members() -> None:
    """Rows with three times as many members have a density that is times w^-0.8 (1 - w)^0.6."""
    rng, powers = np.random.default_rng(0), np.array([-0.8, 0.6]) / np.log(3.0)
    trials = np.repeat([20, 60], 4000)
    lean = np.repeat([-0.5, 0.5], 4000) * np.log(3.0)
    wrong = rng.binomial(trials, rng.beta(2.5 + powers[0] * lean, 3.0 + powers[1] * lean)).astype(np.float64)
    likelihood = binomial_likelihood(wrong, trials.astype(np.float64))
    rows = [RowGroups(likelihood[own], np.ones(4000)) for own in (slice(0, 4000), slice(4000, None))]
    density = fit_density(RowGroups(likelihood, np.ones(8000)), beta_mean=(0.0, 0.0), beta_start=(0.0, 0.0))
    found, covariance = fit_tilt([(rows[0], density, lean[0]), (rows[1], density, lean[-1])])
    # The density of all rows is that in their middle to some hundredths of a power.
    np.testing.assert_allclose(found, powers, atol=3.0 * np.sqrt(np.diag(covariance)).max() + 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [2, 3, 10])
def test_the_standard_deviation_is_that_over_samples_of_rows_and_votes(n_labels: int) -> None:
    errors, stated = [], []
    for seed in range(60):
        shares, target = label_shares(400, n_labels, 100 + seed)
        draws = drawn(record_of(shares, target, 25, seed))
        values = draws.errors([25, np.inf])
        errors.append(draws.mean(values))
        stated.append(draws.sd(values))
    ratio = np.mean(stated, axis=0) / np.std(errors, axis=0, ddof=1)
    assert (ratio > 0.8).all()
    assert (ratio < 1.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [2, 5, 20])
def test_another_seed_of_the_draws_moves_the_limit_by_less_than_a_tenth_of_its_half_width(
    n_labels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares, target = label_shares(1500, n_labels, 1)
    record, found = record_of(shares, target, 37, 2), []
    fitted, rates = fit_label_shares(record), rates_of(record)
    for seed in range(12):
        monkeypatch.setattr("ens_plugin.core.label_shares.SEED_OF_DRAWS", seed)
        draws = draw_shares(fitted, rates)
        found.append(error_of(draws, np.inf))
    half_width = 1.96 * float(draws.sd(draws.errors([np.inf]))[0])
    assert np.std(found, ddof=1) < 0.1 * half_width
