r"""The margin method: error at any size for soft votes, raw scores and more than two labels.

A member's margin on a row is its support for the true label minus its support for the strongest
rival; the ensemble is wrong where the mean margin is negative.  The spread of one member's margin
depends on the row's mean margin, and is estimated from all rows together.  On a scale on which the
spread is constant, the true mean margins are deconvolved from the observed ones
(``docs/methods/margins.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ens_plugin.core.row_model import N_CELLS, BandMatrix, Density, Likelihood, RowGroups, fit_density, mean_posterior
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    ROUNDING,
    AnyIntArray,
    FloatArray,
    as_sizes,
    as_values,
    code_index,
    row_parts,
)
from ens_plugin.core.weights import RowWeight, as_row_weight, row_quantiles

__all__ = [
    "MarginModel",
    "fit_margins",
    "margin_errors",
]

SPREAD_LEVELS = np.arange(1, 200) / 200
SPREAD_BANDWIDTH = 0.075
FEWEST_SPREAD_ROWS = 20.0
LEAST_VARIANCE = 0.02
# One member votes for one label, so that there is no choice among rivals.
FEWEST_CHOOSING = 3.0
TAIL_SHARE = 0.003
PADDING = 0.05
FINE_POINTS = 801
CELLS_PER_ERROR = 2.0
COUNTS_PER_OCTAVE = 8
# Likelihoods beyond so many standard errors, 3e-43 of the largest, are taken as 0 where few others are left.
FARTHEST_LIKELY, MOST_KEPT = 14.0, 0.5
MOST_BLOCKS, LEAST_BLOCK = 16, 32


@dataclass(frozen=True, eq=False)
class MarginModel:
    """A fitted distribution over rows of the mean margin, with the spread of one member at each mean margin.

    It implements the protocol :class:`ens_plugin.core.row_model.RowModel`.

    Attributes
    ----------
    support : ndarray, shape (400,)
        Mean margins, the points of the grid, ascending.
    spread : ndarray, shape (400,)
        Standard deviation of one member's margin on rows of that mean margin.
    distance : ndarray, shape (400,)
        Distance of each mean margin from 0 in such standard deviations; evenly spaced.
    density, likelihood, counts, group, point_weights
        See RowModel.
    shift : float
        Distance by which the margins are too low, because the strongest rival was selected by its noisy votes.
    shift_loss : float
        An ensemble of B members chooses among rivals by noisy votes too: its shift is less by `shift_loss` / B,
        from three members on.
    left_out_shifts : ndarray, shape (n_simulations, 2), or None
        Both without each of the simulations that they are from; None where nothing is shifted.
    """

    support: FloatArray
    spread: FloatArray
    distance: FloatArray
    density: Density
    likelihood: Likelihood
    counts: FloatArray
    group: AnyIntArray
    point_weights: FloatArray
    shift: float = 0.0
    shift_loss: float = 0.0
    left_out_shifts: FloatArray | None = None

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of a wrong label, a negative mean margin, by size and point, shape (n_sizes, 400)."""
        return margin_errors(self.distance, self.shift, self.shift_loss, as_sizes(sizes))

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability that the mean margin has the sign of its limit at infinity, shape (n_sizes, 400).

        It is that of one rival: the ensemble's own choice among rivals moves labels on other rows too, which the
        subsets that correct an agreement show.
        """
        return np.asarray(ndtr(np.abs(_root(as_sizes(sizes))[:, None] * (self.distance + self.shift))))

    def slope_by_point(self, size: float) -> FloatArray:
        """Return the derivative of the error in the mean margin at each grid point, shape (400,)."""
        standardized = _standardized(self.distance, self.shift, self.shift_loss, as_sizes([size]))[0]
        density = np.exp(-0.5 * standardized**2) / np.sqrt(2 * np.pi)
        return np.asarray(-np.sqrt(size) / self.spread * density)


def margin_errors(distance: FloatArray, shift: float, shift_loss: float, sizes: FloatArray) -> FloatArray:
    """Return the probability of a negative mean margin for one or more grids, shape (n_sizes, ..., n_points).

    `distance` has shape (..., n_points), and `shift` and `shift_loss` are those of a :class:`MarginModel`.  Of the
    infinite ensemble it is the part of each grid cell in which that is wrong.
    """
    error = ndtr(-_standardized(distance, shift, shift_loss, sizes))
    step = distance[..., 1:2] - distance[..., :1]
    error[np.isinf(sizes)] = np.clip(0.5 - (distance + shift) / step, 0.0, 1.0)
    return np.asarray(error)


def _standardized(distance: FloatArray, shift: float, shift_loss: float, sizes: FloatArray) -> FloatArray:
    shifts = shift - shift_loss / np.maximum(sizes, FEWEST_CHOOSING)
    by_size = (slice(None), *(None for _ in distance.shape))
    return np.asarray(_root(sizes)[by_size] * (distance + shifts[by_size]))


def fit_margins(
    mean: ArrayLike, sd: ArrayLike, trials: ArrayLike, weight: ArrayLike | RowWeight | None = None
) -> MarginModel:
    r"""Fit the distribution of the rows' true mean margins, from the mean and sd (ddof 1) over each row's members.

    On the scale :math:`t(\mu) = \int_0^\mu V^{-1/2}`, V the running mean of the rows' own variances,
    :math:`t(m_i) \sim N(t_i, 1/n_i)`, and the error at B is :math:`\mathrm{E}\,\Phi(-t_i \sqrt B)`
    (``docs/methods/margins.md``).
    """
    m = as_values(mean, "mean")
    d = as_values(sd, "sd", m.size)
    n = as_values(trials, "trials", m.size)
    entry_weight = as_row_weight(weight, m.size)
    w = entry_weight.effective()
    # Rows without weight must not change the grid.
    n_alike = (w > 0).astype(np.float64) * (1.0 if entry_weight.rows is None else entry_weight.rows)
    # All quantiles together, because the rows are sorted for them.
    *edges, low, high = row_quantiles(m, [*SPREAD_LEVELS, TAIL_SHARE, 1.0 - TAIL_SHARE], n_alike)
    margins, spreads = _spread_function(m, d, n, w, np.unique(edges))
    support, distance = _even_grid(low, high, margins, spreads)
    place, step = _places(m, support, distance), distance[1] - distance[0]
    group = _group_rows(place, n)
    counts = np.bincount(group, w).astype(np.float64)
    centre, count = _group_means(place, w, group), _group_means(n, w, group)
    # The centres of groups vary less than their rows do, by the variance within the groups.
    deviations = place - centre[group]
    deviations *= deviations
    within = _group_means(deviations, w, group)
    # A normal density narrower than a cell could be 0 at every point of the grid.
    error = np.maximum(np.sqrt(np.maximum(1.0 / count - within, 0.0)), step)
    likelihood = _likelihood(centre, error, distance)
    density = fit_density(RowGroups(likelihood, counts), beta_mean=(0.0, 0.0), beta_start=(0.0, 0.0))
    spread = np.interp(support, margins, spreads)
    prior = MarginModel(support, spread, distance, density, likelihood, counts, group, density.weights)
    return replace(prior, point_weights=mean_posterior(prior, density.weights))


def _root(sizes: FloatArray) -> FloatArray:
    # At infinity, a distance of 0 must stay 0 and not become NaN.
    return np.asarray(np.sqrt(np.minimum(sizes, np.finfo(np.float64).max)))


def _spread_function(
    m: FloatArray, d: FloatArray, n: FloatArray, w: FloatArray, edges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ascending mean margins, and the spread of one member on rows with these means, both shape (n_cells,).

    Rows with margins between two of the ascending edges are pooled in a cell, and the cells' variances are smoothed by
    rank.
    """
    mass, margin, variance = np.zeros((3, edges.size + 1))
    for rows in row_parts(m.size):
        cell = np.searchsorted(edges, m[rows], side="right")
        share = w[rows] * (n[rows] - 1.0)
        for total, values in ((mass, share), (margin, share * m[rows]), (variance, share * d[rows] ** 2)):
            total += np.bincount(cell, values, total.size)
    filled = mass > 0
    mass, margin, variance = mass[filled], margin[filled] / mass[filled], variance[filled] / mass[filled]
    rank = (np.cumsum(mass) - mass / 2.0) / mass.sum()
    bandwidth = max(SPREAD_BANDWIDTH, FEWEST_SPREAD_ROWS / w.sum())
    # A power of arrays takes twenty times as long as two products.
    apart = np.abs((rank[:, None] - rank) / bandwidth)
    near = np.clip(1.0 - apart * apart * apart, 0.0, None)
    kernel = near * near * near * mass
    smooth = kernel @ variance / kernel.sum(axis=1)
    scale = max(float(np.abs(m).max()), NEGLIGIBLE)
    least = max(LEAST_VARIANCE * float(mass @ variance / mass.sum()), (ROUNDING * scale) ** 2)
    return margin, np.sqrt(np.maximum(smooth, least))


