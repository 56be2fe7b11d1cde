from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import digamma, expit, log_softmax, polygamma

from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.score_tables_2017.score_tables import log_mean_moments, score_quadrature
from ens_plugin.papers.score_tables_2017.scores import (
    AGGREGATIONS,
    LOSSES,
    BetaProbabilities,
    NormalPair,
    NormalScores,
    ScoreRows,
    expected_loss,
    fit_normal_scores,
    linearized_scores,
    loss_curve,
    loss_variance,
    moments_of_mean,
    row_moments,
    score_bias_variance,
    scores_of_truth,
    smallest_size_within,
)
from tests.papers.score_tables_2017.score_examples import tables

FloatArray = NDArray[np.float64]
DRAWS = 40_000

NORMAL = NormalScores(np.array([0.4, -0.3, 1.5]), np.array([1.0, 4.0, 0.25]), np.array([1.0, 2.0, 1.0]))
PAIR = NormalPair(
    np.array([0.3, 0.6]), np.array([[-1.0, 2.0], [2.0, -0.5]]), np.array([[0.5, 0.2], [1.0, 1.5]]), np.ones(2)
)
BETA = BetaProbabilities(np.array([0.8, 3.0, 2.0]), np.array([0.5, 3.5, 0.7]), np.ones(3))


def draw(rows: ScoreRows, size: int, rng: np.random.Generator) -> tuple[FloatArray | None, FloatArray]:
    """Scores (None for the beta model) and probabilities of simulated ensembles, (n_rows, n_draws, size)."""
    shape = (DRAWS, size)
    if isinstance(rows, BetaProbabilities):
        return None, rng.beta(rows.alpha[:, None, None], rows.beta[:, None, None], (rows.alpha.size, *shape))
    if isinstance(rows, NormalPair):
        first = rng.random((rows.share.size, *shape)) < rows.share[:, None, None]
        parts = [
            rng.normal(m[:, None, None], np.sqrt(v)[:, None, None], first.shape)
            for m, v in zip(rows.mean, rows.variance, strict=True)
        ]
        scores = np.where(first, *parts)
    else:
        assert isinstance(rows, NormalScores)
        scores = rng.normal(rows.mean[:, None, None], rows.spread[:, None, None], (rows.mean.size, *shape))
    return scores, expit(scores)


def losses(scores: FloatArray | None, p: FloatArray, loss: str, aggregation: str) -> FloatArray:
    if aggregation == "mean_score":
        assert scores is not None
        p = expit(scores.mean(axis=2))
    else:
        p = (p > 0.5).mean(axis=2) if aggregation == "vote" else p.mean(axis=2)
    if loss == "zero_one":
        by_chance = np.random.default_rng(0).random(p.shape) < 0.5
        return np.where(p == 0.5, by_chance, p < 0.5).astype(np.float64)
    return -np.log(p) if loss == "log" else 2.0 * (1.0 - p) ** 2


HARDEST = (True, "mean_proba", "zero_one")
CASES = [
    # Of means of beta probabilities, the 0-1 loss takes a second.
    pytest.param(rows, aggregation, loss, marks=[pytest.mark.slow] * ((rows is BETA, aggregation, loss) == HARDEST))
    for rows in (NORMAL, PAIR, BETA)
    for aggregation in AGGREGATIONS
    for loss in LOSSES
    if (aggregation != "vote" or loss == "zero_one") and (rows is not BETA or aggregation != "mean_score")
]


