"""The beta and two-normal rows, matched scores, and what shrinking does to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom, norm

from ens_plugin.core.votes import majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.scores import (
    BetaProbabilities,
    NormalPair,
    NormalScores,
    expected_loss,
    fit_beta_probabilities,
    fit_matched_scores,
    fit_normal_pair,
    fit_normal_scores,
    loss_curve,
    match_probabilities,
    shrink_beta_probabilities,
    shrink_matched_scores,
    shrink_normal_scores,
    shrink_rows,
)
from tests.papers.score_tables_2017.score_examples import tables


def test_beta_has_the_members_mean_and_variance() -> None:
    p = np.random.default_rng(0).beta(2.0, 3.0, (40, 5))
    rows = fit_beta_probabilities(p)
    total = rows.alpha + rows.beta
    np.testing.assert_allclose(rows.alpha / total, p.mean(axis=0))
    np.testing.assert_allclose(rows.alpha * rows.beta / total**2 / (total + 1), p.var(axis=0, ddof=1))


def test_certain_members_are_a_hard_vote() -> None:
    p = (np.random.default_rng(1).random((25, 4)) < 0.7).astype(float)
    rows = fit_beta_probabilities(p)
    wrong = 1.0 - p.mean(axis=0)
    np.testing.assert_allclose(expected_loss(rows, [11], tables())[0], majority_error(wrong, [11])[0], atol=0.02)


@pytest.mark.slow
def test_rows_of_one_concentration_agree_with_rows_of_many() -> None:
    """The two ways of interpolation, over one concentration and over octaves, meet."""
    mean = np.linspace(0.2, 0.8, 5)
    alone = BetaProbabilities(3.7 * mean, 3.7 * (1 - mean), np.ones(5))
    mixed = BetaProbabilities(np.append(alone.alpha, 9.0), np.append(alone.beta, 2.0), np.ones(6))
    for size in (3, 41):
        np.testing.assert_allclose(
            expected_loss(mixed, [size], tables())[0, :5], expected_loss(alone, [size], tables())[0], atol=1e-4
        )


def test_pair_finds_two_humps_and_one() -> None:
    rng = np.random.default_rng(2)
    humps = rng.normal(np.where(rng.random((600, 1)) < 0.25, -3.0, 1.0), 0.5, (600, 1))
    rows = fit_normal_pair(np.hstack([humps, rng.normal(0.5, 1.0, (600, 1))]))
    np.testing.assert_allclose(rows.mean[:, 0], [-3.0, 1.0], atol=0.15)
    assert rows.share[0] == pytest.approx(0.25, abs=0.05)
    pooled = rows.pooled()
    assert (pooled.mean[1], pooled.variance[1]) == pytest.approx((0.5, 1.0), abs=0.15)


def test_pair_of_few_members_is_where_the_steps_of_em_end() -> None:
    """The six members with both priors, written out; the second component has less than one member."""
    scores = np.array([-0.38, -0.46, 0.96, -1.8, 0.15, -0.61])
    rows = fit_normal_pair(scores[:, None])
    share, mean, variance = rows.share[0], rows.mean[:, 0], rows.variance[:, 0]
    first = share * norm.pdf(scores, mean[0], np.sqrt(variance[0]))
    second = (1.0 - share) * norm.pdf(scores, mean[1], np.sqrt(variance[1]))
    for own, belongs in enumerate((first / (first + second), second / (first + second))):
        assert mean[own] == pytest.approx(belongs @ scores / belongs.sum(), rel=1e-6)
        squares = belongs @ (scores - mean[own]) ** 2 + 2.0 * 0.1 * scores.var(ddof=1)
        assert variance[own] == pytest.approx(squares / (belongs.sum() + 2.0), rel=1e-6)
        assert (share, 1.0 - share)[own] == pytest.approx((belongs.sum() + 1.0) / (6 + 2), rel=1e-6)


def test_pair_of_members_that_agree_is_their_score() -> None:
    np.testing.assert_allclose(fit_normal_pair(np.full((3, 1), 2.5)).mean, 2.5, rtol=1e-12)


def test_pair_leaves_out_members_not_used() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(12, 3))
    used = np.ones((12, 3), dtype=bool)
    used[8:] = False
    np.testing.assert_allclose(fit_normal_pair(scores, used).mean, fit_normal_pair(scores[:8]).mean, atol=1e-9)


@pytest.mark.slow
@given(st.floats(0.02, 0.98), st.floats(0.0, 0.7))
def test_matched_scores_have_the_given_moments(mean: float, share: float) -> None:
    variance = share * mean * (1.0 - mean) * 0.8
    rows = match_probabilities([mean], [variance], tables())
    miss = tables().miss_moments(rows.mean, rows.spread)[:, 0]
    assert 1.0 - miss[0] == pytest.approx(mean, abs=1e-4)
    assert miss[1] - miss[0] ** 2 == pytest.approx(variance, abs=1e-4)


def test_matching_a_normal_gives_it_back() -> None:
    mean, spread = np.array([0.5, -2.0, 0.0]), np.array([1.0, 2.0, 0.5])
    miss = tables().miss_moments(mean, spread)
    rows = match_probabilities(1.0 - miss[0], miss[1] - miss[0] ** 2, tables())
    np.testing.assert_allclose(rows.mean, mean, atol=2e-3)
    np.testing.assert_allclose(rows.spread, spread, atol=2e-3)


@pytest.mark.parametrize("members", [10, 25, 50])
def test_shrinking_beats_plugging_in_where_the_truth_is_known(members: int) -> None:
    """Future work no. 1 of 2017: less bias and less error at 101 members, over 48 draws of rows and members."""
    rng = np.random.default_rng(members)
    options = [(loss, mixing) for loss in ("zero_one", "log") for mixing in ("mean_score", "mean_proba")]
    errors = np.empty((48, 2, len(options)))
    for draw in errors:
        mean, spread = rng.normal(1.0, 1.2, 800), np.exp(rng.normal(0.3, 0.3, 800))
        scores = rng.normal(mean, spread, (members, 800))
        fitted = NormalScores(mean, spread**2, np.ones(800)), fit_normal_scores(scores), shrink_normal_scores(scores)
        for column, (loss, mixing) in enumerate(options):
            truth, *found = (loss_curve(rows, [101], tables(), loss=loss, aggregation=mixing)[0] for rows in fitted)
            draw[:, column] = np.array(found) - truth
    bias, mean_square = np.abs(errors.mean(axis=0)), np.mean(errors**2, axis=0)
    assert (bias[1] < bias[0]).all()
    assert (mean_square[1] < mean_square[0]).all()


def test_matching_corrects_scores_that_are_not_normal() -> None:
    """Two values of the score: the variance of the probability, hence of voting's log loss, is that of the draws."""
    rng = np.random.default_rng(5)
    scores = np.where(rng.random((2000, 60)) < 0.4, -1.5, 1.5)
    p = expit(scores)
    exact = 2 * p.var(axis=0).mean() / 50
    from ens_plugin.papers.score_tables_2017.scores import score_bias_variance

    matched = score_bias_variance(fit_matched_scores(p, tables()), [50], tables(), loss="squared").variance[0]
    plugged = score_bias_variance(fit_normal_scores(scores), [50], tables(), loss="squared").variance[0]
    assert matched == pytest.approx(exact, rel=0.01)
    assert abs(plugged - exact) > 5 * abs(matched - exact)


