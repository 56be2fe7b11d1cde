"""Proofs of labels output by output: how often a wrong label is ever settled, by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.certificate import is_settled
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote, settled_rows
from ens_plugin.papers.dynamic_pruning_2009.stopping import certificate_table, checkpoints
from ens_plugin.papers.members import Members

FloatArray = NDArray[np.float64]
Draw = Callable[[], NDArray[Any]]


def needed_votes(n_draws: int, level: float) -> NDArray[np.int64]:
    """The smallest count of votes for one of two labels that settles it, after 1, 2, ... votes."""
    found = []
    for size in range(1, n_draws + 1):
        votes = np.arange(size + 1)
        settled = is_settled(np.stack([size - votes, votes], axis=1), level) & (2 * votes > size)
        found.append(int(np.argmax(settled)) if settled.any() else size + 1)
    return np.array(found)


def ever_settled(vote: RunningVote, n_draws: int, draw: Draw, n_rows: int) -> NDArray[np.int64]:
    """The first label that is settled on each row, -1 if none."""
    first = np.full(n_rows, -1)
    for _ in range(n_draws):
        vote.add(draw())
        new = vote.settled & (first < 0)
        first[new] = vote.labels[new]
    return first


def voters(rng: np.random.Generator, shares: list[float], n_rows: int) -> Draw:
    steps = np.cumsum(shares)[:-1]
    return lambda: np.searchsorted(steps, rng.random(n_rows), side="right")


@pytest.mark.parametrize(
    "shares",
    [
        [0.36, 0.32, 0.32],
        [0.34, 0.33, 0.33],
        [0.26, 0.25, 0.25, 0.24],
        [0.42, 0.41, 0.01, 0.16],
        [0.501, 0.499, 0.0],
        [0.104, *[0.0996] * 8, 0.0992],
    ],
)
def test_of_many_labels_near_a_tie_a_wrong_one_is_hardly_ever_settled(shares: list[float]) -> None:
    rng, level, rows = np.random.default_rng(1), 0.1, 4000
    vote = RunningVote(rows, len(shares), level)
    first = ever_settled(vote, 400, voters(rng, shares, rows), rows)
    assert np.mean(first > 0) <= level


def test_one_vote_among_many_labels_settles_nothing() -> None:
    # A wealth for each pair of labels would settle the first vote here, which is wrong for nearly all rows.
    vote = RunningVote(50, 50, 0.49)
    vote.add(np.arange(50))
    assert not vote.settled.any()
    assert not is_settled(np.eye(50), 0.49).any()


@pytest.mark.parametrize("best", [1.0, 0.95])
def test_probabilities_with_rare_large_values(best: float) -> None:
    # The mean of the first label is 1/2; nine members in ten are on the side of the second.
    usual = (0.5 - 0.1 * best) / 0.9
    rng, level, rows = np.random.default_rng(3), 0.1, 4000

    def draw() -> FloatArray:
        first = np.where(rng.random(rows) < 0.1, best, usual)
        return np.stack([first, 1.0 - first], axis=1)

    first = ever_settled(RunningVote(rows, 2, level), 1000, draw, rows)
    assert np.mean(first == 0) <= level
    assert np.mean(first == 1) <= level


def test_probabilities_of_three_labels_at_a_tie() -> None:
    rng, level, rows = np.random.default_rng(4), 0.1, 4000
    first = ever_settled(RunningVote(rows, 3, level), 400, lambda: rng.dirichlet([0.3, 0.3, 0.3], rows), rows)
    for label in range(3):
        assert np.mean(first == label) <= level


def test_clear_labels_are_settled_soon() -> None:
    rng, rows = np.random.default_rng(5), 1000
    vote = RunningVote(rows, 10, 0.01)
    first = ever_settled(vote, 100, voters(rng, [0.7, 0.2, *[0.0125] * 8], rows), rows)
    assert np.mean(first == 0) > 0.95
    # Probabilities vary less than votes do, and settle a lead that votes would leave open.
    soft = RunningVote(rows, 2, 0.01)
    first = ever_settled(soft, 60, lambda: np.tile([0.6, 0.4], (rows, 1)), rows)
    assert (first == 0).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([2, 4]), st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2, 3]), min_size=1, max_size=60))
def test_counts_alone_settle_no_more_than_the_votes_in_any_order(n_labels: int, votes: list[int]) -> None:
    codes = np.array(votes) % n_labels
    vote = RunningVote(1, n_labels, 0.2)
    for one in codes:
        vote.add(np.array([one]))
    if is_settled(np.bincount(codes, minlength=n_labels)[None], 0.2)[0]:
        assert vote.settled[0]


@pytest.mark.parametrize("level", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("share", [0.5, 0.4])
def test_the_table_settles_the_rarer_label_of_all_sequences_with_at_most_the_level(level: float, share: float) -> None:
    n_members = 13
    table = certificate_table(checkpoints(n_members), level)
    wrong = 0.0
    for votes in product([0, 1], repeat=n_members):
        counts = np.cumsum(votes)
        chance = share ** counts[-1] * (1 - share) ** (n_members - counts[-1])
        for place, checkpoint in enumerate(table.checkpoints[:-1].tolist()):
            count = counts[checkpoint - 1]
            if table.settled(place, np.array([count]))[0]:
                wrong += chance * (count >= table.upper[place])
                break
    assert wrong <= level + 1e-12


def test_the_table_of_a_known_number_of_members_settles_no_later_than_counts_alone() -> None:
    table = certificate_table(checkpoints(501), 0.01)
    bounds = needed_votes(501, 0.01)[table.checkpoints - 1]
    assert (table.upper[:-1] <= bounds[:-1]).all()
    assert (table.upper[:-1] < bounds[:-1]).mean() > 0.5
    np.testing.assert_array_equal(table.lower[:-1], table.checkpoints[:-1] - table.upper[:-1])


def test_members_left_out_change_nothing() -> None:
    rng = np.random.default_rng(6)
    outputs = np.where(rng.random((300, 40)) < 0.72, 2, rng.integers(0, 3, (300, 40)))
    counted = rng.random((300, 40)) < 0.4
    members = Members(outputs, counted, np.zeros(40, dtype=np.int64), np.arange(3), "labels")
    found = settled_rows(members, 0.01)
    for row in range(40):
        vote = RunningVote(1, 3, 0.01)
        settled_as = -1
        for member in np.flatnonzero(counted[:, row]):
            vote.add(outputs[member, row : row + 1])
            if settled_as < 0 and vote.settled[0]:
                settled_as = int(vote.labels[0])
        votes = np.bincount(outputs[counted[:, row], row], minlength=3)
        assert found[row] == (settled_as == votes.argmax())
    assert 0 < found.sum() <= 40
