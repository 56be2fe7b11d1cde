"""Averages over random subsets of the members, for a sample of the rows.

The averages are unbiased at every size up to the rows' number of out-of-bag members, for any rule and any
metric: used for the curve of a metric.  For labels, :mod:`ens_plugin.core.tallies.subset_rates` is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock, label_support, sum_over_members
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError

__all__ = [
    "Combine",
    "Sample",
    "combined_outputs",
    "content_order",
    "subset_combinations",
    "subset_mean_orders",
    "subset_means",
    "subset_statistics",
]

# NumPy adds so few numbers one after the other, and more of them in parts.
FEW_LABELS = 7

# Returns what members predict together, shape (n_rows,), from their outputs, shape (n_members, n_rows).
Combine = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Sample:
    """The members' outputs for a random subset of the rows.

    Attributes
    ----------
    block : RowBlock
        Outputs, mask and target of the sampled rows.
    rows : ndarray of int, shape (n_sampled,)
        Positions of the sampled rows in the whole data.
    weight : ndarray, shape (n_sampled,)
    """

    block: RowBlock
    rows: IntArray
    weight: FloatArray

    def mean_outputs(self) -> FloatArray:
        """Return each row's mean output over the members that count, votes as indicators; 0 where none counts."""
        block = self.block
        total = (
            label_support(block, block.counted) if block.n_labels else sum_over_members(block.outputs, block.counted)
        )
        trials = np.maximum(block.counted.sum(axis=0), 1).astype(np.float64)
        return np.asarray(total / trials.reshape(-1, *(1,) * (total.ndim - 1)))

    def sort_by_content(self) -> Sample:
        """Return the sample with its rows in :func:`content_order`; the outputs of this one are overwritten."""
        block, order = self.block, content_order(self.block)
        for by_member in (*block.outputs, *block.counted):
            by_member[:] = by_member.take(order, axis=0)
        return Sample(replace(block, target=block.target[order]), self.rows[order], self.weight[order])

    def select(self, chosen: IntArray) -> Sample:
        """Return the sample reduced to some of its rows, by position in the sample."""
        block = self.block
        part = RowBlock(block.outputs[:, chosen], block.counted[:, chosen], block.target[chosen], block.n_labels)
        return Sample(part, self.rows[chosen], self.weight[chosen])

    def empty(self, n_rows: int) -> Sample:
        """Return a sample of `n_rows` rows, its values not set yet, of the same kind as this one."""
        block = self.block
        outputs = np.empty((block.outputs.shape[0], n_rows, *block.outputs.shape[2:]), dtype=block.outputs.dtype)
        counted = np.empty((block.counted.shape[0], n_rows), dtype=np.bool_)
        blank = RowBlock(outputs, counted, np.empty(n_rows, dtype=block.target.dtype), block.n_labels)
        return Sample(blank, np.empty(n_rows, dtype=self.rows.dtype), np.empty(n_rows, dtype=self.weight.dtype))

    def copy_into(self, whole: Sample, start: int) -> None:
        """Copy the rows of this sample into those of `whole` from `start` on."""
        rows = slice(start, start + self.rows.size)
        np.copyto(whole.block.outputs[:, rows], self.block.outputs, casting="safe")
        np.copyto(whole.block.counted[:, rows], self.block.counted)
        np.copyto(whole.block.target[rows], self.block.target, casting="safe")
        whole.rows[rows], whole.weight[rows] = self.rows, self.weight

    def some_rows(self, n_rows: int) -> Sample:
        """Return the sample reduced to `n_rows` of its rows at most, always the same ones, in their order."""
        return self.select(np.sort(np.random.default_rng(0).permutation(self.rows.size)[:n_rows]))

    def keep(self, usable: NDArray[np.bool_]) -> Sample:
        """Return the sample without the rows that are not usable, its `rows` renumbered among the usable rows."""
        position = np.cumsum(usable) - 1
        stays = usable[self.rows]
        kept = self if stays.all() else self.select(np.flatnonzero(stays))
        return Sample(kept.block, position[kept.rows], kept.weight)


def content_order(block: RowBlock) -> IntArray:
    """Return an order of a block's rows that depends on the members' outputs, not on the order of the rows.

    The order is as good as random; rows with the same outputs are interchangeable.
    """
    rng = np.random.default_rng(0)
    by_member, by_label = rng.random((block.outputs.shape[0],)), rng.random((max(block.n_labels, 1),))
    place = np.zeros(block.target.size)
    for output, counts, factor in zip(block.outputs, block.counted, by_member, strict=True):
        value = _weighted_sum(output, by_label) if output.ndim == 2 else output.astype(np.float64)
        value += 1.0
        value *= factor
        value *= counts
        place += value
    return np.lexsort((place, np.modf(place * 1e3)[0], block.target))


def _weighted_sum(output: NDArray[np.float64], factors: FloatArray) -> FloatArray:
    """Return the sum over labels of one member's outputs times the labels' factors, shape (n_rows,)."""
    if factors.size > FEW_LABELS:
        return np.asarray(np.add.reduce(output * factors, axis=-1))
    # The same sum, label by label: five times as fast where the last axis is short.
    total = output[:, 0] * factors[:1]
    for label in range(1, factors.size):
        total += output[:, label] * factors[label : label + 1]
    return np.asarray(total)


