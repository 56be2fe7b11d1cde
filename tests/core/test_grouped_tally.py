"""Groups of rows against the rows one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.grouped_tally import Groups, group_rows, margin_codes, merge_groups, support_codes, vote_codes
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import model_error
from ens_plugin.core.tally import SupportTally
from ens_plugin.core.votes import fit_mixture, group_counts
from ens_plugin.core.weights import RowWeight

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
    exact = model_error(fit_margins(mean, sd, trials), sizes)
    weight = groups.row_weight()
    found = model_error(fit_margins(own_mean, np.sqrt(variance), own_trials, weight), sizes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=5e-5)


def test_cells_of_margins_do_not_grow_with_the_rows() -> None:
    rng = np.random.default_rng(3)

    def n_cells(n_rows: int) -> int:
        sd, mean = rng.uniform(0.1, 0.5, n_rows), rng.uniform(-1, 1, n_rows)
        return np.unique(margin_codes(np.full(n_rows, 100.0), mean, sd)).size

    assert n_cells(400_000) < 1.25 * n_cells(200_000)


def test_groups_without_columns_are_counts_alone() -> None:
    groups = group_rows(np.array([4, 4, 2]), [], np.ones(3))
    assert groups.code.tolist() == [2, 4]
    assert groups.means().shape == (0, 2)
    assert merge_groups([groups, groups]).sums.shape == (0, 2)


def test_tied_soft_votes_share_no_cell_with_others() -> None:
    trials, wrong = np.full(3, 40.0), 20.0 + np.array([-1e-6, 0.0, 1e-6])
    code = support_codes(SupportTally(trials, wrong, wrong, wrong))
    assert (code % 2).tolist() == [0, 1, 0]
    assert code[1] not in code[[0, 2]]


def test_numbers_of_members_are_exact_up_to_64_and_then_within_a_16th_of_an_octave() -> None:
    trials = np.arange(1.0, 2000.0)
    count = margin_codes(trials, np.zeros(trials.size), np.ones(trials.size)) >> 40
    assert np.array_equal(count[:64], trials[:64])
    for cell in np.unique(count[64:]):
        own = trials[count == cell]
        assert own.min() > 64
        assert own.max() / own.min() <= 2 ** (1 / 16)


@pytest.mark.parametrize("trials", [2.0, 17.0, 64.0, 65.0, 500.0])
@pytest.mark.parametrize("sd", [1e-3, 0.3, 40.0])
def test_cells_of_margins_are_a_sixth_of_an_error_wide_near_0(trials: float, sd: float) -> None:
    """An error of the least number of members and the least spread of the cell."""
    error = sd / np.sqrt(trials)
    mean = np.linspace(-3 * error, 3 * error, 20_001)
    code = margin_codes(np.full(mean.size, trials), mean, np.full(mean.size, sd))
    widths = [np.ptp(mean[code == cell]) for cell in np.unique(code)[1:-1]]
    assert max(widths) <= error / 6 * 1.05
    assert min(widths) >= error / 6 * 0.85


def test_spreads_of_one_cell_are_within_a_16th_of_an_octave() -> None:
    sd = np.geomspace(0.01, 10.0, 5000)
    code = margin_codes(np.full(sd.size, 9.0), np.zeros(sd.size), sd)
    ratios = [sd[code == cell].max() / sd[code == cell].min() for cell in np.unique(code)]
    assert max(ratios) <= 2 ** (1 / 16)
    assert len(ratios) == pytest.approx(16 * np.log2(1000), abs=2)
