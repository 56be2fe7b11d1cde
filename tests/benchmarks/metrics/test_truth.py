"""True sizes by metrics: labels counted by their chances are what drawn labels are on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, brier_score_loss, f1_score, log_loss, roc_auc_score

from benchmarks.metrics.label_truth import expected_matrices, known_rows_curves, matrices_curve
from benchmarks.metrics.problems import PROBLEMS
from benchmarks.metrics.truth import GRID, Rows, tree_draws, true_size
from ens_plugin import CustomEnsemble
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric

Array = NDArray[Any]

CLASSES = np.array([0, 1])
POOL = 240


def resolved(name: str) -> ResolvedMetric:
    found = resolve_metric(
        name, find_adapter(CustomEnsemble(np.full((2, 3, 2), 0.5), None, aggregation="mean_proba", classes=CLASSES))
    )
    assert found is not None
    return found


def pool_of(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Return outputs of a pool around each row's own level, and the chances of label 1, which are not the levels."""
    level = rng.beta(1.0, 3.0, n_rows)
    outputs = np.clip(level + 0.3 * rng.standard_normal((POOL, n_rows)), 0.0, 1.0)
    return outputs, np.clip(0.8 * level + 0.05, 0.0, 1.0)


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if problem.chance is not None])
def test_chances_are_the_shares_of_drawn_labels(name: str) -> None:
    problem = PROBLEMS[name]
    features, labels = problem.sample(np.random.default_rng(1), 200_000)
    assert problem.chance is not None
    chance = problem.chance(features)
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.7), (0.7, 1.0)):
        group = (chance >= low) & (chance < high)
        sd = np.sqrt(np.sum((chance * (1.0 - chance))[group])) / group.sum()
        assert abs(labels[group].mean() - chance[group].mean()) < 4.0 * sd
    # A wrong slope or shift of the chances would show in the groups only if they are wide enough: they are.
    assert group.sum() > 1000


@pytest.mark.parametrize(
    ("score", "is_ratio"),
    [
        (lambda y, p, w: -log_loss(y, p, sample_weight=w), False),
        (lambda y, p, w: brier_score_loss(y, p, sample_weight=w), False),
        (lambda y, p, w: roc_auc_score(y, p, sample_weight=w), True),
        (lambda y, p, w: average_precision_score(y, p, sample_weight=w), True),
        (lambda y, p, w: f1_score(y, p > 0.4, sample_weight=w), True),
    ],
)
def test_expected_labels_are_drawn_ones_on_average(score: Any, is_ratio: bool) -> None:
    rng = np.random.default_rng(2)
    outputs, chance = pool_of(rng, 1500)
    output = np.clip(outputs.mean(axis=0), 0.01, 0.99)
    rows = Rows.expected(chance)
    expected = score(rows.target, output[rows.places], rows.weights)
    drawn = np.array([score(rng.random(chance.size) < chance, output, None) for _ in range(400)])
    error = drawn.std(ddof=1) / np.sqrt(drawn.size)
    # Quotients have, of drawn labels, a bias in proportion to 1 / n_rows: a few percent of their standard deviation.
    assert abs(drawn.mean() - expected) < 4.0 * error + (0.1 * drawn.std() if is_ratio else 0.0)


@pytest.mark.parametrize("name", ["f1", "matthews_corrcoef", "balanced_accuracy", "accuracy"])
def test_matrices_give_the_curve_of_draws(name: str) -> None:
    rng = np.random.default_rng(4)
    outputs, chance = pool_of(rng, 4000)
    metric = resolved(name)
    matrices = expected_matrices([(outputs[:, :1500], chance[:1500]), (outputs[:, 1500:], chance[1500:])], POOL, rng)
    curve = matrices_curve(metric, matrices, CLASSES, POOL)
    # Many draws of scikit-learn's own metric, whose mean is not the metric of the mean matrix.
    rows = Rows.expected(chance)
    for place, size in ((0, 1), (3, 5), (6, 15)):
        values = [
            metric.value(
                rows.target, np.stack([mean < 0.5, mean > 0.5], axis=1).astype(float)[rows.places], rows.weights
            )
            for mean in tree_draws(POOL, size, 120, rng) @ outputs
        ]
        error = np.std(values) / np.sqrt(len(values))
        assert curve[place] == pytest.approx(float(np.mean(values)), abs=4.0 * error)
    assert matrices[-1].sum() == pytest.approx(chance.size)


def test_known_rows_are_those_of_the_parts() -> None:
    rng = np.random.default_rng(7)
    outputs, chance = pool_of(rng, 600)
    codes = (rng.random(600) < chance).astype(int)
    metric = resolved("balanced_accuracy")
    both, first = (
        [true_size(curve, 0.005) for curve in known_rows_curves(metric, codes[:n], CLASSES, outputs[:, :n], 300)]
        for n in (600, 300)
    )
    assert len(both) == 2
    assert both[0] == first[0]
    assert all(1.0 <= size <= GRID[-1] for size in both)
