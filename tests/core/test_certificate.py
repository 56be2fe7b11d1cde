"""Proofs of labels from counts of votes: how often a wrong label is ever settled, by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.certificate import is_settled
from ens_plugin.errors import InputError

Draw = Callable[[], NDArray[Any]]
PATHS, DRAWS = 20_000, 2000


def needed_votes(n_draws: int, level: float) -> NDArray[np.int64]:
    """The smallest count of votes for one of two labels that settles it, after 1, 2, ... votes."""
    found = []
    for size in range(1, n_draws + 1):
        votes = np.arange(size + 1)
        settled = is_settled(np.stack([size - votes, votes], axis=1), level) & (2 * votes > size)
        found.append(int(np.argmax(settled)) if settled.any() else size + 1)
    return np.array(found)


def voters(rng: np.random.Generator, shares: list[float], n_rows: int) -> Draw:
    steps = np.cumsum(shares)[:-1]
    return lambda: np.searchsorted(steps, rng.random(n_rows), side="right")


@pytest.mark.parametrize("level", [0.01, 0.2])
@pytest.mark.parametrize("share", [0.5, 0.45])
def test_a_label_of_at_most_half_of_the_votes_is_hardly_ever_settled(level: float, share: float) -> None:
    rng = np.random.default_rng(0)
    needed = needed_votes(DRAWS, level)
    crossed = np.zeros(PATHS, dtype=bool)
    votes = np.zeros(PATHS, dtype=np.int64)
    for bound in needed:
        votes += rng.random(PATHS) < share
        crossed |= votes >= bound
    assert crossed.mean() <= level


def test_the_chance_at_a_tie_is_below_the_level_by_little() -> None:
    alive, crossed = np.ones(1), 0.0
    for bound in needed_votes(DRAWS, 0.05):
        alive = np.convolve(alive, [0.5, 0.5])
        crossed += float(alive[bound:].sum())
        alive[bound:] = 0.0
    assert 0.02 < crossed <= 0.05


@pytest.mark.parametrize("shares", [[0.34, 0.33, 0.33], [0.42, 0.41, 0.01, 0.16], [0.26, 0.25, 0.25, 0.24]])
def test_counts_alone_hardly_ever_settle_a_wrong_label(shares: list[float]) -> None:
    rng, level, rows = np.random.default_rng(2), 0.1, 4000
    draw, counts, wrong = voters(rng, shares, rows), np.zeros((rows, len(shares))), np.zeros(rows, dtype=bool)
    for _ in range(400):
        counts[np.arange(rows), draw()] += 1
        wrong |= is_settled(counts, level) & (counts.argmax(axis=1) > 0)
    assert wrong.mean() <= level


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0, -0.1, float("nan"), "a", True, None])
def test_a_level_that_makes_no_sense_is_refused(level: Any) -> None:
    with pytest.raises(InputError, match=r"level must lie strictly between 0 and 0\.5"):
        is_settled([[1, 2]], level)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], "at least two columns"), ([[1], [2]], "at least two columns"), ([[1.5, 2]], "whole numbers of votes"),
        ([[-1, 2]], "whole numbers of votes"), ([[np.nan, 2]], "NaN"), ([["a", "b"]], "must hold numbers"),
    ],
)  # fmt: skip
def test_counts_that_are_no_votes_are_refused(counts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        is_settled(counts, 0.01)


def test_no_rows_are_no_settled_rows() -> None:
    assert is_settled(np.empty((0, 2)), 0.01).shape == (0,)
    assert is_settled(np.empty((0, 3)), 0.01).shape == (0,)


def test_clear_counts_are_settled() -> None:
    assert is_settled([[9, 0], [9, 1]], 0.01).tolist() == [True, False]


def chance_by_all_paths(n_votes: int, level: float) -> float:
    """The chance that one of two labels with even votes is ever settled, counted over all orders of the votes."""
    paths = np.array(list(product([0, 1], repeat=n_votes))).cumsum(axis=1)
    behind = np.arange(1, n_votes + 1) - paths
    counts = np.stack([paths.ravel(), behind.ravel()], axis=1)
    settled = is_settled(counts, level, n_votes).reshape(paths.shape) & (paths > behind)
    return float(settled.any(axis=1).mean())


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n_votes", [3, 8, 14])
def test_with_an_end_the_chance_of_a_wrong_label_is_at_most_the_level(n_votes: int, level: float) -> None:
    assert chance_by_all_paths(n_votes, level) <= level


@pytest.mark.parametrize("shares", [[0.34, 0.33, 0.33], [0.5, 0.5, 0.0], [0.26, 0.25, 0.25, 0.24]])
def test_with_an_end_counts_of_more_labels_hardly_ever_settle_a_wrong_one(shares: list[float]) -> None:
    rng, level, rows = np.random.default_rng(3), 0.1, 20_000
    draw, counts, wrong = voters(rng, shares, rows), np.zeros((rows, len(shares))), np.zeros(rows, dtype=bool)
    for _ in range(64):
        counts[np.arange(rows), draw()] += 1
        wrong |= is_settled(counts, level, 64) & (counts.argmax(axis=1) > 0)
    assert wrong.mean() <= level


def test_a_known_end_takes_fewer_votes_and_the_more_the_farther_it_is() -> None:
    needed = [next(n for n in range(1, 40) if is_settled([[n, 0]], 0.05, end)[0]) for end in (16, 64, 500, None)]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]
