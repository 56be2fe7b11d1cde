"""Rows that are alike: copies, rows equal by chance or to all members, near copies, neighbours, own predictions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammainc, ndtr, xlogy

from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import Sample, ScoreBlock, spread_rows
from ens_plugin.core.tally import RowBlock, ValueTally, count_members, member_margins, strongest_rival
from ens_plugin.core.validation import ROUNDING, AnyIntArray, BoolArray, FloatArray, IntArray

__all__ = [
    "AdjacentLosses",
    "MateLosses",
    "Neighbours",
    "Rows",
    "adjacent_losses",
    "appended_rows",
    "are_alike",
    "are_equally_frequent",
    "are_own_labels",
    "are_own_values",
    "chance_share",
    "column_halves",
    "companions",
    "copied_rows",
    "end_at_a_tie",
    "evenly_repeated",
    "interpolated",
    "jumps_between_values",
    "leads",
    "losses_without_own_value",
    "mate_losses",
    "near_missed",
    "nearest_in_ensemble",
    "nearest_rows",
    "nearness",
    "numbered",
    "output_cells",
    "oversampled_labels",
    "paired_halves",
    "places_of_recurring",
    "point_masses",
    "rank_scaled",
    "share_of_recurring",
    "tied_pairs",
    "ties_explain",
    "too_even",
    "turns_taken",
    "unlike_columns",
]

PlaceArray = NDArray[np.intp]

Hashes = NDArray[np.uint64]

N_SPLITS = 8
# Runs of rows, or subjects, that are compared with others.
FEWEST_GROUPS = 20
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


# Distances that are compared, and the share of their sum at and above which the largest step is not chance.
WINDOWS = ((4, 0.85), (12, 0.6), (47, 0.35))
FEWEST_DISTANCES = 25
SMALLEST_RATIO = 1.5
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
ROWS_AT_ONCE = 8192


class Rows(Protocol):
    """Rows of numbers, some of which are read at a time: an array, or a table that is scaled where it is read."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, rows: Any, /) -> FloatArray:
        """Return the rows at a slice or an array of positions, with one more dimension than the positions."""
        ...


def nearest_rows(values: Rows, queries: PlaceArray, n_nearest: int) -> tuple[PlaceArray, FloatArray]:
    """Return the nearest other rows of some rows, and their Euclidean distances, in ascending order of these.

    Both have shape (n_queries, n_nearest).  The values are finite, and scaled so that columns can be compared; at most
    8192 rows are read at once.
    """
    wanted = values[queries]
    doubled = 2.0 * wanted.astype(np.float32)
    places = np.empty((queries.size, 0), dtype=np.intp)
    nearness = np.empty((queries.size, 0), dtype=np.float32)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = values[start : start + ROWS_AT_ONCE].astype(np.float32)
        # Without the square of the row itself, which its neighbours share.
        found = np.einsum("ij,ij->i", part, part) - doubled @ part.T
        own = np.flatnonzero((queries >= start) & (queries < start + len(part)))
        found[own, queries[own] - start] = np.inf
        chosen = np.argpartition(found, min(n_nearest, len(part)) - 1, axis=1)[:, :n_nearest]
        places = np.hstack([places, start + chosen])
        nearness = np.hstack([nearness, np.take_along_axis(found, chosen, axis=1)])
    nearest = np.argsort(nearness, axis=1, kind="stable")[:, :n_nearest]
    places = np.take_along_axis(places, nearest, axis=1)
    # Of few digits up to here, which is enough for a choice.
    distances = np.sqrt(np.square(values[places] - wanted[:, None]).sum(axis=2))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1), np.take_along_axis(distances, order, axis=1)


