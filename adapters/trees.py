"""What rows show by the leaves that they reach in trees, and by the values that trees split at.

A test of whether rows fill the leaves of trees as training rows do, which recognises these in any order. A leaf that
counted some rows of its bag is reached by at least as many of the training rows. Of as many fresh rows, often fewer
reach it: the bag is about two thirds of the training rows, and small leaves were fitted to it.

A test of whether rows hold the values that trees split at, which recognises training rows in any order. Tree learners
put a threshold on a training value, or half-way between two neighbouring values. Fresh rows hold such values by
chance only, as often as they hold each other's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse
from scipy.special import betainc

from ens_plugin.adapters.tree_table import MAX_CHANCE
from ens_plugin.core.bags import UNSEEN
from ens_plugin.core.validation import AnyIntArray, FloatArray

RowOrigin = Literal["training", "like_training", "fresh", "unknown"]

# Leaves that fresh rows would be expected to leave short.  One tree proves training rows; sums over trees, which
# resemble each other, are only a sign.
EXPECTED_GAPS = 5.0
# Rows on which what an adapter reads is compared with the library.
COMPARED_ROWS = 32
FEWEST_MATCHES = 6
# Fewest thresholds of which at least FEWEST_MATCHES match, if the rows are training rows.
ENOUGH = 15
# A column is used only if at most this share of its rows have values of other rows.
MOST_SHARED = 0.25
ROUNDING = 4.0
# Fewest different thresholds of a column, and different values of its rows, that make the column comparable.
FEWEST_DISTINCT = 10
# Of a column of fresh rows, two of n + 1 values are expected outside of the range of n: .18 for 10 rows.
MOST_OUTSIDE = 0.9
# Rows that are moved together: few, so that all members' values of them stay in a processor's cache; no power of 2,
# because parts of a column that are so far apart push one another out of it.
ROWS_TOGETHER = 120


def target_ranges(leaves: NDArray[np.integer[Any]], target: NDArray[Any], n_leaves: int) -> dict[str, FloatArray]:
    """Return the smallest target in each leaf, and the negated largest, so that both merge by the minimum."""
    lowest, negated = np.full((2, n_leaves), np.inf)
    np.minimum.at(lowest, leaves, target)
    np.minimum.at(negated, leaves, -target)
    return {"lowest": lowest, "highest": negated}


def judge_origin(
    are_training_rows: bool,
    trees: Iterable[tuple[AnyIntArray, AnyIntArray]],
    n_rows: int,
    would_show: Callable[[], bool],
) -> RowOrigin:
    """Return whether rows are training rows, by what a model stores of these and by how rows fill its leaves.

    Parameters
    ----------
    are_training_rows : bool
        Whether the model shows that it was trained on these rows.
    trees : iterable of (ndarray of int, ndarray of int)
        For each tree, the numbers of training rows and of given rows in its leaves, or in labels of its leaves.  Trees
        are read until one has too few rows.
    n_rows : int
        Number of the given rows.
    would_show : callable
        Returns whether `are_training_rows` would be True for training rows in any order.  Called last.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters.sklearn.tools import judge_origin
    >>> judge_origin(False, [(np.array([3, 2]), np.array([4, 1]))], 5, lambda: False)
    'fresh'
    >>> judge_origin(False, [], 5, lambda: False)
    'unknown'
    """
    if are_training_rows:
        return "training"
    least, gaps = 0.0, 0.0
    for n_trained, found in trees:
        held = n_trained > 0
        if (found[held] < n_trained[held]).any():
            return "fresh"
        # If c of m rows of the bag are in a cell, the number of n fresh rows there is negative binomial: c or more have
        # this chance.  Numbers in disjoint cells are negatively associated, so the product bounds the joint chance.
        chance = betainc(n_trained[held], n_trained[held] + 1.0, n_rows / (n_rows + float(n_trained.sum())))
        least = min(least, float(np.log(chance).sum()))
        gaps += float((1.0 - chance).sum())
    if gaps >= EXPECTED_GAPS:
        return "training" if np.exp(least) < MAX_CHANCE else "like_training"
    return "fresh" if would_show() else "unknown"


def hold_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether so many thresholds are values of the rows, or midpoints of two, that chance cannot explain it."""
    counts = []
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and thresholds.size:
            counts.append(_matches(values.astype(dtype), np.unique(thresholds.astype(dtype))))
    return are_too_many(counts, table.shape[0])


