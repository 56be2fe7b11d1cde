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
from scipy.special import ndtr, ndtri

from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

FEWEST_MEMBERS = 8
# Of the jackknife over members.
N_GROUPS = 8
# Multiples of the noise of the means that are added to them; the extrapolation is to -1.
ADDED = np.array([0.0, 1.0, 2.0, 4.0])
N_DRAWS, N_CHANCES, N_PAIRS = 25, 400, 60
# Draws of short lists are more: so many by the items of the list, and by all items. A loss is known from so many halves
# of one item on that all draws show.
DRAWN_CHANGES, DRAWN_ITEMS, FEWEST_SEEN = 2400, 2.5e5, 30.0
# Standard deviations of noise that no draw exceeds, and the most items whose place on the list is drawn.
REACH, MOST_ITEMS = 5.0, 10_000
# Values that differ by this part of the largest are tied.
TIED, SMALLEST = 1e-13, 1e-290
N_SIZES, N_TABULATED, N_QUANTILES = 12, 100, 200
# Standard deviation of the logarithm of a loss for each factor e by which a size exceeds the members, up to so many:
# from there on the loss falls as the root of the size.
EXTRAPOLATED, FARTHEST = 0.2, 3.0
SEED_OF_LISTS = 20_250_314


class Laws(NamedTuple):
    """What an ensemble of each size does not have in common with infinitely many members, and with as many others."""

    to_infinity: DrawnCurve
    between: DrawnCurve


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
        noise = _Noise.of(self, 1, N_CHANCES, rng)
        means = noise.mean() + noise.shift + noise.drawn(0) / np.sqrt(len(self.values))
        return np.asarray(largest(means, self.length, noise.tie_width, rng).mean(axis=0))

    def laws(self, max_size: int, first: float = 1.0) -> Laws:
        """Return the loss of the list from the size `first` to `max_size`."""
        sizes = np.geomspace(first, max(max_size, 2.0 * first), N_SIZES)
        n_draws = int(np.clip(min(DRAWN_CHANGES / self.length, DRAWN_ITEMS / self.values.shape[1]), N_DRAWS, 400))
        noise = _Noise.of(self, 3, n_draws, np.random.default_rng(SEED_OF_LISTS))
        between, to_infinity = self._log_losses(noise, sizes / self.per_row)
        parts = [self._log_losses(noise.without(group), sizes / self.per_row)[0] for group in range(noise.n_groups)]
        if not np.ptp([between, *parts], axis=1).any():  # no list differs from any other
            between = to_infinity = np.full(sizes.size, np.log(TIED))
        # Beyond twice the members, where most draws show no change, the jackknife is about the extrapolation alone.
        members = self.per_row * len(self.values)
        known = np.interp(np.log(np.minimum(sizes, 2.0 * members)), np.log(sizes), _jackknife_sd(parts))
        sd = np.hypot(known, EXTRAPOLATED * np.clip(np.log(sizes / members), 0.0, FARTHEST))
        # Items that all have the same chance are those of which the least is in common.
        worst = self.length * (1.0 - self.length / self.values.shape[1]) / (self.length + self.n_certain)
        return Laws(_law(sizes, to_infinity, sd, worst), _law(sizes, between, sd, worst))

    def _log_losses(self, noise: _Noise, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of both losses at some sizes, which are numbers of rows of `values`."""
        rng = np.random.default_rng(SEED_OF_LISTS)
        total = self.length + self.n_certain
        counted_at = np.unique(np.maximum(noise.rows.size // np.array([8, 4, 2]), 1))
        losses = self._drawn_losses(noise, np.concatenate([counted_at, sizes]), rng) / total
        least = 0.5 / (noise.weights.shape[2] * total)  # a loss that no draw shows is not 0
        logs = np.log(np.maximum(losses, least))
        slope, level = np.polyfit(ADDED, logs.reshape(ADDED.size, -1), 1)
        apart, missed = (level - slope).reshape(2, -1)
        counts = np.array([self._counted_loss(noise, int(size), rng) / total for size in counted_at])
        if not losses.any() and not counts.any():
            return np.full(sizes.size, np.log(least)), np.full(sizes.size, np.log(least))
        moved = np.log(np.maximum(counts, least)) - apart[: counted_at.size]
        by = np.interp(np.log(sizes), np.log([*counted_at, 2 * counted_at[-1]]), [*moved, moved[-2:].mean()])
        apart, missed = (
            _with_tail(sizes, own[counted_at.size :] + by, np.log(FEWEST_SEEN * least)) for own in (apart, missed)
        )
        # Infinitely many list the items of the largest chances, which are rather on both lists than any others.
        return apart, np.minimum(missed, apart)

    def _drawn_losses(self, noise: _Noise, sizes: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return both losses, in items, by added noise and size, shape (n_added, 2, n_sizes)."""
        mean, n_rows = noise.mean(), noise.rows.size
        shift, one, other = (noise.drawn(part) for part in range(3))
        found = np.empty((ADDED.size, 2, sizes.size))
        for place, size in enumerate(sizes):
            is_open, length = open_items(mean, noise.sd, self.length, 1.0 / size + ADDED[-1] / n_rows)
            base = mean[is_open] + noise.shift[:, is_open]
            a, b, moved = (drawn[:, is_open] for drawn in (one / np.sqrt(size), other / np.sqrt(size), shift))
            for step, added in enumerate(ADDED):
                center = base + np.sqrt(added / n_rows) * moved
                limit, here, there = (
                    largest(each, length, noise.tie_width, rng) for each in (center, center + a, center + b)
                )
                found[step, :, place] = [length - (here & own).sum(axis=1).mean() for own in (there, limit)]
        return found

    def _counted_loss(self, noise: _Noise, size: int, rng: np.random.Generator) -> float:
        """Return how many items the lists of two disjoint groups of so many rows do not have in common."""
        n_groups = min(noise.rows.size // size, 8)
        common, n_pairs = [], n_groups * (n_groups - 1) // 2
        for _ in range(-(-N_PAIRS // n_pairs)):
            groups = rng.permutation(noise.rows)[: n_groups * size].reshape(n_groups, size)
            is_of = np.zeros((n_groups, len(self.values)))
            np.put_along_axis(is_of, groups, 1.0, axis=1)
            lists = largest(is_of @ self.values / size, self.length, noise.tie_width, rng).astype(np.float32)
            common.append((lists @ lists.T)[np.triu_indices(n_groups, 1)].mean())
        return float(self.length - np.mean(common))


def _with_tail(sizes: FloatArray, log_loss: FloatArray, least: float) -> FloatArray:
    """Return a loss that falls as the root of the size from where it is too small for the draws to show it."""
    last = max(int(np.count_nonzero(log_loss >= least)) - 1, 0)
    tail = log_loss[last] - 0.5 * np.log(sizes[last:] / sizes[last])
    return np.concatenate([log_loss[:last], tail])


@dataclass(frozen=True, eq=False)
class _Noise:
    """Draws of the noise of one row, summed by groups of rows so that each group can be left out."""

    rows: IntArray  # those that are kept
    group: IntArray  # of each row
    totals: FloatArray  # of the values, (n_groups, n_items)
    weights: FloatArray  # of the rows in a draw, summed, (n_groups, n_parts, n_draws)
    products: FloatArray  # of weights and values, (n_groups, n_parts, n_draws, n_items)
    sd: FloatArray
    tie_width: float
    shift: FloatArray  # of the means, that the rows do not show, (n_draws, n_items)
    unseen: FloatArray  # noise that they do not show, (n_parts, n_draws, n_items)

    @classmethod
    def of(cls, items: RankedItems, n_parts: int, n_draws: int, rng: np.random.Generator) -> _Noise:
        values, n_rows = items.values, len(items.values)
        n_groups = min(N_GROUPS, n_rows)
        group = rng.permutation(np.arange(n_rows) % n_groups)
        weights = rng.normal(size=(n_parts, n_draws, n_rows))
        of_groups = [np.flatnonzero(group == own) for own in range(n_groups)]
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
        tie_width = TIED * float((np.abs(mean) + sd).max()) + SMALLEST
        unseen = _unseen(values, items.length, tie_width, n_draws, rng)
        return cls(
            np.arange(n_rows),
            group,
            np.stack([values[rows].sum(axis=0) for rows in of_groups]),
            np.stack([weights[:, :, rows].sum(axis=2) for rows in of_groups]),
            np.stack([weights[:, :, rows] @ values[rows] for rows in of_groups]),
            np.hypot(sd, unseen.sd.max(axis=0)),
            tie_width,
            unseen.shift,
            unseen.sd * rng.normal(size=(n_parts, n_draws, mean.size)),
        )

    @property
    def n_groups(self) -> int:
        return len(self.totals)

    def without(self, group: int) -> _Noise:
        """Return the noise of all rows but those of one group, in half as many draws."""
        kept, half = np.arange(self.n_groups) != group, (self.weights.shape[2] + 1) // 2
        weights, products = self.weights[kept, :, :half], self.products[kept, :, :half]
        rows = np.flatnonzero(self.group != group)
        return replace(
            self,
            rows=rows,
            totals=self.totals[kept],
            weights=weights,
            products=products,
            shift=self.shift[:half],
            unseen=self.unseen[:, :half],
        )

    def mean(self) -> FloatArray:
        return np.asarray(self.totals.sum(axis=0) / self.rows.size)

    def drawn(self, part: int) -> FloatArray:
        """Return draws with the covariance of one row's values, shape (n_draws, n_items)."""
        weight = self.weights[:, part].sum(axis=0)[:, None]
        seen = (self.products[:, part].sum(axis=0) - weight * self.mean()) / np.sqrt(self.rows.size - 1.0)
        return np.asarray(seen + self.unseen[part])


class _Unseen(NamedTuple):
    """What the members do not show of the items' means, by draw, shape (n_draws, n_items)."""

    shift: FloatArray  # of the mean of infinitely many members
    sd: FloatArray  # of one row, besides that of the values


def _unseen(values: FloatArray, length: int, tie_width: float, n_draws: int, rng: np.random.Generator) -> _Unseen:
    """Draw what equal means hide, where infinitely many members give different ones."""
    mean, is_constant = values.mean(axis=0), np.ptp(values, axis=0) <= tie_width
    unseen = _Unseen(_rounded(values, mean, is_constant, tie_width, n_draws, rng), np.zeros((n_draws, mean.size)))
    end, constants = np.sort(mean)[-length], np.unique(mean[is_constant])
    is_below = constants < end - tie_width
    # Of more than these two groups, the others are farther from the end of the list.
    for constant in (*constants[is_below][-1:], *constants[~is_below][:1]):
        items = np.flatnonzero(is_constant & (np.abs(mean - constant) <= tie_width))
        _add_rare_changes(unseen, values - constant, items, tie_width, rng)
    return unseen


def _rounded(
    values: FloatArray,
    mean: FloatArray,
    is_constant: BoolArray,
    tie_width: float,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw where the means of tied items lie in the step to those beside them, to which so few members round them.

    Copies, whose values differ from member to member and are equal in each, tie for ever.
    """
    order, shift = np.argsort(mean), np.zeros((n_draws, mean.size))
    is_new = np.diff(mean[order], prepend=-np.inf) > tie_width
    level, gaps = np.cumsum(is_new) - 1, np.diff(mean[order][is_new])
    if gaps.size:
        width = (np.append(gaps, gaps[-1]) + np.append(gaps[0], gaps)) / 2.0
        is_tied = (np.bincount(level)[level] > 1) & ~is_constant[order]
        tied, step = order[is_tied], width[level][is_tied]
        copy = np.unique(values[:, tied], axis=1, return_inverse=True)[1].reshape(-1)
        shift[:, tied] = step * (rng.random((n_draws, mean.size)) - 0.5)[:, copy]
    return shift


def _add_rare_changes(
    unseen: _Unseen, apart: FloatArray, constant: IntArray, tie_width: float, rng: np.random.Generator
) -> None:
    """Add what members that were not trained would change of items to which all members give one value.

    `apart` are all values less this one.  Some items were changed by a single member.  Their number k is that of the
    chances around one over the number of members; if chances are even in their logarithm, those of n constant items
    go down to exp(-n / k) of it.  Without such items, the constant ones tie for ever.
    """
    once = apart[:, (np.abs(apart) > tie_width).sum(axis=0) == 1].sum(axis=0)
    if once.size:
        chance = np.exp(-constant.size / once.size * rng.random((len(unseen.sd), constant.size))) / len(apart)
        change = np.abs(once).mean()
        sign = np.where(rng.random(chance.shape) < np.mean(once > 0.0), 1.0, -1.0)
        unseen.shift[:, constant] = sign * chance * change
        unseen.sd[:, constant] = np.sqrt(chance) * change


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


def largest(values: FloatArray, length: int, tie_width: float, rng: np.random.Generator) -> BoolArray:
    """Return which items of each row are among its largest; ties are broken at random."""
    found = np.zeros(values.shape, dtype=bool)
    if length >= values.shape[1]:
        found[:] = True
    elif length > 0:
        untied = values + tie_width * rng.random(values.shape)
        np.put_along_axis(found, np.argpartition(untied, -length, axis=1)[:, -length:], True, axis=1)
    return found


def close_values(values: FloatArray, within: float, max_size: int, first: float = 1.0) -> Laws:
    """Return the share of items whose means are farther apart than `within`, by the size of the ensembles.

    `values` has shape (n_members, n_items), and the means are taken for normal.
    """
    sizes = np.geomspace(first, max(max_size, 2.0 * first), N_TABULATED)
    group = np.random.default_rng(SEED_OF_LISTS).permutation(np.arange(len(values)) % min(N_GROUPS, len(values)))

    def log_share(own: FloatArray, n_ensembles: int) -> FloatArray:
        sd = np.maximum(own.std(axis=0, ddof=1) * np.sqrt(n_ensembles), TIED * within + SMALLEST)
        share = [2.0 * ndtr(-within * np.sqrt(size) / sd).mean() for size in sizes]
        return np.log(np.maximum(share, TIED))

    sd = _jackknife_sd([log_share(values[group != own], 2) for own in range(int(group.max()) + 1)])
    return Laws(*(_law(sizes, log_share(values, n_ensembles), sd, 1.0) for n_ensembles in (1, 2)))


def _law(sizes: FloatArray, log_loss: FloatArray, sd: FloatArray, worst: float) -> DrawnCurve:
    """Return the loss at odd sizes, and quantiles of it as draws, from its logarithm and the error of that by size.

    No loss is above `worst`.
    """
    odd = np.unique(np.geomspace(sizes[0], sizes[-1], N_TABULATED).astype(np.int64) // 2 * 2 + 1).astype(np.float64)
    log_loss, sd = (np.interp(np.log(odd), np.log(sizes), own) for own in (np.sort(log_loss)[::-1], sd))
    quantiles = ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)[:, None]
    loss, draws = (np.minimum(np.exp(own), worst) for own in (log_loss, log_loss + quantiles * sd))
    return DrawnCurve(np.append(odd, np.inf), np.append(loss, 0.0), np.pad(draws, ((0, 0), (0, 1))))


def _jackknife_sd(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the standard deviation of a statistic of all groups of members from those that leave one group out."""
    return np.asarray(np.sqrt((len(parts) - 1.0) * np.var(parts, axis=0)))
