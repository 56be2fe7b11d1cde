"""Many labels: the margin against the strongest rival, put right by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.core.error_curve import LabelShares, LabelVotes, RivalShift, fit_label_shares, fit_rival_shift
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import model_error
from ens_plugin.core.tally import strongest_rival
from ens_plugin.core.votes import fit_mixture

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


def votes_of(shares: FloatArray, target: NDArray[np.int64], trials: int, seed: int) -> LabelVotes:
    votes = np.random.default_rng(seed).multinomial(trials, shares).astype(np.float64)
    return LabelVotes(votes, votes, np.full(target.size, float(trials)), target)


def margin_error(votes: LabelVotes, found: RivalShift, size: float = np.inf, weight: FloatArray | None = None) -> float:
    """Error at a size by the margin method, for votes."""
    rows, n = np.arange(votes.target.size), votes.trials
    true, rival = votes.support[rows, votes.target], votes.support[rows, strongest_rival(votes.support, votes.target)]
    mean = (true - rival) / n
    sd = np.sqrt(((true + rival) / n - mean**2) * n / (n - 1))
    model = replace(fit_margins(mean, sd, n, weight), shift=found.shift, shift_loss=found.shift_loss)
    return float(model_error(model, [size])[0])


@pytest.mark.parametrize(
    ("n_labels", "trials", "allowed"), [(12, 4, 0.04), (12, 11, 0.035), (30, 11, 0.035), (30, 37, 0.02)]
)
def test_shifted_margins_have_the_error_of_infinitely_many_members(n_labels: int, trials: int, allowed: float) -> None:
    shares, target = label_shares(3000, n_labels, 1)
    truth = float(np.mean(np.argmax(shares, axis=1) != target))
    votes = votes_of(shares, target, trials, 2)
    assert abs(margin_error(votes, fit_rival_shift(votes, np.ones(3000))) - truth) < allowed


@pytest.mark.parametrize("n_labels", [12, 30])
def test_a_part_of_the_shift_applies_to_small_ensembles(n_labels: int) -> None:
    """Without a shift the error of 4 members is 0.05 too high, with all of the shift 0.03 too low."""
    shares, target = label_shares(3000, n_labels, 1)
    votes = votes_of(shares, target, 4, 2)
    rng = np.random.default_rng(3)
    truth = np.mean([np.mean(rng.multinomial(4, shares).argmax(axis=1) != target) for _ in range(20)])
    assert abs(margin_error(votes, fit_rival_shift(votes, np.ones(3000)), 4) - truth) < 0.018


def test_rows_without_weight_do_not_move_the_shift() -> None:
    """As many rows again whose members are always wrong, each with another label, do not count."""
    shares, target = label_shares(3000, 12, 1)
    truth = float(np.mean(np.argmax(shares, axis=1) != target))
    wrong = np.tile(np.arange(12) != 0, (3000, 1)) / 11.0
    shares, target = np.vstack([shares, wrong]), np.append(target, np.zeros(3000, dtype=np.int64))
    votes, weight = votes_of(shares, target, 11, 2), np.repeat([1.0, 0.0], 3000)
    assert abs(margin_error(votes, fit_rival_shift(votes, weight), np.inf, weight) - truth) < 0.035


def test_means_of_votes_have_the_shift_of_as_many_votes() -> None:
    """The mean of four votes: 11 such members are 44 votes, whose rivals are hardly selected by noise."""
    shares, target = label_shares(3000, 12, 1)
    members = np.random.default_rng(2).multinomial(4, np.broadcast_to(shares, (11, *shares.shape))) / 4
    trials = np.full(3000, 11.0)
    votes = LabelVotes(members.sum(axis=0), (members**2).sum(axis=0), trials, target)
    rows, rival = np.arange(3000), strongest_rival(votes.support, target)
    margins = members[:, rows, target] - members[:, rows, rival]
    model = fit_margins(margins.mean(axis=0), margins.std(axis=0, ddof=1), trials)
    shift, shift_loss, _ = fit_rival_shift(votes, np.ones(3000))
    truth = float(np.mean(np.argmax(shares, axis=1) != target))
    found = float(model_error(replace(model, shift=shift, shift_loss=shift_loss), [np.inf])[0])
    assert found == pytest.approx(truth, abs=0.02)


def test_drawn_rivals_have_the_posterior_mean_of_the_dirichlet_mixture() -> None:
    """The posterior of each main rival by Bayes' rule, and the Dirichlet mean given it."""
    confusion = np.array([[0.0, 0.7, 0.2, 0.1], [0.4, 0.0, 0.3, 0.3], [0.5, 0.3, 0.0, 0.2], [0.2, 0.3, 0.5, 0.0]])
    rivals, part, mass, n_rows = np.array([0.0, 1.0, 4.0, 0.0]), 0.6, 3.0, 60_000
    mixture = fit_mixture([5.0, 9.0] * 20, [20.0] * 40)
    mixture = replace(mixture, group=np.zeros(n_rows, dtype=np.int64))
    fitted = LabelShares(np.zeros(n_rows, dtype=np.int64), np.tile(rivals, (n_rows, 1)), confusion, mixture, part, mass)
    drawn = fitted.draw(np.random.default_rng(0))[:, 1:]
    found = (drawn / drawn.sum(axis=1, keepdims=True)).mean(axis=0)
    shapes = mass * ((1.0 - part) * confusion[0, 1:] + part * np.eye(3))
    likelihood = np.exp(np.sum(gammaln(shapes + rivals[1:]) - gammaln(shapes), axis=1))
    posterior = confusion[0, 1:] * likelihood / (confusion[0, 1:] @ likelihood)
    np.testing.assert_allclose(found, posterior @ (shapes + rivals[1:]) / (mass + 5.0), atol=0.004)


