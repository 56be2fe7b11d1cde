"""The chance of the second label as a function of the members' support, against known chances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from ens_plugin.core.estimates.label_chances import PRECISION, label_chances


def test_a_chance_that_is_no_logistic_line_is_found() -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(0.0, 2.0, 20_000)
    chance = 0.1 + 0.7 * expit(3.0 * score)
    found = label_chances(score, (rng.random(score.size) < chance).astype(float), np.ones(score.size))
    assert np.abs(found.second - chance).mean() < 0.02


def test_the_fit_goes_on_where_one_coefficient_is_zero_from_the_start() -> None:
    """Scores and labels are the same on both sides of 0, so the log-odds are odd: two coefficients stay 0."""
    score = np.repeat([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], 100)
    is_second = np.concatenate([np.arange(100) < n for n in (1, 4, 20, 80, 96, 99)]).astype(float)
    found = label_chances(score, is_second, np.ones(600))
    coefficients = np.linalg.lstsq(found.columns, logit(found.second))[0]
    assert np.abs(coefficients[[0, 3]]).max() < 1e-6
    gradient = found.columns.T @ (is_second - found.second) - PRECISION * coefficients
    assert np.abs(gradient).max() < 1e-6


def test_weights_are_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    score, weight = rng.normal(size=300), rng.integers(1, 4, 300)
    is_second = (rng.random(300) < expit(score)).astype(float)
    weighted = label_chances(score, is_second, weight.astype(float))
    repeated = label_chances(np.repeat(score, weight), np.repeat(is_second, weight), np.ones(int(weight.sum())))
    assert np.repeat(weighted.second, weight) == pytest.approx(repeated.second, abs=1e-6)
    assert weighted.covariance == pytest.approx(repeated.covariance, rel=1e-4)


def test_labels_that_the_score_separates_have_finite_chances() -> None:
    score = np.linspace(-3.0, 3.0, 50)
    found = label_chances(score, (score > 0).astype(float), np.ones(50))
    assert np.isfinite(found.second).all()
    assert np.isfinite(found.covariance).all()
    assert np.all(np.diff(found.second) >= 0.0)


def test_the_covariance_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(2)
    score = rng.normal(size=400)
    chances = []
    for _ in range(300):
        found = label_chances(score, (rng.random(400) < expit(score)).astype(float), np.ones(400))
        chances.append(found.second[:20])
    sd = np.sqrt(np.einsum("ij,jk,ik->i", found.columns[:20], found.covariance, found.columns[:20]))
    spread = np.std(chances, axis=0) / (found.second[:20] * (1.0 - found.second[:20]))
    assert np.median(spread / sd) == pytest.approx(1.0, abs=0.3)
