"""Groups of rows against the rows one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.grouped_tally import (
    Groups,
    group_rows,
    margin_codes,
    merge_groups,
    support_codes,
    vote_codes,
)
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.mixture import fit_mixture, group_counts
from ens_plugin.core.row_model import model_error
from ens_plugin.core.row_weight import RowWeight
from ens_plugin.core.tally import SupportTally

N_MEMBERS = 40


def soft_votes(n_rows: int) -> SupportTally:
    rng = np.random.default_rng(0)
    # Many rows of many members: quantiles over groups are not those over rows.
    trials = np.maximum(rng.binomial(N_MEMBERS, 0.9, n_rows), rng.integers(10, N_MEMBERS, n_rows)).astype(np.float64)
    trials[rng.random(n_rows) < 0.7] = N_MEMBERS - 1.0
    share = rng.beta(1, 3, n_rows)
    share[:50] = 0.5
    wrong = share * trials
    return SupportTally(trials, wrong, wrong * share, np.rint(wrong))


def brute_force(code: NDArray[np.int64], column: NDArray[np.float64], weight: NDArray[np.float64]) -> dict[int, float]:
    return {int(own): float(np.average(column[code == own], weights=weight[code == own])) for own in np.unique(code)}


def test_groups_hold_sums_over_their_rows() -> None:
    rng = np.random.default_rng(1)
    code, column, weight = rng.integers(0, 5, 100), rng.normal(size=100), rng.random(100)
    groups = group_rows(code, [column], weight)
    assert dict(zip(groups.code.tolist(), groups.means()[0], strict=True)) == pytest.approx(
        brute_force(code, column, weight)
    )
    assert groups.rows.tolist() == np.bincount(code).tolist()
    assert groups.row_weight().n_effective == pytest.approx(RowWeight(weight).n_effective)


@pytest.mark.parametrize("n_parts", [1, 2, 9])
def test_parts_merge_to_the_groups_of_all_rows(n_parts: int) -> None:
    rng = np.random.default_rng(1)
    code, column, weight = rng.integers(0, 30, 200), rng.integers(0, 9, 200) * 1.0, np.ones(200)
    parts = np.array_split(rng.permutation(200), n_parts)
    merged = merge_groups([group_rows(code[rows], [column[rows]], weight[rows]) for rows in parts])
    whole = group_rows(code, [column], weight)
    for field in ("code", "rows", "weight", "squares", "sums"):
        assert np.array_equal(getattr(merged, field), getattr(whole, field)), field


def test_vote_codes_are_the_counts() -> None:
    tally = SupportTally(np.array([40.0, 3.0]), np.array([0.0, 3.0]), np.zeros(2), np.zeros(2))
    assert [divmod(code, N_MEMBERS + 1) for code in vote_codes(tally, N_MEMBERS).tolist()] == [(40, 0), (3, 3)]


def test_cells_of_soft_votes_lie_within_those_of_the_fit() -> None:
    tally = soft_votes(20_000)
    code = support_codes(tally)
    groups = group_rows(code, [tally.trials, tally.wrong], np.ones(code.size))
    trials, wrong = groups.means()
    wrong = np.where(groups.code % 2 == 1, trials / 2.0, wrong)
    by_row = group_counts(tally.wrong, tally.trials, np.ones(code.size))
    by_cell = group_counts(wrong, trials, groups.weight, groups.rows)
    for found, exact in zip(by_cell[:3], by_row[:3], strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert groups.code.size < code.size / 3


def test_mixture_of_grouped_soft_votes_is_that_of_the_rows() -> None:
    tally = soft_votes(20_000)
    groups = group_rows(support_codes(tally), [tally.trials, tally.wrong], np.ones(tally.trials.size))
    trials, wrong = groups.means()
    wrong = np.where(groups.code % 2 == 1, trials / 2.0, wrong)
    sizes = [1, 5, 40, np.inf]
    exact = fit_mixture(tally.wrong, tally.trials, votes_per_member=2.5).error(sizes)
    found = fit_mixture(wrong, trials, groups.row_weight(), votes_per_member=2.5).error(sizes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bounded", [True, False])
def test_margins_in_cells_give_the_error_of_the_rows(bounded: bool) -> None:
    rng = np.random.default_rng(2)
    n_rows = 20_000
    trials = rng.integers(60, 90, n_rows).astype(np.float64)
    sd = rng.uniform(0.1, 0.5, n_rows) * (1.0 if bounded else 7.0)
    centre = (2 * rng.beta(3, 1, n_rows) - 1.0) * (1.0 if bounded else 7.0)
    mean = centre + sd / np.sqrt(trials) * rng.normal(size=n_rows)
    if bounded:
        mean = np.clip(mean, -1, 1)
    groups: Groups = group_rows(margin_codes(trials, mean, sd), [trials, mean, sd**2], np.ones(n_rows))
    own_trials, own_mean, variance = groups.means()
    sizes = [1, 3, 11, 101, np.inf]
    exact = model_error(fit_margins(mean, sd, trials, bounded=bounded), sizes)
    weight = groups.row_weight()
    found = model_error(fit_margins(own_mean, np.sqrt(variance), own_trials, weight, bounded=bounded), sizes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=5e-5)


def test_cells_of_margins_do_not_grow_with_the_rows() -> None:
    rng = np.random.default_rng(3)

    def n_cells(n_rows: int) -> int:
        sd, mean = rng.uniform(0.1, 0.5, n_rows), rng.uniform(-1, 1, n_rows)
        return np.unique(margin_codes(np.full(n_rows, 100.0), mean, sd)).size

    assert n_cells(400_000) < 1.25 * n_cells(200_000)
