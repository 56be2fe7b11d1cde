"""Tables for probabilities, scores and several labels: closed forms, the exact table, and simulated members."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from ens_plugin.core.row_model import GRID
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    DuelTable,
    LeadTable,
    RowPrior,
    StoppingTable,
    checkpoints,
    duel_table,
    even_prior,
    lead_table,
    learned_prior,
    score_table,
    stopping_table,
    symmetric,
    uniform_prior,
    vote_share_table,
)

FloatArray = NDArray[np.float64]
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


def test_members_worth_more_votes_settle_earlier() -> None:
    one, four = (
        vote_share_table(RowPrior(GRID, np.full(GRID.size, 1 / GRID.size), worth), SCHEDULE, 0.99, "full")
        for worth in (1.0, 4.0)
    )
    later = slice(8, -1)
    assert (four.upper[later] < one.upper[later]).all()
    assert (four.lower[later] > one.lower[later]).all()


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


def test_symmetric_prior_has_its_mirror_image() -> None:
    prior = symmetric(RowPrior(np.array([0.1, 0.6]), np.array([0.75, 0.25]), 1.0), 0.5)
    np.testing.assert_allclose(prior.support, [0.1, 0.6, 0.9, 0.4])
    np.testing.assert_allclose(prior.weights, [0.375, 0.125, 0.375, 0.125])


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