def companions(distances: FloatArray) -> PlaceArray:
    r"""Return how many rows lie far closer to a row than all others do, shape (n_queries,); 0 where none do.

    Where rows are evenly dense, the steps :math:`k \log(d_{k+1} / d_k)` between ascending distances are independent
    exponential variables, so that the share of the largest in their sum does not depend on the dimension (Fisher 1929;
    ``docs/methods/alike-rows.md``).  A row has companions where it is too large among the first 4, 12 or 47 steps and
    the distance is half as large again.  By chance few rows have some.
    """
    n_queries, n_nearest = distances.shape
    found = np.zeros(n_queries, dtype=np.intp)
    if n_nearest < FEWEST_DISTANCES:
        return found
    positive = distances[:, :-1] > 0
    ratio = np.where(positive, distances[:, 1:] / np.where(positive, distances[:, :-1], 1.0), 1.0)
    steps = np.log(ratio) * np.arange(1, n_nearest)
    for window, least in WINDOWS:
        part = steps[:, :window]
        largest = part.argmax(axis=1)[:, None]
        step, jump = (np.take_along_axis(array, largest, axis=1)[:, 0] for array in (part, ratio))
        is_large = (step > least * part.sum(axis=1)) & (jump >= SMALLEST_RATIO) & positive[:, 0]
        found = np.where(is_large & (found == 0), largest[:, 0] + 1, found)
    return found


def interpolated(rows: FloatArray, neighbours: FloatArray) -> NDArray[np.bool_]:
    """Return which rows lie on a straight line with two of their neighbours, as interpolated rows do.

    The neighbours of each row have shape (n_queries, n_nearest, n_columns).  Where more than a tenth of their pairs are
    nearly on lines, all rows lie on a curve.  Where fewer than three columns vary freely, the others follow from them,
    as the same length in another unit does, or the same date in the rows of one kind.  Such rows are False.
    """
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


BLOCK_ROWS = 10
# A row's mean over many members is no more certain than this, because rows differ too.
MOST_MEMBERS = 4.0


class AdjacentLosses(NamedTuple):
    """Mean losses of members that left a row out, by whether the rows beside it were in their bag.

    Attributes
    ----------
    without : float
        Where neither of both was, less what these members err more than the others on all rows.
    beside : float
        Where one or both were, of the same rows.
    standard_errors : float
        Difference of both in its standard errors: about normal where the order of the rows is random.
    """

    without: float
    beside: float
    standard_errors: float


def adjacent_losses(
    losses: NDArray[np.float64], counted: NDArray[np.bool_], rows: NDArray[np.integer], bags: Bags
) -> AdjacentLosses | None:
    """Compare the losses of members that were trained on neither of the rows beside a row with those of the others.

    Rows in random order are exchangeable, so that both means, over differences by row, are equal in expectation.  The
    standard error is over blocks of ten rows that follow each other, since these share members.  None for fewer than
    200 rows that members of both kinds predict.  `rows` are the positions, among the training rows, of the columns of
    `losses`.
    """
    last = bags.n_rows - 1
    before, after = bags.at(np.maximum(rows - 1, 0)), bags.at(np.minimum(rows + 1, last))
    is_beside = (before & (rows > 0)) | (after & (rows < last))
    alone, others = counted & ~is_beside, counted & is_beside
    n_alone, n_others = alone.sum(axis=0), others.sum(axis=0)
    used = np.flatnonzero((n_alone > 0) & (n_others > 0))
    used = used[np.argsort(rows[used], kind="stable")]
    n_blocks = used.size // BLOCK_ROWS
    if n_blocks < FEWEST_GROUPS:
        return None
    used = used[: n_blocks * BLOCK_ROWS]
    # Members of small bags err more, and draw fewer of the rows beside.
    member = (losses * counted).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    weight = np.minimum(n_alone[used], MOST_MEMBERS)
    share = weight / weight.sum()
    of_alone, of_others = (losses * alone).sum(axis=0)[used], (losses * others).sum(axis=0)[used]
    beside = of_others / n_others[used]
    excess_of_others = of_others - (member @ others)[used]
    rise = (of_alone - (member @ alone)[used]) / n_alone[used] - excess_of_others / n_others[used]
    mean = float(share @ rise)
    deviations = (share * (rise - mean)).reshape(n_blocks, BLOCK_ROWS).sum(axis=1)
    error = float(np.sqrt(np.square(deviations).sum()))
    level = float(share @ beside)
    return AdjacentLosses(level + mean, level, mean / error if error > 0 else 0.0)