@pytest.mark.parametrize("size", [1, 4, 11])
@pytest.mark.parametrize(("rows", "aggregation", "loss"), CASES)
def test_loss_and_its_variance_against_simulation(rows: ScoreRows, aggregation: str, loss: str, size: int) -> None:
    simulated = losses(*draw(rows, size, np.random.default_rng(size)), loss, aggregation)
    found = expected_loss(rows, [size], tables(), loss=loss, aggregation=aggregation)[0]
    error = simulated.std(axis=1) / np.sqrt(DRAWS)
    assert (np.abs(found - simulated.mean(axis=1)) < 4.5 * error + 1e-4).all()
    share = rows.weight / rows.weight.sum()
    varied = loss_variance(rows, [size], tables(), loss=loss, aggregation=aggregation)[0]
    squares = (simulated - simulated.mean(axis=1, keepdims=True)) ** 2
    error = np.sqrt(share**2 @ squares.var(axis=1) / DRAWS)
    assert abs(varied - share @ squares.mean(axis=1)) < 4.5 * error + 1e-4


def test_the_logarithm_of_one_beta_variable_is_known() -> None:
    alpha = np.array([0.6, 1.0, 2.0, 50.0, 1e3, 3e5, 1.0, 1e6 - 1.0])
    beta = np.array([0.6, 1.0, 0.7, 30.0, 0.5, 7e5, 1e6 - 1.0, 1.0])
    mean, variance = BetaProbabilities(alpha, beta, np.ones(8)).log_moments(1, "mean_proba", tables())
    np.testing.assert_allclose(mean, digamma(alpha) - digamma(alpha + beta), atol=1e-6)
    np.testing.assert_allclose(variance, polygamma(1, alpha) - polygamma(1, alpha + beta), atol=1e-6)


def test_a_beta_variable_near_zero_counts_as_the_smallest_probability() -> None:
    """As in scikit-learn's log loss; the mean of a member that is hardly ever above it hardly depends on alpha."""
    rows = BetaProbabilities(np.array([0.3, 1e-3]), np.array([0.5, 0.6]), np.ones(2))
    floor = np.finfo(np.float64).eps
    for size in (1, 3):
        p = np.random.default_rng(size).beta(rows.alpha[:, None, None], rows.beta[:, None, None], (2, 200_000, size))
        simulated = np.log(np.maximum(p, floor).mean(axis=2))
        found = rows.log_moments(size, "mean_proba", tables())
        error = simulated.std(axis=1) / np.sqrt(200_000)
        assert (np.abs(found[0] - simulated.mean(axis=1)) < 4.5 * error).all()
        np.testing.assert_allclose(found[1], simulated.var(axis=1), rtol=0.05)


@pytest.mark.parametrize("rows", [NORMAL, PAIR])
def test_infinitely_many_are_the_limit_of_many(rows: ScoreRows) -> None:
    for aggregation in ("mean_score", "mean_proba"):
        for loss in LOSSES:
            many, limit = expected_loss(rows, [200_000, np.inf], tables(), loss=loss, aggregation=aggregation)
            np.testing.assert_allclose(many, limit, atol=2e-4)


@pytest.mark.parametrize("aggregation", ["mean_score", "mean_proba"])
@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize("rows", [NORMAL, PAIR])
def test_bias_and_variance_add_up_and_fit_their_definition(rows: ScoreRows, loss: str, aggregation: str) -> None:
    sizes = [1, 6]
    found = score_bias_variance(rows, sizes, tables(), loss=loss, aggregation=aggregation)
    total = loss_curve(rows, sizes, tables(), loss=loss, aggregation=aggregation)
    np.testing.assert_allclose(found.bias + found.variance, total, atol=1e-9)
    scores, p = draw(rows, 6, np.random.default_rng(3))
    assert scores is not None
    p = expit(scores.mean(axis=2)) if aggregation == "mean_score" else p.mean(axis=2)
    if loss == "log":
        centre = np.exp(np.stack([np.log(p).mean(axis=1), np.log1p(-p).mean(axis=1)]))
        bias, variance = -np.log(centre[0] / centre.sum(axis=0)), -np.log(centre.sum(axis=0))
    else:
        bias, variance = 2 * (1 - p.mean(axis=1)) ** 2, 2 * p.var(axis=1)
    share = rows.weight / rows.weight.sum()
    assert found.bias[1] == pytest.approx(share @ bias, abs=3e-3)
    assert found.variance[1] == pytest.approx(share @ variance, rel=0.03)


