"""Ranks and critical differences against Demsar (2006) and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from benchmarks.papers.ranks import average_ranks, nemenyi_distance


def test_lowest_error_has_rank_1_and_equal_errors_share_theirs() -> None:
    np.testing.assert_allclose(average_ranks([[0.1, 0.3, 0.2], [0.2, 0.2, 0.1]]), [1.75, 2.75, 1.5])


def test_friedmans_statistic_follows_from_the_ranks() -> None:
    errors = np.random.default_rng(0).random((14, 4)) + 0.1 * np.arange(4)
    statistic = 12 * 14 / (4 * 5) * (np.sum(average_ranks(errors) ** 2) - 4 * 5**2 / 4)
    assert statistic == pytest.approx(friedmanchisquare(*errors.T).statistic)


@pytest.mark.parametrize(
    ("n_methods", "critical"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_critical_values_are_those_of_demsars_table_5(n_methods: int, critical: float) -> None:
    found = nemenyi_distance(n_methods, 14) / np.sqrt(n_methods * (n_methods + 1) / (6 * 14))
    assert found == pytest.approx(critical, abs=0.001)


def test_critical_difference_is_that_of_demsars_example() -> None:
    """Four classifiers on 14 data sets: 1.25 at 5 % and 1.12 at 10 %."""
    assert nemenyi_distance(4, 14) == pytest.approx(1.25, abs=0.005)
    assert nemenyi_distance(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
