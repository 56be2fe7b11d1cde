"""Rows that repeat: copies, and rows that are equal by chance or because the outputs of all members are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from ens_plugin.core.sample import Sample, ScoreBlock
from ens_plugin.core.tally import RowBlock, count_members, member_margins, strongest_rival
from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray

__all__ = [
    "appended_rows",
    "are_alike",
    "chance_share",
    "column_halves",
    "copied_rows",
    "evenly_repeated",
    "leads",
    "near_missed",
    "numbered",
    "output_cells",
    "oversampled_labels",
    "paired_halves",
    "point_masses",
    "tied_pairs",
    "ties_explain",
    "too_even",
    "unlike_columns",
]

Hashes = NDArray[np.uint64]

N_SPLITS = 8
EVENNESS_LEVEL = 1e-6
LEAST_APPENDED = 20
RUN_RATIO = 10
MOST_CELLS_OF_A_LABEL = 50
ROWS_PER_CELL = 10
# A record that occurs so many times as often as half of the others is a point at which rows lie, if such are few.
TIMES_TYPICAL, MOST_MASSES = 10, 10


def numbered(hashes: Hashes) -> NDArray[np.int32]:
    """Return a number for each row, equal for rows with equal hashes, in the order in which these first appear.

    Numbers are from 0 without gaps.
    """
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


def column_halves(n_columns: int, seed: int = 0) -> NDArray[np.bool_]:
    """Return random halves of the columns, each followed by its complement, as booleans of shape (16, n_columns)."""
    rng = np.random.default_rng(seed)
    halves = np.zeros((2 * N_SPLITS, n_columns), dtype=bool)
    for split in range(N_SPLITS):
        halves[2 * split, rng.permutation(n_columns)[: n_columns // 2]] = True
    halves[1::2] = ~halves[::2]
    return halves


def copied_rows(records: AnyIntArray, halves: Hashes, labels: AnyIntArray | None = None) -> NDArray[np.bool_]:
    """Return which rows are repeated more often than chance explains, shape (n_rows,).

    A repeated record counts as drawn if most splits of the columns show near misses in both halves, and otherwise as
    copied, as all are where they are :func:`too_even`, among all records or those of a label.  Up to 50 records that
    occur ten times or more on average are the cells of discrete data, however even (``docs/methods/copies.md``).
    Records are of the features and the target; `halves`, shape (n_halves, n_rows), are over the :func:`column_halves`
    of the features.
    """
    counts = np.bincount(records)
    repeated = counts[records] > 1
    if is_of_few_cells(counts) or not repeated.any():
        return np.zeros(records.size, dtype=bool)
    return np.asarray(evenly_repeated(records, labels) | (repeated & ~near_missed(records, halves)))


def is_of_few_cells(counts: AnyIntArray) -> bool:
    """Return whether the records are the cells of discrete data, by how often each occurs."""
    n_records = np.count_nonzero(counts)
    return bool(n_records <= MOST_CELLS_OF_A_LABEL and counts.sum() >= ROWS_PER_CELL * n_records)


def point_masses(records: AnyIntArray, labels: AnyIntArray | None = None) -> NDArray[np.bool_]:
    """Return which rows are of a few records that occur far more often than the others, as a blank form does.

    Unlike copies they hide no error (``docs/methods/copies.md``).  Up to ten records may occur ten times as often
    as the median record of their label; all rows are False where more do.
    """
    counts = np.bincount(records)
    label = np.zeros(counts.size, dtype=np.intp)
    if labels is not None:
        label[records] = labels
    order = np.lexsort((counts, label))
    sizes = np.bincount(label)
    first = np.cumsum(sizes) - sizes
    middle = counts[order][np.minimum(first + sizes // 2, counts.size - 1)]
    # The only record of a label is compared with those of all labels.
    middle = np.where(sizes == 1, np.sort(counts)[counts.size // 2], middle)
    are_masses = counts >= TIMES_TYPICAL * middle[label]
    return np.asarray((are_masses & (np.count_nonzero(are_masses) <= MOST_MASSES))[records])


def near_missed(records: AnyIntArray, halves: Hashes) -> NDArray[np.bool_]:
    """Return which rows share both halves of the columns with other records, in most splits of the columns."""
    copies = np.bincount(records)[records]
    found = np.zeros(records.size)
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        found += _near_misses(first, copies) & _near_misses(second, copies)
    return np.asarray(2 * found >= halves.shape[0] // 2)


def _near_misses(half: Hashes, copies: AnyIntArray) -> NDArray[np.bool_]:
    """Return which rows have the same half of the columns as a row of another record, shape (n_rows,)."""
    _, index, alike = np.unique(half, return_inverse=True, return_counts=True)
    return np.asarray(alike[index] > copies)


def too_even(counts: AnyIntArray, level: float = EVENNESS_LEVEL) -> bool:
    r"""Return whether the numbers of copies of the records vary less than random drawing of rows can explain.

    Drawing allows means :math:`k \mu_k^2 \le (k + 1) \mu_{k-1} \mu_{k+1}` of the numbers :math:`f_k` of records that
    occur k times (``docs/methods/copies.md``).  The most likely ones are
    :math:`f_{k-1} + t, f_k - 2t, f_{k+1} + t`, because the condition is linear in the logarithms of the means of
    Poisson variables.  The counts are too even where a ratio of the likelihoods is below the level, divided by the
    number of ratios.
    """
    found = np.append(np.bincount(counts, minlength=4), 0).astype(np.float64)
    k = np.arange(2.0, found.size - 1.0)
    below, here, above = found[1:-2], found[2:-1], found[3:]
    excess = k * here**2 - (k + 1.0) * below * above
    is_even = excess > 0.0
    k, below, here, above, excess = (array[is_even] for array in (k, below, here, above, excess))
    slope = 2.0 * k * here + 0.5 * (k + 1.0) * (below + above)
    # The smaller root of (3 k - 1) t^2 - 2 slope t + excess, without a difference of nearly equal numbers.
    moved = excess / (slope + np.sqrt(np.maximum(slope**2 - (3.0 * k - 1.0) * excess, 0.0)))
    loss = xlogy(below, below / (below + moved)) + xlogy(here, here / (here - 2.0 * moved))
    loss += xlogy(above, above / (above + moved))
    return bool(np.any(loss > np.log(max(k.size, 1) / level)))


def evenly_repeated(
    records: AnyIntArray, labels: AnyIntArray | None, level: float = EVENNESS_LEVEL
) -> NDArray[np.bool_]:
    """Return which rows are repeated too evenly (:func:`too_even`): all repeated rows, or those of some labels."""
    counts = np.bincount(records)
    repeated = np.asarray(counts[records] > 1)
    if labels is None or too_even(counts, level):
        return repeated & too_even(counts, level)
    label = np.zeros(counts.size, dtype=np.intp)
    label[records] = labels
    order = np.argsort(label, kind="stable")
    sizes = np.bincount(label)
    by_label = np.split(counts[order], np.cumsum(sizes)[:-1])
    is_even = np.array([own.size > 0 and own.max() > 1 and too_even(own, level) for own in by_label])
    return np.asarray(repeated & is_even[labels])


def appended_rows(target: AnyIntArray) -> int:
    """Return the number of rows of one label at the end that make all labels equally frequent; 0 if there are none.

    Oversamplers append such rows.  The last run of one label must be ten times as long as the other runs on average:
    neither shuffled nor sorted rows have that and exactly equal counts of the labels.
    """
    counts = np.bincount(target)
    counts = counts[counts > 0]
    if counts.size < 2 or np.any(counts != counts[0]):
        return 0
    starts = np.flatnonzero(np.append(True, target[1:] != target[:-1]))
    last = target.size - int(starts[-1])
    others = int(starts[-1]) / max(starts.size - 1, 1)
    return last if last >= LEAST_APPENDED and last >= RUN_RATIO * others else 0


PlaceArray = NDArray[np.intp]

FEWEST_UNLIKE = 10
STANDARD_ERRORS = 2.0


def unlike_columns(values: Hashes) -> PlaceArray:
    """Return the columns that follow from no other, those of the most values first, shape (n_unlike,).

    A column follows from another where rows with equal values in this one are equal in it too, as the region of a
    town, or the same length in another unit.  The hashes of the values have shape (n_columns, n_rows).
    """
    firsts, sizes = [], []
    for column in values:
        _, first, index = np.unique(column, return_index=True, return_inverse=True)
        firsts.append(first[index])
        sizes.append(first.size)
    kept: list[int] = []
    for column in np.argsort(-np.array(sizes), kind="stable").tolist():
        if not any(np.array_equal(values[column][firsts[other]], values[column]) for other in kept):
            kept.append(column)
    return np.array(kept, dtype=np.intp)


def paired_halves(columns: PlaceArray, n_columns: int, seed: int = 0) -> NDArray[np.bool_]:
    """Return halves of some columns, each followed by the rest of them, as booleans of shape (16, n_columns).

    Of each two of the chosen columns in a row, those of the most values first, one is in each half, so that the halves
    tell as much.  Columns that were not chosen are in neither half.
    """
    rng = np.random.default_rng(seed)
    halves = np.zeros((2 * N_SPLITS, n_columns), dtype=bool)
    for split in range(N_SPLITS):
        for start in range(0, columns.size, 2):
            pair = rng.permutation(columns[start : start + 2])
            side = rng.integers(2) if pair.size == 1 else 0
            halves[2 * split + side, pair[0]] = True
            halves[2 * split + 1, pair[1:]] = True
    return halves


def chance_share(records: NDArray[np.integer], halves: Hashes) -> float:
    """Return how many pairs of rows would be equal if the halves were independent, relative to those that are.

    It is the median over the splits of the columns, the `halves` of shape (n_halves, n_rows), each followed by its
    complement.  Some records must be repeated.
    """
    n_pairs = 0.5 * records.size * (records.size - 1)
    equal = np.array([_equal_pairs(half) for half in halves]) / n_pairs
    return float(np.median(equal[::2] * equal[1::2]) * n_pairs / _equal_pairs(records))


def _equal_pairs(values: NDArray[Any]) -> float:
    count = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(np.sum(count * (count - 1.0)) / 2.0)


def tied_pairs(cells: AnyIntArray, records: AnyIntArray) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of pairs of rows with equal features whose target is equal, and of the others, by cell.

    Rows of one cell have equal features, those of one record also an equal target.
    """
    _, first, count = np.unique(records, return_index=True, return_counts=True)
    _, cell = np.unique(cells, return_inverse=True)
    equal: FloatArray = np.bincount(cell[first], count * (count - 1) / 2).astype(np.float64)
    n_rows = np.bincount(cell)
    return equal, n_rows * (n_rows - 1) / 2 - equal


