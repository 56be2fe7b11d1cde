"""Samples: of the rows, with every member's output, and of the members, in random subsets of each row's own.

Averages over subsets drawn without replacement are unbiased at every size up to a row's number of members, for any rule
and any metric.  A sample of rows depends on a key of each row, not on how rows are cut into blocks or partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from ens_plugin.core.tally import (
    RowBlock,
    Subsets,
    contests,
    count_members,
    sum_over_members,
)
from ens_plugin.core.validation import (
    CELLS_AT_ONCE,
    AnyIntArray,
    FloatArray,
    IntArray,
    in_few_bytes,
    row_parts,
)
from ens_plugin.errors import InputError

# NumPy adds so few numbers one after the other, and more of them in parts.
FEW_LABELS = 7


def content_order(block: RowBlock) -> IntArray:
    """Return an order of a block's rows that depends on the members' outputs, not on the order of the rows."""
    # The order is as good as random; rows with the same outputs are interchangeable.
    rng = np.random.default_rng(0)
    by_member, by_label = rng.random((block.outputs.shape[0],)), rng.random((max(block.n_labels, 1),))
    place = np.zeros(block.target.size)
    for member, factor in enumerate(by_member):
        place += _counted_mix(block, member, factor, by_label)
    part = np.modf(place * 1e3)[0]
    order = np.argsort(part)
    if block.n_labels == 0 or np.any(part[order[1:]] == part[order[:-1]]):
        return np.lexsort((place, part, block.target))
    # Without equal parts, as nearly always, this is the same order of labelled rows, in a fourth of the time.
    return order[np.argsort(in_few_bytes(block.target[order], block.n_labels), kind="stable")]


def move_rows(block: RowBlock, order: IntArray) -> None:
    """Overwrite a block's outputs, and which of them count, with those of its rows in another order."""
    for by_member in (*block.outputs, *block.counted):
        by_member[:] = by_member.take(order, axis=0)


def _counted_mix(block: RowBlock, member: int, factor: float, by_label: FloatArray) -> FloatArray:
    """Return one more than a member's mixed outputs times its factor; 0 where they do not count."""
    value = _mixed_outputs(block, member, by_label)
    value += 1.0
    value *= factor
    value *= block.counted[member]
    return value


def _mixed_outputs(block: RowBlock, member: int, factors: FloatArray) -> FloatArray:
    """Return the sum over labels of a member's outputs times the labels' factors, or its votes; a new array."""
    own = block.outputs[member]
    return _weighted_sum(own, factors) if own.ndim == 2 else own.astype(np.float64)


def _weighted_sum(output: NDArray[np.float64], factors: FloatArray) -> FloatArray:
    """Return the sum over labels of one member's outputs times the labels' factors, shape (n_rows,)."""
    if factors.size > FEW_LABELS:
        return np.asarray(np.add.reduce(output * factors, axis=-1))
    # The same sum, label by label: five times as fast where the last axis is short.
    total = output[:, 0] * factors[:1]
    for label in range(1, factors.size):
        total += output[:, label] * factors[label : label + 1]
    return np.asarray(total)


# Rows of a piece of packed outputs: few, so that it stays in a processor's cache.
ROWS_OF_PIECE = 1024