N_NEAREST = 12
COMPARED_ROWS = 200
# Of a squared distance in columns, against the share of members that predict two rows alike.
COLUMN_WEIGHT = 0.3
FARTHEST = 2.0
# Added to the number of members that left both rows out, of which there are few.
FEWER_MEMBERS = np.float32(1.0)
FEWEST_PAIRS = 100


class Neighbours(NamedTuple):
    """Some rows with those that are nearest to them by one half of the members; the other half, `judges`, judges them.

    `nearest`, shape (n_queries, n_nearest), has the nearest row first.
    """

    rows: PlaceArray
    nearest: PlaceArray
    judges: slice


class MateLosses(NamedTuple):
    """Mean losses of what was trained on a mate of each row, a row near to it, and of what was not.

    `standard_errors` is the difference of both in its standard errors.
    """

    beside: float
    without: float
    standard_errors: float

    @property
    def rise(self) -> float:
        """Return by which share the loss without the nearest row is larger; 0 without any loss."""
        return self.without / self.beside - 1.0 if self.beside > 0 else 0.0


def rank_scaled(values: FloatArray) -> NDArray[np.float32]:
    """Return the columns as ranks of mean 0 and variance 1, equal for equal values, 0 for missing ones."""
    scaled = np.zeros(values.shape, dtype=np.float32)
    for column, own in enumerate(values.T):
        known = np.flatnonzero(np.isfinite(own))
        ordered = np.sort(own[known])
        ranks = np.searchsorted(ordered, own[known], "left") + np.searchsorted(ordered, own[known], "right")
        spread = float(ranks.std()) if known.size else 0.0
        if spread > 0:
            scaled[known, column] = (ranks - ranks.mean()) / spread
    return scaled


def nearest_in_ensemble(
    outputs: NDArray[np.generic], counted: BoolArray, scaled: NDArray[np.float32], queries: PlaceArray, most: int
) -> tuple[Neighbours, Neighbours]:
    """Return the nearest rows of some rows, by either half of the members, of which at most `most` are used.

    Two rows are as near as the share of members, of those that left both out, that predict both alike, less 0.3 times
    their squared distance in the columns, weighted by :func:`column_weights`.  The members that find the neighbours of
    a row do not judge it, so that neighbours are not chosen for the losses of these.
    """
    half = len(outputs) // 2
    first, second = slice(0, half), slice(half, 2 * half)
    found = []
    for own, judges in ((first, second), (second, first)):
        nearest = _nearest(outputs[own][:most], counted[own][:most], scaled, queries)
        found.append(Neighbours(queries, nearest, judges))
    return found[0], found[1]


def mate_losses(losses: FloatArray, counted: BoolArray, found: tuple[Neighbours, ...]) -> MateLosses | None:
    """Compare the losses of members that were trained on the row nearest to a row with those of the others.

    Means are over differences by row, weighted by the number of members without the nearest row, up to 4 of each half.
    `losses` have shape (n_members, n_queries), `counted` (n_members, n_rows).  None for fewer than 100 rows that
    members of both kinds predict.
    """
    n_queries = found[0].rows.size
    total, weight, level = np.zeros(n_queries), np.zeros(n_queries), 0.0
    for neighbours in found:
        own, out = losses[neighbours.judges], counted[neighbours.judges]
        without = out[:, neighbours.rows] & out[:, neighbours.nearest[:, 0]]
        beside = out[:, neighbours.rows] & ~without
        n_without, n_beside = without.sum(axis=0), beside.sum(axis=0)
        of_beside = (own * beside).sum(axis=0) / np.maximum(n_beside, 1)
        share = np.where(n_beside > 0, np.minimum(n_without, MOST_MEMBERS), 0.0)
        total += share * ((own * without).sum(axis=0) / np.maximum(n_without, 1) - of_beside)
        weight += share
        level += float(share @ of_beside)
    if np.count_nonzero(weight) < FEWEST_PAIRS:
        return None
    rise = float(total.sum() / weight.sum())
    error = float(np.sqrt(np.square(total - weight * rise).sum()) / weight.sum())
    level /= float(weight.sum())
    return MateLosses(level, level + rise, rise / error if error > 0 else 0.0)


