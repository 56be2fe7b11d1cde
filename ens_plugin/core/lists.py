r"""Lists of the items with the largest mean values over members: how much of a list other members would list too.

The values of n exchangeable members have means that are nearly normal around those of infinitely many, with 1/n of the
covariance of one member's.  The means that were found hold noise, which spreads them: lists drawn around them agree too
well.  So more noise is added to them, in steps, and the loss is extrapolated to as much less noise as they hold (SIMEX,
Cook and Stefanski 1994).  The curve is then moved to what disjoint groups of members have in common, which is counted
without any model.  ``docs/methods/lists.md`` has the formulas and their limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

FEWEST_MEMBERS = 8
# Of the jackknife over members.
N_GROUPS = 10
# Multiples of the noise of the means that are added to them; the extrapolation is to -1.
ADDED = np.array([0.0, 1.0, 2.0, 4.0])
N_DRAWS, N_CHANCES, N_SPLITS = 60, 400, 12
# Standard deviations of noise that no draw exceeds, and the most items whose place on the list is drawn.
REACH, MOST_ITEMS = 5.0, 10_000
# Values that differ by this part of their own size are tied.
TIED = 1e-10
N_SIZES = 14
# Standard deviation of the logarithm of a loss for each factor e by which a size exceeds those that are counted, up to
# so many: from there on the loss falls as the root of the size.
EXTRAPOLATED, FARTHEST = 0.15, 3.0
SEED_OF_LISTS = 20_250_314


@dataclass(frozen=True, eq=False)
class LossBySize:
    """The part of a list, or of close values, that another ensemble does not have in common, by size.

    It is an :class:`ens_plugin.analysis.sizes.AgreementLaw`.

    Attributes
    ----------
    sizes : ndarray, shape (n_sizes,)
        Ascending.
    log_loss : ndarray, shape (n_sizes,)
    sd : ndarray, shape (n_sizes,)
        Standard error of the logarithm, over members.
    """

    sizes: FloatArray
    log_loss: FloatArray
    sd: FloatArray

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the part that is not in common at each size."""
        return self._at(self.log_loss, sizes)

    def loss_interval(self, size: float, level: float) -> tuple[float, float]:
        """Return the ends of the interval of the loss at a size."""
        low, high = (float(self._at(self._shifted(side, level), [size])[0]) for side in (-1.0, 1.0))
        return low, high

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the loss is within the tolerance; None if above `max_size`."""
        return self._smallest(self.log_loss, tolerance, max_size)

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the ends of that size's interval."""
        low, high = (self._smallest(self._shifted(side, level), tolerance, max_size) for side in (-1.0, 1.0))
        return max_size if low is None else low, high

    def _shifted(self, side: float, level: float) -> FloatArray:
        return self.log_loss + side * float(ndtri(0.5 + level / 2.0)) * self.sd

    def _at(self, log_loss: FloatArray, sizes: ArrayLike) -> FloatArray:
        found = np.interp(np.log(np.asarray(sizes, dtype=np.float64)), np.log(self.sizes), log_loss)
        return np.asarray(np.minimum(np.exp(found), 1.0))

    def _smallest(self, log_loss: FloatArray, tolerance: float, max_size: int) -> int | None:
        sizes = np.arange(int(np.ceil(self.sizes[0])), max_size + 1)
        too_large = np.flatnonzero(self._at(log_loss, sizes) > tolerance)
        first = too_large[-1] + 1 if too_large.size else 0
        return int(sizes[first]) if first < sizes.size else None


class Laws(NamedTuple):
    """What an ensemble of each size does not have in common with infinitely many members, and with as many others."""

    to_infinity: LossBySize
    between: LossBySize


