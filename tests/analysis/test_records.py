"""The agreement on records of alike rows, against members whose chances in each kind of rows are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.analysis.estimates import are_votes
from ens_plugin.analysis.labels import agreement_law, curve_sizes, draw_alike_rows, largest_tied
from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.label_shares import LabelRecord
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from tests.records import drawn

MAX_SIZE = 20_001


def law_of(outputs: NDArray[Any], cell: NDArray[np.int64], seed: int, *, has_scores: bool = False) -> DrawnCurve:
    """Return the law of rows whose members give all rows of a cell the same output; outputs are by cell."""
    counted = np.random.default_rng([seed, 1]).random((len(outputs), cell.size)) < 0.37
    n_labels = 2 if outputs.ndim == 2 else outputs.shape[2]
    block = RowBlock(outputs[:, cell], counted, np.zeros(cell.size, dtype=np.int64), n_labels)
    sample = Sample(block, np.arange(cell.size), np.ones(cell.size))
    draws = draw_alike_rows(sample, cell, float(cell.size), has_scores=has_scores)
    ties_to = largest_tied(n_labels, has_votes=are_votes(block))
    return agreement_law(draws, curve_sizes(MAX_SIZE, len(outputs) // 2 * 2 + 1.0), 0, ties_to)


def votes_of(probability: NDArray[np.float64], n_members: int, seed: int) -> NDArray[np.int64]:
    return (np.random.default_rng(seed).random((n_members, probability.size)) < probability).astype(np.int64)


def test_agreement_and_size_are_those_of_the_cells_where_members_are_many() -> None:
    probability = np.array([0.05, 0.3, 0.42, 0.8])
    votes, cell = votes_of(probability, 4000, 2), np.repeat(np.arange(4), 25)
    law, share = law_of(votes, cell, 2), votes.mean(axis=0)
    np.testing.assert_allclose(law.losses([3, 31, 301]), 1.0 - agreement(share, None, [3, 31, 301]), atol=2e-3)
    size = law.size_within(0.01, MAX_SIZE)
    assert size == pytest.approx(recommended_size(share), rel=0.15)
    low, high = law.size_interval(0.01, MAX_SIZE, 0.95)
    assert low < size < (high or MAX_SIZE)


@pytest.mark.parametrize("has_scores", [False, True])
def test_members_that_agree_on_a_tie_leave_nothing_to_decide(has_scores: bool) -> None:
    outputs = np.full((50, 2, 2), 0.5)
    outputs[:, 1, 1] += np.random.default_rng(0).normal(0.3, 0.05, 50)
    outputs[:, 1, 0] = 1.0 - outputs[:, 1, 1]
    law = law_of(outputs, np.repeat([0, 1], 50), 0, has_scores=has_scores)
    assert law.losses([1])[0] < 0.001


def record_draws() -> LabelDraws:
    wrong = np.array([30.0, 26.0, 8.0, 2.0])
    record = LabelRecord(np.column_stack([60.0 - wrong, wrong]), np.full(4, 60.0), np.zeros(4, dtype=int), np.ones(4))
    return drawn(record)


def test_luck_is_that_of_the_records_posteriors() -> None:
    """Records of many rows: the variance of the mean over the draws of each is the sum of the records' own."""
    draws = record_draws().standing_for(np.array([1e6, 2e6, 1e6, 4e6]))
    changes = draws.changes([61.0])
    found = draws.means_by_luck(changes, np.random.default_rng(0), 20_000)[:, 0]
    expected = draws.share**2 @ changes[0].var(axis=1)
    assert found.mean() == pytest.approx(draws.mean(changes)[0], rel=0.02)
    assert found.var() == pytest.approx(expected, rel=0.05)


def test_the_variance_over_rows_is_that_of_shares_of_cells() -> None:
    """Shares of kinds among 120 rows are multinomial; what the densities add is known apart."""
    n_rows = np.array([60.0, 30.0, 18.0, 12.0])
    draws = record_draws().standing_for(n_rows)
    changes = draws.changes([1.0, 31.0])
    by_kind = changes.mean(axis=2, dtype=np.float64)
    shares = np.random.default_rng(0).multinomial(120, n_rows / 120.0, 100_000) / 120.0
    of_densities = draws.densities.covariance(
        {kind: draws.density_gradient(changes, kind, draws.unseen) for kind in np.unique(draws.kind).tolist()}
    )
    expected = np.cov(by_kind @ shares.T) + of_densities
    np.testing.assert_allclose(draws.covariance(changes), expected, rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("n_members", [25, 100])
@pytest.mark.parametrize("n_cells", [4, 8, 40])
def test_the_interval_covers_the_size_of_votes_on_few_cells(n_cells: int, n_members: int) -> None:
    """Of 60 intervals at 95 %, for cells as of binary features, 54 or more hold the truth."""
    rng, covered = np.random.default_rng(3), 0
    for seed in range(60):
        probability, cell = rng.beta(0.7, 0.7, n_cells), rng.integers(0, n_cells, 60 * n_cells)
        truth = recommended_size(probability) or np.inf
        low, high = law_of(votes_of(probability, n_members, seed), cell, seed).size_interval(0.01, MAX_SIZE, 0.95)
        covered += low <= truth <= (high or np.inf)
    assert covered >= 54
