"""The model of the shares of answers: chances by enumeration and integration, draws by their laws."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from ens_plugin.core import answer_shares
from ens_plugin.core.answer_shares import (
    SIZES,
    AnswerVotes,
    draw_majorities,
    new_interval,
    share_interval,
)

CELL = np.array([[0.2, 0.5]])


def grid_of(right: tuple[float, float], rival: tuple[float, float], concentration: float) -> answer_shares._Grid:
    """One cell."""
    return answer_shares._Grid(np.array([right]), np.array([rival]), np.array([concentration]))


def votes_of(draws: np.ndarray, *, has_truth: bool = True, n_answers: float = np.inf) -> AnswerVotes:
    """Counts of which the first column is of the right answer, the others in falling order."""
    wrong = -np.sort(-draws[:, 1:], axis=1)
    return AnswerVotes(np.column_stack([draws[:, 0], wrong]).astype(float), has_truth, n_answers)


@pytest.mark.parametrize(("successes", "failures"), [(0, 0), (3, 2), (0, 9), (12, 0), (40, 60)])
@pytest.mark.parametrize("cell", [(0.0, 0.1), (0.2, 0.5), (0.9, 1.0)])
def test_mean_of_a_cell_is_the_integral(successes: int, failures: int, cell: tuple[float, float]) -> None:
    found = answer_shares._log_mean(np.array([float(successes)]), np.array([float(failures)]), np.array([cell]))
    total = quad(lambda share: share**successes * (1 - share) ** failures, *cell, epsabs=0, epsrel=1e-10)[0]
    assert found[0, 0] == pytest.approx(np.log(total / (cell[1] - cell[0])), rel=1e-6, abs=1e-6)


def test_a_share_of_zero_has_no_success() -> None:
    found = answer_shares._log_mean(np.array([0.0, 1.0]), np.array([5.0, 5.0]), np.zeros((1, 2)))
    assert found[:, 0].tolist() == [0.0, -np.inf]


def ways(n_votes: int) -> Counter[tuple[int, ...]]:
    """How many sequences of votes, right ones and blocks of equal wrong ones, have the same record."""
    found: Counter[tuple[int, ...]] = Counter()
    for blocks in product(range(n_votes + 1), repeat=n_votes):
        # Block 0 is the right answer; others are numbered as they first appear, so that each sequence comes once.
        seen = [block for block in dict.fromkeys(blocks) if block > 0]
        if seen == sorted(seen) and seen == list(range(1, len(seen) + 1)):
            sizes = Counter(blocks)
            wrong = sorted((sizes[block] for block in seen), reverse=True)
            found[(sizes[0], *wrong, *[0] * (n_votes - len(wrong)))] += 1
    return found


@pytest.mark.parametrize("concentration", [0.05, 1.0, 30.0])
def test_chances_of_all_votes_sum_to_one(concentration: float) -> None:
    grid = grid_of((0.3, 0.6), (0.1, 0.8), concentration)
    chances = []
    for record, times in ways(4).items():
        counts = np.array([record], dtype=float)
        own = answer_shares._records(counts, grid)
        n_wrong = counts[:, 1:].sum(axis=1)
        # Of one record and one cell the likelihood is relative to itself, so that its parts are multiplied here.
        rivals = 1.0 + sum(
            float(own.rivals[pair, 0, 0]) for pair, votes in zip(own.pair[0], counts[0, 1:], strict=True) if votes > 0
        )
        log = (
            answer_shares._log_mean(counts[:, 0], n_wrong, grid.right)[0, 0]
            + answer_shares._log_mean(np.zeros(1), n_wrong, grid.rival)[0, 0]
            + answer_shares._log_ewens(counts[:, 1:], grid.concentration)[0, 0]
        )
        chances.append(times * np.exp(log) * rivals)
    assert sum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize(("successes", "failures"), [(0, 8), (3, 5), (60, 2), (400, 600)])
def test_shares_are_drawn_by_their_beta_distribution_within_a_cell(successes: int, failures: int) -> None:
    rng = np.random.default_rng(0)
    size = 4000
    drawn = answer_shares._drawn_in_cell(
        np.full(size, float(successes)), np.full(size, float(failures)), np.repeat(CELL, size, axis=0), rng
    )
    law = stats.beta(successes + 1, failures + 1)
    low, high = law.cdf(0.2), law.cdf(0.5)
    assert drawn.min() >= 0.2
    assert drawn.max() <= 0.5
    if high - low > 1e-12:
        assert stats.kstest((law.cdf(drawn) - low) / (high - low), "uniform").pvalue > 1e-4


def test_a_split_has_the_means_of_its_dirichlet_distribution() -> None:
    votes = np.tile([3.0, 1.0, 0.0], (20_000, 1))
    drawn = answer_shares._drawn_split(votes, np.full(20_000, 2.0), np.random.default_rng(0))
    assert drawn.sum(axis=1) == pytest.approx(np.ones(20_000))
    assert drawn[:, :3].mean(axis=0).tolist() == pytest.approx([0.5, 1 / 6, 0.0], abs=0.01)


def test_ties_are_shared_and_answers_given_once_count_each() -> None:
    votes = np.array([[2, 2, 1, 1], [1, 0, 0, 3], [0, 0, 1, 0], [3, 1, 0, 4]])
    found = answer_shares._wins(votes)
    assert found[:, 0].tolist() == [0.5, 0.25, 0.0, 1.0]
    assert found[2].tolist() == [0.0, 0.0, 1.0]


def test_few_questions_stand_for_themselves_and_many_for_their_like() -> None:
    few = np.random.default_rng(0).integers(0, 4, (50, 3)).astype(float)
    some, stand_in = answer_shares._spread_over_kinds(few)
    assert some[stand_in].tolist() == list(range(50))
    many = np.random.default_rng(0).integers(0, 4, (5000, 3)).astype(float)
    some, stand_in = answer_shares._spread_over_kinds(many)
    assert np.abs(many[some].mean(axis=0) - many.mean(axis=0)).max() < 0.01
    assert (many[some[stand_in]] == many).all(axis=1).mean() > 0.95


def test_a_share_is_without_the_luck_of_the_votes() -> None:
    """Each question has a chance of its own in each draw, and two outcomes."""
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(answer_shares.N_DRAWS):
        chance = np.clip(0.6 + 0.1 * rng.standard_normal(4000), 0.0, 1.0)
        outcomes.append(np.stack([(rng.random((2, 4000)) < chance).astype(float), np.ones((2, 4000))], axis=2))
    found = answer_shares._share(outcomes, np.zeros((2, 1)), np.zeros((1, 1)), 1.0)
    assert found.mean.tolist() == pytest.approx([0.6, 1.0], abs=0.01)
    assert float(found.variance[0]) == pytest.approx(0.1**2 / 4000, rel=0.25)
    assert float(found.variance[1]) == 0.0


def test_intervals_stay_within_0_and_1_and_have_the_level() -> None:
    mean = np.array([0.5, 0.999, 1.0, 0.0])
    lower, upper = share_interval(mean, np.array([1e-4, 1e-6, 1e-4, 0.0]), 0.95)
    assert upper[0] - lower[0] == pytest.approx(2 * 1.96 * 0.01, rel=0.01)
    assert ((lower >= 0) & (upper <= 1) & (lower <= mean) & (mean <= upper)).all()
    assert (lower[3], upper[3]) == (0.0, 0.0)


@pytest.mark.parametrize("n_units", [5, 25, 300])
def test_intervals_of_new_questions_are_those_of_a_binomial_share(n_units: int) -> None:
    """Of questions that are right or wrong for sure."""
    right = np.arange(n_units + 1)
    share = right / n_units
    lower, upper = new_interval(share, share * (1.0 - share) / n_units, float(n_units), 0.95)
    exact = stats.beta.ppf(0.025, right, n_units - right + 1), stats.beta.ppf(0.975, right + 1, n_units - right)
    assert [lower[-1], upper[0]] == pytest.approx([exact[0][-1], exact[1][0]], rel=1e-9)
    assert [lower[0], upper[-1]] == [0.0, 1.0]
    assert np.abs(lower - exact[0])[1:].max() < 0.2 / n_units
    assert np.abs(upper - exact[1])[:-1].max() < 0.2 / n_units


def test_more_questions_have_narrower_intervals() -> None:
    draws = np.random.default_rng(0).multinomial(5, [0.5, 0.3, 0.2], 20_000)
    few, many = (draw_majorities(votes_of(draws[:size]), 0) for size in (1000, 20_000))
    for ends in (
        lambda each: share_interval(each.right.mean, each.right.variance, 0.95),
        lambda each: new_interval(each.right.mean, each.new_variance, each.n_units, 0.95),
    ):
        widths = [np.ptp(np.stack(ends(each)), axis=0)[2] for each in (few, many)]
        assert widths[1] < 0.4 * widths[0]


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(4, 1, 1, 1), (2, *[0.5] * 6), (8, *[0.3] * 5), (2.0, 1.0)])
@pytest.mark.parametrize("has_truth", [True, False])
def test_curves_of_many_questions_are_the_true_ones(weights: tuple[float, ...], has_truth: bool) -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(weights, 1000)
    votes = rng.multinomial(16, shares)
    given = votes if has_truth else np.column_stack([np.zeros(1000, dtype=np.int64), votes])
    draws = draw_majorities(votes_of(given, has_truth=has_truth, n_answers=len(weights)), 0)
    best = shares.argmax(axis=1)
    for size in (3, 46, 1000):
        later = rng.multinomial(size, shares, (20, 1000))
        wins = later == later.max(axis=2, keepdims=True)
        wins = wins / wins.sum(axis=2, keepdims=True)
        place = SIZES.tolist().index(size)
        agreed = wins[:, np.arange(1000), best].mean()
        assert draws.agreed.mean[place] == pytest.approx(agreed, abs=0.025)
        if has_truth:
            assert draws.right.mean[place] == pytest.approx(wins[:, :, 0].mean(), abs=0.025)
