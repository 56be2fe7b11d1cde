"""Averages over random subsets of the members, for a sample of the rows.

The averages are unbiased at every size up to the rows' number of out-of-bag members, for any rule and any
metric: used for the curve of a metric.  For labels, :mod:`ens_plugin.core.tallies.subset_rates` is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.samples.content_order import LabelOrder, content_order, move_rows
from ens_plugin.core.tallies.tally import RowBlock, count_members, sum_over_members
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError
from ens_plugin.records import record

__all__ = [
    "Combine",
    "PackedOutputs",
    "Sample",
    "combined_outputs",
    "pack_outputs",
    "subset_combinations",
    "subset_mean_orders",
    "subset_means",
    "subset_statistics",
]

# Rows of a piece of packed outputs: few, so that it stays in a processor's cache.
ROWS_OF_PIECE = 1024

# Returns what members predict together, shape (n_rows,), from their outputs, shape (n_members, n_rows).
Combine = Callable[[FloatArray], FloatArray]


@record
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
        total = block.support if block.n_labels else sum_over_members(block.outputs, block.counted)
        trials = np.maximum(block.counted.sum(axis=0), 1).astype(np.float64)
        return np.asarray(total / trials.reshape(-1, *(1,) * (total.ndim - 1)))

    def sort_by_content(self, of_labels: LabelOrder | None = None) -> Sample:
        """Return the sample with its rows in :func:`content_order`; the outputs of this one are overwritten."""
        block, order = self.block, content_order(self.block, of_labels)
        move_rows(block, order, of_labels)
        # Nothing that was computed of the block before is kept.
        moved = block.like(block.stored, block.counted, block.target[order])
        return Sample(moved, self.rows[order], self.weight[order])

    def select(self, chosen: IntArray) -> Sample:
        """Return the sample reduced to some of its rows, by position in the sample."""
        block = self.block
        stored, counted = (_columns(values, chosen) for values in (block.stored, block.counted))
        part = block.like(stored, counted, block.target[chosen])
        return Sample(part, self.rows[chosen], self.weight[chosen])

    def empty(self, n_rows: int) -> Sample:
        """Return a sample of `n_rows` rows, its values not set yet, of the same kind as this one."""
        block = self.block
        stored = np.empty((block.stored.shape[0], n_rows, *block.stored.shape[2:]), dtype=block.stored.dtype)
        counted = np.empty((block.counted.shape[0], n_rows), dtype=np.bool_)
        blank = block.like(stored, counted, np.empty(n_rows, dtype=block.target.dtype))
        return Sample(blank, np.empty(n_rows, dtype=self.rows.dtype), np.empty(n_rows, dtype=self.weight.dtype))

    def copy_into(self, whole: Sample, start: int) -> None:
        """Copy the rows of this sample into those of `whole` from `start` on."""
        rows = slice(start, start + self.rows.size)
        np.copyto(whole.block.stored[:, rows], self.block.stored, casting="safe")
        np.copyto(whole.block.counted[:, rows], self.block.counted)
        np.copyto(whole.block.target[rows], self.block.target, casting="safe")
        whole.rows[rows], whole.weight[rows] = self.rows, self.weight

    def some_rows(self, n_rows: int) -> Sample:
        """Return the sample reduced to :meth:`random_rows`."""
        return self.select(self.random_rows(n_rows))

    def random_rows(self, n_rows: int) -> IntArray:
        """Return positions in the sample of `n_rows` of its rows at most, always the same ones, ascending."""
        return np.sort(_random_order(self.rows.size)[:n_rows])

    def keep(self, usable: NDArray[np.bool_]) -> Sample:
        """Return the sample without the rows that are not usable, its `rows` renumbered among the usable rows."""
        position = np.cumsum(usable) - 1
        stays = usable[self.rows]
        kept = self if stays.all() else self.select(np.flatnonzero(stays))
        return Sample(kept.block, position[kept.rows], kept.weight)


@lru_cache(maxsize=2)
def _random_order(n_rows: int) -> IntArray:
    """Return an order of so many rows, always the same one; read-only."""
    order = np.random.default_rng(0).permutation(n_rows)
    order.flags.writeable = False
    return order


def _columns(values: NDArray[Any], chosen: IntArray) -> NDArray[Any]:
    """Return the values of some rows, shape (n_members, n_chosen, ...)."""
    # A take is faster, and keeps each member's values together, but copies all values that are stored otherwise.
    return values.take(chosen, axis=1) if values.flags.c_contiguous else values[:, chosen]


@record
class PackedOutputs:
    """The outputs of each row's own members, in pieces of rows that have equally many.

    Attributes
    ----------
    pieces : tuple of ndarray, each of shape (n_members, n_rows_of_piece) or (n_members, n_rows_of_piece, n_labels)
        In member order, by ascending number of members.
    rows : ndarray of int, shape (n_rows,)
        Positions of the rows of all pieces, one piece after the other, in the block.
    n_labels : int
        0 for values.
    """

    pieces: tuple[NDArray[Any], ...]
    rows: IntArray
    n_labels: int

    @property
    def n_places(self) -> int:
        """Return the largest number of members of a row."""
        return max((piece.shape[0] for piece in self.pieces), default=0)

    def with_members(self, fewest: int) -> PackedOutputs:
        """Return the rows that have at least so many members."""
        pieces = tuple(piece for piece in self.pieces if piece.shape[0] >= fewest)
        n_rows = sum(piece.shape[1] for piece in pieces)
        return replace(self, pieces=pieces, rows=self.rows[self.rows.size - n_rows :])


def pack_outputs(block: RowBlock) -> PackedOutputs:
    """Return the outputs that count, of the rows that have some."""
    trials = count_members(block.counted).astype(np.int64)
    rows = np.argsort(trials, kind="stable")[np.count_nonzero(trials == 0) :]
    shape = block.outputs.shape[2:]
    # A row's outputs of one member are moved as one item, which is several times as fast.
    item = np.dtype((np.void, block.outputs.itemsize * int(np.prod(shape))))
    packed = np.empty(int(trials.sum()), dtype=item)
    place, width = np.zeros((2, trials.size), dtype=np.int64)
    pieces, start = [], 0
    for own in _pieces(trials, rows):
        n_members = int(trials[own[0]])
        place[own], width[own] = start + np.arange(own.size), own.size
        end = start + n_members * own.size
        pieces.append(packed[start:end].view(block.outputs.dtype).reshape(n_members, own.size, *shape))
        start = end
    for output, mask in zip(block.outputs, block.counted, strict=True):
        counted = np.flatnonzero(mask)
        at = place.take(counted)
        packed[at] = np.ascontiguousarray(output).view(item).reshape(-1).take(counted)
        place[counted] = at + width.take(counted)
    return PackedOutputs(tuple(pieces), rows, block.n_labels)


def _pieces(trials: IntArray, rows: IntArray) -> Iterator[IntArray]:
    """Yield rows, sorted by their number of members, in pieces of equal numbers and at most ROWS_OF_PIECE rows."""
    for own in np.split(rows, np.flatnonzero(np.diff(trials[rows])) + 1):
        for start in range(0, own.size, ROWS_OF_PIECE):
            yield own[start : start + ROWS_OF_PIECE]


def subset_means(packed: PackedOutputs, sizes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the mean output of one random subset of each row's members at each size, without replacement.

    Parameters
    ----------
    packed : PackedOutputs
    sizes : ndarray of int, shape (n_sizes,)
        Ascending; the subset of one size contains that of the size before.
    rng : numpy Generator

    Returns
    -------
    ndarray, shape (n_sizes, n_rows) or (n_sizes, n_rows, n_labels)
        In the order of the packed rows.  Votes are converted to indicators first.  Rows with fewer members than a size
        have NaN.
    """
    return _means_in_order(packed, sizes, rng.permutation(packed.n_places))


