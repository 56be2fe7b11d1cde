"""The true curve of a metric on fresh rows, from draws of trees out of a large pool."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.formulas import of_matrix, scored_matrix
from ens_plugin.analysis.metrics import ResolvedMetric

Array = NDArray[Any]

GRID = (1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 70, 100, 150, 220, 330, 500)
DRAWN_TREES, FEWEST_DRAWS, MOST_DRAWS = 3000, 12, 20
# Sizes from which on the metric is taken as a line in 1/B, whose value at infinity is the truth there.
FIRST_OF_LINE = 100


class Rows(NamedTuple):
    """Rows with labels or values, and how much each counts.

    Attributes
    ----------
    places : ndarray of int, shape (n,)
        Which fresh row each is.
    target : ndarray, shape (n,)
        Label codes or values.
    weights : ndarray of float, shape (n,)
    """

    places: Array
    target: Array
    weights: Array

    @classmethod
    def drawn(cls, target: Array) -> Rows:
        """Return fresh rows with one label or value each, as it was drawn."""
        return cls(np.arange(target.size), target, np.ones(target.size))

    @classmethod
    def expected(cls, chance: Array) -> Rows:
        """Return each fresh row once with either label, weighted by the probability of it.

        Shares of labels, sums of losses, confusion matrices and ranked pairs are then the expected ones at these
        features: no draw of a label moves the metric.

        Parameters
        ----------
        chance : ndarray, shape (n_fresh,)
            Probability of the second label.
        """
        places = np.arange(chance.size)
        return cls(np.tile(places, 2), np.repeat([0, 1], chance.size), np.concatenate([1.0 - chance, chance]))


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
        means.append(tree_draws(pool, size, n_draws, rng).astype(outputs.dtype) @ outputs)
    return [*means, outputs.mean(axis=0, keepdims=True)]


def tree_draws(pool: int, size: int, n_draws: int, rng: np.random.Generator) -> Array:
    """Return draws of trees without replacement, as shares of each tree in the mean output.

    Permutations are used up before the next one starts: draws share as few trees as possible.

    Returns
    -------
    ndarray, shape (n_draws, pool)
    """
    size = min(size, pool)
    shares = np.zeros((n_draws, pool))
    place = 0
    while place < n_draws:
        order = rng.permutation(pool)
        for start in range(0, pool - size + 1, size)[: n_draws - place]:
            shares[place, order[start : start + size]] = 1.0 / size
            place += 1
    return shares


def true_curve(metric: ResolvedMetric, rows: Rows, classes: Array | None, means: list[Array], n_pool: int) -> Array:
    """Return the metric at each size of GRID and, extrapolated by a line in 1/B, at infinity.

    A pool has no infinite ensemble: at 1000 trees the distance from infinity is still a tenth of that at 100.
    """
    known = metric.formula
    assert known is not None or classes is not None
    formula = (known or of_matrix(scored_matrix(metric.value, np.asarray(classes)))).formula

    def value(mean: Array) -> float:
        return formula(rows.target, _outputs(mean[rows.places], classes))(rows.weights)

    curve = np.array([np.mean([value(mean) for mean in drawn]) for drawn in means])
    return np.append(curve[:-1], limit_of(curve, n_pool))


def limit_of(curve: Array, n_pool: int) -> float:
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


def known_outputs_curves(
    metric: ResolvedMetric, codes: Array, classes: Array, means: list[Array], n_pool: int, n_rows: int
) -> list[Array]:
    """Return the curves of a ranking if the outputs are known for all sizes, but only on so many rows.

    Parts of the fresh rows are as large as the training rows.  The curve of each part is the true one, of the same
    draws of trees, on its rows and the labels drawn for them.

    Parameters
    ----------
    metric : ResolvedMetric
        Of two labels.
    codes : ndarray, shape (n_fresh,)
        Labels as they were drawn.
    classes : ndarray, shape (2,)
    means : list of ndarray
        As of :func:`drawn_means`.
    n_pool : int
        Trees of the pool.
    n_rows : int
        Rows of a part.

    Returns
    -------
    list of ndarray
        As of :func:`true_curve`, by part; parts with one label are left out.
    """
    return [
        true_curve(metric, Rows.drawn(codes[part]), classes, [mean[:, part] for mean in means], n_pool)
        for part in parts_of(codes, n_rows)
    ]


def parts_of(codes: Array, n_rows: int) -> list[slice]:
    """Return consecutive parts of so many rows each, without those of one label alone."""
    starts = range(0, codes.size - n_rows + 1, n_rows)
    return [slice(start, start + n_rows) for start in starts if np.ptp(codes[start : start + n_rows])]


def gap_at(curve: Array, size: float) -> float:
    """Return the distance of the metric at a size from that at infinity, interpolated in 1/B."""
    inverse = np.append(1.0 / np.array(GRID), 0.0)[::-1]
    return float(abs(np.interp(1.0 / size, inverse, curve[::-1]) - curve[-1]))


def _outputs(mean: Array, classes: Array | None) -> Array:
    values = mean.astype(np.float64)
    return values if classes is None else np.stack([1.0 - values, values], axis=1)
