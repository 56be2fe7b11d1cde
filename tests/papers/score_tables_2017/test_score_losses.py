from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import digamma, expit, polygamma

from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_tables import log_mean_moments, score_quadrature
from ens_plugin.papers.score_tables_2017.scores import (
    AGGREGATIONS,
    LOSSES,
    BetaProbabilities,
    NormalPair,
    NormalScores,
    ScoreRows,
    expected_loss,
    loss_curve,
    loss_variance,
    score_bias_variance,
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


def test_voting_keeps_the_squared_bias_and_divides_the_variance() -> None:
    found = score_bias_variance(NORMAL, [1, 5], tables(), loss="squared")
    assert found.bias[1] == pytest.approx(found.bias[0])
    assert found.variance[1] == pytest.approx(found.variance[0] / 5)


def test_parameter_mixing_depends_on_variance_over_size_only() -> None:
    one = expected_loss(NORMAL, [6], tables(), loss="log", aggregation="mean_score")
    other = expected_loss(NORMAL.mixed_scores(2), [3], tables(), loss="log", aggregation="mean_score")
    np.testing.assert_array_equal(one, other)


@given(
    st.floats(-2, 2),
    st.floats(0, 3),
    st.sampled_from(["mean_score", "mean_proba"]),
    st.sampled_from(["log", "squared"]),
)
def test_convex_losses_fall_with_size(mean: float, spread: float, aggregation: str, loss: str) -> None:
    rows = NormalScores(np.array([mean]), np.array([spread**2]), np.ones(1))
    if aggregation == "mean_score" and loss == "squared":
        return
    curve = loss_curve(rows, [1, 2, 3, 10, 100, np.inf], tables(), loss=loss, aggregation=aggregation)
    assert (np.diff(curve) <= 2e-5).all()
    assert curve[-1] >= -1e-6


@given(st.permutations(range(6)))
def test_row_order_does_not_matter(order: list[int]) -> None:
    rng = np.random.default_rng(4)
    mean, variance, weight = rng.normal(size=6), rng.random(6), rng.random(6)
    one = NormalScores(mean, variance, weight)
    other = NormalScores(mean[order], variance[order], weight[order])
    for loss in LOSSES:
        np.testing.assert_allclose(
            loss_curve(one, [7], tables(), loss=loss), loss_curve(other, [7], tables(), loss=loss), rtol=1e-12
        )


def test_a_weight_counts_as_repeated_rows() -> None:
    repeated = NormalScores(NORMAL.mean[[0, 1, 1, 2]], NORMAL.variance[[0, 1, 1, 2]], np.ones(4))
    assert loss_curve(NORMAL, [9], tables())[0] == pytest.approx(loss_curve(repeated, [9], tables())[0])


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
