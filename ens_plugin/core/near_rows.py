"""Rows that are alike without being equal: near copies, neighbours in an ensemble, subjects, own predictions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammainc

from ens_plugin.core.bags import Bags
from ens_plugin.core.repeated_rows import leads
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.tally import ValueTally
from ens_plugin.core.validation import BoolArray, FloatArray

__all__ = [
    "AdjacentLosses",
    "MateLosses",
    "Neighbours",
    "Rows",
    "adjacent_losses",
    "are_equally_frequent",
    "are_own_labels",
    "are_own_values",
    "companions",
    "end_at_a_tie",
    "interpolated",
    "jumps_between_values",
    "losses_without_own_value",
    "mate_losses",
    "nearest_in_ensemble",
    "nearest_rows",
    "nearness",
    "places_of_recurring",
    "rank_scaled",
    "share_of_recurring",
    "turns_taken",
]

PlaceArray = NDArray[np.intp]

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
FEWEST_BLOCKS = 20
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
    if n_blocks < FEWEST_BLOCKS:
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


# Values of subjects: of a few rows each, and hardly nearer to the next values than to others.
FEWEST_SUBJECTS = 20
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
# Of a value's rows, against the variance of all: means that follow from the value differ by rounding alone.
LEAST_WITHIN = 1e-9
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
    if values.size < FEWEST_SUBJECTS or not FEWEST_ROWS_EACH <= counts.mean() <= MOST_ROWS_EACH:
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
    floor = LEAST_WITHIN * ordered.var(axis=0) + np.finfo(np.float64).tiny
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


LOOKED_AT = 5_000
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
    rows = sample.random_rows(LOOKED_AT)
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