def test_shrunken_rows_keep_the_total_weight_and_the_order_is_free() -> None:
    rng = np.random.default_rng(6)
    scores, weight, order = rng.normal(1.0, 2.0, (15, 350)), rng.random(350) + 0.1, rng.permutation(350)
    one = shrink_normal_scores(scores, weight=weight)
    other = shrink_normal_scores(scores[::-1][:, order], weight=weight[order])
    assert one.weight.sum() == pytest.approx(weight.sum())
    for size in (1, 25):
        a, b = (loss_curve(rows, [size], tables())[0] for rows in (one, other))
        assert a == pytest.approx(b, abs=1e-6)


def test_rows_without_spread_are_left_as_they_are() -> None:
    rows = NormalScores(np.array([0.5, -1.0]), np.zeros(2), np.ones(2))
    assert loss_curve(shrink_rows(rows, [5, 5]), [9], tables())[0] == 0.5


def test_a_row_whose_mean_is_zero_leaves_the_others_shrunken() -> None:
    rng = np.random.default_rng(8)
    mean = rng.normal(size=300)
    mean[0] = 0.0
    shrunken = shrink_rows(NormalScores(mean, np.full(300, 4.0), np.ones(300)), np.full(300, 10))
    centre = np.average(shrunken.mean, weights=shrunken.weight)
    assert np.average((shrunken.mean - centre) ** 2, weights=shrunken.weight) < 0.8 * mean.var()