# Returns what members predict together, shape (n_rows,), from their outputs, shape (n_members, n_rows).
Combine = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Sample:
    """The members' outputs for a random subset of the rows, whose positions in the whole data are `rows`."""

    block: RowBlock
    rows: IntArray
    weight: FloatArray

    def mean_outputs(self) -> FloatArray:
        """Return each row's mean output over the members that count, votes as indicators; 0 where none counts."""
        block = self.block
        total = block.support if block.n_labels else sum_over_members(block.outputs, block.counted)
        trials = np.maximum(block.counted.sum(axis=0), 1).astype(np.float64)
        return np.asarray(total / trials.reshape(-1, *(1,) * (total.ndim - 1)))

    def sort_by_content(self) -> Sample:
        """Return the sample with its rows in :func:`content_order`; the outputs of this one are overwritten."""
        block, order = self.block, content_order(self.block)
        move_rows(block, order)
        # Nothing that was computed of the block before is kept.
        moved = block.like(block.outputs, block.counted, block.target[order])
        return Sample(moved, self.rows[order], self.weight[order])

    def select(self, chosen: IntArray) -> Sample:
        """Return the sample reduced to some of its rows, by position in the sample."""
        block = self.block
        stored, counted = (_columns(values, chosen) for values in (block.outputs, block.counted))
        part = block.like(stored, counted, block.target[chosen])
        return Sample(part, self.rows[chosen], self.weight[chosen])

    def empty(self, n_rows: int) -> Sample:
        """Return a sample of `n_rows` rows, its values not set yet, of the same kind as this one."""
        block = self.block
        stored = np.empty((block.outputs.shape[0], n_rows, *block.outputs.shape[2:]), dtype=block.outputs.dtype)
        counted = np.empty((block.counted.shape[0], n_rows), dtype=np.bool_)
        blank = block.like(stored, counted, np.empty(n_rows, dtype=block.target.dtype))
        return Sample(blank, np.empty(n_rows, dtype=self.rows.dtype), np.empty(n_rows, dtype=self.weight.dtype))

    def copy_into(self, whole: Sample, start: int) -> None:
        """Copy the rows of this sample into those of `whole` from `start` on."""
        rows = slice(start, start + self.rows.size)
        np.copyto(whole.block.outputs[:, rows], self.block.outputs, casting="safe")
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


@dataclass(frozen=True, eq=False)
class PackedOutputs:
    """The outputs of each row's own members, in pieces of rows that have equally many; `n_labels` is 0 for values.

    A piece has shape (n_members, n_rows_of_piece) or (n_members, n_rows_of_piece, n_labels); `rows` are the positions
    of the rows of all pieces in the block.
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


def subset_orders(
    packed: PackedOutputs, sizes: IntArray, n_orders: int, rng: np.random.Generator, combine: Combine | None = None
) -> Iterator[FloatArray]:
    """Yield what random subsets of each row's members predict together, for several random orders of the members."""
    # It is their mean, votes as indicators, or what `combine` returns: shape (n_sizes, n_rows) or (n_sizes, n_rows,
    # n_labels), in the order of the packed rows. Sizes are ascending, and the subset of one contains that of the size
    # before. Rows with fewer members than a size have NaN. Orders are rotations of random ones, so that every member is
    # used about as often at every size.
    if not packed.pieces:
        raise InputError(
            "None of the sampled rows is out of bag for any member, so there are no subsets of members to average. "
            "Train more members or pass more rows."
        )
    for order in islice(_rotations(packed.n_places, n_orders, rng), n_orders):
        yield _in_order(packed, sizes, order, combine)


def combined_outputs(block: RowBlock, combine: Combine) -> FloatArray:
    """Return what each row's members predict together by a rule other than the mean; 0 for rows without members."""
    packed = pack_outputs(block)
    found = np.zeros(block.target.size)
    found[packed.rows] = np.concatenate([np.empty(0), *(combine(piece.astype(np.float64)) for piece in packed.pieces)])
    return found


