"""Shares of answers from partitions of votes: Ewens' formula by brute force, and the agreement where it is known."""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial, prod

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core import partitions as module
from ens_plugin.core.partitions import (
    CONCENTRATIONS,
    LEADS,
    POINTS,
    SIZES,
    _agreement_by_point,
    _likelihood,
    _log_ewens,
    build_agreement_table,
    fit_partitions,
)

IntArray = NDArray[np.int64]
KINDS = {"one answer": (9.0, 0.5, 0.5, 0.5), "two rivals": (2.0, 2.0), "many answers": (2.0, *[0.1] * 29)}


def partitions(n: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to split n samples into equal answers, in falling order."""
    if n == 0:
        yield ()
    for first in range(min(n, largest or n), 0, -1):
        yield from ((first, *rest) for rest in partitions(n - first, first))


def n_ways(partition: tuple[int, ...]) -> int:
    """In how many ways the samples can fall into blocks of these sizes."""
    blocks = prod(factorial(size) for size in partition)
    alike = prod(factorial(partition.count(size)) for size in set(partition))
    return factorial(sum(partition)) // (blocks * alike)


def padded(n: int) -> tuple[IntArray, NDArray[np.float64]]:
    """All partitions of n as rows of an array, and the number of ways of each."""
    found = list(partitions(n))
    rows = np.array([[*each, *[0] * (n - len(each))] for each in found])
    return rows, np.array([n_ways(each) for each in found], dtype=float)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_ewens_chances_of_all_partitions_add_up_to_one(n: int) -> None:
    rows, ways = padded(n)
    assert ways @ np.exp(_log_ewens(rows, np.array([0.1, 1.5, 30.0]))) == pytest.approx(1.0)


def test_likelihood_is_that_of_drawn_samples() -> None:
    """Samples of the two-stage draw itself fall into the partitions as often as the formula says."""
    rng, n, place = np.random.default_rng(0), 4, 12 * CONCENTRATIONS.size + 7
    lead, theta = POINTS[:, place]
    rows, ways = padded(n)
    # A sample is the leading answer, or the next guest of the rest's Chinese restaurant.
    counts = np.zeros(len(rows))
    of_row = {tuple(row): index for index, row in enumerate(rows)}
    for _ in range(20_000):
        tables: list[int] = []
        n_lead = 0
        for _ in range(n):
            if rng.random() < lead:
                n_lead += 1
                continue
            chances = np.array([*tables, theta]) / (sum(tables) + theta)
            table = int(rng.choice(len(chances), p=chances))
            tables = (
                [*tables, 1] if table == len(tables) else [*tables[:table], tables[table] + 1, *tables[table + 1 :]]
            )
        blocks = sorted([*tables, *([n_lead] if n_lead else [])], reverse=True)
        counts[of_row[(*blocks, *[0] * (n - len(blocks)))]] += 1
    relative = _likelihood(rows)
    # The likelihood is relative to the largest of each partition, which cancels between partitions only in ratios.
    log_scale = _log_of_scale(rows)
    chance = ways * relative[:, place] * np.exp(log_scale)
    assert chance.sum() == pytest.approx(1.0)
    assert counts / counts.sum() == pytest.approx(chance, abs=0.012)


def _log_of_scale(rows: IntArray) -> NDArray[np.float64]:
    """The logarithm by which the likelihood of each partition was divided: that of its largest, by the formula."""
    lead, theta = POINTS
    n = rows.sum(axis=1)[:, None]
    total = np.exp(n * np.log1p(-lead) + _log_ewens(rows, theta))
    for answer in range(rows.shape[1]):
        rest = rows.copy()
        rest[:, answer] = 0
        votes = rows[:, answer, None]
        total += (votes > 0) * np.exp(votes * np.log(lead) + (n - votes) * np.log1p(-lead) + _log_ewens(rest, theta))
    return np.asarray(np.log(total.max(axis=1)))


def drawn_codes(weights: tuple[float, ...], n_questions: int, n_samples: int, seed: int) -> IntArray:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(weights, n_questions)
    edges = np.cumsum(shares, axis=1)[None, :, :-1]
    return np.asarray((rng.random((n_samples, n_questions, 1)) > edges).sum(axis=2))


def true_agreement(weights: tuple[float, ...], size: int) -> float:
    """How often the majority of `size` samples is the answer with the largest share, ties shared."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(weights, 40_000)
    votes = rng.multinomial(size, shares)
    wins = votes == votes.max(axis=1, keepdims=True)
    return float(np.mean(wins[np.arange(len(shares)), shares.argmax(axis=1)] / wins.sum(axis=1)))


@pytest.mark.parametrize("kind", ["one answer", "many answers"])
@pytest.mark.parametrize(("n_samples", "within"), [(5, 0.03), (16, 0.02)])
def test_agreement_of_many_questions_is_the_true_one(kind: str, n_samples: int, within: float) -> None:
    law = fit_partitions(drawn_codes(KINDS[kind], 4000, n_samples, 0), None, 0)
    for size in (1, 5, 33, 129):
        assert 1.0 - law.losses([size])[0] == pytest.approx(true_agreement(KINDS[kind], size), abs=within)


def test_agreement_grows_to_one() -> None:
    law = fit_partitions(drawn_codes(KINDS["two rivals"], 300, 8, 0), None, 0)
    losses = law.losses([1, 3, 9, 101, 1001, 20001, np.inf])
    assert np.all(np.diff(losses) < 0)
    assert losses[-1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_interval_holds_the_size_as_often_as_it_says(kind: str) -> None:
    sizes = np.arange(1, 4001, 2)
    known = np.array([1, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049, 4001])
    agreement = np.interp(np.log(sizes), np.log(known), [true_agreement(KINDS[kind], int(size)) for size in known])
    true = int(sizes[np.argmax(agreement >= 0.9)])
    held = 0
    for seed in range(60):
        low, high = fit_partitions(drawn_codes(KINDS[kind], 300, 8, seed), None, seed).size_interval(0.1, 20_001, 0.95)
        held += low - 2 <= true <= (np.inf if high is None else high + 2)
    assert held >= 51


def test_groups_widen_the_interval() -> None:
    """Copies of questions tell nothing new."""
    codes = drawn_codes(KINDS["two rivals"], 100, 8, 0)
    copied, groups = np.tile(codes, 10), np.tile(np.arange(100), 10)
    alone = fit_partitions(copied, None, 0).size_interval(0.1, 20_001, 0.95)
    together = fit_partitions(copied, groups, 0).size_interval(0.1, 20_001, 0.95)
    assert together[0] < alone[0]
    assert together[1] is None or together[1] > alone[1]


def test_unequal_numbers_of_samples_are_partitions_too() -> None:
    codes = drawn_codes(KINDS["many answers"], 2000, 16, 0)
    codes[np.arange(16)[:, None] >= np.random.default_rng(0).integers(3, 17, 2000)] = -1
    law = fit_partitions(codes, None, 0)
    assert 1.0 - law.losses([33])[0] == pytest.approx(true_agreement(KINDS["many answers"], 33), abs=0.03)


def test_many_partitions_are_sampled() -> None:
    law = fit_partitions(drawn_codes(KINDS["many answers"], 6000, 40, 0), None, 0)
    assert law.likelihood.shape[0] <= 2000
    assert 1.0 - law.losses([33])[0] == pytest.approx(true_agreement(KINDS["many answers"], 33), abs=0.03)


def test_chances_at_a_point_are_those_of_its_shares() -> None:
    """With a share of .98 for the leader, a single sample gives it with this chance."""
    place = 24 * CONCENTRATIONS.size
    assert LEADS[24] == pytest.approx(0.98)
    assert _agreement_by_point()[place, 0] == pytest.approx(0.98, abs=0.01)
    assert _agreement_by_point().shape == (POINTS.shape[1], SIZES.size)


def test_table_is_the_one_that_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer draws it is the same but for their noise."""
    monkeypatch.setattr(module, "N_RESTS", 256)
    assert np.abs(build_agreement_table() - _agreement_by_point()).mean() < 0.02