def show_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether columns with distinct values have enough thresholds to recognise training rows."""
    n_usable = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and chance_of_value(values[np.isfinite(values)].astype(dtype)) <= MOST_SHARED:
            n_usable += np.unique(thresholds).size
        if n_usable >= ENOUGH:
            return True
    return False


def are_too_many(counts: list[tuple[int, int, float]], n_rows: int) -> bool:
    """Return whether more values of a model are among those of the rows than chance explains."""
    usable = [own for own in counts if own[2] <= MOST_SHARED]
    tested, matched = (sum(own[place] for own in usable) for place in (0, 1))
    if matched < FEWEST_MATCHES:
        return False
    chance = sum(own[0] * own[2] for own in usable) / tested + UNSEEN / (n_rows * len(usable))
    # A bound: trials with different chances exceed their mean most often if all have the mean chance (Hoeffding).
    # Only held-out rows need it, and the command line loads this file.
    from scipy.stats import binom

    return bool(matched > tested * chance and binom.sf(matched - 1, tested, chance) < MAX_CHANCE)


def chance_of_value(values: NDArray[Any]) -> float:
    """Return a bound on the chance that a value, or a midpoint of two, is among the values of as many fresh rows."""
    found, counts = np.unique(values, return_counts=True)
    if found.size < 3:
        return 1.0
    shared = 1.0 - np.count_nonzero(counts == 1) / values.size
    gap = float(np.median(np.diff(found.astype(np.float64))))
    rounding = ROUNDING * float(np.finfo(values.dtype).eps) * float(np.abs(found).max()) / gap
    return min(2.0 * shared + rounding, 1.0)


def _matches(values: NDArray[Any], thresholds: NDArray[Any]) -> tuple[int, int, float]:
    """Return how many thresholds there are, how many are a value or midpoint of neighbours, and the chance of that."""
    values = values[np.isfinite(values)]
    chance = chance_of_value(values)
    if chance > MOST_SHARED:
        return thresholds.size, 0, chance
    found = np.unique(values)
    above = np.searchsorted(found, thresholds, side="left")
    is_value = found[np.minimum(above, found.size - 1)] == thresholds
    upper = np.clip(np.searchsorted(found, thresholds, side="right"), 1, found.size - 1)
    low, high = found[upper - 1].astype(np.float64), found[upper].astype(np.float64)
    slack = ROUNDING * np.finfo(values.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    is_midpoint = np.abs((low + high) / 2.0 - thresholds) <= slack
    return thresholds.size, int(np.count_nonzero(is_value | is_midpoint)), chance


def column_of(table: Any, column: int) -> FloatArray | None:
    """Return one column of a table as float64; None where it does not hold numbers."""
    if hasattr(table, "iloc"):
        series = table.iloc[:, column]
        return np.asarray(series, dtype=np.float64) if getattr(series.dtype, "kind", "O") in "biuf" else None
    if issparse(table):
        sparse: Any = table
        return np.asarray(sparse[:, [column]].toarray(), dtype=np.float64)[:, 0]
    return np.asarray(table[:, column], dtype=np.float64)


class OutsideColumns(NamedTuple):
    """Columns at whose splits nearly all rows go the same way.

    Attributes
    ----------
    columns : tuple of int
        Positions of these columns, in ascending order.
    n_compared : int
        Columns that were compared.
    share : float
        Share of the compared columns' splits that are splits of these columns.
    """

    columns: tuple[int, ...] = ()
    n_compared: int = 0
    share: float = 0.0


def columns_outside(table: Any, splits: Iterable[tuple[int, FloatArray]]) -> OutsideColumns:
    """Return the columns of which at least 90 % of the thresholds lie outside of the rows' values."""
    # Fresh rows like the training rows have few such thresholds: a new value lies outside of the range of n others with
    # a chance of 2 / (n + 1), whatever the distribution.
    found, compared, outside = list[int](), 0, 0
    n_compared = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        values = None if values is None else values[np.isfinite(values)]
        if values is None or values.size < FEWEST_DISTINCT or np.unique(thresholds).size < FEWEST_DISTINCT:
            continue
        is_outside = (thresholds < values.min()) | (thresholds >= values.max())
        n_compared, compared = n_compared + 1, compared + thresholds.size
        if is_outside.mean() >= MOST_OUTSIDE and np.unique(values).size >= FEWEST_DISTINCT:
            found.append(column)
            outside += thresholds.size
    return OutsideColumns(tuple(sorted(found)), n_compared, outside / compared if compared else 0.0)


def move_values(
    values: NDArray[Any], taken: NDArray[np.bool_], outputs: NDArray[np.float64], filled: NDArray[np.bool_]
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number."""
    # Values, taken and outputs are of several labels, whose outputs are filled in the same places.
    n_members, n_rows = filled.shape
    moved = np.zeros((ROWS_TOGETHER, n_members))
    for start in range(0, n_rows, ROWS_TOGETHER):
        rows = slice(start, min(start + ROWS_TOGETHER, n_rows))
        # By row, so that the values of one row come after those of another.
        places = _by_row(filled[:, rows])
        # Positions are found without a branch, which a mask as an index takes for each value.
        wanted, into = np.count_nonzero(places, axis=1), np.flatnonzero(places)
        for own_values, own_taken, own_outputs in zip(values, taken, outputs, strict=True):
            own = _by_row(own_taken[:, rows])
            # How many values of the rows before are taken but not wanted.
            spare = np.count_nonzero(own, axis=1) - wanted
            skipped = np.repeat(np.cumsum(spare) - spare, wanted)
            at = np.flatnonzero(own).take(np.arange(into.size) + skipped)
            moved.reshape(-1)[into] = _by_row(own_values[:, rows]).take(at)
            own_outputs[:, rows] = moved[: len(own)].T


def _by_row(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row next to each other; a copy of their own first, whose columns are close."""
    return np.ascontiguousarray(np.ascontiguousarray(values).T)