def ties_explain(n_equal: FloatArray, n_unlike: FloatArray, agreement: float) -> bool:
    """Return whether no more pairs agree in the target than among rows that are equal by chance.

    Copies always agree.  Beside D pairs that do not, :math:`D q / (1 - q)` agree by chance, q being `agreement`, the
    share of pairs of other rows near each other that agree.  More than these, by two standard errors over the cells,
    are copies.  Fewer than ten pairs that do not agree are too few to judge by.
    """
    excess = n_equal - n_unlike * agreement / (1.0 - agreement)
    is_explained = excess.sum() <= STANDARD_ERRORS * np.sqrt(np.square(excess).sum())
    return bool(n_unlike.sum() >= FEWEST_UNLIKE and is_explained)


FEWEST_ROWS = 25
FEWEST_REPEATED = 0.6
TIMES_REPEATED = 1.5
LARGEST_RATIO = 0.5
# Recombined rows of each split of the columns.
MOST_RECOMBINED = 20_000


def oversampled_labels(records: AnyIntArray, halves: Hashes, labels: AnyIntArray) -> AnyIntArray:
    """Return the labels whose rows are repeated more often than their combinations of values explain.

    Half of the columns of one row joined to the other half of another is nearly a new row, which occurs as often as the
    share of repeated rows says (I. J. Good 1953, The population frequencies of species, equation 9), unless these are
    copies.  A label is returned if that chance, relative to the share, is less than half of what it is among the other
    rows, 60 % of its rows are repeated, and its records occur 1.5 times as often as the others.  Up to 50 records that
    occur ten times or more on average are the cells of discrete data.  Each of the `halves` is followed by the other
    half, and the sum of the two is a hash of the row.
    """
    counts = np.bincount(records)
    if is_of_few_cells(counts):
        return np.zeros(0, dtype=np.int64)
    label_of = np.zeros(counts.size, dtype=np.intp)
    label_of[records] = labels
    rows_of, records_of, singles_of = (
        np.bincount(own, minlength=int(labels.max()) + 1) for own in (labels, label_of, label_of[counts == 1])
    )
    found = []
    for label in np.flatnonzero((rows_of >= FEWEST_ROWS) & (singles_of <= (1.0 - FEWEST_REPEATED) * rows_of)):
        others = rows_of.sum() - rows_of[label], records_of.sum() - records_of[label]
        if not others[0] or rows_of[label] / records_of[label] < TIMES_REPEATED * others[0] / others[1]:
            continue
        own, other = (_relative_chance(halves[:, rows]) for rows in (labels == label, labels != label))
        if own < LARGEST_RATIO * min(other, 1.0):
            found.append(int(label))
    return np.array(found, dtype=np.int64)


