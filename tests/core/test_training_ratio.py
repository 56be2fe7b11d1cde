"""Variances of single predictions from a pooled ratio, against members that predict the target of one of few rows."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.intervals import pooled_ratio, pooled_variance


def test_ratio_has_the_standard_deviation_of_a_jackknife_over_parts() -> None:
    rng = np.random.default_rng(0)
    variances, members, weight = rng.random((9, 5)), 1.0 + rng.random((9, 5)), rng.random(5)
    found = pooled_ratio(variances, members, weight)
    each = [variances[part] @ weight / (members[part] @ weight) for part in range(9)]
    assert found.value == pytest.approx(each[0])
    assert found.sd == pytest.approx(np.sqrt(7 / 8 * np.sum((np.array(each[1:]) - np.mean(each[1:])) ** 2)))


def test_few_predictions_or_members_give_an_upper_bound() -> None:
    nothing = pooled_ratio(np.zeros((9, 0)), np.zeros((9, 0)), np.zeros(0))
    assert not nothing.is_estimated
    assert nothing.upper == np.inf
    noisy = pooled_ratio(np.array([[-0.1], [0.1], [-0.3]]), np.ones((3, 1)), np.ones(1))
    assert not noisy.is_estimated
    assert noisy.upper == pytest.approx(1.645 * 0.2)
    assert noisy.members_needed == np.inf


def test_members_without_variance_have_none_over_training_sets() -> None:
    found = pooled_ratio(np.zeros((9, 2)), np.zeros((9, 2)), np.ones(2))
    assert found.is_estimated
    assert pooled_variance(np.zeros(2), 0.0, found.value).tolist() == [0.0, 0.0]


def test_mean_of_few_rows_is_covered_more_often_than_by_its_own_variance() -> None:
    """Each member predicts the target of one of six rows: the expected prediction is 0."""
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(20_000, 6))
    over_members = targets.var(axis=1)
    variance = pooled_variance(over_members, over_members.mean(), 1 / 5)
    assert variance.mean() == pytest.approx(1 / 6, rel=0.02)
    distance = np.abs(targets.mean(axis=1))
    covered, alone = (np.mean(distance <= 1.96 * np.sqrt(one)) for one in (variance, over_members / 5))
    assert 0.88 <= covered <= 0.97
    assert covered > alone + 0.015
