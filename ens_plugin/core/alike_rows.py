"""Rows that are alike: equal, nearest or following ones and what members gain from them, and own predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammainc, ndtr, pdtrc

from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock, ValueTally, count_members, member_margins, strongest_rival
from ens_plugin.core.validation import STANDARD_ERRORS, AnyIntArray, BoolArray, FloatArray, IntArray

PlaceArray = NDArray[np.intp]

Hashes = NDArray[np.uint64]


def numbered(hashes: Hashes) -> NDArray[np.int32]:
    """Return a number for each row, equal for rows with equal hashes, in the order in which these first appear."""
    # Numbers are from 0 without gaps.
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if repeated.size == 0:
        return np.arange(hashes.size, dtype=np.int32)
    del ordered
    # In most tables few rows are repeated, and only these are sorted once more.
    rows = np.flatnonzero(np.isin(hashes, repeated))
    _, first, which = np.unique(hashes[rows], return_index=True, return_inverse=True)
    first_row = rows[first[which]]
    is_first = np.ones(hashes.size, dtype=bool)
    is_first[rows] = rows == first_row
    number = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    number[rows] = number[first_row]
    return number


# Pairs of halves of the columns: chance that half of them mislead is small.
N_SPLITS = 8
# The chance below which a record is too frequent, and how many there must be: blank forms are one or a few.
RARE_CHANCE, FEWEST_COPIED = 1e-3, 5


def column_halves(n_columns: int, seed: int = 0) -> NDArray[np.bool_]:
    """Return random halves of the columns, each followed by its complement, as booleans of shape (16, n_columns)."""
    rng = np.random.default_rng(seed)
    halves = np.zeros((2 * N_SPLITS, n_columns), dtype=bool)
    for split in range(N_SPLITS):
        halves[2 * split, rng.permutation(n_columns)[: n_columns // 2]] = True
    halves[1::2] = ~halves[::2]
    return halves


def copied_rows(records: AnyIntArray, halves: Hashes, target: Hashes, labels: AnyIntArray | None) -> BoolArray:
    """Return which rows are of a record that is more frequent than recombined rows explain, shape (n_rows,).

    Where the halves of the columns are joined anew at random within a label, about :math:`a b / n` rows have a record,
    a and b being the numbers of other rows of the label that have its halves, and n all of them.  A target that is no
    label belongs to the first half.  The median over the splits is compared with the number of rows of the
    record, by the Poisson distribution.  Copies agree in the target: five rows or more whose features others have with
    another target are a cell of discrete data.  All rows are False where fewer than five different features are left.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        A number for each row, equal for rows with equal features and targets.
    halves : ndarray of uint64, shape (n_halves, n_rows)
        Hashes of the :func:`column_halves` of the features; the sum of the first two is a hash of all.
    target : ndarray of uint64, shape (n_rows,)
        Hashes of the target.
    labels : ndarray of int, shape (n_rows,), or None
        Labels; None where the target is no label.
    """
    copies, features = np.bincount(records)[records], halves[0] + halves[1]
    repeated = np.flatnonzero(copies > 1)
    found = np.zeros(records.size, dtype=bool)
    if repeated.size == 0:
        return found
    own = np.zeros_like(target) if labels is None else target
    n_rows = _frequencies(own)[repeated]
    expected = [
        (_frequencies(first + target)[repeated] - 1.0) * (_frequencies(second + own)[repeated] - 1.0) / n_rows
        for first, second in zip(halves[::2], halves[1::2], strict=True)
    ]
    found[repeated] = pdtrc(copies[repeated] - 1, np.median(expected, axis=0)) < RARE_CHANCE
    found &= (copies < FEWEST_COPIED) | (copies == _frequencies(features))
    return found & (np.unique(features[found]).size >= FEWEST_COPIED)


def _frequencies(values: Hashes) -> FloatArray:
    """Return for each row how many rows have its value."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    return count[index].astype(np.float64)


# A row's mean over many members is no more certain than this, because rows differ too.
MOST_MEMBERS = 4.0