def _relative_chance(halves: Hashes) -> float:
    """Return how often recombined rows occur among the rows, relative to the share of rows that are repeated."""
    rng = np.random.default_rng(0)
    known, count = np.unique(halves[0] + halves[1], return_counts=True)
    repeated = 1.0 - np.count_nonzero(count == 1) / halves.shape[1]
    chance = []
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        one, other = (rng.permutation(halves.shape[1])[:MOST_RECOMBINED] for _ in range(2))
        chance.append(np.isin(first[one] + second[other], known).mean())
    return float(np.median(chance)) / repeated if repeated > 0 else np.inf


LOOKED_AT, CLOSE_ROWS = 2_000, 256
# Rows whose leading label is right at infinity with less than this certainty have close votes.
CLOSE = 0.02
# Two votes on rows with close votes are the same by chance half of the time, and a row is compared with many.
SHARED_BY_PAIR, FEWEST_ALIKE = 8, 4
# Once it is known that rows are alike.
SHARED_WITH_CELL = 5
MOST_OUTPUT_CELLS = 1_000


def are_alike(sample: Sample) -> bool:
    """Return whether most rows with close votes are among four rows or more that no member tells apart."""
    rows = sample.random_rows(LOOKED_AT)
    doubt = _chance_of_rival(sample, rows) * (sample.weight[rows] > 0)
    close = np.flatnonzero(doubt >= CLOSE)
    close = close[np.random.default_rng(0).permutation(close.size)[:CLOSE_ROWS]]
    if close.size < FEWEST_ALIKE:
        return False
    first, second = _pairs_without_difference(sample.select(rows[np.sort(close)]).block)
    n_alike = 1 + np.bincount(np.concatenate([first, second]), minlength=close.size)
    doubt = doubt[np.sort(close)]
    return bool(2.0 * doubt[n_alike >= FEWEST_ALIKE].sum() > doubt.sum())


