"""Sizes by rankings against the truth, and chances of the labels against fits of each bootstrap sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import average_precision_score, roc_auc_score

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.analysis.metric_rows import ranking_offset
from ens_plugin.core.label_chances import chances_by_output
from tests.analysis.metrics.test_rankings import AREA
from tests.forests import Array

SCORES = {"roc_auc": roc_auc_score, "average_precision": average_precision_score}
MEMBER_SD = 1.7


def drawn(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Limits of the rows' scores, and labels, of which one in eight is 1."""
    limit = rng.normal(size=n_rows)
    return limit, (rng.random(n_rows) < expit(1.3 * limit - 2.4)).astype(int)


def true_distances(metric: str, sizes: list[int]) -> Array:
    """Distance of each size from infinity, of many rows whose members are independent."""
    rng = np.random.default_rng(1)
    limit, y = drawn(rng, 150_000)
    noisy = [limit + MEMBER_SD / np.sqrt(size) * rng.normal(size=limit.size) for size in sizes]
    return np.array([SCORES[metric](y, limit) - SCORES[metric](y, score) for score in noisy])


@pytest.mark.fast_cases("roc_auc")
@pytest.mark.parametrize("metric", SCORES)
def test_the_distance_from_infinity_is_that_of_many_rows(metric: str) -> None:
    """From 16 members; a line in 1/B is too flat."""
    found = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        limit, y = drawn(rng, 1500)
        outputs = expit(0.15 * (limit + MEMBER_SD * rng.normal(size=(16, 1500))))
        ensemble = CustomEnsemble(np.stack([1.0 - outputs, outputs], axis=2), None, aggregation="mean_proba")
        curve = analyze(ensemble, None, y, metric=metric, data="holdout").error_curve
        found.append([curve.asymptote - curve.at(16), curve.asymptote - curve.at(80)])
    np.testing.assert_allclose(np.mean(found, axis=0), true_distances(metric, [16, 80]), rtol=0.12)


def test_refitted_chances_are_those_of_the_sample() -> None:
    rng = np.random.default_rng(0)
    output = expit(rng.normal(size=2000))
    is_first = (rng.random(2000) < expit(2.0 * logit(output) - 1.0)).astype(float)
    counts = np.bincount(rng.integers(0, 2000, 2000), minlength=2000).astype(float)
    weight, trials = np.ones(2000), np.full(2000, 40.0)
    whole = chances_by_output(output, trials, is_first, weight)
    drawn = np.repeat(np.arange(2000), counts.astype(int))
    again = chances_by_output(output[drawn], trials, is_first[drawn], weight)
    apart = np.abs(whole.refitted(counts)[drawn] - again.second)
    assert apart.max() < 0.02
    assert apart.mean() < 0.2 * np.abs(whole.second[drawn] - again.second).mean()


def test_offset_is_that_of_the_variances_by_label() -> None:
    """k (3/4 - d^2/8), with the variance of the limits less the noise of few members, and means by weight."""
    rng = np.random.default_rng(3)
    is_first, trials = np.arange(400) % 2.0, rng.integers(2, 6, 400).astype(float)
    mean, variance = 1.2 * is_first + rng.normal(size=400), rng.exponential(size=400)
    weight = rng.choice([1.0, 3.0], 400)
    centres, limits, member = [], 0.0, 0.0
    for label in (0.0, 1.0):
        own, w = is_first == label, weight[is_first == label]
        centre = np.average(mean[own], weights=w)
        centres.append(centre)
        limits += np.average((mean[own] - centre) ** 2 - variance[own] / trials[own], weights=w) / 2.0
        member += np.average(variance[own], weights=w) / 2.0
    expected = member / limits * (0.75 - (centres[1] - centres[0]) ** 2 / limits / 8.0)
    given = (is_first, weight)
    assert ranking_offset(AREA, mean, variance, trials, *given) == pytest.approx(expected, rel=2e-3)
    # The noise of the members explains more than all of the spread of their means.
    assert ranking_offset(AREA, mean, 9.0 * variance, trials, *given) == 0.0
    many, equal = np.full(400, 20.0), mean - 1.2 * is_first
    assert ranking_offset(AREA, equal, 13.0 * variance, many, *given) == 20.0
