"""The true curve of a metric on fresh rows, from draws of trees out of a large pool."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ens_plugin.analysis.metrics.formulas import find_formula, of_labels
from ens_plugin.analysis.metrics.resolved import ResolvedMetric

__all__ = ["GRID", "drawn_means", "gap_at", "known_outputs_errors", "known_rows_errors", "true_curve", "true_size"]

Array = NDArray[Any]

GRID = (1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 70, 100, 150, 220, 330, 500)
DRAWN_TREES, FEWEST_DRAWS, MOST_DRAWS = 3000, 12, 20
# Sizes from which on the metric is taken as a line in 1/B, whose value at infinity is the truth there.
FIRST_OF_LINE = 100


def drawn_means(outputs: Array, rng: np.random.Generator) -> list[Array]:
    """Return mean outputs of drawn trees, several for each size of GRID, and last those of the whole pool.

    Parameters
    ----------
    outputs : ndarray, shape (n_pool, n_rows)
        Probabilities of the second label, or values.
    rng : numpy Generator

    Returns
    -------
    list of ndarray, each of shape (n_draws, n_rows)
    """
    pool = outputs.shape[0]
    means = []
    for size in GRID:
        n_draws = int(np.clip(DRAWN_TREES // size, FEWEST_DRAWS, MOST_DRAWS))
        shares = np.zeros((n_draws, pool), dtype=outputs.dtype)
        # Permutations are used up before the next one starts: draws share as few trees as possible.
        for place, chosen in enumerate(_draws(pool, min(size, pool), n_draws, rng)):
            shares[place, chosen] = 1.0 / chosen.size
        means.append(shares @ outputs)
    return [*means, outputs.mean(axis=0, keepdims=True)]


def _draws(pool: int, size: int, n_draws: int, rng: np.random.Generator) -> list[Array]:
    found: list[Array] = []
    while len(found) < n_draws:
        order = rng.permutation(pool)
        found.extend(order[start : start + size] for start in range(0, pool - size + 1, size))
    return found[:n_draws]


def true_curve(metric: ResolvedMetric, codes: Array, classes: Array | None, means: list[Array], n_pool: int) -> Array:
    """Return the metric at each size of GRID and, extrapolated by a line in 1/B, at infinity.

    A pool has no infinite ensemble: at 1000 trees the distance from infinity is still a tenth of that at 100.
    """
    target = codes if classes is None else classes[codes]
    example = _outputs(means[0][0], classes)
    found = find_formula(metric, target, codes, example, None)
    assert found is not None or classes is not None
    formula = found[0] if found is not None else of_labels(metric, np.asarray(classes))
    ones = np.ones(codes.size)
    curve = np.array([np.mean([formula(codes, _outputs(mean, classes))(ones) for mean in drawn]) for drawn in means])
    return np.append(curve[:-1], _limit(curve, n_pool))


def _limit(curve: Array, n_pool: int) -> float:
    """Return the value at infinity of a line in 1/B through the larger sizes and the pool."""
    sizes = np.array([*GRID, n_pool], dtype=np.float64)
    late = (sizes >= FIRST_OF_LINE) & (sizes <= n_pool)
    # Distances between draws and the pool are known about in proportion to 1/B.
    _, limit = np.polyfit(1.0 / sizes[late], curve[late], 1, w=np.sqrt(sizes[late]))
    return float(limit)


def true_size(curve: Array, distance: float) -> float:
    """Return the size from which on the metric stays within a distance, interpolated in 1/B; NaN if beyond the grid."""
    apart = np.abs(curve[:-1] - curve[-1])
    far = np.flatnonzero(apart > distance)
    if far.size == 0:
        return 1.0
    last = int(far[-1])
    if last + 1 == apart.size:
        return math.nan
    share = (apart[last] - distance) / (apart[last] - apart[last + 1])
    return float(1.0 / (1.0 / GRID[last] + share * (1.0 / GRID[last + 1] - 1.0 / GRID[last])))


def known_rows_errors(
    metric: ResolvedMetric, codes: Array, classes: Array, outputs: Array, n_rows: int, distance: float
) -> list[float]:
    """Return how far the size is off if everything is known but the distribution of the rows.

    Parts of the fresh rows are as large as the training rows.  Each row's mean output and its variance over the members
    of the pool are taken as exact, so that the chance of either label at every size is that of a normal mean.

    Parameters
    ----------
    metric : ResolvedMetric
        Of two labels.
    codes : ndarray, shape (n_fresh,)
    classes : ndarray, shape (2,)
    outputs : ndarray, shape (n_pool, n_fresh)
        Probabilities of the second label.
    n_rows : int
        Rows of a part.
    distance : float
        Tolerance of the size.

    Returns
    -------
    list of float
        Binary logarithms of the size by each part over that by all fresh rows; parts with one label are left out.
    """
    sizes = np.append(np.array(GRID, dtype=np.float64), np.inf)
    apart = (outputs.mean(axis=0) - 0.5) / np.maximum(outputs.std(axis=0), 1e-9)
    with np.errstate(invalid="ignore"):
        second = np.nan_to_num(ndtr(apart * np.sqrt(sizes)[:, None]), nan=0.5)
    cells, columns = classes[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]

    def size(rows: slice) -> float:
        own, is_second = second[:, rows], codes[rows] == 1
        parts = [(chance @ mask) for mask in (~is_second, is_second) for chance in (1.0 - own, own)]
        curve = np.array([metric.value(cells, columns, weight) for weight in np.stack(parts, axis=1)])
        return true_size(curve, distance)

    whole = size(slice(None))
    return [float(np.log2(size(part) / whole)) for part in _parts(codes, n_rows)]


def known_outputs_errors(
    metric: ResolvedMetric, codes: Array, classes: Array, means: list[Array], n_pool: int, n_rows: int, distance: float
) -> list[float]:
    """Return how far the size by a ranking is off if the outputs are known for all sizes, but only on so many rows.

    Parts of the fresh rows are as large as the training rows.  The curve of each part is the true one, of the same
    draws of trees, on its rows and their labels.

    Parameters
    ----------
    metric : ResolvedMetric
        Of two labels.
    codes : ndarray, shape (n_fresh,)
    classes : ndarray, shape (2,)
    means : list of ndarray
        As of :func:`drawn_means`.
    n_pool : int
        Trees of the pool.
    n_rows : int
        Rows of a part.
    distance : float
        Tolerance of the size.

    Returns
    -------
    list of float
        Binary logarithms of the size by each part over that by all fresh rows, NaN beyond the grid; parts with one
        label are left out.
    """

    def size(rows: slice) -> float:
        return true_size(true_curve(metric, codes[rows], classes, [mean[:, rows] for mean in means], n_pool), distance)

    whole = size(slice(None))
    return [float(np.log2(size(part) / whole)) for part in _parts(codes, n_rows)]


def _parts(codes: Array, n_rows: int) -> list[slice]:
    """Return consecutive parts of so many rows each, without those of one label."""
    starts = range(0, codes.size - n_rows + 1, n_rows)
    return [slice(start, start + n_rows) for start in starts if np.ptp(codes[start : start + n_rows])]


def gap_at(curve: Array, size: float) -> float:
    """Return the distance of the metric at a size from that at infinity, interpolated in 1/B."""
    inverse = np.append(1.0 / np.array(GRID), 0.0)[::-1]
    return float(abs(np.interp(1.0 / size, inverse, curve[::-1]) - curve[-1]))


def _outputs(mean: Array, classes: Array | None) -> Array:
    values = mean.astype(np.float64)
    return values if classes is None else np.stack([1.0 - values, values], axis=1)