def output_cells(block: RowBlock) -> IntArray | None:
    """Return a number for each row, from 0 without gaps, equal for rows to which all members give the same output.

    Only members that count for two rows are compared.  A row joins the cell that shares most members with it.  None
    where there are more than a thousand cells.
    """
    n_members, n_rows = block.counted.shape
    outputs = block.stored.reshape(n_members, n_rows, -1)
    cell = np.empty(n_rows, dtype=np.int64)
    held = np.empty((0, *outputs[:, 0].shape), dtype=outputs.dtype)
    known = np.empty((0, n_members), dtype=bool)
    for row in range(n_rows):
        own, counts = outputs[:, row], block.counted[:, row]
        shared = known & counts
        n_shared = np.count_nonzero(shared, axis=1)
        fits = n_shared >= min(SHARED_WITH_CELL, np.count_nonzero(counts))
        place = np.flatnonzero(fits)
        differs = ((held[place] != own).any(axis=2) & shared[place]).any(axis=1)
        place = place[~differs]
        if place.size == 0:
            if len(held) == MOST_OUTPUT_CELLS:
                return None
            cell[row] = len(held)
            held, known = np.concatenate([held, own[None]]), np.concatenate([known, counts[None]])
            continue
        cell[row] = joined = place[np.argmax(n_shared[place])]
        held[joined] = np.where(known[joined][:, None], held[joined], own)
        known[joined] |= counts
    return cell


def leads(sample: Sample, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the leading label of some rows, its mean margin over the second one, and the standard error of that."""
    if isinstance(sample.block, ScoreBlock):
        # The margin of the leading label is the score of the second one, or minus it.
        trials, score = np.maximum(sample.block.trials[rows], 2.0), sample.block.support[rows, 1]
        return (score > 0).astype(np.int64), 2.0 * np.abs(score) / trials, np.sqrt(sample.block.variance[rows] / trials)
    block = sample.select(rows).block
    support = block.support
    leading = np.argmax(support, axis=1)
    own = block.like(block.stored, block.counted, leading)
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


def _pairs_without_difference(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pairs of rows, as two arrays, that share eight members or more, none of which tells them apart."""
    return _pairs_of_votes(block) if block.is_vote and block.n_labels == 2 else _pairs_of_outputs(block)


def _pairs_of_votes(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return these pairs from products of matrices, which count members exactly; for votes on two labels."""
    counted = block.counted.astype(np.float32)
    seconds = counted * (block.outputs == 1)
    differing = seconds.T @ (counted - seconds)
    are_equal = (counted.T @ counted >= SHARED_BY_PAIR) & (differing + differing.T == 0.0)
    first, second = np.nonzero(np.triu(are_equal, 1))
    return first, second


def _pairs_of_outputs(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = np.triu_indices(block.target.size, 1)
    n_shared = np.zeros(first.size, dtype=np.int64)
    outputs = block.stored.reshape(*block.counted.shape, -1)
    for own, counts in zip(outputs, block.counted, strict=True):
        shared = counts[first] & counts[second]
        n_shared += shared
        stays = ~shared
        here = np.flatnonzero(shared)
        stays[here] = (own[first[here]] == own[second[here]]).all(axis=1)
        first, second, n_shared = first[stays], second[stays], n_shared[stays]
    enough = n_shared >= SHARED_BY_PAIR
    return first[enough], second[enough]
