"""The parts of the 2013 benchmark on real problems, on votes with known answers and on the paper's own figures."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benchmarks.papers import ensemble_size_2013
from benchmarks.papers.ranks import average_ranks, nemenyi_distance
from benchmarks.papers.real_problems_2013 import (
    MAX_SHARE,
    PAPER,
    PAPERS_RULES,
    RANKED,
    SETTINGS,
    Curves,
    curves,
    needed_size,
    pairs_apart,
    printed_errors,
    pruned,
)
from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.papers.dynamic_pruning_2009.stopping import checkpoints, stopping_table, uniform_prior


def test_the_papers_figures_are_those_of_the_other_section() -> None:
    assert len(PAPER) == 2 * 25
    for where, rules in ensemble_size_2013.PAPER.items():
        found = PAPER[where]
        assert found["error ∞"] == ensemble_size_2013.PAPER_ERROR[where]
        for rule, one in rules.items():
            shown = [found[f"{what} {rule}"] for what in ("disagreement", "median", "low", "high")]
            assert shown == [one.disagreement, one.median, one.low, one.high]
    assert {("bagging", problem) for problem in SETTINGS} < set(PAPER)
    for figures in PAPER.values():
        assert all(figures[f"low {rule}"] <= figures[f"median {rule}"] for rule in PAPERS_RULES)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("random forest", {("∞", "Test"), ("∞", "OOB"), ("∞", "BAN"), ("Test", "BAN"), ("OOB", "BAN")}),
        ("bagging", {("∞", "Test"), ("∞", "OOB"), ("∞", "BAN"), ("OOB", "BAN")}),
    ],
)
def test_nemenyis_test_of_the_papers_errors_says_what_the_paper_says(
    method: str, expected: set[tuple[str, str]]
) -> None:
    """The infinite ensemble is better than all, and BAN is worse than OOB, and than Test in random forests only."""
    errors = printed_errors(method, [problem for own, problem in PAPER if own == method])
    assert set(pairs_apart(RANKED, average_ranks(errors), nemenyi_distance(4, 25))) == expected


def test_curves_are_means_over_all_subsets() -> None:
    test = np.random.default_rng(0).random((9, 12)) < np.linspace(0.1, 0.9, 12)
    found = curves(test)
    whole = 2 * test.sum(axis=0) > 9
    assert found.limit == pytest.approx(100 * whole.mean())
    assert found.error.size == (int(MAX_SHARE * 9) + 1) // 2
    for size in (1, 3, 5):
        some = [2 * test[list(trees)].sum(axis=0) > size for trees in combinations(range(9), size)]
        apart, error = found.at(size)
        assert error == pytest.approx(100 * np.mean(some))
        assert apart == pytest.approx(100 * np.mean(some != whole) / np.sqrt(1 - size / 9))
    assert found.at(4) == found.at(3)
    assert found.at(99) == found.at(5)


def test_needed_size_is_the_one_that_the_probabilities_want() -> None:
    p = np.linspace(0.0, 1.0, 4001) ** 2
    test = np.random.default_rng(0).random((2000, p.size)) < p
    wanted = recommended_size(p)
    assert wanted is not None
    assert needed_size(curves(test)) == pytest.approx(wanted, rel=0.15)
    assert curves(test).at(101)[0] == pytest.approx(100 * (1 - agreement(p, None, [101])[0]), rel=0.05)
    assert needed_size(Curves(np.array([5.0, 2.0]), np.zeros(2), 0.0)) == np.inf


@pytest.mark.parametrize("rule", ["full", "infinite"])
def test_pruning_asks_row_by_row_until_the_table_settles_it(rule: str) -> None:
    votes = np.random.default_rng(1).random((41, 60)) < np.linspace(0.05, 0.95, 60)
    bounds = stopping_table(uniform_prior(41), checkpoints(41), 0.99, rule)
    asked, others, wrong = [], [], []
    for row in votes.T:
        for place, trees in enumerate(bounds.checkpoints):
            if bounds.settled(place, np.array([row[:trees].sum()]))[0]:
                break
        asked.append(trees)
        wrong.append(2 * row[:trees].sum() > trees)
        others.append(wrong[-1] != (2 * row.sum() > 41))
    assert pruned(votes, rule) == pytest.approx((np.mean(asked), 100 * np.mean(others), 100 * np.mean(wrong)))
    assert np.mean(asked) < 41
