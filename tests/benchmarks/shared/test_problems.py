"""The generators against the figures their sources give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from benchmarks.shared.problems import FORMULAS, LOGIT_SCALE, friedman1, load_real

N_ROWS = 100_000


def _logistic_bayes_error() -> float:
    odds_against = quad(lambda z: norm.pdf(z, scale=LOGIT_SCALE) / (1.0 + np.exp(z)), 0.0, 50.0)[0]
    return 2.0 * float(odds_against)


@pytest.mark.parametrize(
    ("name", "published", "rounding"),
    [
        ("twonorm", float(norm.sf(2.0)), 0.0),
        ("twonorm", 0.023, 0.0005),
        ("ringnorm", 0.015, 0.0005),
        ("ringnorm (Breiman)", 0.013, 0.0010),
        ("circle", 0.0, 0.0),
        ("noisy logistic", _logistic_bayes_error(), 0.0),
        ("hard/easy mixture", 0.3 * 0.4 + 0.7 * 0.02, 0.0),
    ],
)
def test_best_rule_has_the_known_error(name: str, published: float, rounding: float) -> None:
    problem = FORMULAS[name]
    assert problem.bayes_label is not None
    features, y = problem.sample(N_ROWS, np.random.default_rng(0))
    error = float(np.mean(problem.bayes_label(features) != y))
    standard_error = np.sqrt(published * (1.0 - published) / N_ROWS)
    assert abs(error - published) <= 3.5 * standard_error + rounding


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_same_seed_gives_same_rows_and_another_seed_others(name: str) -> None:
    sample = FORMULAS[name].sample
    first, again, other = (sample(50, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    assert set(np.unique(first[1])) == {0, 1}


def test_real_data_can_be_subsampled() -> None:
    features, y = load_real("digits", 600, np.random.default_rng(0))
    assert features.shape == (600, 64)
    assert np.unique(y).size == 10
    assert np.unique(features, axis=0).shape[0] == 600


def test_friedman1_has_unit_noise() -> None:
    features, y = friedman1(20_000, np.random.default_rng(0))
    x = features.T
    signal = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    assert np.std(y - signal) == pytest.approx(1.0, abs=0.02)
