"""The script runs from end to end, and its ground truth and simulation are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.papers.bites.scores import SETTINGS, bite_scores, ground_truth
from benchmarks.papers.table_simulation import CELLS, simulate_cell
from ens_plugin.papers.score_tables_2017 import tables as load_score_tables


@pytest.mark.slow
def test_truth_of_one_member_is_the_mean_over_members() -> None:
    scores = np.random.default_rng(0).normal(0.5, 1.0, (400, 30))
    truth = ground_truth(scores, 1, "mean_proba", 20_000, np.random.default_rng(1))
    assert truth.zero_one == pytest.approx(np.mean(scores < 0), abs=4 * truth.zero_one_se)
    p = expit(scores)
    log_z = np.log(np.exp(np.log(p).mean(axis=0)) + np.exp(np.log(1 - p).mean(axis=0)))
    assert truth.variance == pytest.approx(-log_z.mean(), rel=0.03)
    assert truth.bias + truth.variance == pytest.approx(-np.log(p).mean(), abs=0.01)


def test_truth_of_all_is_that_of_the_mean() -> None:
    scores = np.random.default_rng(0).normal(0.0, 1.0, (50, 40))
    truth = ground_truth(scores, np.inf, "mean_score", 1, np.random.default_rng(1))
    assert truth.zero_one == np.mean(scores.mean(axis=0) < 0)
    assert truth.variance == pytest.approx(0.0, abs=1e-12)


@pytest.mark.long
@pytest.mark.slow
def test_tables_agree_with_a_simulation_within_its_error() -> None:
    tables = load_score_tables()
    for found in (error for cell in CELLS for error in simulate_cell(tables, cell, 500_000, 3)):
        assert abs(found.error) < 4.5 * found.standard_error + 1e-5, found


def test_scores_of_another_learner_are_not_taken_from_the_cache(tmp_path: Path) -> None:
    settings = list(SETTINGS.values())
    one = settings[1]._replace(n_rows=100, n_test=20)
    other = one._replace(learner=settings[2].learner)
    first, _ = bite_scores(one, 0.2, 3, 0, tmp_path)
    second, _ = bite_scores(other, 0.2, 3, 0, tmp_path)
    assert not np.array_equal(first, second)


def test_rows_of_the_spiral_are_not_split_along_its_arm() -> None:
    setting = SETTINGS["decision trees, digits odd/even"]._replace(problem="spiral", n_rows=400, n_test=300)
    features, _, test, _ = setting.sample(0)
    assert np.linalg.norm(test, axis=1).mean() == pytest.approx(np.linalg.norm(features, axis=1).mean(), rel=0.1)
