"""The truth on fresh rows of a known problem, of every metric by the road that suits it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.label_truth import expected_matrices, fresh_parts, known_rows_curves, matrices_curve
from benchmarks.metrics.problems import Problem
from benchmarks.metrics.truth import Rows, drawn_means, known_outputs_curves, true_curve, true_size
from ens_plugin.analysis.arguments import DEFAULT_TOLERANCE
from ens_plugin.analysis.metrics import ResolvedMetric

Array = NDArray[Any]

FRESH_ROWS = 12000
# Parts of as many fresh rows for metrics of labels, which hang on the few rows near the boundary.
PARTS = 10
OF_RANKS = ("roc_auc", "average_precision")
OF_MATRIX = ("accuracy", "balanced_accuracy", "f1", "matthews_corrcoef")
OF_VALUES = ("r2", "neg_mean_squared_error", "neg_mean_absolute_error", "neg_mean_pinball_loss")


class FreshTruth(NamedTuple):
    """A pool of trees on fresh rows.

    Attributes
    ----------
    outputs : ndarray, shape (n_pool, n_fresh)
        Probabilities of the second label, or values.
    means : list of ndarray
        As of :func:`benchmarks.metrics.truth.drawn_means`.
    target : ndarray, shape (n_fresh,)
        Labels or values as they were drawn.
    counted : Rows
        The rows with both labels by their chances, or with the drawn values.
    matrices : list of ndarray, each of shape (n_draws, 4)
        Expected confusion matrices on PARTS as many rows; empty of values.
    classes : ndarray, shape (2,), or None
        None of values.
    """

    outputs: Array
    means: list[Array]
    target: Array
    counted: Rows
    matrices: list[Array]
    classes: Array | None

    @classmethod
    def drawn(cls, problem: Problem, forest: Any, rng: np.random.Generator, pool: int, n_fresh: int) -> FreshTruth:
        """Draw fresh rows of a problem, and predict them with the first trees of a forest."""
        features, target = problem.sample(rng, n_fresh)

        def predict(fresh: Array) -> Array:
            return outputs_of(forest, fresh, problem.chance is None, pool)

        if problem.chance is None:
            values = predict(features)
            means = drawn_means(values.astype(np.float32), rng)
            return cls(values, means, target, Rows.drawn(target), [], None)
        second = predict(features)[:, :, 1]
        means = drawn_means(second.astype(np.float32), rng)
        parts = fresh_parts(problem, lambda fresh: predict(fresh)[:, :, 1], PARTS, n_fresh, rng)
        matrices = expected_matrices(parts, pool, rng)
        return cls(second, means, target, Rows.expected(problem.chance(features)), matrices, forest.classes_)

    def curve(self, metric: ResolvedMetric) -> Array:
        """Return the metric at each size of GRID and at infinity."""
        n_pool = self.outputs.shape[0]
        if self.classes is not None and metric.name in OF_MATRIX:
            return matrices_curve(metric, self.matrices, self.classes, n_pool)
        return true_curve(metric, self.counted, self.classes, self.means, n_pool)

    def sizes_by_rows(self, metric: ResolvedMetric, n_rows: int) -> list[float]:
        """Return sizes by as many fresh rows with drawn labels, of which everything is known; none of other metrics."""
        curves: list[Array] = []
        if self.classes is not None and metric.name in OF_MATRIX:
            curves = known_rows_curves(metric, self.target, self.classes, self.outputs, n_rows)
        if self.classes is not None and metric.name in OF_RANKS:
            n_pool = self.outputs.shape[0]
            curves = known_outputs_curves(metric, self.target, self.classes, self.means, n_pool, n_rows)
        return [self.size_of(metric, curve) for curve in curves]

    def distance_of(self, metric: ResolvedMetric, curve: Array) -> float:
        """Return the default tolerance as a distance from infinity, where scores are measured from chance."""
        labels = self.target if self.classes is None else self.classes[self.target]
        return DEFAULT_TOLERANCE * abs(float(curve[-1]) - metric.chance_level(labels))

    def size_of(self, metric: ResolvedMetric, curve: Array) -> float:
        """Return the true size by the default tolerance; NaN if beyond the grid."""
        return true_size(curve, self.distance_of(metric, curve))


def outputs_of(forest: Any, features: Array, is_value: bool, n_trees: int) -> Array:
    """Return the outputs of the first trees, shape (n_trees, n_rows) of values or (n_trees, n_rows, n_labels)."""
    rows = features.astype(np.float32)
    trees = forest.estimators_[:n_trees]
    return np.stack([tree.predict(rows) if is_value else tree.predict_proba(rows) for tree in trees])
