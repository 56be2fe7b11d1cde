"""Stopping tables against the posterior written out, and their expectations against all sequences of votes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import betabinom, binom

from ens_plugin.errors import InputError
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    StoppingTable,
    VotePrior,
    checkpoints,
    expected_stopping,
    learned_prior,
    stopping_table,
    uniform_prior,
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


@pytest.mark.parametrize("n_members", [1, 2, 7, 25, 60])
@pytest.mark.parametrize("together", [1, 16])
def test_looks_ascend_to_the_whole_ensemble(n_members: int, together: int) -> None:
    found = checkpoints(n_members, together)
    assert found[-1] == n_members
    assert (np.diff(found) > 0).all()
    assert (np.diff(found)[:-1] >= together).all()


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


def test_expectations_of_a_mixture_are_mixed() -> None:
    table = stopping_table(uniform_prior(51), checkpoints(51), 0.9)
    parts = [expected_stopping(table, learned_prior([p], [1], 51)) for p in (0.1, 0.45)]
    mixed = expected_stopping(table, learned_prior([0.1, 0.45], [3, 1], 51))
    np.testing.assert_allclose(mixed, 0.75 * np.array(parts[0]) + 0.25 * np.array(parts[1]))


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


def test_more_confidence_queries_more_members() -> None:
    prior = learned_prior(np.linspace(0, 1, 21), np.ones(21), 101)
    queries = [expected_stopping(stopping_table(prior, checkpoints(101), c), prior)[0] for c in (0.8, 0.9, 0.99, 0.999)]
    assert queries == sorted(queries)
    assert queries[0] < queries[-1] - 10


def test_rows_without_doubt_need_one_member() -> None:
    prior = learned_prior([0.0, 1.0], [2, 1], 101)
    assert expected_stopping(stopping_table(prior, checkpoints(101), 0.99), prior) == (1.0, 0.0)


@pytest.mark.parametrize("confidence", [0.5, 1.0, 2, "0.9", None, np.nan])
def test_confidence_out_of_range_is_refused(confidence: object) -> None:
    with pytest.raises(InputError, match="confidence must lie strictly between"):
        stopping_table(uniform_prior(5), checkpoints(5), confidence)  # type: ignore[arg-type]


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="n_members"):
        uniform_prior(0)
    with pytest.raises(InputError, match="support must lie in"):
        learned_prior([1.5], [1], 5)