class MateLosses(NamedTuple):
    """Mean losses of members that left a row out, by whether they drew a mate of it, a row that may belong to it.

    Attributes
    ----------
    without : float
        Where they drew none, less what these members err more than the others on all rows.
    beside : float
        Where they drew one, of the same rows.
    standard_errors : float
        Difference of both in its standard errors: about normal where mates are as good as any row.
    n_rows : int
        Number of rows that members of both kinds predict.
    """

    beside: float
    without: float
    standard_errors: float
    n_rows: int

    @property
    def rise(self) -> float:
        """Return by which share the loss without a mate is larger; 0 without any loss."""
        return self.without / self.beside - 1.0 if self.beside > 0 else 0.0


def mate_losses(losses: FloatArray, counted: BoolArray, drew_mate: BoolArray, unit: AnyIntArray) -> MateLosses | None:
    """Compare the losses of members that drew no mate of a row with those of members that drew one."""
    # All arrays have shape (n_members, n_rows) but `unit`, the number of what each row belongs to: rows of one unit
    # share mates or members, and the standard error is over units. Means are over differences by row, weighted by the
    # number of members without a mate, up to 4. None where no row has members of both kinds.
    without, beside = counted & ~drew_mate, counted & drew_mate
    n_without, n_beside = without.sum(axis=0), beside.sum(axis=0)
    weight = np.where(n_beside > 0, np.minimum(n_without, MOST_MEMBERS), 0.0)
    if not weight.any():
        return None
    share = weight / weight.sum()
    # Members of small bags err more, and draw fewer mates.
    member = (losses * counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    of_beside = (losses * beside).sum(axis=0)
    excess = (losses * without).sum(axis=0) - member @ without
    rise = excess / np.maximum(n_without, 1) - (of_beside - member @ beside) / np.maximum(n_beside, 1)
    mean, level = float(share @ rise), float(share @ (of_beside / np.maximum(n_beside, 1)))
    error = float(np.sqrt(np.square(np.bincount(unit, share * (rise - mean))).sum()))
    return MateLosses(level, level + mean, mean / error if error > 0 else 0.0, int(np.count_nonzero(weight)))


# Single rows of a label from which its loss is known.
FEWEST_SINGLE_ROWS = 10


def hidden_share(
    losses: FloatArray,
    counted: BoolArray,
    drew_copy: BoolArray,
    copied: BoolArray,
    labels: AnyIntArray | None,
    weight: FloatArray,
) -> float:
    """Return by which share the mean loss would rise if no member that judges a copied row had drawn a copy of it."""
    # The loss of a copied row is that of the members without a copy. Where all drew one, it is the mean loss of the
    # single rows of its label, or the largest possible one where the label has fewer than ten.
    n_counted, without = counted.sum(axis=0), counted & ~drew_copy
    n_without = without.sum(axis=0)
    mean = (losses * counted).sum(axis=0) / np.maximum(n_counted, 1)
    fair = np.where(copied & (n_without > 0), (losses * without).sum(axis=0) / np.maximum(n_without, 1), mean)
    kinds = np.zeros(copied.size, dtype=np.intp) if labels is None else labels
    for kind in np.unique(kinds[copied & (n_without == 0)]):
        single, unjudged = (kinds == kind) & ~copied, (kinds == kind) & copied & (n_without == 0)
        largest = float(mean.max()) if labels is None else 1.0
        fair[unjudged] = mean[single].mean() if np.count_nonzero(single) >= FEWEST_SINGLE_ROWS else largest
    share = weight * (n_counted > 0)
    level = float(share @ mean)
    hidden = float(share @ (fair - mean))
    return hidden / level if level > 0 else np.inf if hidden > 0 else 0.0


def drawn_beside(bags: Bags, rows: AnyIntArray) -> BoolArray:
    """Return which members drew the row before or after each of some rows, shape (n_members, len(rows))."""
    last = bags.n_rows - 1
    before, after = bags.at(np.maximum(rows - 1, 0)), bags.at(np.minimum(rows + 1, last))
    return (before & (rows > 0)) | (after & (rows < last))


N_NEAREST = 12
# Of a mean squared difference of ranks, against the share of members that predict two rows alike.
COLUMN_WEIGHT = 3.6
# Added to the number of members that left both rows out, of which there are few.
FEWER_MEMBERS = np.float32(1.0)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_ranks(values: FloatArray) -> NDArray[np.float32]:
    """Return the columns as ranks from 0 to 1, equal for equal values, a half for missing ones."""
    ranks = np.full(values.shape, 0.5, dtype=np.float32)
    for column, own in enumerate(values.T):
        known = np.flatnonzero(np.isfinite(own))
        ordered = np.sort(own[known])
        places = np.searchsorted(ordered, own[known], "left") + np.searchsorted(ordered, own[known], "right")
        ranks[known, column] = places / max(2 * known.size, 1)
    return ranks


def nearness_in_ensemble(
    outputs: NDArray[np.generic], counted: BoolArray, ranks: NDArray[np.float32], queries: PlaceArray
) -> NDArray[np.float32]:
    """Return how near all rows are to some rows in the sense of the members, shape (n_queries, n_rows)."""
    # It is the share of members, of those that left both rows out, that predict both alike, less 3.6 times the mean
    # squared difference of their ranks, which is 1/6 by chance. At most 255 members are counted.
    near = _alike(outputs, counted, queries)
    near -= np.float32(COLUMN_WEIGHT / ranks.shape[1]) * _squared_distances(ranks, queries)
    near[np.arange(queries.size), queries] = -np.inf
    return near


def nearest_rows(near: NDArray[np.float32], most: int = N_NEAREST) -> PlaceArray:
    """Return the nearest rows of each query, nearest first, shape (n_queries, n_nearest)."""
    n_nearest = min(most, near.shape[1] - 1)
    found = np.argpartition(-near, n_nearest - 1, axis=1)[:, :n_nearest]
    order = np.argsort(-np.take_along_axis(near, found, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found, order, axis=1))


def _alike(outputs: NDArray[np.generic], counted: BoolArray, queries: PlaceArray) -> NDArray[np.float32]:
    """Return the share of members, of those that left both rows out, that predict them alike, less for few members."""
    n_alike = np.zeros((queries.size, outputs.shape[1]), dtype=np.uint8)
    for own, left_out in zip(_short_codes(outputs), counted, strict=True):
        rows = np.flatnonzero(left_out[queries])
        n_alike[rows] += (own[queries[rows], None] == own) & left_out
    left_out = counted.astype(np.float32)
    return np.asarray(n_alike / (left_out[:, queries].T @ left_out + FEWER_MEMBERS), dtype=np.float32)


def _short_codes(outputs: NDArray[np.generic]) -> NDArray[np.unsignedinteger[Any]]:
    """Return outputs as numbers of two bytes, which are compared fast; unlike outputs are hardly ever equal."""
    if outputs.dtype.itemsize == 1:
        return outputs.view(np.uint8)
    bits = outputs.astype(np.float64).view(np.uint64) * GOLDEN
    return (bits >> np.uint64(48)).astype(np.uint16)


def nearest_in_columns(
    ranks: NDArray[np.float32], queries: PlaceArray, most: int = N_NEAREST
) -> tuple[PlaceArray, FloatArray]:
    """Return the other rows whose ranks are nearest to those of some rows, and their distances, in ascending order."""
    near = -_squared_distances(ranks, queries)
    near[np.arange(queries.size), queries] = -np.inf
    found = nearest_rows(near, most)
    # The squares are differences of large numbers of few digits.
    distances = np.sqrt(np.square(ranks[found] - ranks[queries, None], dtype=np.float64).sum(axis=2))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(distances, order, axis=1)


def _squared_distances(ranks: NDArray[np.float32], queries: PlaceArray) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", ranks, ranks)
    found = ranks[queries] @ ranks.T
    found *= -2.0
    found += squares
    found += squares[queries, None]
    return found


# 1 - cos of an angle of 4e-6, which rounding to 32 bits mostly leaves; and of one that is small on a curve.
STRAIGHT = 1e-11
NEARLY_STRAIGHT = 1e-4
FEWEST_MOVED = 3
LEAST_APART = 0.01
MOST_STRAIGHT = 0.1
# Logarithms of ratios that are equal but for rounding, and on how many lines a ratio is no chance.
EQUAL_RATIOS = 1e-3
FEWEST_COMMON = 3
COMMON_SHARE = 0.25


def interpolated(rows: FloatArray, neighbours: FloatArray) -> NDArray[np.bool_]:
    """Return which rows lie on a straight line with two of their neighbours, as interpolated rows do."""
    # The neighbours of each row have shape (n_queries, n_nearest, n_columns). Where more than a tenth of their pairs
    # are nearly on lines, all rows lie on a curve. Where fewer than three columns vary freely, the others follow from
    # them, as the same length in another unit does, or the same date in the rows of one kind. Such rows are False.
    found = np.zeros(len(rows), dtype=bool)
    directions = np.zeros(rows.shape)
    n_pairs = neighbours.shape[1] * (neighbours.shape[1] - 1) / 2
    for place, (row, others) in enumerate(zip(rows, neighbours, strict=True)):
        moved = others - row
        moved = moved[np.count_nonzero(moved, axis=1) >= FEWEST_MOVED]
        length = np.sqrt(np.square(moved).sum(axis=1))
        moved = moved / length[:, None]
        cosine = np.triu(moved @ moved.T, 1)
        # Copies of one neighbour lie in one direction, too.
        is_apart = np.abs(np.log(length[:, None] / length)) > LEAST_APART
        on_line = (cosine < STRAIGHT - 1.0) | ((cosine > 1.0 - STRAIGHT) & is_apart)
        n_nearly = np.count_nonzero(np.abs(cosine) > 1.0 - NEARLY_STRAIGHT)
        found[place] = on_line.any() and n_nearly <= MOST_STRAIGHT * n_pairs
        if found[place]:
            directions[place] = moved[on_line.argmax() // len(moved)]
    found[found] = _free_columns(directions[found]) >= FEWEST_MOVED
    return found


def _free_columns(directions: FloatArray) -> PlaceArray:
    """Return how many columns vary along each line in no ratio to an earlier one that many lines share."""
    is_free = directions != 0
    least = max(FEWEST_COMMON, COMMON_SHARE * len(directions))
    if len(directions) < least:
        return np.asarray(np.count_nonzero(is_free, axis=1), dtype=np.intp)
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.abs(directions))
    for column in range(1, directions.shape[1]):
        for earlier in range(column):
            both = np.flatnonzero((directions[:, column] != 0) & (directions[:, earlier] != 0))
            ratio = logarithms[both, column] - logarithms[both, earlier]
            ordered = np.sort(ratio)
            alike = np.searchsorted(ordered, ratio + EQUAL_RATIOS) - np.searchsorted(ordered, ratio - EQUAL_RATIOS)
            is_free[both[alike >= least], column] = False
    return np.asarray(np.count_nonzero(is_free, axis=1), dtype=np.intp)


# More mates than these leave no gap; the width in ranks by which these are scattered; and the least ratio of steps.
MOST_MATES, SCATTER, LEAST_GAP = 12, 2.0, 1.4


def scattered(ranks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ranks moved at random by up to two: they lie on a lattice, and random rows do not."""
    width = SCATTER / len(ranks)
    moves = np.random.default_rng(0).random(ranks.shape, dtype=np.float32) - np.float32(0.5)
    return ranks + np.float32(2.0 * width) * moves


def mates_before_gap(distances: FloatArray) -> int:
    r"""Return how many rows lie nearer to most rows than all others, by a gap in the distances; 0 without a gap.

    Where rows are as dense around a row as a little further away, the steps :math:`k \log(d_{k+1} / d_k)` are
    independent exponential variables of one mean, whatever the dimension (Fisher 1929).  Where each row has k mates,
    the k-th step leads from them to all others.  For up to twelve mates, the mean of a step over rows has to be 1.4
    times that of the next one, and larger by five standard errors.
    """
    n_rows, n_nearest = distances.shape
    if n_rows == 0 or n_nearest < MOST_MATES + 2:
        return 0
    steps = (np.arange(1, n_nearest) * np.diff(np.log(distances), axis=1)).mean(axis=0)
    ratios = steps[:MOST_MATES] / np.maximum(steps[1 : MOST_MATES + 1], np.finfo(np.float64).tiny)
    is_gap = ratios.max() >= max(LEAST_GAP, 1.0 + STANDARD_ERRORS * np.sqrt(2.0 / n_rows))
    return int(ratios.argmax()) + 1 if is_gap else 0


def nearness(ranks: NDArray[np.float32], queries: PlaceArray, nearest: PlaceArray) -> tuple[float, float]:
    r"""Return how near the nearest rows are in all columns: as a mean share of the rows, and as a volume.

    The first is the mean over columns and rows of the share u of all rows that are nearer in the column, 0.5 by chance.
    The second is the mean of :math:`\log_n \prod_c 2 u_c`.  In whatever number of independent columns, the nearest of
    n independent rows takes a volume of about 1/n, so that this is about -1; it is less where columns follow from each
    other.
    """
    n_rows = len(ranks)
    own = ranks[queries]
    distance = np.abs(own - ranks[nearest])
    low, high = own - distance, own + distance
    nearer = np.empty(own.shape)
    for column, ordered in enumerate(np.sort(ranks, axis=0).T):
        ends = low[:, column], high[:, column]
        closed = np.searchsorted(ordered, ends[1], "right") - np.searchsorted(ordered, ends[0])
        inner = np.searchsorted(ordered, ends[1]) - np.searchsorted(ordered, ends[0], "right")
        nearer[:, column] = (np.maximum(inner, 0) + closed - 1) / 2.0
    share = np.clip(nearer / (n_rows - 1), 0.5 / n_rows, 1.0)
    return float(share.mean()), float(np.log(2.0 * share).sum(axis=1).mean() / np.log(n_rows))


# Ranks of the neighbours that the nearest one is compared with, and equal values from which they can be.
FIRST_FARTHER, FEWEST_EQUAL = 4, 10.0
FEWEST_VALUES = 3
# Times are rounded, and days are skipped.
SAME_STEP, MOSTLY = 0.2, 0.6
EVEN_ROWS_EACH, EVEN_LEVEL = 3, 1e-4


def turns_taken(column: FloatArray, queries: PlaceArray, nearest: PlaceArray) -> float:
    """Return by how many standard errors the nearest rows have the same value less often than independent rows would.

    Of independent rows, the nearest one has the same value at least as often as the fifth to twelfth nearest, and at
    least as often as the next value above, or below.  Two measurements of one subject are of different years, though,
    and no two of a series are of one day.
    """
    values = np.unique(column[np.isfinite(column)])
    if values.size < FEWEST_VALUES:
        return 0.0
    own, near = column[queries], column[nearest]
    same = near == own[:, None]
    n_same, farther = float(np.count_nonzero(same[:, 0])), same[:, FIRST_FARTHER:]
    found_turns = 0.0
    expected = float(farther.sum()) / max(farther.shape[1], 1)
    if expected >= FEWEST_EQUAL:
        variance = expected * (1.0 - expected / own.size) * (1.0 + 1.0 / farther.shape[1])
        found_turns = (expected - n_same) / np.sqrt(variance + 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.diff(values)
        step = float(np.median(steps))
        if np.mean(np.abs(steps - step) <= SAME_STEP * step) >= MOSTLY:
            beside = np.count_nonzero(np.abs(np.abs(near[:, 0] - own) - step) <= SAME_STEP * step) / 2.0
            found_turns = max(found_turns, (beside - n_same) / np.sqrt(beside / 2.0 + n_same + 1.0))
    return float(found_turns)


def are_equally_frequent(column: FloatArray) -> bool:
    """Return whether the values of a column are too equally frequent for rows that were drawn one by one."""
    # By Pearson's statistic, with a correction of half a row, at a level of 0.0001; for three values or more, of three
    # rows or more on average. In a balanced panel each year has as many rows.
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if values.size < FEWEST_VALUES or counts.mean() < EVEN_ROWS_EACH:
        return False
    statistic = float(np.square(np.maximum(np.abs(counts - counts.mean()), 0.5)).sum() / counts.mean())
    return bool(gammainc((values.size - 1) / 2.0, statistic / 2.0) < EVEN_LEVEL)


LOOKED_AT, CLOSE_ROWS = 2_000, 256
# Rows whose leading label is right at infinity with less than this certainty have close votes.
CLOSE = 0.02
# Two votes on rows with close votes are the same by chance half of the time.
FEWEST_SHARED, FEWEST_ALIKE = 8, 4


class Records(NamedTuple):
    """Kinds of alike rows, each merged into one record.

    Attributes
    ----------
    sample : Sample
        One entry for each kind, with the outputs of all members that count for any of its rows, the label that these
        predict, and the summed weight.
    n_rows : int
        That were merged.
    """

    sample: Sample
    n_rows: int


def merge_alike(sample: Sample, cell: AnyIntArray | None) -> Records | None:
    """Return the kinds of alike rows, where most rows that decide are among four alike ones or more; else None."""
    # Rows with equal numbers in `cell`, known to be equal, are alike where these are few. Else those of at most 2000
    # rows are alike that no member tells apart, if most with close votes are among four.
    if cell is not None and are_few(cell):
        return _merged(sample, cell)
    if not are_alike(sample):
        return None
    part = sample.some_rows(LOOKED_AT)
    return _merged(part, output_cells(part.block))


def are_few(cell: AnyIntArray) -> bool:
    """Return whether rows have few different numbers: on average, four rows or more have one in common."""
    return bool(cell.size >= FEWEST_ALIKE * np.unique(cell).size)


def _merged(sample: Sample, cell: AnyIntArray) -> Records:
    block, (known, place) = sample.block, np.unique(cell, return_inverse=True)
    stored = np.zeros((block.outputs.shape[0], known.size, *block.outputs.shape[2:]), dtype=block.outputs.dtype)
    counted = np.zeros((block.counted.shape[0], known.size), dtype=np.bool_)
    for member, counts in enumerate(block.counted):
        # All rows of a kind have the same output.
        stored[member, place[counts]] = block.outputs[member, counts]
        counted[member, place[counts]] = True
    records = block.like(stored, counted, np.zeros(known.size, dtype=np.int64))
    records = block.like(stored, counted, np.argmax(records.support, axis=1))
    weight = np.bincount(place, sample.weight, known.size).astype(np.float64)
    # Kinds are numbered as their rows came.
    return Records(Sample(records, np.arange(known.size), weight).sort_by_content(), cell.size)


def are_alike(sample: Sample) -> bool:
    """Return whether most rows with close votes are among four rows or more that no member tells apart."""
    rows = sample.random_rows(LOOKED_AT)
    doubt = _chance_of_rival(sample, rows) * (sample.weight[rows] > 0)
    close = np.flatnonzero(doubt >= CLOSE)
    close = np.sort(close[np.random.default_rng(0).permutation(close.size)[:CLOSE_ROWS]])
    if close.size < FEWEST_ALIKE:
        return False
    cell, doubt = output_cells(sample.select(rows[close]).block), doubt[close]
    return bool(2.0 * doubt[np.bincount(cell)[cell] >= FEWEST_ALIKE].sum() > doubt.sum())


def output_cells(block: RowBlock) -> IntArray:
    """Return a number for each row, from 0 without gaps, equal for rows to which all members give the same output."""
    # Only members that count for two rows are compared, eight or more. A row joins the cell that shares most members
    # with it.
    n_members, n_rows = block.counted.shape
    outputs = block.outputs.reshape(n_members, n_rows, -1)
    cell, n_cells = np.empty(n_rows, dtype=np.int64), 0
    held, known = np.zeros((n_rows, n_members, outputs.shape[2]), outputs.dtype), np.zeros((n_rows, n_members), bool)
    for row in range(n_rows):
        own, counts = outputs[:, row], block.counted[:, row]
        n_shared = np.count_nonzero(known[:n_cells] & counts, axis=1)
        place = np.flatnonzero(n_shared >= FEWEST_SHARED)
        members = np.flatnonzero(counts)
        # Few cells are left after a few members.
        for part in np.split(members, [FEWEST_SHARED, 4 * FEWEST_SHARED]):
            each = place[:, None], part
            place = place[~((held[each] != own[part]).any(axis=2) & known[each]).any(axis=1)]
        joined = place[np.argmax(n_shared[place])] if place.size else n_cells
        n_cells = max(n_cells, joined + 1)
        cell[row] = joined
        held[joined, counts] = own[counts]
        known[joined] |= counts
    return cell


def leads(sample: Sample, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the leading label of some rows, its mean margin over the second one, and the standard error of that."""
    block = sample.select(rows).block
    support = block.support
    leading = np.argmax(support, axis=1)
    own = block.like(block.outputs, block.counted, leading)
    margins = member_margins(own, strongest_rival(support, leading)) * block.counted
    trials = np.maximum(block.trials, 2.0)
    mean = margins.sum(axis=0) / trials
    squares = _sum_of_squares(margins) / trials - mean**2
    return leading, mean, np.sqrt(np.maximum(squares, 0.0) / (trials - 1.0))


def _chance_of_rival(sample: Sample, rows: IntArray) -> FloatArray:
    """Return the chance that the runner-up leads at infinity, by normal margins of the members, of some rows."""
    _, lead, error = leads(sample, rows)
    return _chance_below_zero(lead, error)


def _chance_below_zero(mean: FloatArray, error: FloatArray) -> FloatArray:
    """Return the chance that a normal variable is below 0; 0 without any error."""
    return np.asarray(ndtr(-mean / np.where(error > 0, error, 1.0)) * (error > 0))


def _sum_of_squares(margins: NDArray[Any]) -> FloatArray:
    if margins.dtype == np.int8:
        # Of votes: -1, 0 and 1.
        return count_members(margins != 0)
    return np.asarray(np.square(margins, dtype=np.float64).sum(axis=0))


JUDGED_ROWS = 5_000
NUMBERS_OF_COMPARED_ROWS = (30, 60, 120, 240)
LARGEST_CHANCE = 1e-5
# The logarithm of a density of leads falls at most so many times as fast below a tie as above it.
STEEPER = 2.0
# Losses that are left, of those expected, because the density may fall in other ways; and the least number of next
# rows, relative to the closest ones, where the density does not fall from a tie.
LEAST_LOST, LEAST_LEVEL = 0.6, 0.5
# The closest rows are at most this part of all, so that the leads of most are larger.
CLOSEST_PART = 8
# Squared error beyond that of the finite size, relative to the variance of a member, that measured values leave at
# least; and the squared error, in units of that of the finite size, that other ensembles' predictions do not exceed.
LEAST_BEYOND, LARGEST_OF_OTHERS = 0.02, 3.0


def are_own_labels(sample: Sample) -> bool:
    """Return whether the targets of rows that no member was trained on are the labels that this ensemble predicts."""
    rows = sample.random_rows(JUDGED_ROWS)
    rows = rows[sample.weight[rows] > 0]
    leading, lead, _ = leads(sample, rows)
    return end_at_a_tie(lead, leading == sample.block.target[rows])


def end_at_a_tie(lead: FloatArray, is_right: NDArray[np.bool_]) -> bool:
    """Return whether rows with close votes are right so often that labels must follow from the votes.

    The density of the true label's lead, negative where it loses, passes smoothly through 0, and that of predicted
    labels ends there (``docs/methods/held-out-rows.md``, predicted targets). A rising density is followed from the next
    rows, whose leads are up to twice as large, as an exponential and twice as steep; where it falls, nothing is
    concluded. The rows are too often right where so few losses have a chance below :math:`10^{-5}`, with six losses for
    ten expected ones.
    """
    order = np.argsort(lead, kind="stable")
    lead, right = lead[order], is_right[order]
    for n_rows in NUMBERS_OF_COMPARED_ROWS:
        if CLOSEST_PART * n_rows > lead.size:
            return False
        closest, next_ones = lead <= lead[n_rows - 1], (lead > lead[n_rows - 1]) & (lead <= 2.0 * lead[n_rows - 1])
        n_near, near, far = int(closest.sum()), int(right[closest].sum()), int(right[next_ones].sum())
        if far < LEAST_LEVEL * near:
            continue
        odds = min(near / max(far, 1), 1.0) ** STEEPER
        if bdtr(n_near - near, n_near, LEAST_LOST * odds / (1.0 + odds)) < LARGEST_CHANCE:
            return True
    return False


def are_own_values(tally: ValueTally, weight: FloatArray) -> bool:
    """Return whether the targets of rows are the values that this ensemble, or another of its kind, predicts.

    The mean of B members differs from that of another such ensemble by about :math:`S^2 / B` in square; measured values
    by the error of the infinite ensemble besides, hardly ever below 2 % of S², the variance over members.  No member
    was trained on the rows.
    """
    used = (tally.trials >= 2) & (weight > 0)
    of_size = float(weight[used] @ (tally.variance[used] / tally.trials[used]))
    found = float(weight[used] @ (tally.mean[used] - tally.target[used]) ** 2)
    if np.count_nonzero(used) < min(NUMBERS_OF_COMPARED_ROWS) or of_size <= 0.0:
        return False
    return found < of_size * min(1.0 + LEAST_BEYOND * float(tally.trials[used].mean()), LARGEST_OF_OTHERS)