def test_drawn_shares_meet_as_often_as_those_of_the_rows() -> None:
    shares, target = label_shares(20_000, 6, 3)
    drawn = fit_label_shares(votes_of(shares, target, 5, 4), np.ones(20_000)).draw(np.random.default_rng(0))
    for each in (shares, drawn):
        each[np.arange(target.size), target] = 0.0
    assert (drawn**2).sum(axis=1).mean() == pytest.approx((shares**2).sum(axis=1).mean(), abs=0.004)


def test_weights_are_repeated_rows() -> None:
    shares, target = label_shares(800, 6, 5)
    votes, weight = votes_of(shares, target, 7, 6), np.random.default_rng(7).integers(0, 4, 800)
    repeated = LabelVotes(
        *(np.repeat(each, weight, axis=0) for each in (votes.support, votes.squares)),
        np.repeat(votes.trials, weight),
        np.repeat(target, weight),
    )
    found, again = fit_label_shares(votes, weight.astype(float)), fit_label_shares(repeated, np.ones(weight.sum()))
    np.testing.assert_allclose(found.confusion, again.confusion, rtol=1e-9)
    assert (found.rival_part, found.concentration) == (again.rival_part, again.concentration)


def test_wrong_votes_that_hardly_ever_meet_have_shares() -> None:
    """Less often than any Dirichlet distribution allows: each row's wrong votes are for different labels."""
    target = np.arange(60) % 12
    support = np.zeros((60, 12))
    for step in (0, 1, 2, 3, 4):
        support[np.arange(60), (target + step * 2) % 12] = 1.0
    support[0, (target[0] + 2) % 12] = 2.0
    votes = LabelVotes(support, support, support.sum(axis=1), target)
    drawn = fit_label_shares(votes, np.ones(60)).draw(np.random.default_rng(0))
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)


def test_two_members_meet_as_often_as_their_shares_imply() -> None:
    shares, target = label_shares(20_000, 6, 3)
    rows = np.arange(target.size)
    both_wrong, meetings = votes_of(shares, target, 3, 4).meetings()
    wrong = 1 - shares[rows, target]
    rivals = shares.copy()
    rivals[rows, target] = 0
    assert both_wrong.mean() == pytest.approx(np.mean(wrong**2), abs=0.01)
    assert meetings.mean() == pytest.approx(np.mean(np.sum(rivals**2, axis=1)), abs=0.01)


@pytest.mark.parametrize("n_members", [2, 9])
def test_hard_votes_are_worth_one_vote_and_means_of_votes_as_many(n_members: int) -> None:
    shares, target = label_shares(4000, 5, 5)
    assert votes_of(shares, target, 7, 6).per_member == pytest.approx(1.0, abs=1e-9)
    rng = np.random.default_rng(7)
    members = rng.multinomial(4, np.broadcast_to(shares, (n_members, *shares.shape))) / 4
    trials = np.full(4000, float(n_members))
    soft = LabelVotes(members.sum(axis=0), (members**2).sum(axis=0), trials, target)
    assert soft.per_member == pytest.approx(4.0, rel=0.03)


def test_drawn_shares_have_the_error_of_the_rows_they_were_fitted_to() -> None:
    shares, target = label_shares(4000, 8, 8)
    fitted = fit_label_shares(votes_of(shares, target, 60, 9), np.ones(4000))
    drawn = fitted.draw(np.random.default_rng(0))
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    error, truth = (np.mean(np.argmax(found, axis=1) != target) for found in (drawn, shares))
    assert error == pytest.approx(truth, abs=0.02)


def test_members_that_are_never_wrong_leave_no_shift() -> None:
    target = np.arange(40) % 4
    support = 5.0 * np.eye(4)[target]
    votes = LabelVotes(support, support, np.full(40, 5.0), target)
    found = fit_rival_shift(votes, np.ones(40))
    assert 0.0 <= found.shift < 0.5
    assert np.isfinite(margin_error(votes, found))


def test_the_jackknife_over_simulations_has_the_variance_of_the_shift_over_draws_of_the_votes() -> None:
    """Votes of other members for the same rows move the shift as much as the simulations that it is from."""
    shares, target = label_shares(1500, 12, 1)
    found = [fit_rival_shift(votes_of(shares, target, 37, seed), np.ones(1500)) for seed in range(12)]
    left_out = np.array([each.left_out[:, 0] for each in found])
    assert left_out.shape == (12, 4)
    sd = np.sqrt(3.0 * np.mean(left_out.var(axis=1)))
    assert 0.5 < sd / np.std([each.shift for each in found], ddof=1) < 2.0