def _rotations(n_places: int, n_orders: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield random orders without end, each in up to `n_orders` rotations with evenly spaced starts."""
    n_starts = min(n_places, n_orders)
    while True:
        order = rng.permutation(n_places)
        yield from (np.roll(order, -(place * n_places // n_starts)) for place in range(n_starts))


def _in_order(packed: PackedOutputs, sizes: IntArray, order: IntArray, combine: Combine | None) -> FloatArray:
    """Return what subsets predict that are made by adding each row's packed outputs in the given order."""
    shape = (packed.n_labels,) if packed.n_labels else ()
    found, end = np.full((sizes.size, packed.rows.size, *shape), np.nan), 0
    for piece in packed.pieces:
        rows, end = slice(end, end + piece.shape[1]), end + piece.shape[1]
        members = order[order < piece.shape[0]]
        values = piece if piece.ndim == 2 + len(shape) else piece[..., None] == np.arange(packed.n_labels)
        total, start = np.zeros(values.shape[1:]), 0
        for place, size in enumerate(sizes[sizes <= members.size]):
            if combine is not None:
                found[place, rows] = combine(values[members[:size]].astype(np.float64))
                continue
            # One member after the other: a product of matrices would round equal means of two rows differently.
            total += np.add.reduce(values[members[start:size]], axis=0, dtype=np.float64)
            found[place, rows] = total / size
            start = size
    return found


RowIndex = NDArray[np.intp]

ROW_SUBSETS = 150_000
FEWEST_SUBSETS, MOST_SUBSETS = 12, 512
MORE_BELOW = 12
MOST_MEMBERS = 400
MOST_BINS = 6
MOST_CONTESTS, FEWEST_TOGETHER = 30, 60
# Few, so that all members' outputs for them stay in a processor's cache.
ROWS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class SubsetRates:
    """Shares of random subsets of each row's members that are wrong, shape (n_sizes, n_rows).

    NaN where a row has fewer members.  `noise` bounds their variance over draws of the subsets from above.
    """

    sizes: IntArray
    wrong: FloatArray
    noise: FloatArray

    def take(self, rows: AnyIntArray) -> SubsetRates:
        """Return the shares of some of the rows."""
        return SubsetRates(self.sizes, self.wrong[:, rows], self.noise[:, rows])


def rates_of_subsets(block: RowBlock, sizes: IntArray, rng: np.random.Generator) -> SubsetRates:
    """Return how often labels of random subsets of each row's members are wrong; the first label wins ties."""
    # Rows with similar numbers of members form a bin, and use as many as the row with fewest, at most 400.
    n_rows = block.target.size
    wrong, noise = np.full((2, sizes.size, n_rows), np.nan)
    n_drawn = int(np.clip(ROW_SUBSETS // max(n_rows, 1), FEWEST_SUBSETS, MOST_SUBSETS))
    n_together = max(n_rows // MOST_CONTESTS, FEWEST_TOGETHER)
    for n_members, rows in _bins(np.count_nonzero(block.counted, axis=0)):
        reached = np.flatnonzero(sizes <= n_members)
        if reached.size == 0:
            continue
        drawn = [_subsets(n_members, int(size), n_drawn, rng) for size in sizes[reached]]
        for part in _parts(rows, n_members * block.n_labels):
            outputs, target = _first_outputs(block, part, n_members), block.target[part]
            for contest in contests(outputs, target, block.n_labels, n_together, rng):
                wrong[np.ix_(reached, part[contest.rows])] = contest.shares(drawn)
        for index, subsets in zip(reached, drawn, strict=True):
            share, n_subsets = wrong[index, rows], len(subsets.places)
            exact = n_subsets == comb(n_members, int(sizes[index]))
            noise[index, rows] = 0.0 if exact else share * (1.0 - share) / n_subsets
    return SubsetRates(sizes, wrong, noise)


def rates_of_votes(wrong: FloatArray, trials: FloatArray, sizes: IntArray) -> SubsetRates:
    """Return how often labels of subsets of odd sizes are wrong, from votes on two labels: exact, hypergeometric."""
    pairs, group = np.unique(np.stack([wrong, trials]), axis=1, return_inverse=True)
    k, n = pairs
    share = hypergeom.sf(sizes[:, None] // 2, n, k, np.minimum(sizes[:, None], n))
    share[sizes[:, None] > n] = np.nan
    by_row = np.asarray(share[:, group.reshape(-1)])
    return SubsetRates(sizes, by_row, np.zeros(by_row.shape))


def _bins(trials: NDArray[np.intp]) -> Iterator[tuple[int, RowIndex]]:
    """Yield, for each bin of rows with similar numbers of members, the fewest members of a row, and the rows."""
    used = np.minimum(trials, MOST_MEMBERS)
    known = np.sort(used[used > 0])
    if known.size == 0:
        return
    least = np.unique(known[np.arange(MOST_BINS) * known.size // MOST_BINS])
    bin_of_row = np.searchsorted(least, used, side="right") - 1
    for index, n_members in enumerate(least):
        yield int(n_members), np.flatnonzero(bin_of_row == index)


def _parts(rows: RowIndex, outputs_per_row: int) -> list[RowIndex]:
    height = max(CELLS_AT_ONCE // outputs_per_row, 1)
    return [rows[start : start + height] for start in range(0, rows.size, height)]


def _first_outputs(block: RowBlock, rows: RowIndex, n_members: int) -> NDArray[Any]:
    """Return the outputs of each row's first members that count."""
    # Label codes, shape (n_members, n_rows), or outputs by label, shape (n_members, n_labels, n_rows), float32.
    stored = block.outputs
    is_alone = stored.ndim == 2
    shape = (n_members, rows.size) if is_alone else (n_members, block.n_labels, rows.size)
    outputs = np.empty(shape, dtype=stored.dtype if block.is_vote else np.float32)
    flat, (by_member, by_row, *by_label) = _as_stored(stored)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        # Positions in one row of numbers, which are found in less time than those along two axes.
        begin = np.arange(some.size) * block.counted.shape[0]
        counted = np.flatnonzero(block.counted[:, some].T.ravel())
        first = np.searchsorted(counted, begin)
        member = counted.take(first + np.arange(n_members)[:, None]) - begin
        place = member * by_member + some * by_row
        own = outputs[..., start : start + some.size]
        if is_alone:
            own[:] = flat.take(place)
        for label in range(0 if is_alone else block.n_labels):
            own[:, label] = flat.take(place + label * by_label[0])
    return outputs


def _as_stored(values: NDArray[Any]) -> tuple[NDArray[Any], list[int]]:
    """Return values in one row, which a take is several times as fast from, and the step along each of their axes."""
    flat = values.ravel(order="K")
    if not np.may_share_memory(flat, values):
        values = np.ascontiguousarray(values)
        flat = values.reshape(-1)
    return flat, [step // values.itemsize for step in values.strides]


def _subsets(n_members: int, size: int, n_drawn: int, rng: np.random.Generator) -> Subsets:
    """Return subsets of members, all or disjoint ones of random permutations; more of small ones, which differ most."""
    n_drawn *= max(MORE_BELOW // size, 1)
    if comb(n_members, size) <= n_drawn:
        places = np.array(list(combinations(range(n_members), size)))
    else:
        in_each = n_members // size
        orders = rng.permuted(np.tile(np.arange(n_members), (-(-n_drawn // in_each), 1)), axis=1)
        places = orders[:, : in_each * size].reshape(-1, size)[:n_drawn]
    indicators = np.zeros((len(places), n_members), dtype=np.float32)
    np.put_along_axis(indicators, places, 1.0, axis=1)
    return Subsets(places, indicators)


KeyArray = NDArray[np.uint64]

_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27)
_LAST_SHIFT = np.uint64(31)


def sample_keys(rows: NDArray[np.integer], seed: int) -> KeyArray:
    """Return a pseudo-random key for each row number, by the finaliser of splitmix64: no two rows have equal keys."""
    start = _mixed(np.array([seed], dtype=np.uint64) + np.uint64(_STEP))
    keys = np.empty(rows.shape, dtype=np.uint64)
    for part in row_parts(rows.size):
        keys[part] = _mixed((rows[part].astype(np.uint64) ^ start) * np.uint64(_STEP) + np.uint64(_STEP))
    return keys


def smallest_keys(keys: KeyArray, limit: int) -> NDArray[np.intp]:
    """Return the positions, ascending, of the `limit` smallest keys; of all keys if there are no more."""
    if keys.size <= limit:
        return np.arange(keys.size)
    return np.sort(np.argpartition(keys, limit)[:limit])


def spread_rows(n_rows: int, most: int) -> NDArray[np.intp]:
    """Return the positions, ascending, of at most `most` rows, spread evenly over `n_rows`."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.intp))


def _mixed(key: KeyArray) -> KeyArray:
    for shift, factor in zip(_SHIFTS, _MULTIPLIERS, strict=True):
        key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
    return key ^ (key >> _LAST_SHIFT)
