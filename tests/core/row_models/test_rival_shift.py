"""Many labels: the margin against the strongest rival, put right by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.row_models import LabelVotes, fit_label_shares, fit_margins, fit_rival_shift, model_error
from ens_plugin.core.tallies import strongest_rival

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


def margin_error(votes: LabelVotes, shift: tuple[float, float]) -> float:
    """Error at infinity by the margin method."""
    rows, n = np.arange(votes.target.size), votes.trials
    true, rival = votes.support[rows, votes.target], votes.support[rows, strongest_rival(votes.support, votes.target)]
    mean = (true - rival) / n
    sd = np.sqrt(((true + rival) / n - mean**2) * n / (n - 1))
    model = replace(fit_margins(mean, sd, n), shift=shift[0], shift_size=shift[1])
    return float(model_error(model, [np.inf])[0])


@pytest.mark.parametrize(
    ("n_labels", "trials", "allowed"), [(12, 4, 0.04), (12, 11, 0.035), (30, 11, 0.035), (30, 37, 0.02)]
)
def test_shifted_margins_have_the_error_of_infinitely_many_members(n_labels: int, trials: int, allowed: float) -> None:
    shares, target = label_shares(3000, n_labels, 1)
    truth = float(np.mean(np.argmax(shares, axis=1) != target))
    votes = votes_of(shares, target, trials, 2)
    assert abs(margin_error(votes, fit_rival_shift(votes, np.ones(3000))) - truth) < allowed


def test_two_members_meet_as_often_as_their_shares_imply() -> None:
    shares, target = label_shares(20_000, 6, 3)
    rows = np.arange(target.size)
    both_wrong, meetings = votes_of(shares, target, 3, 4).meetings()
    wrong = 1 - shares[rows, target]
    rivals = shares.copy()
    rivals[rows, target] = 0
    assert both_wrong.mean() == pytest.approx(np.mean(wrong**2), abs=0.01)
    assert meetings.mean() == pytest.approx(np.mean(np.sum(rivals**2, axis=1)), abs=0.01)


def test_hard_votes_are_worth_one_vote_and_means_of_votes_as_many() -> None:
    shares, target = label_shares(4000, 5, 5)
    assert votes_of(shares, target, 7, 6).per_member == pytest.approx(1.0, abs=1e-9)
    rng = np.random.default_rng(7)
    members = rng.multinomial(4, np.broadcast_to(shares, (9, *shares.shape))) / 4
    soft = LabelVotes(members.sum(axis=0), (members**2).sum(axis=0), np.full(4000, 9.0), target)
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
    shift, _ = fit_rival_shift(votes, np.ones(40))
    assert 0.0 <= shift < 0.5
    assert np.isfinite(margin_error(votes, (shift, 1.0)))
