"""The generators against the figures their sources give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier

from benchmarks.shared.problems import FORMULAS, LOGIT_SCALE, REAL_DATA, friedman1, load_real

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


@pytest.mark.slow
def test_spiral_is_as_hard_as_published() -> None:
    # 2013, table 4: 16.18 +- 0.40 for a forest of a few hundred trees on 5000 rows.
    rng = np.random.default_rng(0)
    features, y = FORMULAS["spiral"].sample(5000, rng)
    forest = RandomForestClassifier(60, random_state=0).fit(features, y)
    fresh, fresh_y = FORMULAS["spiral"].sample(10_000, rng)
    assert 1.0 - forest.score(fresh, fresh_y) == pytest.approx(0.162, abs=0.012)


def test_spiral_arms_are_each_others_mirror_image() -> None:
    features, y = FORMULAS["spiral"].sample(40_000, np.random.default_rng(1))
    np.testing.assert_allclose(features[y == 0].mean(axis=0), -features[y == 1].mean(axis=0), atol=0.02)
    radius = np.linalg.norm(features, axis=1)
    assert radius.mean() == pytest.approx(2.0 / 3.0, abs=0.02)


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


@pytest.mark.parametrize("name", sorted(REAL_DATA))
def test_real_data_come_whole(name: str) -> None:
    features, y = load_real(name, None, np.random.default_rng(0))
    assert features.shape[0] == y.size


def test_friedman1_has_unit_noise() -> None:
    features, y = friedman1(20_000, np.random.default_rng(0))
    x = features.T
    signal = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    assert np.std(y - signal) == pytest.approx(1.0, abs=0.02)
