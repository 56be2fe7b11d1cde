"""The chance of the second label as a function of the members' support, against known chances."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import eval_legendre, expit, logit

from ens_plugin.core.label_chances import PRECISION, chances_of_labels


def test_a_chance_that_is_no_logistic_line_is_found() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(0.0, 2.0, 20_000)
    chance = 0.1 + 0.7 * expit(3.0 * score)
    found = chances_of_labels(score, (rng.random(score.size) < chance).astype(float), np.ones(score.size))
    assert np.abs(found.second - chance).mean() < 0.02


def test_the_fit_goes_on_where_one_coefficient_is_zero_from_the_start() -> None:
    """Scores and labels are the same on both sides of 0, so the log-odds are odd: two coefficients stay 0."""
    score = np.repeat([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], 100)
    is_second = np.concatenate([np.arange(100) < n for n in (1, 4, 20, 80, 96, 99)]).astype(float)
    found = chances_of_labels(score, is_second, np.ones(600))
    coefficients = np.linalg.lstsq(found.columns, logit(found.second))[0]
    assert np.abs(coefficients[[0, 3]]).max() < 1e-6
    gradient = found.columns.T @ (is_second - found.second) - PRECISION * coefficients
    assert np.abs(gradient).max() < 1e-6


def test_columns_are_the_score_and_orthogonal_polynomials_with_the_documented_prior() -> None:
    inside = np.linspace(-0.99, 0.99, 7)
    # The hyperbolic tangent of half of this score.
    score = np.log((1.0 + inside) / (1.0 - inside))
    columns = chances_of_labels(score, np.arange(7) % 2.0, np.ones(7)).columns
    np.testing.assert_allclose(columns[:, :2], np.column_stack([np.ones(7), score]), rtol=1e-12)
    for degree, scale in ((1, 1.0), (2, 2.0 / 3.0), (3, 2.0 / 5.0)):
        np.testing.assert_allclose(columns[:, degree + 1], scale * eval_legendre(degree, inside), atol=1e-12)
    np.testing.assert_array_equal(PRECISION[2:], 1.0)
    assert PRECISION[:2].max() < 0.01


def test_weights_are_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    score, weight = rng.normal(size=300), rng.integers(1, 4, 300)
    is_second = (rng.random(300) < expit(score)).astype(float)
    weighted = chances_of_labels(score, is_second, weight.astype(float))
    repeated = chances_of_labels(np.repeat(score, weight), np.repeat(is_second, weight), np.ones(int(weight.sum())))
    assert np.repeat(weighted.second, weight) == pytest.approx(repeated.second, abs=1e-6)
    assert weighted.covariance == pytest.approx(repeated.covariance, rel=1e-4)


def test_labels_that_the_score_separates_have_finite_chances() -> None:
    score = np.linspace(-3.0, 3.0, 50)
    found = chances_of_labels(score, (score > 0).astype(float), np.ones(50))
    assert np.isfinite(found.second).all()
    assert np.isfinite(found.covariance).all()
    assert np.all(np.diff(found.second) >= 0.0)


@pytest.mark.parametrize("scale", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("ratio", [1.0, 1e8])
@pytest.mark.parametrize("kind", ["separated", "one label", "one row of it"])
def test_the_fit_is_the_largest_posterior_also_where_whole_steps_go_past_it(
    scale: float, ratio: float, kind: str
) -> None:
    """Scores next to each other, far apart, and weights that differ by powers of ten, against a general search."""
    rng = np.random.default_rng(3)
    score, weight = scale * rng.normal(size=60), ratio ** rng.uniform(-0.5, 0.5, 60)
    label = {"separated": score > 0, "one label": np.ones(60), "one row of it": np.arange(60) == 0}
    is_second = np.asarray(label[kind], dtype=np.float64)
    found = chances_of_labels(score, is_second, weight)

    def loss(coefficients: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_odds = found.columns @ coefficients
        value = weight @ (np.logaddexp(0.0, log_odds) - is_second * log_odds) + PRECISION @ coefficients**2 / 2.0
        return value, PRECISION * coefficients - found.columns.T @ (weight * (is_second - expit(log_odds)))

    best = minimize(loss, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 20_000})
    np.testing.assert_allclose(found.second, expit(found.columns @ best.x), rtol=0, atol=1e-3)


def test_the_covariance_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(2)
    score = rng.normal(size=400)
    chances = []
    for _ in range(300):
        found = chances_of_labels(score, (rng.random(400) < expit(score)).astype(float), np.ones(400))
        chances.append(found.second[:20])
    sd = np.sqrt(np.einsum("ij,jk,ik->i", found.columns[:20], found.covariance, found.columns[:20]))
    spread = np.std(chances, axis=0) / (found.second[:20] * (1.0 - found.second[:20]))
    assert np.median(spread / sd) == pytest.approx(1.0, abs=0.3)