def test_smallest_size_is_the_first_within_the_tolerance() -> None:
    rows = NormalScores(np.linspace(0.3, 2.0, 50), np.full(50, 4.0), np.ones(50))
    found = smallest_size_within(rows, tables(), loss="log", aggregation="mean_proba", tolerance=0.01)
    curve = loss_curve(rows, np.arange(1, 202, 2), tables(), loss="log")
    limit = loss_curve(rows, [np.inf], tables(), loss="log")[0]
    assert found == int(np.arange(1, 202, 2)[np.argmax(curve <= 1.01 * limit)])


def test_smallest_size_above_the_largest_is_none() -> None:
    rows = NormalScores(np.array([0.05]), np.array([4.0]), np.ones(1))
    assert smallest_size_within(rows, tables(), tolerance=1e-6, max_size=101) is None


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"aggregation": "stack"}, "aggregation"),
        ({"loss": "log", "aggregation": "vote"}, "vote"),
    ],
)
def test_unknown_options(options: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        expected_loss(NORMAL, [1], tables(), **options)


def test_other_bad_input() -> None:
    with pytest.raises(InputError, match="sizes"):
        expected_loss(NORMAL, [0], tables())
    with pytest.raises(InputError, match="loss"):
        score_bias_variance(NORMAL, [1], tables(), loss="zero_one")
    with pytest.raises(InputError, match="tolerance"):
        smallest_size_within(NORMAL, tables(), tolerance=0.0)
    with pytest.raises(InputError, match="max_size"):
        smallest_size_within(NORMAL, tables(), max_size=0)
    with pytest.raises(InputError, match="mean_score"):
        expected_loss(BETA, [3], tables(), aggregation="mean_score")


@pytest.mark.parametrize("spread", [0.1, 0.49, 0.51, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 25, 800, 3000])
@pytest.mark.parametrize("aggregation", ["mean_score", "mean_proba"])
def test_a_small_variance_is_right_relative_to_itself(spread: float, size: int, aggregation: str) -> None:
    mean = np.linspace(-3.0, 3.0, 13)
    for a in mean:
        row = NormalScores(np.array([a]), np.array([spread**2]), np.ones(1))
        if aggregation == "mean_score":
            nodes, weights = score_quadrature(spread / np.sqrt(size))
            scores = a + spread / np.sqrt(size) * nodes
            log_right, log_wrong = (-weights @ np.logaddexp(0.0, -sign * scores) for sign in (1.0, -1.0))
        else:
            nodes, weights = score_quadrature(spread)
            log_right, log_wrong = (
                float(log_mean_moments(expit(sign * a + spread * nodes), weights, [size])[0][0]) for sign in (1.0, -1.0)
            )
        found = score_bias_variance(row, [size], tables(), loss="log", aggregation=aggregation)
        exact = -np.logaddexp(log_right, log_wrong)
        assert found.variance[0] == pytest.approx(exact, rel=0.01, abs=1e-9)
        assert found.bias[0] == pytest.approx(-log_right - exact, rel=1e-3, abs=1e-5)


finite = st.floats(-5, 5)


@given(st.lists(st.tuples(finite, finite, st.integers(0, 1)), min_size=3, max_size=12))
def test_two_labels_are_the_binary_case_exactly(values: list[tuple[float, float, int]]) -> None:
    pairs = np.array([[v[0], v[1]] for v in values])
    target = np.array([v[2] for v in values])
    scores = np.stack([pairs, 2.0 * pairs, pairs - 1.0])
    binary = scores_of_truth(scores[:, :, 1] - scores[:, :, 0], target)
    np.testing.assert_allclose(linearized_scores(scores, target), binary, atol=1e-12)


def test_linearised_odds_are_exact_at_the_mean_and_tangent_there() -> None:
    rng = np.random.default_rng(1)
    mean, target = rng.normal(size=(6, 4)), np.array([0, 1, 2, 3, 0, 1])
    step = 1e-4 * rng.normal(size=(6, 4))
    scores = np.stack([mean - step, mean + step])
    found = linearized_scores(scores, target)
    for sign, member in ((-1, 0), (1, 1)):
        log_p = log_softmax(mean + sign * step, axis=1)[np.arange(6), target]
        np.testing.assert_allclose(found[member], log_p - np.log1p(-np.exp(log_p)), atol=1e-6)


def test_linearised_loss_of_three_labels_is_near_the_simulated_one() -> None:
    rng = np.random.default_rng(2)
    mean = rng.normal(size=(30, 3)) * 1.5
    target = rng.integers(0, 3, 30)
    members = mean + 0.5 * rng.normal(size=(4000, 30, 3))
    exact = -log_softmax(members.reshape(400, 10, 30, 3).mean(axis=1), axis=2)[:, np.arange(30), target].mean()
    rows = fit_normal_scores(linearized_scores(members, target))
    assert loss_curve(rows, [10], tables(), loss="log", aggregation="mean_score")[0] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: linearized_scores([[1.0, 2.0]], [0]), "scores"),
        (lambda: linearized_scores([[[1.0]]], [0]), "scores"),
        (lambda: linearized_scores([[[1.0, 2.0]]], [2]), "target"),
        (lambda: linearized_scores([[[1.0, np.inf]]], [0]), "scores"),
    ],
)
def test_bad_input(call: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        call()  # type: ignore[operator]


def test_moments_are_those_of_the_members_used() -> None:
    rng = np.random.default_rng(0)
    scores, used = rng.normal(size=(9, 4)), rng.random((9, 4)) < 0.7
    mean, variance, trials = row_moments(scores, used)
    for row in range(4):
        mine = scores[used[:, row], row]
        assert (mean[row], variance[row], trials[row]) == pytest.approx((mine.mean(), mine.var(ddof=1), mine.size))


def test_scores_of_label_zero_change_sign() -> None:
    np.testing.assert_array_equal(scores_of_truth([[1.0, -2.0], [0.5, 3.0]], [0, 1]), [[-1.0, -2.0], [-0.5, 3.0]])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_moments_of_a_mean_by_enumeration(size: int) -> None:
    values, chance = np.array([0.1, 0.5, 0.8]), np.array([0.5, 0.2, 0.3])
    grid = np.array(np.meshgrid(*[range(3)] * size)).reshape(size, -1)
    means, weights = values[grid].mean(axis=0), chance[grid].prod(axis=0)
    single = np.array([[chance @ values**power] for power in (1, 2, 3, 4)])
    exact = [weights @ means**power for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments_of_mean(single, size)[:, 0], exact, rtol=1e-12)


def test_the_mean_score_of_a_normal_is_normal() -> None:
    mixed = fit_normal_scores([[0.0], [2.0]]).mixed_scores(4)
    assert (mixed.mean[0], mixed.variance[0]) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([1.0, 2.0],), "scores"),
        (([[1.0], [np.nan]],), "scores"),
        (([["a"], ["b"]],), "scores"),
        (([[1.0], [2.0]], [[True]]), "used"),
        (([[1.0], [2.0]], None, [1.0, 1.0]), "weight"),
        (([[1.0], [2.0]], None, [-1.0]), "weight"),
    ],
)
def test_bad_scores_of_members(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(InputError, match=word):
        fit_normal_scores(*arguments)  # type: ignore[arg-type]


def test_bad_targets() -> None:
    with pytest.raises(InputError, match="target"):
        scores_of_truth([[1.0]], [2])
    with pytest.raises(InputError, match="target"):
        scores_of_truth([[1.0]], [0, 1])


def test_one_member_has_no_spread() -> None:
    with pytest.raises(TooFewMembersError, match="fewer than 2"):
        fit_normal_scores([[1.0, 2.0]])
