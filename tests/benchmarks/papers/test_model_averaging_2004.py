"""The 2004 benchmark: its smoke run, and its parts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.model_averaging_2004 import (
    HOLDING,
    PUBLISHED,
    bootstrap_share,
    errata_table,
    joint_scores,
    misses,
)


def test_bootstrapped_share_has_the_bootstraps_mean_and_spread() -> None:
    draws = bootstrap_share(50, 0.5, 400, 400, np.random.default_rng(0))
    assert draws.mean() == pytest.approx(0.5, abs=1e-3)
    assert draws.std() == pytest.approx(np.sqrt(0.25 / 50), rel=0.01)


def test_misses_count_what_is_above_the_bound() -> None:
    draws = np.array([[0.5, 0.5, 0.5], [0.9, 0.9, 0.9], [0.44, 0.5, 0.58]])
    found = misses(draws, 50, 0.5, 0.2)
    assert set(found) == {*HOLDING, PUBLISHED}
    assert found["mean, eq. 11"].tolist() == [False, True, False]
    assert found[PUBLISHED].tolist() == [True, True, False]


def test_joint_scores_are_log_probabilities_of_row_and_label() -> None:
    scores = joint_scores("Boolean attributes", 5, np.random.default_rng(0))
    assert scores.shape == (5, 400, 2)
    assert np.all(scores < 0)


def test_errata_print_the_papers_own_figures() -> None:
    text = errata_table(2000, 0)
    assert "0.00456" in text
    assert "0.00163" in text
