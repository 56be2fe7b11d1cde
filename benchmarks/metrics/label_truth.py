"""The true curve of a metric of two labels from expected confusion matrices, and curves from few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.metrics.problems import Problem
from benchmarks.metrics.truth import GRID, limit_of, parts_of, tree_draws
from ens_plugin.analysis.metrics import ResolvedMetric

Array = NDArray[Any]

# Draws of trees at each size, or a few more, so that all trees of the pool are drawn equally often.
DRAWS = 120
FEW_DRAWS = 16


def fresh_parts(
    problem: Problem, predict: Callable[[Array], Array], n_parts: int, n_rows: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Array]]:
    """Draw fresh rows part by part; yield the pool's probabilities of the second label, and its true ones.

    Parameters
    ----------
    problem : Problem
        Of two labels.
    predict : callable
        ``predict(features)`` returns probabilities, shape (n_pool, n_rows).
    n_parts, n_rows : int
        Number of parts, and rows of each.
    rng : numpy Generator

    Yields
    ------
    outputs : ndarray of float32, shape (n_pool, n_rows)
    chance : ndarray, shape (n_rows,)
    """
    assert problem.chance is not None
    for _ in range(n_parts):
        features, _ = problem.sample(rng, n_rows)
        yield predict(features).astype(np.float32), problem.chance(features)


def expected_matrices(parts: Iterable[tuple[Array, Array]], n_pool: int, rng: np.random.Generator) -> list[Array]:
    """Return the confusion matrices of draws of trees at each size of GRID, and last that of the whole pool.

    Where few rows are near the boundary, or have the rare label, a metric of labels on thousands of rows moves by more
    than the tolerance with the draw of these rows and of their labels.  Here labels count by their probabilities, and
    rows may be as many as there is time for.

    Parameters
    ----------
    parts : iterable of (outputs, chance)
        As of :func:`fresh_parts`.
    n_pool : int
    rng : numpy Generator

    Returns
    -------
    list of ndarray, each of shape (n_draws, 4)
        Rows of label 0 with label 0 and 1 predicted, then those of label 1, in numbers of rows.
    """
    draws = [tree_draws(n_pool, size, _n_draws(n_pool, size), rng) for size in GRID]
    draws.append(np.full((1, n_pool), 1.0 / n_pool))
    shares = [each.astype(np.float32) for each in draws]
    matrices = [np.zeros((share.shape[0], 4)) for share in shares]
    for outputs, chance in parts:
        for share, matrix in zip(shares, matrices, strict=True):
            matrix += _matrices((share @ outputs > 0.5).astype(np.float64), chance)
    return matrices


def _n_draws(n_pool: int, size: int) -> int:
    """Return DRAWS, rounded up to where all trees have been drawn equally often if so many draws can use them all."""
    of_pool = max(n_pool // size, 1)
    return DRAWS if of_pool > DRAWS else -(-DRAWS // of_pool) * of_pool


def _matrices(second: Array, chance: Array) -> Array:
    """Return matrices, shape (n, 4), of chances that label 1 is predicted, shape (n, n_rows), and that it is right."""
    of_label = np.stack([1.0 - chance, chance], axis=1)
    ones = second @ of_label
    zeros = of_label.sum(axis=0) - ones
    return np.stack([zeros, ones], axis=2).reshape(-1, 4)


def matrices_curve(metric: ResolvedMetric, matrices: list[Array], classes: Array, n_pool: int) -> Array:
    """Return the mean metric of draws at each size of GRID and, by a line in 1/B, at infinity.

    The metric of the mean matrix of all draws has little noise, because their trees are all those of the pool.  How far
    the mean metric is from it, because metrics curve, is taken from a few draws.
    """
    curve = np.array([_mean_metric(metric, of_draws, classes) for of_draws in matrices])
    return np.append(curve[:-1], limit_of(curve, n_pool))


def _mean_metric(metric: ResolvedMetric, matrices: Array, classes: Array) -> float:
    some = matrices[:FEW_DRAWS]
    of_mean, of_mean_of_some = _values(metric, np.stack([matrices.mean(axis=0), some.mean(axis=0)]), classes)
    # The mean of n draws curves away by 1/n of what a single draw does.
    lost = (_values(metric, some, classes).mean() - of_mean_of_some) / (1.0 - 1.0 / len(some)) if len(some) > 1 else 0.0
    return float(of_mean + lost * (1.0 - 1.0 / len(matrices)))


def _values(metric: ResolvedMetric, matrices: Array, classes: Array) -> Array:
    cells, columns = classes[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]
    return np.array([metric.value(cells, columns, matrix) for matrix in matrices])


def known_rows_curves(metric: ResolvedMetric, codes: Array, classes: Array, outputs: Array, n_rows: int) -> list[Array]:
    """Return the curves if everything is known but the distribution of the rows.

    Parts of the fresh rows are as large as the training rows, and have the labels drawn for them.  Each row's mean
    output and its variance over the members of the pool are taken as exact, so that the chance of either label at every
    size is that of a normal mean.

    Parameters
    ----------
    metric : ResolvedMetric
        Of two labels.
    codes : ndarray, shape (n_fresh,)
        Labels as they were drawn.
    classes : ndarray, shape (2,)
    outputs : ndarray, shape (n_pool, n_fresh)
        Probabilities of the second label.
    n_rows : int
        Rows of a part.

    Returns
    -------
    list of ndarray
        The metric at each size of GRID and at infinity, by part; parts with one label are left out.
    """
    sizes = np.append(np.array(GRID, dtype=np.float64), np.inf)
    apart = (outputs.mean(axis=0) - 0.5) / np.maximum(outputs.std(axis=0), 1e-9)
    with np.errstate(invalid="ignore"):
        second = np.nan_to_num(ndtr(apart * np.sqrt(sizes)[:, None]), nan=0.5)
    return [
        _values(metric, _matrices(second[:, part], codes[part].astype(np.float64)), classes)
        for part in parts_of(codes, n_rows)
    ]
