"""Expected rankings against the mean over labels, and how those of normal scores depend on the size."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.metrics import average_precision_score, roc_auc_score

from ens_plugin.analysis.formulas import Ranking, _normal_area, _normal_precision, expected_area, expected_precision

AREA = Ranking(1, expected_area, _normal_area)
PRECISION = Ranking(1, expected_precision, _normal_precision)
KINDS = [(AREA, roc_auc_score), (PRECISION, average_precision_score)]


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(("kind", "reference"), KINDS)
def test_chances_of_0_and_1_are_labels(kind: Any, reference: Any, label: int) -> None:
    rng = np.random.default_rng(0)
    y, second = rng.integers(0, 2, 40), rng.integers(0, 8, 40) / 8.0
    output, weight = np.stack([1.0 - second, second], axis=1), rng.integers(1, 4, 40).astype(float)
    found = kind.expected(output[:, label])((y == label).astype(float), weight)
    assert found == pytest.approx(reference(y == label, output[:, label], sample_weight=weight), rel=1e-12)


@pytest.mark.parametrize(("kind", "reference"), KINDS)
def test_expected_ranking_is_a_ratio_of_means_over_labels(kind: Any, reference: Any) -> None:
    """Of independent labels: the mean of the metric's numerator over that of its denominator."""
    rng = np.random.default_rng(1)
    chance, score = rng.random(8), np.array([0.1, 0.2, 0.2, 0.4, 0.5, 0.6, 0.6, 0.9])
    above, below = 0.0, 0.0
    for labels in product([0, 1], repeat=8):
        y = np.array(labels)
        share = float(np.prod(np.where(y == 1, chance, 1.0 - chance)))
        scale = y.sum() * (8 - y.sum()) if kind is AREA else y.sum()
        below += share * scale
        above += share * scale * float(reference(y, score)) if scale else 0.0
    found = kind.expected(score)(chance, np.ones(8))
    assert found == pytest.approx(above / below, rel=1e-12)


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize(("kind", "reference"), KINDS)
def test_the_metric_of_normal_scores(kind: Any, reference: Any, share: float) -> None:
    rng = np.random.default_rng(2)
    y = rng.random(200_000) < share
    found = kind.of_normal(1.3, share)
    assert found == pytest.approx(reference(y, 1.3 * y + rng.normal(size=y.size)), abs=0.01)


@pytest.mark.parametrize("distance", [0.5, 1.0, 1.5])
def test_the_area_is_a_line_in_the_offset_size(distance: float) -> None:
    """Of normal scores, through sizes from 10 to 20, where the line in 1/B misses the limit several times as far."""
    variance, sizes = 4.0, np.array([10.0, 20.0])
    limit = ndtr(distance / np.sqrt(2.0))
    areas = ndtr(distance / np.sqrt(2.0 * (1.0 + variance / sizes)))

    def missed(offset: float) -> float:
        inverse = 1.0 / (sizes + offset)
        end = areas[1] - inverse[1] * (areas[0] - areas[1]) / (inverse[0] - inverse[1])
        return abs(float(end - limit))

    factor = AREA.offset_factor(distance, 0.5)
    assert factor == pytest.approx(0.75 - distance**2 / 8.0, abs=1e-3)
    assert missed(factor * variance) < 0.1 * missed(0.0)


def test_precision_of_a_rare_label_has_a_larger_offset_than_the_area() -> None:
    """At a small share the metric is convex in the distance."""
    variance, sizes, share, distance = 3.0, np.array([10.0, 20.0]), 0.08, 1.0
    values = [PRECISION.of_normal(distance / float(np.sqrt(1.0 + variance / size)), share) for size in sizes]
    factor = PRECISION.offset_factor(distance, share)
    assert factor > AREA.offset_factor(distance, share)
    inverse = 1.0 / (sizes + factor * variance)
    end = values[1] - inverse[1] * (values[0] - values[1]) / (inverse[0] - inverse[1])
    way = PRECISION.of_normal(distance, share) - values[1]
    assert end - values[1] == pytest.approx(way, rel=0.05)