def subset_means(block: RowBlock, sizes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the mean output of one random subset of each row's members at each size, without replacement.

    Parameters
    ----------
    block : RowBlock
    sizes : ndarray of int, shape (n_sizes,)
        Ascending; the subset of one size contains that of the size before.
    rng : numpy Generator

    Returns
    -------
    ndarray, shape (n_sizes, n_rows) or (n_sizes, n_rows, n_labels)
        Votes are converted to indicators first.  Rows with fewer members than a size have NaN.
    """
    packed = _pack_outputs(block)
    return _means_in_order(packed, sizes, rng.permutation(packed.counted.shape[0]))


def subset_statistics(
    block: RowBlock,
    sizes: IntArray,
    n_orders: int,
    rng: np.random.Generator,
    statistic: Callable[[FloatArray], float],
) -> FloatArray:
    """Return a statistic of :func:`subset_mean_orders`, shape (n_orders, n_sizes)."""
    orders = subset_mean_orders(block, sizes, n_orders, rng)
    return np.array([[statistic(mean) for mean in means] for means in orders])


def subset_mean_orders(
    block: RowBlock, sizes: IntArray, n_orders: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield the mean outputs of :func:`subset_means` for several random orders of the members.

    Orders are rotations of random ones, so that every member is used about as often at every size.

    Raises
    ------
    InputError
        If no row has members.
    """
    packed = _pack_outputs(block)
    if not packed.counted.size:
        raise InputError(
            "None of the sampled rows is out of bag for any member, so there are no subsets of members to average. "
            "Train more members or pass more rows."
        )
    for order in islice(_rotations(packed.counted.shape[0], n_orders, rng), n_orders):
        yield _means_in_order(packed, sizes, order)


def combined_outputs(block: RowBlock, combine: Combine) -> FloatArray:
    """Return what each row's members predict together by a rule other than the mean, shape (n_rows,).

    Parameters
    ----------
    block : RowBlock
        Of values.
    combine : callable
        Of outputs without NaN.

    Returns
    -------
    ndarray, shape (n_rows,)
        0 for rows without members.
    """
    packed = _pack_outputs(block)
    trials = np.count_nonzero(packed.counted, axis=0)
    found = np.zeros(trials.size)
    for n_members in np.unique(trials[trials > 0]):
        rows = np.flatnonzero(trials == n_members)
        found[rows] = combine(packed.outputs[:n_members, rows].astype(np.float64))
    return found


def subset_combinations(
    block: RowBlock, sizes: IntArray, n_orders: int, rng: np.random.Generator, combine: Combine
) -> Iterator[FloatArray]:
    """Yield what random subsets of each row's members predict together by a rule other than the mean.

    As :func:`subset_mean_orders`, which is faster, yields their means; `combine` returns NaN for rows with NaN.
    """
    packed = _pack_outputs(block)
    values = np.where(packed.counted, packed.outputs.astype(np.float64), np.nan)
    for order in islice(_rotations(values.shape[0], n_orders, rng), n_orders):
        # The members that count come first, in random order.
        counted_first = np.argsort(~packed.counted[order], axis=0, kind="stable")
        own = np.take_along_axis(values[order], counted_first, axis=0)
        yield np.stack([combine(own[:size]) for size in sizes])


def _rotations(n_places: int, n_orders: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield random orders without end, each in up to `n_orders` rotations with evenly spaced starts."""
    n_starts = min(n_places, n_orders)
    while True:
        order = rng.permutation(n_places)
        yield from (np.roll(order, -(place * n_places // n_starts)) for place in range(n_starts))


def _pack_outputs(block: RowBlock) -> RowBlock:
    """Return the same rows with the outputs that count in the first places, in member order.

    A random order of the places is then one of each row's own members, with few places that do not count.
    """
    trials = np.count_nonzero(block.counted, axis=0)
    n_places = int(trials.max(initial=0))
    outputs = np.zeros((n_places, *block.outputs.shape[1:]), dtype=block.outputs.dtype)
    taken = np.zeros_like(trials)
    for output, mask in zip(block.outputs, block.counted, strict=True):
        rows = np.flatnonzero(mask)
        outputs[taken[rows], rows] = output[rows]
        taken[rows] += 1
    return RowBlock(outputs, np.arange(n_places)[:, None] < trials, block.target, block.n_labels)


def _means_in_order(packed: RowBlock, sizes: IntArray, order: IntArray) -> FloatArray:
    """Return the mean outputs of subsets made by adding each row's packed outputs in the given order."""
    n_places, n_rows = packed.counted.shape
    shape = (n_rows, packed.n_labels) if packed.n_labels else (n_rows,)
    hard = packed.outputs.ndim == 2 and packed.n_labels > 0
    index_of_size = np.full(max(int(sizes[-1]), n_places) + 1, -1)
    index_of_size[sizes] = np.arange(sizes.size)
    total = np.zeros(shape)
    drawn = np.zeros(n_rows, dtype=np.int64)
    means = np.full((sizes.size, *shape), np.nan)
    reachable = np.minimum(np.count_nonzero(packed.counted, axis=0), sizes[-1])
    for place in order:
        counts = packed.counted[place]
        total += _indicators(packed, place) if hard else packed.outputs[place]
        drawn += counts
        index = index_of_size.take(drawn)
        reached = np.flatnonzero(counts & (index >= 0))
        means[index[reached], reached] = total[reached]
        if (drawn >= reachable).all():
            break
    return np.asarray(means / sizes.reshape(-1, *(1,) * len(shape)))


def _indicators(packed: RowBlock, place: int) -> NDArray[np.bool_]:
    """Return one member's votes as indicators, shape (n_rows, n_labels); False where they do not count."""
    votes, counts = packed.outputs[place][:, None], packed.counted[place][:, None]
    return np.asarray((votes == np.arange(packed.n_labels)) & counts)