def nearness(scaled: NDArray[np.float32], found: Neighbours) -> tuple[float, float]:
    r"""Return how near the nearest rows are in all columns: as a mean share of the rows, and as a volume.

    The first is the mean over columns and rows of the share u of all rows that are nearer in the column, 0.5 by chance.
    The second is the mean of :math:`\log_n \prod_c 2 u_c`.  In whatever number of independent columns, the nearest of n
    independent rows takes a volume of about 1/n, so that this is about -1; it is less where columns follow from each
    other.
    """
    n_rows = len(scaled)
    own, other = scaled[found.rows], scaled[found.nearest[:, 0]]
    distance = np.abs(own - other)
    low, high = own - distance, own + distance
    nearer = np.empty(own.shape)
    for column in range(scaled.shape[1]):
        ordered = np.sort(scaled[:, column])
        last, first = np.searchsorted(ordered, high[:, column], "right"), np.searchsorted(ordered, low[:, column])
        inner = np.searchsorted(ordered, high[:, column]) - np.searchsorted(ordered, low[:, column], "right")
        nearer[:, column] = (np.maximum(inner, 0) + last - first - 1) / 2.0
    share = np.clip(nearer / (n_rows - 1), 0.5 / n_rows, 1.0)
    return float(share.mean()), float(np.log(2.0 * share).sum(axis=1).mean() / np.log(n_rows))


def _nearest(
    outputs: NDArray[np.generic], counted: BoolArray, scaled: NDArray[np.float32], queries: PlaceArray
) -> PlaceArray:
    alike = _alike(outputs, counted, queries)
    own, compared = (spread_rows(n, COMPARED_ROWS) for n in (queries.size, len(scaled)))
    weights = column_weights(scaled[queries[own]], scaled[compared], alike[np.ix_(own, compared)])
    weighted = scaled * np.sqrt(COLUMN_WEIGHT * weights)
    # Less the square of the row itself, which its neighbours share.
    alike += 2.0 * weighted[queries] @ weighted.T
    alike -= np.einsum("ij,ij->i", weighted, weighted)
    alike[np.arange(queries.size), queries] = -np.inf
    n_nearest = min(N_NEAREST, len(scaled) - 1)
    found = np.argpartition(-alike, n_nearest - 1, axis=1)[:, :n_nearest]
    order = np.argsort(-np.take_along_axis(alike, found, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found, order, axis=1))


def _alike(outputs: NDArray[np.generic], counted: BoolArray, queries: PlaceArray) -> NDArray[np.float32]:
    """Return the share of members, of those that left both rows out, that predict them alike, less for few members."""
    n_alike = np.zeros((queries.size, outputs.shape[1]), dtype=np.float32)
    for own, is_out, left_out in zip(outputs, counted[:, queries], counted, strict=True):
        rows = np.flatnonzero(is_out)
        n_alike[rows] += (own[queries[rows], None] == own) & left_out
    left_out = counted.astype(np.float32)
    n_alike /= left_out[:, queries].T @ left_out + FEWER_MEMBERS
    return n_alike