@dataclass(frozen=True, eq=False)
class RankedItems:
    """What members give the items that may be on a list of the largest means.

    Attributes
    ----------
    values : ndarray, shape (n_rows, n_items)
        Of one member, or the mean of as many as `per_row` states.
    length : int
        Of the part of the list that these items fill.
    n_certain : float
        Items on every list, in addition to these.
    per_row : float
        Members of each row of `values`.
    """

    values: FloatArray
    length: int
    n_certain: float = 0.0
    per_row: float = 1.0

    def chances(self) -> FloatArray:
        """Return the chance of each item to be on the list of infinitely many members, shape (n_items,)."""
        rng = np.random.default_rng(SEED_OF_LISTS)
        noise = _Noise.of(self.values, 1, N_CHANCES, rng)
        means = noise.mean() + noise.drawn(0) / np.sqrt(len(self.values))
        return np.asarray(largest(means, self.length, noise.tie_width, rng).mean(axis=0))

    def laws(self, max_size: int, first: float = 2.0) -> Laws:
        """Return the loss of the list from the size `first` to `max_size`."""
        sizes = np.geomspace(first, max(max_size, 2.0 * first), N_SIZES)
        noise = _Noise.of(self.values, 3, N_DRAWS, np.random.default_rng(SEED_OF_LISTS))
        between, to_infinity = self._log_losses(noise, sizes / self.per_row)
        parts = [self._log_losses(noise.without(group), sizes / self.per_row)[0] for group in range(noise.n_groups)]
        beyond = np.clip(np.log(2.0 * sizes / (self.per_row * len(self.values))), 0.0, FARTHEST)
        sd = np.hypot(_jackknife_sd(parts), EXTRAPOLATED * beyond)
        return Laws(*(LossBySize(sizes, np.sort(curve)[::-1], sd) for curve in (to_infinity, between)))

    def _log_losses(self, noise: _Noise, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of both losses at some sizes, which are numbers of rows of `values`."""
        rng = np.random.default_rng(SEED_OF_LISTS)
        total = self.length + self.n_certain
        counted_at = np.unique(np.maximum(noise.rows.size // np.array([8, 4, 2]), 1))
        losses = self._drawn_losses(noise, np.concatenate([counted_at, sizes]), rng) / total
        least = 0.5 / (N_DRAWS * total)  # a loss that no draw shows is not 0
        logs = np.log(np.maximum(losses, least))
        slope, level = np.polyfit(ADDED, logs.reshape(ADDED.size, -1), 1)
        apart, missed = (level - slope).reshape(2, -1)
        counts = np.array([self._counted_loss(noise, int(size), rng) / total for size in counted_at])
        if not losses.any() and not counts.any():
            return np.full(sizes.size, np.log(TIED)), np.full(sizes.size, np.log(TIED))
        moved = np.log(np.maximum(counts, least)) - apart[: counted_at.size]
        by = np.interp(np.log(sizes), np.log([*counted_at, 2 * counted_at[-1]]), [*moved, moved[-2:].mean()])
        return apart[counted_at.size :] + by, missed[counted_at.size :] + by

    def _drawn_losses(self, noise: _Noise, sizes: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return both losses, in items, by added noise and size, shape (n_added, 2, n_sizes)."""
        mean, n_rows = noise.mean(), noise.rows.size
        shift, one, other = (noise.drawn(part) for part in range(3))
        found = np.empty((ADDED.size, 2, sizes.size))
        for place, size in enumerate(sizes):
            is_open, length = open_items(mean, noise.sd, self.length, 1.0 / size + ADDED[-1] / n_rows)
            width = noise.tie_width[is_open]
            a, b, moved = (drawn[:, is_open] for drawn in (one / np.sqrt(size), other / np.sqrt(size), shift))
            for step, added in enumerate(ADDED):
                center = mean[is_open] + np.sqrt(added / n_rows) * moved
                limit, here, there = (largest(each, length, width, rng) for each in (center, center + a, center + b))
                found[step, :, place] = [length - (here & own).sum(axis=1).mean() for own in (there, limit)]
        return found

    def _counted_loss(self, noise: _Noise, size: int, rng: np.random.Generator) -> float:
        """Return how many items the lists of two disjoint groups of so many rows do not have in common."""
        n_groups = min(noise.rows.size // size, 8)
        common = []
        for _ in range(N_SPLITS):
            groups = rng.permutation(noise.rows)[: n_groups * size].reshape(n_groups, size)
            is_of = np.zeros((n_groups, len(self.values)))
            np.put_along_axis(is_of, groups, 1.0, axis=1)
            lists = largest(is_of @ self.values / size, self.length, noise.tie_width, rng).astype(np.float32)
            common.append((lists @ lists.T)[np.triu_indices(n_groups, 1)].mean())
        return float(self.length - np.mean(common))


@dataclass(frozen=True, eq=False)
class _Noise:
    """Draws of the noise of one row, summed by groups of rows so that each group can be left out."""

    rows: IntArray  # those that are kept
    group: IntArray  # of each row
    totals: FloatArray  # of the values, (n_groups, n_items)
    weights: FloatArray  # of the rows in a draw, summed, (n_groups, n_parts, n_draws)
    products: FloatArray  # of weights and values, (n_groups, n_parts, n_draws, n_items)
    sd: FloatArray
    tie_width: FloatArray

    @classmethod
    def of(cls, values: FloatArray, n_parts: int, n_draws: int, rng: np.random.Generator) -> _Noise:
        n_rows = len(values)
        n_groups = min(N_GROUPS, n_rows)
        group = rng.permutation(np.arange(n_rows) % n_groups)
        weights = rng.normal(size=(n_parts, n_draws, n_rows))
        of_groups = [np.flatnonzero(group == own) for own in range(n_groups)]
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
        return cls(
            np.arange(n_rows),
            group,
            np.stack([values[rows].sum(axis=0) for rows in of_groups]),
            np.stack([weights[:, :, rows].sum(axis=2) for rows in of_groups]),
            np.stack([weights[:, :, rows] @ values[rows] for rows in of_groups]),
            sd,
            TIED * (np.abs(mean) + sd),
        )

    @property
    def n_groups(self) -> int:
        return len(self.totals)

    def without(self, group: int) -> _Noise:
        """Return the noise of all rows but those of one group."""
        kept = np.arange(self.n_groups) != group
        parts = {name: getattr(self, name)[kept] for name in ("totals", "weights", "products")}
        return replace(self, rows=np.flatnonzero(self.group != group), **parts)

    def mean(self) -> FloatArray:
        return np.asarray(self.totals.sum(axis=0) / self.rows.size)

    def drawn(self, part: int) -> FloatArray:
        """Return draws with the covariance of one row's values, shape (n_draws, n_items)."""
        weight = self.weights[:, part].sum(axis=0)[:, None]
        return np.asarray((self.products[:, part].sum(axis=0) - weight * self.mean()) / np.sqrt(self.rows.size - 1.0))


def open_items(mean: FloatArray, sd: FloatArray, length: int, variance: float) -> tuple[BoolArray, int]:
    """Return which items noise of this variance may move over the end of a list, and how many the list takes of them.

    `variance` is in units of the variance of one row, whose root is `sd`.
    """
    if length == mean.size:
        return np.zeros(mean.size, dtype=bool), 0
    reach, end = REACH * np.sqrt(variance) * sd, mean.size - length
    lowest, highest = mean - reach, mean + reach
    is_out = highest < np.partition(lowest, end)[end]
    is_in = lowest > np.partition(highest, end - 1)[end - 1]
    return ~(is_out | is_in), length - int(is_in.sum())


def largest(values: FloatArray, length: int, tie_width: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Return which items of each row are among its largest; ties are broken at random."""
    found = np.zeros(values.shape, dtype=bool)
    if length >= values.shape[1]:
        found[:] = True
    elif length > 0:
        untied = values + tie_width * rng.random(values.shape)
        np.put_along_axis(found, np.argpartition(untied, -length, axis=1)[:, -length:], True, axis=1)
    return found


def close_values(values: FloatArray, within: float, max_size: int, first: float = 2.0) -> Laws:
    """Return the share of items whose means are farther apart than `within`, by the size of the ensembles.

    `values` has shape (n_members, n_items), and the means are taken for normal.
    """
    sizes = np.geomspace(first, max(max_size, 2.0 * first), N_SIZES)
    group = np.random.default_rng(SEED_OF_LISTS).permutation(np.arange(len(values)) % min(N_GROUPS, len(values)))

    def log_share(own: FloatArray, n_ensembles: int) -> FloatArray:
        sd = np.maximum(own.std(axis=0, ddof=1) * np.sqrt(n_ensembles), np.finfo(np.float64).tiny)
        share = [2.0 * ndtr(-within * np.sqrt(size) / sd).mean() for size in sizes]
        return np.log(np.maximum(share, TIED))

    sd = _jackknife_sd([log_share(values[group != own], 2) for own in range(int(group.max()) + 1)])
    return Laws(*(LossBySize(sizes, log_share(values, n_ensembles), sd) for n_ensembles in (1, 2)))


def _jackknife_sd(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the standard deviation of a statistic of all groups of members from those that leave one group out."""
    return np.asarray(np.sqrt((len(parts) - 1.0) * np.var(parts, axis=0)))
