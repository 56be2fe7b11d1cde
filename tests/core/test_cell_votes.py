from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc, ndtr
from scipy.stats import beta, norm, t

from ens_plugin.core.agreement import CellVotes, gather_cells, has_few_cells
from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock


def cells_of(probability: Any, rows_per_cell: int, n_members: int, seed: int, n_labels: int = 2) -> tuple[Any, ...]:
    """Members that vote for label 1 in each cell with a probability; every row of a cell gets the same vote."""
    rng = np.random.default_rng(seed)
    cell = np.repeat(np.arange(len(probability)), rows_per_cell)
    votes = (rng.random((n_members, len(probability))) < np.asarray(probability)).astype(np.int64)
    is_oob = rng.random((n_members, cell.size)) < 0.37
    block = RowBlock(votes[:, cell], is_oob, rng.integers(0, 2, cell.size), n_labels)
    return Sample(block, np.arange(cell.size), np.ones(cell.size)), cell, votes


def gathered(*arguments: Any) -> tuple[Any, NDArray[np.int64]]:
    sample, cell, votes = cells_of(*arguments)
    return gather_cells(sample, cell, np.ones(cell.size), float(cell.size), 0), votes


def test_every_member_counts_once_in_a_cell() -> None:
    cells, votes = gathered([0.1, 0.4, 0.9], 40, 60, 0)
    share = votes.mean(axis=0)
    np.testing.assert_allclose(cells.mean, np.abs(2 * share - 1), atol=1e-12)
    np.testing.assert_array_equal(cells.members, [60, 60, 60])
    np.testing.assert_allclose(cells.share, [1 / 3] * 3)
    assert cells.votes


def test_probabilities_and_more_labels_take_the_two_best_labels() -> None:
    rng = np.random.default_rng(1)
    outputs = rng.dirichlet([4.0, 3.0, 1.0], (50, 2))
    cell = np.repeat([0, 1], 30)
    block = RowBlock(outputs[:, cell], rng.random((50, 60)) < 0.5, np.zeros(60, dtype=np.int64), 3)
    cells = gather_cells(Sample(block, np.arange(60), np.ones(60)), cell, np.ones(60), 60.0, 0)
    lead = outputs[:, :, 0] - outputs[:, :, 1]
    np.testing.assert_allclose(cells.mean, np.abs(lead.mean(axis=0)), atol=1e-12)
    np.testing.assert_allclose(cells.sd, lead.std(axis=0, ddof=1), atol=1e-12)
    assert not cells.votes
    assert (np.diff(cells.losses([1, 11, 101])) < 0).all()


def test_agreement_and_size_are_those_of_the_cells_where_members_are_many() -> None:
    probability = [0.05, 0.3, 0.42, 0.8]
    cells, votes = gathered(probability, 25, 4000, 2)
    share = votes.mean(axis=0)
    np.testing.assert_allclose(cells.losses([1, 31, 301]), 1.0 - agreement(share, None, [1, 31, 301]), atol=2e-3)
    size = cells.size_within(0.01, 20001)
    assert size == pytest.approx(recommended_size(share), rel=0.15)
    draws = cells.size_draws(0.01, 20001)
    assert np.quantile(draws, 0.025) < size < np.quantile(draws, 0.975)
    np.testing.assert_array_equal(draws, cells.size_draws(0.01, 20001))
    assert (draws % 2 == 1).all()