def column_weights(
    own: NDArray[np.float32], others: NDArray[np.float32], alike: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the weight of each column: the correlation of distances in it with unlike outputs, of sum 1.

    `alike`, shape (n_queries, n_rows), says how alike the outputs of two rows are.
    """
    unlike = (alike.mean(axis=1, keepdims=True) - alike).ravel().astype(np.float64)
    unlike -= unlike.mean()
    spread = float(unlike @ unlike)
    weights = np.zeros(own.shape[1])
    for column in range(own.shape[1]):
        distance = np.minimum(np.abs(own[:, column, None] - others[:, column]), FARTHEST).ravel().astype(np.float64)
        distance -= distance.mean()
        scale = float(np.sqrt(distance @ distance * spread))
        if scale > 0:
            weights[column] = max(float(distance @ unlike) / scale, 0.0)
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else weights, dtype=np.float32)


# Subjects have a few rows each, and their values are hardly nearer to the next values than to others.
FEWEST_ROWS_EACH, MOST_ROWS_EACH = 2, 40
MOST_OF_OTHER_SIZE = 0.1
LARGEST_BESIDE = 0.5
# Ranks of the neighbours that the nearest one is compared with.
FIRST_FARTHER = 4
FEWEST_EQUAL = 10.0
FEWEST_VALUES = 3
# Times are rounded, and days are skipped.
SAME_STEP = 0.2
MOSTLY = 0.6
EVEN_ROWS_EACH = 3
EVEN_LEVEL = 1e-4
# Twice the sum of the squared correlations between differences of neighbouring means: 1, -2/3 and 1/6 both ways.
VARIANCE_OF_JUMPS = 2.0 * (1.0 + 2.0 * (4.0 / 9.0 + 1.0 / 36.0))
N_PREDICTING = 5


def share_of_recurring(column: FloatArray, found: Neighbours) -> float:
    """Return the share of nearest rows that have the same value, in a column whose values recur as those of subjects.

    Values of subjects, such as a number, a date of birth or a distance, have 2 to 40 rows each, which are alike, while
    those with the next value are not.  In an ordinary column these are nearly as much alike; its share is 0.
    """
    places = places_of_recurring(column)
    if places is None:
        return 0.0
    own, nearest = found.rows, found.nearest[:, 0]
    is_known = np.isfinite(column[own]) & np.isfinite(column[nearest])
    apart = np.abs(places[nearest] - places[own])[is_known]
    n_same, n_beside = np.count_nonzero(apart == 0), np.count_nonzero(apart == 1)
    return n_same / own.size if n_beside <= LARGEST_BESIDE * n_same else 0.0


def places_of_recurring(column: FloatArray) -> PlaceArray | None:
    """Return the place of each row's value among the different ones, if they recur as often as those of subjects.

    What is not finite has the last place.  None unless there are 20 values or more, of 2 to 40 rows on average, and at
    most a tenth of the rows has a value of 1 row or of more than 80.
    """
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if values.size < FEWEST_GROUPS or not FEWEST_ROWS_EACH <= counts.mean() <= MOST_ROWS_EACH:
        return None
    other_size = (counts < FEWEST_ROWS_EACH) | (counts > 2 * MOST_ROWS_EACH)
    if counts[other_size].sum() > MOST_OF_OTHER_SIZE * column.size:
        return None
    return np.searchsorted(values, np.where(np.isfinite(column), column, np.inf))


def jumps_between_values(places: PlaceArray, measured: NDArray[np.float32]) -> FloatArray:
    """Return by how many standard errors means by value jump, other than those of a smooth function of the value.

    The mean of each value is compared with the middle of those of the next values below and above.  The result is by
    column of `measured`, shape (n_rows, n_columns).
    """
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places)
    ends = np.cumsum(counts)
    ordered = measured[order].astype(np.float64)
    means = np.add.reduceat(ordered, ends - counts, axis=0) / counts[:, None]
    within = np.square(ordered - means[places[order]]).sum(axis=0) / (places.size - counts.size)
    difference = means[1:-1] - (means[:-2] + means[2:]) / 2.0
    variance = 1.0 / counts[1:-1] + (1.0 / counts[:-2] + 1.0 / counts[2:]) / 4.0
    floor = ROUNDING * ordered.var(axis=0) + np.finfo(np.float64).tiny
    ratio = (np.square(difference) / variance[:, None]).mean(axis=0) / np.maximum(within, floor)
    return np.asarray((ratio - 1.0) / np.sqrt(VARIANCE_OF_JUMPS / len(difference)))


def losses_without_own_value(
    places: PlaceArray, scaled: NDArray[np.float32], target: NDArray[np.float32], queries: PlaceArray
) -> MateLosses:
    """Compare predictions from the nearest rows without those of a row's own value with those without the next value's.

    The squared loss of the mean of five rows.  What the loss rises further without the values beside the own one too
    is due to the distance, and is taken off: of a smooth function of the value, the second step is the larger one.
    Standard errors are over values.  Of labels, `target` has a column each.
    """
    some = spread_rows(len(target), COMPARED_ROWS)
    unlike = np.square(target[some, None] - target[some]).sum(axis=2)
    weighted = scaled * np.sqrt(column_weights(scaled[some], scaled[some], -unlike))
    distance = np.square(weighted).sum(axis=1) - 2.0 * weighted[queries] @ weighted.T
    distance[np.arange(queries.size), queries] = np.inf
    last, own = int(places.max()), places[queries]
    below, above = np.where(own > 0, own - 1, 1), np.where(own < last, own + 1, last - 1)
    is_own, is_below, is_above = (value[:, None] == places for value in (own, below, above))

    def losses(left_out: NDArray[np.bool_]) -> FloatArray:
        among = np.where(left_out, np.float32(np.inf), distance)
        nearest = np.argpartition(among, N_PREDICTING - 1, axis=1)[:, :N_PREDICTING]
        return np.asarray(np.square(target[nearest].mean(axis=1) - target[queries]).sum(axis=1), dtype=np.float64)

    without, beside = losses(is_own), (losses(is_below) + losses(is_above)) / 2.0
    of_distance = np.maximum(losses(is_own | is_below | is_above) - without, 0.0)
    by_value = np.bincount(own, without - beside - of_distance)
    spread = float(np.sqrt(np.square(by_value).sum()))
    found = float(by_value.sum()) / spread if spread > 0 else 0.0
    return MateLosses(float(beside.mean()), float(without.mean()), found)


def turns_taken(column: FloatArray, found: Neighbours) -> float:
    """Return by how many standard errors the nearest rows have the same value less often than independent rows would.

    Of independent rows, the nearest one has the same value at least as often as the fifth to twelfth nearest, and at
    least as often as the next value above, or below.  Two measurements of one subject are of different years, though,
    and no two of a series are of one day.
    """
    values = np.unique(column[np.isfinite(column)])
    if values.size < FEWEST_VALUES:
        return 0.0
    own, nearest = column[found.rows], column[found.nearest]
    same = nearest == own[:, None]
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
            beside = np.count_nonzero(np.abs(np.abs(nearest[:, 0] - own) - step) <= SAME_STEP * step) / 2.0
            found_turns = max(found_turns, (beside - n_same) / np.sqrt(beside / 2.0 + n_same + 1.0))
    return float(found_turns)


def are_equally_frequent(column: FloatArray) -> bool:
    """Return whether the values of a column are too equally frequent for rows that were drawn one by one.

    By Pearson's statistic, with a correction of half a row, at a level of 0.0001; for three values or more, of three
    rows or more on average.  In a balanced panel each year has as many rows.
    """
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if values.size < FEWEST_VALUES or counts.mean() < EVEN_ROWS_EACH:
        return False
    statistic = float(np.square(np.maximum(np.abs(counts - counts.mean()), 0.5)).sum() / counts.mean())
    return bool(gammainc((values.size - 1) / 2.0, statistic / 2.0) < EVEN_LEVEL)


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
