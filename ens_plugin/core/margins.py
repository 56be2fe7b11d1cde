r"""The row model of raw scores: their margins, which are normal, and draws of them.

A member's margin on a row is its support for the true label minus its support for the strongest
rival; the ensemble is wrong where the mean margin is negative.  The spread of one member's margin
depends on the row's mean margin, and is estimated from all rows together.  On a scale on which the
spread is constant, the true mean margins are deconvolved from the observed ones
(``docs/methods/margins.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ens_plugin.core.label_draws import (
    SEED_OF_DRAWS,
    SQRT_TWO_PI,
    Draws,
    LabelDensities,
    LabelDraws,
    LabelledRows,
    draw_cells,
    draws_of,
    fit_by_label,
    spread_levels,
    value_order,
    victory,
)
from ens_plugin.core.row_model import N_CELLS, Density, RowGroups, fit_density, mean_posterior
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    ROUNDING,
    AnyIntArray,
    FloatArray,
    IntArray,
    as_sizes,
    as_values,
    code_index,
    row_parts,
)
from ens_plugin.core.weights import RowWeight, as_row_weight, row_quantiles

SPREAD_LEVELS = np.arange(1, 200) / 200
SPREAD_BANDWIDTH = 0.075
FEWEST_SPREAD_ROWS = 20.0
LEAST_VARIANCE = 0.02
TAIL_SHARE = 0.003
PADDING = 0.05
FINE_POINTS = 801
CELLS_PER_ERROR = 2.0
COUNTS_PER_OCTAVE = 8
# Of a row's own spreads, a margin beyond which nothing changes.
FARTHEST_OWN = 5.0
# Of an ensemble that stands for infinitely many members: at infinity, a margin of 0 must stay 0 and not become NaN.
LARGEST_SIZE = 1e20


@dataclass(frozen=True, eq=False)
class MarginModel:
    """A fitted distribution over rows of the mean margin, with the spread of one member at each mean margin.

    Attributes
    ----------
    support : ndarray, shape (400,)
        Mean margins, the points of the grid, ascending.
    spread : ndarray, shape (400,)
        Standard deviation of one member's margin on rows of that mean margin.
    distance : ndarray, shape (400,)
        Distance of each mean margin from 0 in such standard deviations; evenly spaced.
    density : Density
    likelihood : ndarray, shape (n_groups, 400)
        Of each group of nearly equal rows.
    counts : ndarray, shape (n_groups,)
        Weight of each group.
    group : ndarray of int, shape (n_rows,)
    point_weights : ndarray, shape (400,)
        Estimated distribution of the rows over the points; sums to 1.
    """

    support: FloatArray
    spread: FloatArray
    distance: FloatArray
    density: Density
    likelihood: FloatArray
    counts: FloatArray
    group: AnyIntArray
    point_weights: FloatArray

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of a wrong label, a negative mean margin, by size and point, shape (n_sizes, 400)."""
        wanted = as_sizes(sizes)
        error = ndtr(-_standardized(self.distance, wanted))
        # Of the infinite ensemble it is the part of each cell of the grid in which that is wrong.
        error[np.isinf(wanted)] = np.clip(0.5 - self.distance / (self.distance[1] - self.distance[0]), 0.0, 1.0)
        return np.asarray(error)

    def error(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected error at each size, shape (n_sizes,)."""
        return np.asarray(self.error_by_point(sizes) @ self.point_weights)


def _standardized(distance: FloatArray, sizes: FloatArray) -> FloatArray:
    # At infinity, a distance of 0 must stay 0 and not become NaN.
    return np.asarray(np.sqrt(np.minimum(sizes, np.finfo(np.float64).max))[:, None] * distance)


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
    return replace(prior, point_weights=mean_posterior(RowGroups(likelihood, counts), density.weights))


class MarginContest:
    """One label against its rivals by normal margins; :class:`~ens_plugin.core.label_draws.Contest`.

    The margins over each rival, shape (n_rows, n_draws), are in standard deviations of one member's.
    """

    def __init__(self, margins: Sequence[Draws]) -> None:
        self._margins = margins

    def chance(self, size: float) -> Draws:
        """Return the chance that so many members predict the label."""
        root = np.float32(np.sqrt(min(size, LARGEST_SIZE)))
        places = range(len(self._margins))
        # Scores of equal spread make margins over two rivals that have half of their variance in common.
        return victory([margin * root for margin in self._margins], {(i, j): 0.5 for j in places for i in range(j)})


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """Mean scores of the true label and its strongest rivals; :class:`~ens_plugin.core.label_draws.Outputs`.

    `scores`, shape (n_rows, n_draws, 1 + n_rivals), are relative to the true label's, and `spread`, shape (n_rows,
    n_draws), is the standard deviation of one member's margin.
    """

    scores: Draws
    spread: Draws

    def contest(self, place: int) -> MarginContest:
        """Return the contest of the label in one place with all others."""
        own = self.scores[..., place]
        others = [self.scores[..., other] for other in range(self.scores.shape[2]) if other != place]
        return MarginContest([(own - other) / self.spread for other in others])

    def strongest_first(self) -> DrawnScores:
        """Return the same scores, descending."""
        return DrawnScores(-np.sort(-self.scores, axis=2), self.spread)

    def slopes(self, size: float) -> Draws:
        """Return the derivative of the chance of the true label in its mean margin over the strongest rival."""
        distance = (self.scores[..., 0] - self.scores[..., 1]) / self.spread
        density = np.exp(-0.5 * size * distance**2) / SQRT_TWO_PI
        return np.asarray(density * np.float32(np.sqrt(size)) / self.spread)

    def take(self, rows: AnyIntArray) -> DrawnScores:
        """Return the scores of some of the rows."""
        return DrawnScores(self.scores[rows], self.spread[rows])


class RivalMargins(NamedTuple):
    """Margins of each row over one rival, shape (n_rows,) each: their mean and sd (ddof 1) over members."""

    mean: FloatArray
    sd: FloatArray
    rival: IntArray

    def take(self, rows: AnyIntArray) -> RivalMargins:
        """Return the margins of some of the rows."""
        return RivalMargins(self.mean[rows], self.sd[rows], self.rival[rows])

    def in_own_spreads(self) -> RivalMargins:
        """Return the margins in units of each row's own spread, which thus need not be that of rows of like margins."""
        # Where it is known well, it is better than theirs. One member hardly ever crosses the largest of these margins.
        is_known = self.sd > ROUNDING
        mean = np.where(is_known, self.mean / np.where(is_known, self.sd, 1.0), FARTHEST_OWN)
        return RivalMargins(np.clip(mean, -FARTHEST_OWN, FARTHEST_OWN), np.ones(mean.size), self.rival)


