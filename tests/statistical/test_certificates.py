"""How often proofs settle a wrong label, over rows of every kind, against the level and against a rule that assumes."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.certificate import is_settled
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    StoppingTable,
    certificate_table,
    checkpoints,
    stopping_table,
    uniform_prior,
)
from tests.statistical.harness import PROBLEMS, FloatArray, Problem, repeat

N_MEMBERS, N_ROWS, N_REPEATS = 301, 2000, 20
LEVEL = 0.05

close_rows = Problem("close rows", lambda rng, n_rows: rng.uniform(0.42, 0.58, n_rows))
problems = pytest.mark.parametrize("problem", [*PROBLEMS, close_rows], ids=lambda problem: problem.name)


def votes_at(rng: np.random.Generator, p: FloatArray) -> FloatArray:
    """Votes for the second of two labels at each checkpoint, shape (n_checkpoints, n_rows)."""
    steps = np.diff(checkpoints(N_MEMBERS), prepend=0)
    return np.cumsum([rng.binomial(step, p) for step in steps], axis=0).astype(np.float64)


def settled_wrongly(rng: np.random.Generator, problem: Problem, table: StoppingTable) -> FloatArray:
    """Share of the rows for which a table settles another label than the infinite ensemble's before the last member."""
    p = problem.draw(rng, N_ROWS)
    left, wrong = np.ones(N_ROWS, dtype=bool), np.zeros(N_ROWS, dtype=bool)
    for place, votes in enumerate(votes_at(rng, p)[:-1]):
        settled = left & table.settled(place, votes)
        wrong |= settled & ((votes >= table.upper[place]) != (p > 0.5))
        left &= ~settled
    return np.array([wrong.mean()])


@problems
def test_the_table_settles_wrong_labels_no_more_often_than_the_level(problem: Problem) -> None:
    table = certificate_table(checkpoints(N_MEMBERS), LEVEL)
    assert repeat(N_REPEATS, lambda rng: settled_wrongly(rng, problem, table)).mean() <= LEVEL


def test_a_rule_that_assumes_a_distribution_breaks_the_level_on_close_rows() -> None:
    table = stopping_table(uniform_prior(N_MEMBERS), checkpoints(N_MEMBERS), 1 - LEVEL, "infinite")
    assert repeat(N_REPEATS, lambda rng: settled_wrongly(rng, close_rows, table)).mean() > 2 * LEVEL


@problems
def test_counts_settle_wrong_labels_no_more_often_than_the_level(problem: Problem) -> None:
    def one(rng: np.random.Generator) -> FloatArray:
        p, wrong = problem.draw(rng, N_ROWS), np.zeros(N_ROWS, dtype=bool)
        for size, votes in zip(checkpoints(N_MEMBERS), votes_at(rng, p), strict=True):
            settled = is_settled(np.stack([size - votes, votes], axis=1), LEVEL)
            wrong |= settled & ((2 * votes > size) != (p > 0.5))
        return np.array([wrong.mean()])

    assert repeat(N_REPEATS, one).mean() <= LEVEL