def subset_statistics(
    packed: PackedOutputs,
    sizes: IntArray,
    n_orders: int,
    rng: np.random.Generator,
    statistic: Callable[[FloatArray], float],
) -> FloatArray:
    """Return a statistic of :func:`subset_mean_orders`, shape (n_orders, n_sizes)."""
    orders = subset_mean_orders(packed, sizes, n_orders, rng)
    return np.array([[statistic(mean) for mean in means] for means in orders])


def subset_mean_orders(
    packed: PackedOutputs, sizes: IntArray, n_orders: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield the mean outputs of :func:`subset_means` for several random orders of the members.

    Orders are rotations of random ones, so that every member is used about as often at every size.

    Raises
    ------
    InputError
        If no row has members.
    """
    if not packed.pieces:
        raise InputError(
            "None of the sampled rows is out of bag for any member, so there are no subsets of members to average. "
            "Train more members or pass more rows."
        )
    for order in islice(_rotations(packed.n_places, n_orders, rng), n_orders):
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
    packed = pack_outputs(block)
    found = np.zeros(block.target.size)
    found[packed.rows] = np.concatenate([np.empty(0), *(combine(piece.astype(np.float64)) for piece in packed.pieces)])
    return found


def subset_combinations(
    packed: PackedOutputs, sizes: IntArray, n_orders: int, rng: np.random.Generator, combine: Combine
) -> Iterator[FloatArray]:
    """Yield what random subsets of each row's members predict together by a rule other than the mean.

    As :func:`subset_mean_orders`, which is faster, yields their means.
    """
    for order in islice(_rotations(packed.n_places, n_orders, rng), n_orders):
        found = np.full((sizes.size, packed.rows.size), np.nan)
        for rows, piece in _by_rows(packed):
            own = piece[order[order < piece.shape[0]]].astype(np.float64)
            for place, size in enumerate(sizes[sizes <= piece.shape[0]]):
                found[place, rows] = combine(own[:size])
        yield found


def _by_rows(packed: PackedOutputs) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield each piece with the places of its rows among all packed rows."""
    start = 0
    for piece in packed.pieces:
        yield slice(start, start + piece.shape[1]), piece
        start += piece.shape[1]


def _rotations(n_places: int, n_orders: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield random orders without end, each in up to `n_orders` rotations with evenly spaced starts."""
    n_starts = min(n_places, n_orders)
    while True:
        order = rng.permutation(n_places)
        yield from (np.roll(order, -(place * n_places // n_starts)) for place in range(n_starts))


def _means_in_order(packed: PackedOutputs, sizes: IntArray, order: IntArray) -> FloatArray:
    """Return the mean outputs of subsets made by adding each row's packed outputs in the given order."""
    shape = (packed.n_labels,) if packed.n_labels else ()
    means = np.full((sizes.size, packed.rows.size, *shape), np.nan)
    for rows, piece in _by_rows(packed):
        members = order[order < piece.shape[0]]
        values = piece if piece.ndim == 2 + len(shape) else piece[..., None] == np.arange(packed.n_labels)
        total, start = np.zeros(values.shape[1:]), 0
        for place, size in enumerate(sizes[sizes <= members.size]):
            # One member after the other: a product of matrices would round equal means of two rows differently.
            total += np.add.reduce(values[members[start:size]], axis=0, dtype=np.float64)
            means[place, rows] = total / size
            start = size
    return means
