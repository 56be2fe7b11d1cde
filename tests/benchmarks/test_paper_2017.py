"""The script runs from end to end, and its ground truth and simulation are what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from benchmarks import paper_2017
from benchmarks.bites import SETTINGS, bite_scores, ground_truth, wrong_by_row
from benchmarks.paper_2017 import estimated_size, first_within
from benchmarks.results import RESULTS
from benchmarks.table_simulation import simulate_cells
from ens_plugin.core.score_losses import smallest_size_within
from ens_plugin.core.score_models import NormalScores
from ens_plugin.score_table_cache import load_score_tables


def test_smoke(tmp_path: Path) -> None:
    before = RESULTS.read_bytes() if RESULTS.exists() else None
    body = paper_2017.main(["--smoke", "--cache", str(tmp_path)])
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == before
    assert body.startswith("## 2017")
    assert "| measure" in body
    assert "nan" not in body


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


def test_size_within_is_interpolated_after_the_last_excess() -> None:
    sizes = np.array([1, 10, 100])
    assert first_within(sizes, np.array([1.5, 1.02, 1.0]), 1.0) == pytest.approx(10**1.5)
    assert first_within(sizes, np.array([1.0, 1.0, 1.0]), 1.0) == 1
    assert np.isnan(first_within(sizes, np.array([1.0, 1.0, 1.5]), 1.0))


@pytest.mark.slow
def test_tables_agree_with_a_simulation_within_its_error() -> None:
    for found in simulate_cells(load_score_tables(), 500_000, 3):
        assert abs(found.error) < 4.5 * found.standard_error + 1e-5, found


def test_rows_of_the_spiral_are_not_split_along_its_arm() -> None:
    setting = SETTINGS["decision trees, digits odd/even"]._replace(problem="spiral", n_rows=400, n_test=300)
    features, _, test, _ = setting.sample(0)
    assert np.linalg.norm(test, axis=1).mean() == pytest.approx(np.linalg.norm(features, axis=1).mean(), rel=0.1)


def test_scores_of_another_learner_are_not_taken_from_the_cache(tmp_path: Path) -> None:
    settings = list(SETTINGS.values())
    one = settings[1]._replace(n_rows=100, n_test=20)
    other = one._replace(learner=settings[2].learner)
    first, _ = bite_scores(one, 0.2, 3, 0, tmp_path)
    second, _ = bite_scores(other, 0.2, 3, 0, tmp_path)
    assert not np.array_equal(first, second)


def test_truth_by_row_has_the_mean_of_the_truth() -> None:
    scores = np.random.default_rng(0).normal(0.3, 1.0, (200, 30))
    by_row = wrong_by_row(scores, 7, "mean_proba", 500, np.random.default_rng(1))
    truth = ground_truth(scores, 7, "mean_proba", 500, np.random.default_rng(1))
    assert by_row.mean() == pytest.approx(truth.zero_one)


def test_estimated_size_is_the_smallest_size_before_it_is_rounded_up_to_odd() -> None:
    rng = np.random.default_rng(0)
    rows = NormalScores(rng.normal(0.8, 1.0, 300), np.full(300, 4.0), np.ones(300))
    tables = load_score_tables()
    rounded = smallest_size_within(rows, tables, aggregation="mean_score")
    assert rounded is not None
    assert estimated_size(rows, "mean_score", tables) == pytest.approx(rounded, abs=2.0, rel=0.02)