def test_shrunken_probabilities_are_within_reach_of_the_truth() -> None:
    rng = np.random.default_rng(7)
    q = rng.beta(4.0, 1.5, 700)
    p = rng.beta(6 * q, 6 * (1 - q), (25, 700))
    truth = BetaProbabilities(6 * q, 6 * (1 - q), np.ones(700))
    for size in (25, np.inf):
        exact = loss_curve(truth, [size], tables())[0]
        for rows in (shrink_beta_probabilities(p), shrink_matched_scores(p, tables())):
            assert loss_curve(rows, [size], tables())[0] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_mean_score_of_two_normals_is_a_mixture_over_counts(size: int) -> None:
    """Given how many members are of the first component, the mean score is normal."""
    rows = NormalPair(np.array([0.3]), np.array([[-2.0], [1.5]]), np.array([[0.25], [2.0]]), np.ones(1))
    first = np.arange(size + 1)
    mean, variance = -2.0 * first + 1.5 * (size - first), 0.25 * first + 2.0 * (size - first)
    chance = binom.pmf(first, size, 0.3)
    exact = chance @ norm.cdf(-mean / np.sqrt(variance))
    found = expected_loss(rows, [size], tables(), loss="zero_one", aggregation="mean_score")[0, 0]
    assert found == pytest.approx(exact, abs=1e-10)
    points = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    scores = (mean[:, None] + np.sqrt(variance)[:, None] * points) / size
    exact = chance @ np.logaddexp(0.0, -scores).mean(axis=1)
    found = expected_loss(rows, [size], tables(), loss="log", aggregation="mean_score")[0, 0]
    assert found == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("n_members", [3, 25])
def test_the_shrunken_concentration_is_that_of_the_members_however_few(n_members: int) -> None:
    rng = np.random.default_rng(8)
    q = rng.beta(4.0, 1.5, 40_000)
    # The mean of three votes has a third of a vote's variance, as a beta variable of concentration 2 has.
    rows = shrink_beta_probabilities(rng.binomial(3, q, (n_members, q.size)) / 3)
    assert rows.alpha + rows.beta == pytest.approx(2.0, rel=0.04)


@pytest.mark.parametrize("fit", [fit_beta_probabilities, shrink_beta_probabilities])
def test_probabilities_outside_the_unit_interval(fit: object) -> None:
    with pytest.raises(InputError, match="probabilities"):
        fit([[0.5], [1.5]])  # type: ignore[operator]
    with pytest.raises(InputError, match="probabilities"):
        fit([[0.5], [np.nan]])  # type: ignore[operator]


def test_bad_input_of_matching_and_shrinking() -> None:
    with pytest.raises(InputError, match="probabilities"):
        fit_matched_scores([[-0.1], [0.5]], tables())
    with pytest.raises(InputError, match="mean"):
        match_probabilities([1.2], [0.0], tables())
    with pytest.raises(InputError, match="variance"):
        match_probabilities([0.5], [-0.1], tables())
    with pytest.raises(InputError, match="mean and variance"):
        match_probabilities([0.5, 0.6], [0.1], tables())
    rows = NormalScores(np.zeros(2), np.ones(2), np.ones(2))
    with pytest.raises(InputError, match="trials"):
        shrink_rows(rows, [5])
    with pytest.raises(InputError, match="trials"):
        shrink_rows(rows, [5, 1])


@pytest.mark.parametrize("seed", range(3))
def test_a_variance_that_tells_of_the_mean_does_not_mislead(seed: int) -> None:
    """Scores of two values: in groups of rows by variance, the error came out at less than half."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(6, 3, size=6000)
    rows = shrink_normal_scores(np.where(rng.random((25, chance.size)) < chance, 1.5, -1.5))
    wrong = float(loss_curve(rows, [np.inf], tables(), aggregation="mean_score")[0])
    assert wrong == pytest.approx(np.mean(chance < 0.5), rel=0.15)
