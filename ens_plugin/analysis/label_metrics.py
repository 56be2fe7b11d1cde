"""Metrics of labels as functions of the confusion matrix: their formulas, each compared with the scorer itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import ROUNDING, FloatArray
from ens_plugin.errors import InputError

# Returns a metric for a confusion matrix: weighted numbers of rows by label and by predicted label.
MatrixMetric = Callable[[FloatArray], float]
# Returns the metric of labels, predicted labels as columns of 0 and 1, and weights, as a scorer computes it.
Score = Callable[[NDArray[Any], FloatArray, FloatArray], float]

OfLabels = Callable[[FloatArray], FloatArray]

BETAS = (0.5, 1.0, 2.0)
N_DENSE = 4
# Numbers that are kept of matrices whose metric is known: 8 MB.
MOST_CELLS = 1_000_000
# With more labels, a formula for each of them would be compared for longer than the scorer takes.
MOST_LABELS = 20


def matrix_metric(score: Score, classes: NDArray[Any]) -> MatrixMetric:
    """Return a metric of labels as a function of the confusion matrix, shape (n_labels, n_labels).

    It is a formula where one has the scorer's values on random matrices, some of which have labels without rows or
    that nothing is predicted to be; else the scorer itself, which checks its input for milliseconds each time.
    """
    by_cells = _remembered(partial(_by_cells, score, classes))
    matrices = list(_matrices(classes.size))
    try:
        wanted = [by_cells(matrix) for matrix in matrices]
    except InputError:  # the metric has no value where a label is missing
        return by_cells
    for candidate in _candidates(classes.size):
        found = (_value(candidate, matrix) for matrix in matrices)
        if all(abs(ours - theirs) <= ROUNDING for ours, theirs in zip(found, wanted, strict=True)):
            return partial(_checked, candidate, by_cells)
    return by_cells


def _by_cells(score: Score, classes: NDArray[Any], matrix: FloatArray) -> float:
    """Return a metric as the scorer computes it on one row for each cell that has rows."""
    truth, predicted = np.nonzero(matrix)
    return score(classes[truth], np.eye(classes.size)[predicted], matrix[truth, predicted])


def _remembered(by_cells: MatrixMetric) -> MatrixMetric:
    """Return a metric that keeps its values, because many samples of few rows have the same matrix."""
    known: dict[bytes, float] = {}

    def value(matrix: FloatArray) -> float:
        key = matrix.tobytes()
        if key in known:
            return known[key]
        found = by_cells(matrix)
        if len(known) * matrix.size < MOST_CELLS:
            known[key] = found
        return found

    return value


def _checked(formula: MatrixMetric, by_cells: MatrixMetric, matrix: FloatArray) -> float:
    """Return the value of a formula; where it has none, the scorer states what is missing."""
    found = _value(formula, matrix)
    return found if np.isfinite(found) else by_cells(matrix)


def _value(formula: MatrixMetric, matrix: FloatArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(formula(matrix))


def _matrices(n_labels: int) -> Iterator[FloatArray]:
    """Yield random matrices: dense ones, two with a label that no row is predicted to have, some without a label."""
    rng = np.random.default_rng(0)
    for _ in range(N_DENSE):
        yield rng.gamma(0.5, 10.0, (n_labels, n_labels)) + 0.01
    for label in (0, n_labels - 1):
        unpredicted = rng.gamma(1.0, 10.0, (n_labels, n_labels))
        unpredicted[:, label] = 0.0
        yield unpredicted
    if n_labels > 2:
        missing = rng.gamma(1.0, 10.0, (n_labels, n_labels))
        missing[1] = 0.0
        yield missing
        missing = missing.copy()
        missing[:, 1] = 0.0
        yield missing


def _candidates(n_labels: int) -> Iterator[MatrixMetric]:
    yield _accuracy
    yield _jaccard_of_all
    yield _balanced_accuracy
    yield _adjusted_balanced_accuracy
    yield _correlation
    yield from (partial(_kappa, power) for power in (0, 1, 2))
    by_label: list[OfLabels] = [_precision, _recall, _jaccard, *(partial(_f, beta) for beta in BETAS)]
    yield from (partial(average, of_labels) for average in (_macro, _weighted) for of_labels in by_label)
    if n_labels <= MOST_LABELS:
        yield from (partial(_of_one, label, of_labels) for label in range(n_labels) for of_labels in by_label)


def _accuracy(matrix: FloatArray) -> float:
    return float(np.trace(matrix) / matrix.sum())


def _jaccard_of_all(matrix: FloatArray) -> float:
    return float(np.trace(matrix) / (2.0 * matrix.sum() - np.trace(matrix)))


def _balanced_accuracy(matrix: FloatArray) -> float:
    with_rows = matrix.sum(axis=1) > 0.0
    return float(_recall(matrix)[with_rows].mean())


def _adjusted_balanced_accuracy(matrix: FloatArray) -> float:
    chance = 1.0 / np.count_nonzero(matrix.sum(axis=1))
    return (_balanced_accuracy(matrix) - chance) / (1.0 - chance)


def _correlation(matrix: FloatArray) -> float:
    """Return Matthews' correlation of labels and predicted labels; 0 where one of the two does not vary."""
    rows, columns, n_rows = matrix.sum(axis=1), matrix.sum(axis=0), matrix.sum()
    spread = (n_rows**2 - rows @ rows) * (n_rows**2 - columns @ columns)
    return float((np.trace(matrix) * n_rows - rows @ columns) / np.sqrt(spread)) if spread > 0.0 else 0.0


def _kappa(power: int, matrix: FloatArray) -> float:
    """Return Cohen's kappa; errors weigh their distance among the labels that occur to a power, and 0 has none."""
    occurs = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0.0
    own = matrix[np.ix_(occurs, occurs)]
    places = np.arange(len(own), dtype=np.float64)
    distance = np.abs(places[:, None] - places)
    weight = distance**power if power else (distance > 0.0).astype(np.float64)
    expected = np.outer(own.sum(axis=1), own.sum(axis=0)) / own.sum()
    return float(1.0 - (weight * own).sum() / (weight * expected).sum())


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return quotients, 0 where there is nothing to divide by, as the scorers do by default."""
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0.0)


def _precision(matrix: FloatArray) -> FloatArray:
    return _ratio(np.diag(matrix), matrix.sum(axis=0))


def _recall(matrix: FloatArray) -> FloatArray:
    return _ratio(np.diag(matrix), matrix.sum(axis=1))


def _f(beta: float, matrix: FloatArray) -> FloatArray:
    both = beta**2 * matrix.sum(axis=1) + matrix.sum(axis=0)
    return _ratio((1.0 + beta**2) * np.diag(matrix), both)


def _jaccard(matrix: FloatArray) -> FloatArray:
    right = np.diag(matrix)
    return _ratio(right, matrix.sum(axis=1) + matrix.sum(axis=0) - right)


def _macro(of_labels: OfLabels, matrix: FloatArray) -> float:
    """Return the mean over the labels that occur, as labels of rows or as predicted ones."""
    occurs = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0.0
    return float(of_labels(matrix)[occurs].mean())


def _weighted(of_labels: OfLabels, matrix: FloatArray) -> float:
    return float(of_labels(matrix) @ matrix.sum(axis=1) / matrix.sum())


def _of_one(label: int, of_labels: OfLabels, matrix: FloatArray) -> float:
    return float(of_labels(matrix)[label])