def draw_margins(
    strongest: Sequence[RivalMargins],
    second: RivalMargins | None,
    trials: FloatArray,
    target: IntArray,
    weight: FloatArray,
    n_labels: int,
) -> LabelDraws:
    """Draw the mean margins of each row from the distribution fitted to all rows, each label's near it."""
    # The draws are shared among the margins over the strongest rival: that of all members looks stronger than it is,
    # and that of the other half of the members does not. The second strongest rival is None for two labels.
    order = value_order(target, *(column for each in strongest for column in each), trials, weight)
    known = [each.take(order) for each in strongest]
    rows = _Rows(trials[order], target[order], weight[order], n_labels, np.random.default_rng(SEED_OF_DRAWS))
    n_draws = -(-draws_of(target.size) // len(known))
    parts = [rows.draw(each, n_draws) for each in known]
    margins, spread, cells = (np.hstack(each) for each in zip(*(part[:3] for part in parts), strict=True))
    scores, rivals = [np.zeros_like(margins), -margins], [known[0].rival]
    if second is not None:
        other = second.take(order)
        scores.append(-rows.draw(other, cells.shape[1]).margins)
        rivals.append(other.rival)
    stacked = np.stack(scores, axis=2)
    labels = np.broadcast_to(np.stack(rivals, axis=1)[:, None], (*cells.shape, len(rivals)))
    ranked = 1 + np.argsort(-stacked[..., 1:], axis=2, kind="stable")
    stacked[..., 1:] = np.take_along_axis(stacked, ranked, axis=2)
    labels = np.take_along_axis(labels, ranked - 1, axis=2)
    outputs = DrawnScores(stacked.astype(np.float32), spread.astype(np.float32))
    densities, kind = parts[0].densities, parts[0].kind
    drawn = LabelDraws(rows.target, rows.weight, labels, outputs, densities, kind, cells, n_labels)
    return drawn.take(np.argsort(order))


class _DrawnMargins(NamedTuple):
    """Mean margins over one rival, their spreads and cells, shape (n_rows, n_draws), and the rows' densities."""

    margins: FloatArray
    spread: FloatArray
    cells: IntArray
    densities: LabelDensities
    kind: IntArray


class _Rows(NamedTuple):
    trials: FloatArray
    target: IntArray
    weight: FloatArray
    n_labels: int
    rng: np.random.Generator

    def draw(self, known: RivalMargins, n_draws: int) -> _DrawnMargins:
        """Return draws of the mean margins over one rival."""
        model = fit_margins(known.mean, known.sd, self.trials, self.weight)
        groups = RowGroups(model.likelihood, model.counts)
        each = LabelledRows(model.group, self.target, self.weight, self.trials)
        densities, kind = fit_by_label(groups, model.density, each, self.n_labels)
        posterior = model.likelihood[model.group] * densities.weights[kind]
        cells = draw_cells(posterior, spread_levels(self.rng, self.target.size, n_draws))
        step = model.distance[1] - model.distance[0]
        places = model.distance[cells] + step * (self.rng.random(cells.shape) - 0.5)
        margins = np.interp(places, model.distance, model.support)
        return _DrawnMargins(margins, model.spread[cells], cells, densities, kind)


def _spread_function(
    m: FloatArray, d: FloatArray, n: FloatArray, w: FloatArray, edges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ascending mean margins, and the spread of one member on rows with these means, both shape (n_cells,)."""
    # Rows with margins between two of the ascending edges are pooled in a cell, and the cells' variances are smoothed
    # by rank.
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
    """Return 400 mean margins, and their distances from 0 in spreads, which are evenly spaced."""
    # They reach from `low` to `high` at least. 0 is a boundary between two cells, so that each is on one side of it.
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


def _likelihood(centre: FloatArray, error: FloatArray, support: FloatArray) -> FloatArray:
    """Return the normal likelihood of each group at each point, shape (n_groups, n_points); at most 1."""
    # Columns are contiguous, because the fit multiplies it from that side many times.
    likelihood = centre - support[:, None]
    likelihood /= error
    likelihood *= likelihood
    likelihood *= -0.5
    # The largest value is at the nearest point of the even grid.
    nearest = np.rint((centre - support[0]) / (support[1] - support[0])).astype(np.intp).clip(0, support.size - 1)
    likelihood -= likelihood[nearest, np.arange(centre.size)]
    return np.asarray(np.exp(likelihood, out=likelihood).T)


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
