"""Stopping tables against the posterior written out, and their expectations against all sequences of votes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc, logit, ndtri
from scipy.stats import betabinom, binom

from ens_plugin.core.row_model import GRID
from ens_plugin.errors import InputError
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    DuelTable,
    LeadTable,
    RowPrior,
    StoppingTable,
    VotePrior,
    checkpoints,
    duel_table,
    even_prior,
    expected_stopping,
    lead_table,
    learned_prior,
    score_table,
    stopping_table,
    uniform_prior,
    vote_share_table,
)

FloatArray = NDArray[np.float64]

confidences = st.sampled_from([0.6, 0.8, 0.95, 0.99])
priors = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=5)


def settled(table: StoppingTable) -> dict[tuple[int, int], int]:
    """Label (0 or 1) of every settled pair of members queried and votes for the second label."""
    found = {}
    for place, checkpoint in enumerate(table.checkpoints.tolist()):
        for votes in range(checkpoint + 1):
            if table.settled(place, np.array([votes]))[0]:
                found[checkpoint, votes] = int(votes >= table.upper[place])
    return found


def leader(checkpoint: int, votes: int) -> int:
    return int(2 * votes > checkpoint)


@pytest.mark.parametrize("confidence", [0.7, 0.9, 0.99])
def test_full_rule_is_the_beta_binomial_of_2009(confidence: float) -> None:
    n_members = 25
    table = stopping_table(uniform_prior(n_members), checkpoints(n_members), confidence)
    found = settled(table)
    for checkpoint in table.checkpoints[:-1].tolist():
        for votes in range(checkpoint + 1):
            missing = n_members // 2 - votes
            second = betabinom.sf(missing, n_members - checkpoint, votes + 1, checkpoint - votes + 1)
            chance = second if leader(checkpoint, votes) else 1.0 - second
            assert ((checkpoint, votes) in found) == (chance >= confidence), (checkpoint, votes, chance)


@pytest.mark.parametrize("confidence", [0.7, 0.9, 0.99])
def test_infinite_rule_is_the_posterior_of_2011(confidence: float) -> None:
    table = stopping_table(uniform_prior(25), checkpoints(25), confidence, "infinite")
    found = settled(table)
    for checkpoint in table.checkpoints[:-1].tolist():
        for votes in range(checkpoint + 1):
            second = 1.0 - betainc(votes + 1, checkpoint - votes + 1, 0.5)
            chance = second if leader(checkpoint, votes) else 1.0 - second
            assert ((checkpoint, votes) in found) == (chance >= confidence), (checkpoint, votes, chance)


@pytest.mark.parametrize("n_members", [20, 21])
@pytest.mark.parametrize("target", ["full", "infinite"])
def test_learned_rule_is_the_posterior_under_its_prior_and_under_even_labels(n_members: int, target: str) -> None:
    p, w = np.array([0.02, 0.3, 0.55, 0.9]), np.array([0.6, 0.2, 0.1, 0.1])
    table = stopping_table(learned_prior(p, w, n_members), checkpoints(n_members), 0.9, target)
    found = settled(table)

    def wins(votes: int, to_come: int) -> FloatArray:
        return binom.sf(n_members // 2 - votes, to_come, p) if target == "full" else (p > 0.5).astype(float)

    before = float(w @ wins(0, n_members))
    for checkpoint in table.checkpoints[:-1].tolist():
        for votes in range(checkpoint + 1):
            likelihood = w * p**votes * (1 - p) ** (checkpoint - votes)
            second = float(likelihood @ wins(votes, n_members - checkpoint) / likelihood.sum())
            even = second / before / (second / before + (1 - second) / (1 - before))
            chances = (second, even) if leader(checkpoint, votes) else (1 - second, 1 - even)
            assert ((checkpoint, votes) in found) == (min(chances) >= 0.9), (checkpoint, votes, chances)


def test_settled_labels_are_those_with_most_votes() -> None:
    for n_members in (10, 11):
        table = stopping_table(learned_prior([0.1, 0.7], [1, 3], n_members), checkpoints(n_members), 0.8)
        found = settled(table)
        assert all(label == leader(checkpoint, votes) for (checkpoint, votes), label in found.items())
        assert {votes for checkpoint, votes in found if checkpoint == n_members} == set(range(n_members + 1))


def all_sequences(table: StoppingTable, p: float, n_members: int) -> tuple[float, float]:
    """Mean queries and disagreement over every sequence of votes, one by one."""
    queries = disagreement = 0.0
    for votes in product((0, 1), repeat=n_members):
        chance = p ** sum(votes) * (1 - p) ** (n_members - sum(votes))
        for place, checkpoint in enumerate(table.checkpoints.tolist()):
            count = sum(votes[:checkpoint])
            if count <= table.lower[place] or count >= table.upper[place]:
                queries += chance * checkpoint
                disagreement += chance * (leader(checkpoint, count) != leader(n_members, sum(votes)))
                break
    return queries, disagreement


@pytest.mark.parametrize("n_members", [10, 11])
@pytest.mark.parametrize("p", [0.05, 0.35, 0.6])
def test_expectations_are_those_over_all_sequences(n_members: int, p: float) -> None:
    table = stopping_table(uniform_prior(n_members), checkpoints(n_members), 0.8)
    expected = all_sequences(table, p, n_members)
    assert expected[1] > 0
    np.testing.assert_allclose(expected_stopping(table, learned_prior([p], [1], n_members)), expected, rtol=1e-10)


@settings(deadline=None)
@given(priors, confidences, st.sampled_from([12, 31, 80]), st.sampled_from(["full", "infinite"]))
def test_a_right_prior_keeps_its_promise_on_average(
    points: list[tuple[int, int]], confidence: float, n_members: int, target: str
) -> None:
    """Looking again and again costs nothing: whenever a row is dropped, its posterior is what it is."""
    share, weight = np.array(points, dtype=float).T
    prior = learned_prior(share / 20.0, weight, n_members)
    table = stopping_table(prior, checkpoints(n_members), confidence, target)
    early = StoppingTable(table.checkpoints, table.lower.copy(), table.upper.copy())
    queries, disagreement = expected_stopping(early, prior)
    assert 1.0 - 1e-9 <= queries <= n_members + 1e-9
    if target == "full":
        assert disagreement <= 1.0 - confidence + 1e-12


@settings(deadline=None)
@given(priors, st.sampled_from([0.9, 0.99]), st.sampled_from([31, 80]))
def test_the_promise_holds_for_each_label_on_average_too(
    points: list[tuple[int, int]], confidence: float, n_members: int
) -> None:
    share, weight = np.array(points, dtype=float).T
    prior = learned_prior(share / 20.0, weight, n_members)
    table = stopping_table(prior, checkpoints(n_members), confidence)
    second = prior.chooses_second("full")
    sides = [side for side in (prior.full - second, second) if side.sum() > 1e-12]
    missed = [expected_stopping(table, VotePrior(side / side.sum(), np.zeros_like(side)))[1] for side in sides]
    assert np.mean(missed) <= 1.0 - confidence + 1e-12


def test_a_rare_label_is_not_given_up_without_a_look() -> None:
    """By the prior alone, one vote for the common label would be enough here, and one in four rare rows lost."""
    prior = learned_prior([0.001, 0.75], [0.995, 0.005], 101)
    table = stopping_table(prior, checkpoints(101), 0.99)
    assert table.lower[0] < 0
    rare = learned_prior([0.75], [1], 101)
    assert expected_stopping(table, rare)[1] < 0.02


@pytest.mark.parametrize("confidence", [0.5, 1.0, 2, "0.9", None, np.nan])
def test_confidence_out_of_range_is_refused(confidence: object) -> None:
    with pytest.raises(InputError, match="confidence must lie strictly between"):
        stopping_table(uniform_prior(5), checkpoints(5), confidence)  # type: ignore[arg-type]


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="n_members"):
        uniform_prior(0)
    with pytest.raises(InputError, match="support must lie in"):
        learned_prior([1.5], [1], 5)


N_MEMBERS = 101
SCHEDULE = checkpoints(N_MEMBERS)


@pytest.mark.parametrize("target", ["full", "infinite"])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_of_hard_votes_the_bounds_are_the_exact_ones(target: str, confidence: float) -> None:
    """Between whole numbers they may lie anywhere."""
    soft = vote_share_table(even_prior(), SCHEDULE, confidence, target)
    hard = stopping_table(uniform_prior(N_MEMBERS), SCHEDULE, confidence, target)
    can = np.isfinite(soft.upper[:-1])
    np.testing.assert_array_equal(can, hard.upper[:-1] <= hard.checkpoints[:-1])
    np.testing.assert_array_equal(np.ceil(soft.upper[:-1][can]), hard.upper[:-1][can])
    np.testing.assert_array_equal(np.floor(soft.lower[:-1][can]), hard.lower[:-1][can])


def test_of_hard_votes_a_learned_prior_gives_the_exact_bounds() -> None:
    weights = GRID**0.5 * (1.0 - GRID)
    hard = stopping_table(learned_prior(GRID, weights, N_MEMBERS), SCHEDULE, 0.95)
    soft = vote_share_table(RowPrior(GRID, weights / weights.sum(), 1.0), SCHEDULE, 0.95, "full")
    can = np.isfinite(soft.upper[:-1]) & np.isfinite(soft.lower[:-1])
    assert can.sum() > 20
    np.testing.assert_array_equal(np.ceil(soft.upper[:-1][can]), hard.upper[:-1][can])
    np.testing.assert_array_equal(np.floor(soft.lower[:-1][can]), hard.lower[:-1][can])


@pytest.mark.parametrize("target", ["full", "infinite"])
def test_scores_without_prior_have_a_closed_form(target: str) -> None:
    table = score_table(None, 2.0, SCHEDULE, 0.99, target)
    t = table.checkpoints[:-1].astype(float)
    share_to_come = (N_MEMBERS - t) / N_MEMBERS if target == "full" else 1.0
    expected = 2.0 * ndtri(0.99) * np.sqrt(t * share_to_come)
    np.testing.assert_allclose(table.upper[:-1], expected)
    np.testing.assert_allclose(table.lower[:-1], -table.upper[:-1], rtol=1e-6)
    assert table.settled(table.checkpoints.size - 1, np.array([-1.0, 0.0, 1.0])).all()


def test_scores_of_two_kinds_of_rows_have_a_closed_form() -> None:
    prior = RowPrior(np.array([-0.5, 0.5]), np.array([0.5, 0.5]), 2.0)
    table = score_table(prior, 2.0, SCHEDULE, 0.99, "infinite")
    np.testing.assert_allclose(table.upper[:-1], 2.0**2 * logit(0.99) / (2 * 0.5), rtol=1e-4)


def test_lead_is_the_bound_on_the_difference() -> None:
    table = lead_table(None, 1.0, SCHEDULE, 0.99, "full")
    np.testing.assert_array_equal(table.lead[:-1], score_table(None, 1.0, SCHEDULE, 0.99, "full").upper[:-1])
    support = np.array([[0.0, table.lead[3] + 5.001, 5.0], [table.lead[3] + 4.999, 5.0, 0.0]])
    assert table.settled(3, support).tolist() == [True, False]
    assert table.settled(table.checkpoints.size - 1, np.zeros((1, 3))).all()


def test_duel_ignores_other_labels_and_stops_at_a_lead_that_cannot_be_made_up() -> None:
    table = duel_table(even_prior(), SCHEDULE, 0.99, "full")
    exact = stopping_table(uniform_prior(N_MEMBERS), SCHEDULE, 0.99)
    for place in (8, 16, 22):
        total, needed = exact.checkpoints[place], exact.upper[place]
        support = np.array([[needed, total - needed, 0.0], [needed - 1, total - needed + 1, 0.0]])
        assert table.settled(place, support).tolist() == [True, False]
        # The same duel settles alike when others were voted for besides.
        others = np.column_stack([support, np.full((2, 3), total - needed)])
        assert table.settled(place + 5, others).tolist() == [True, False]
    # What can be settled at no confidence is so when the members to come are too few.
    sure = duel_table(even_prior(), SCHEDULE, 1.0 - 1e-15, "full")
    to_come = N_MEMBERS - sure.checkpoints[-2]
    level = np.array([[30.0, 30.0 - to_come - 1, 0.0], [30.0, 30.0 - to_come, 0.0]])
    assert sure.settled(sure.checkpoints.size - 2, level).tolist() == [True, False]


def simulate(table: StoppingTable | DuelTable | LeadTable, outputs: FloatArray) -> tuple[float, float]:
    """Mean queries and disagreement of outputs by member, row (and label)."""
    totals = np.cumsum(outputs, axis=0)
    first_label = (lambda total: total > 0) if outputs.ndim == 2 else (lambda total: total.argmax(axis=1))
    queries, label = np.zeros(outputs.shape[1]), np.full(outputs.shape[1], -1)
    for place, checkpoint in enumerate(table.checkpoints):
        now = (queries == 0) & table.settled(place, totals[checkpoint - 1])
        queries[now], label[now] = checkpoint, first_label(totals[checkpoint - 1])[now]
    return float(queries.mean()), float(np.mean(label != first_label(totals[-1])))


@pytest.mark.slow
def test_probabilities_keep_the_promise() -> None:
    rng = np.random.default_rng(1)
    weights = np.full(GRID.size, 1.0 / GRID.size)
    p = rng.choice(GRID, 4000)
    # Beta members with a fifth of a vote's variance: worth five votes.
    second = rng.beta(4 * p, 4 * (1 - p), (N_MEMBERS, p.size))
    outputs = np.stack([1 - second, second], axis=2)
    table = vote_share_table(RowPrior(GRID, weights, 5.0), SCHEDULE, 0.98, "full")
    queries, disagreement = simulate(table, outputs)
    careful = simulate(vote_share_table(even_prior(), SCHEDULE, 0.98, "full"), outputs)
    assert 0.001 < disagreement < 0.02
    assert queries < careful[0]
    assert careful[1] < disagreement


def test_scores_keep_the_promise() -> None:
    rng = np.random.default_rng(2)
    mu = rng.normal(0, 0.5, 4000)
    outputs = rng.normal(mu, 1.5, (N_MEMBERS, mu.size))
    support = np.linspace(-2.5, 2.5, 401)
    density = np.exp(-2.0 * support**2)
    prior = RowPrior(support, density / density.sum(), 1.5)
    learned = simulate(score_table(prior, 1.5, SCHEDULE, 0.98, "full"), outputs)
    flat = simulate(score_table(None, 1.5, SCHEDULE, 0.98, "full"), outputs)
    assert 0.001 < learned[1] < 0.02
    assert flat[0] < learned[0] < N_MEMBERS


@pytest.mark.parametrize("concentration", [0.2, 0.5, 1.0])
def test_several_labels_keep_the_promise(concentration: float) -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(5, concentration), 3000)
    votes = (rng.random((N_MEMBERS, 3000, 1)) > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=2)
    queries, disagreement = simulate(duel_table(even_prior(), SCHEDULE, 0.98, "full"), np.eye(5)[votes])
    assert queries < 0.8 * N_MEMBERS
    assert disagreement < 0.02