def _even_grid(low: float, high: float, margins: FloatArray, spreads: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 400 mean margins, and their distances from 0 in spreads, which are evenly spaced.

    They reach from `low` to `high` at least.  0 is a boundary between two cells, so that each is on one side of it.
    """
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    padding = PADDING * max(high - low, ROUNDING * float(spreads.max()))
    fine = np.linspace(low - padding, high + padding, FINE_POINTS)
    inverse = 1.0 / np.interp(fine, margins, spreads)
    length = np.append(0.0, np.cumsum(np.diff(fine) * (inverse[1:] + inverse[:-1]) / 2.0))
    zero = float(np.interp(0.0, fine, length))
    n_below = int(np.clip(np.round(N_CELLS * zero / length[-1]), 1, N_CELLS - 1))
    step = max(zero / n_below, (length[-1] - zero) / (N_CELLS - n_below))
    distance = (np.arange(N_CELLS) - n_below + 0.5) * step
    return _margins_at(distance, fine, length - zero), distance


def _margins_at(distance: FloatArray, fine: FloatArray, length: FloatArray) -> FloatArray:
    """Return the margin at each distance, continued in a straight line beyond the ends."""
    inside = np.interp(distance, length, fine)
    first, last = np.diff(fine[:2])[0] / np.diff(length[:2])[0], np.diff(fine[-2:])[0] / np.diff(length[-2:])[0]
    below, above = np.minimum(distance - length[0], 0.0), np.maximum(distance - length[-1], 0.0)
    return np.asarray(inside + first * below + last * above)


def _places(m: FloatArray, support: FloatArray, distance: FloatArray) -> FloatArray:
    """Return the distance of each row's margin from 0, in spreads, clipped to the ends of the grid; shape (n_rows,)."""
    place = np.empty(m.size)
    for rows in row_parts(m.size):
        place[rows] = np.interp(m[rows], support, distance)
    return place


def _likelihood(centre: FloatArray, error: FloatArray, support: FloatArray) -> Likelihood:
    """Return the normal likelihood of each group at each point, shape (n_groups, n_points); at most 1."""
    order = np.argsort(centre, kind="stable")
    blocks = list(_blocks_near(centre[order], error[order], support))
    n_kept = sum((rows.stop - rows.start) * (points.stop - points.start) for rows, points in blocks)
    if n_kept > MOST_KEPT * centre.size * support.size:
        # By columns, because the fit multiplies it from that side many times.
        return _normal_likelihood(centre, error, support, slice(0, support.size)).T
    parts = [
        (rows, points, _normal_likelihood(centre[order[rows]], error[order[rows]], support, points))
        for rows, points in blocks
    ]
    return BandMatrix(order, support.size, parts)


def _blocks_near(centre: FloatArray, error: FloatArray, support: FloatArray) -> Iterator[tuple[slice, slice]]:
    """Yield groups, whose centres ascend, with the points at which their likelihoods are not negligible."""
    height = max(-(-centre.size // MOST_BLOCKS), LEAST_BLOCK)
    for start in range(0, centre.size, height):
        rows = slice(start, min(start + height, centre.size))
        reach = FARTHEST_LIKELY * float(error[rows].max())
        low, high = np.searchsorted(support, [centre[rows.start] - reach, centre[rows.stop - 1] + reach])
        yield rows, slice(int(low), int(high))


def _normal_likelihood(centre: FloatArray, error: FloatArray, support: FloatArray, points: slice) -> FloatArray:
    """Return the likelihood of each group at some points, among which are the nearest, shape (n_points, n_groups)."""
    likelihood = centre - support[points, None]
    likelihood /= error
    likelihood *= likelihood
    likelihood *= -0.5
    # The largest value is at the nearest point of the even grid.
    nearest = np.rint((centre - support[0]) / (support[1] - support[0])).astype(np.intp).clip(0, support.size - 1)
    likelihood -= likelihood[nearest - points.start, np.arange(centre.size)]
    return np.asarray(np.exp(likelihood, out=likelihood))


def _group_means(values: FloatArray, weight: FloatArray, group: AnyIntArray) -> FloatArray:
    """Return the weighted mean of `values` in each group; the plain mean where no row of a group has weight."""
    n_groups = int(group.max()) + 1
    mass, total, count, plain = np.zeros((4, n_groups))
    for rows in row_parts(group.size):
        own, part, share = group[rows], values[rows], weight[rows]
        mass += np.bincount(own, share, n_groups)
        total += np.bincount(own, share * part, n_groups)
        count += np.bincount(own, minlength=n_groups)
        plain += np.bincount(own, part, n_groups)
    return np.asarray(np.where(mass > 0, total, plain) / np.where(mass > 0, mass, count))


def _group_rows(place: FloatArray, n: FloatArray) -> AnyIntArray:
    """Return the group of each row: rows that differ by at most half a standard error."""
    cell = np.empty(place.size, dtype=np.int64)
    # Cells are counted from a margin of 0, so that no other row changes the group of a row.
    n_cells = 2 * int(np.abs(place).max() * CELLS_PER_ERROR * np.sqrt(float(n.max()) * 2.0)) + 4
    for rows in row_parts(place.size):
        octave = np.floor(np.log2(n[rows]) * COUNTS_PER_OCTAVE)
        most = np.exp2((octave + 1.0) / COUNTS_PER_OCTAVE)
        cell[rows] = octave * n_cells + np.floor(place[rows] * CELLS_PER_ERROR * np.sqrt(most))
    return code_index(cell)