@pytest.mark.parametrize("votes", [True, False])
@pytest.mark.parametrize(("n_members", "lead"), [(3, 0.6), (5, 0.6), (10, 0.0), (10, 0.6), (30, 0.4), (100, 0.2)])
def test_the_size_is_that_of_the_integral_over_the_lead_of_one_cell(votes: bool, n_members: int, lead: float) -> None:
    """The exact integral, a sum over 100 000 quantiles, for a cell that has half of the rows."""
    level = (np.arange(100_000) + 0.5) / 100_000
    sd = np.sqrt((1 - lead**2) * n_members / (n_members - 1))
    k = n_members * (1 + lead) / 2
    mean = (
        2 * beta.ppf(level, k + 0.5, n_members - k + 0.5) - 1
        if votes
        else lead + sd / np.sqrt(n_members) * t.ppf(level, n_members - 1)
    )

    def disagreement(size: float) -> float:
        half = (size + 1) / 2
        each = betainc(half, half, (1 - np.abs(mean)) / 2) if votes else ndtr(-np.abs(mean) * np.sqrt(size) / sd)
        return float(0.5 * each.mean())

    cells = CellVotes(
        np.array([lead, 1.0]),
        np.array([sd, 0.0]),
        np.array([n_members, 1e9]),
        np.array([0.5, 0.5]),
        np.array([100.0, 100.0]),
        votes,
    )
    size = cells.size_within(0.005, 20001)
    assert size is not None
    assert disagreement(1.1 * size + 2) < 0.005 < disagreement(0.9 * size - 2)


def test_rows_and_shares_of_cells_are_by_weight() -> None:
    sample, cell, _ = cells_of([0.1, 0.4, 0.9], 40, 60, 0)
    cells = gather_cells(sample, cell, np.where(cell == 1, 3.0, 1.0), 50.0, 0)
    np.testing.assert_allclose(cells.share, [0.2, 0.6, 0.2])
    np.testing.assert_allclose(cells.rows, [10.0, 30.0, 10.0])


def test_leads_of_three_labels_are_no_votes_of_two() -> None:
    sample, cell, _ = cells_of([0.1, 0.4, 0.9], 40, 60, 0, n_labels=3)
    assert not gather_cells(sample, cell, np.ones(cell.size), float(cell.size), 0).votes


def test_drawn_sizes_have_the_quantiles_of_students_distribution() -> None:
    """One cell of four members: at a lead m the size is (z sd/m)^2, with z the normal quantile of 0.99."""
    one = np.ones(1)
    cells = CellVotes(0.1 * one, 0.6 * one, 4.0 * one, one, 100.0 * one, votes=False)
    lead = 0.1 + 0.3 * t.rvs(3, size=200_000, random_state=0)
    exact = (2.3263 * 0.6 / lead) ** 2
    found = cells.size_draws(0.01, 200_001)
    for level in (0.25, 0.5, 0.75):
        below = np.mean(exact <= np.quantile(found, level))
        assert below == pytest.approx(level, abs=0.06)
    assert np.mean(found > 1e5) == pytest.approx(np.mean(exact > 1e5), abs=0.02)


def test_drawn_sizes_have_the_spread_of_the_cells_shares() -> None:
    """Six of twelve rows are in a cell with known leads, whose share is then Beta(6, 6)."""
    cells = CellVotes(
        np.array([0.2, 1.0]), np.array([1.0, 0.0]), np.full(2, 1e12), np.full(2, 0.5), np.full(2, 6.0), votes=False
    )
    share = beta.rvs(6.0, 6.0, size=200_000, random_state=0)
    exact = (norm.ppf(1.0 - 0.01 / share) / 0.2) ** 2
    found = cells.size_draws(0.01, 20001)
    assert np.log(found).std() == pytest.approx(np.log(exact).std(), rel=0.15)
    assert np.log(found).mean() == pytest.approx(np.log(exact).mean(), abs=0.02)


@pytest.mark.slow
def test_the_interval_of_the_size_covers_where_eight_cells_are_known_from_100_members() -> None:
    """Of 60 intervals at 95 %, for cells as of three binary features, 54 or more hold the truth."""
    rng = np.random.default_rng(3)
    covered = 0
    for repetition in range(60):
        probability = rng.beta(0.7, 0.7, 8)
        truth = recommended_size(probability) or np.inf
        cells, _ = gathered(probability, 60, 100, repetition)
        low, high = np.quantile(cells.size_draws(0.01, 20001), [0.025, 0.975], method="inverted_cdf")
        covered += low <= truth <= high
    assert covered >= 54


def test_few_cells_are_at_most_200_and_a_quarter_of_the_rows() -> None:
    assert has_few_cells(np.arange(400) % 100)
    assert not has_few_cells(np.arange(400) % 101)
    assert has_few_cells(np.arange(4000) % 200)
    assert not has_few_cells(np.arange(4000) % 201)
