"""Columns that tell of subjects or series: values recur, take turns, are equally frequent, or share a target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from ens_plugin.core.likeness.ensemble_neighbours import COMPARED_ROWS, MateLosses, Neighbours, column_weights
from ens_plugin.core.tallies.row_sampling import spread_rows

__all__ = [
    "are_equally_frequent",
    "jumps_between_values",
    "losses_without_own_value",
    "places_of_recurring",
    "share_of_recurring",
    "turns_taken",
]

FloatArray = NDArray[np.float64]
PlaceArray = NDArray[np.intp]

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

    Parameters
    ----------
    column : ndarray, shape (n_rows,)
    found : Neighbours

    Returns
    -------
    float
        0 for other columns.

    Notes
    -----
    Values of subjects, such as a number, a date of birth or a distance, have 2 to 40 rows each, which are alike, while
    those with the next value are not.  In an ordinary column these are nearly as much alike.

    Examples
    --------
    >>> found = Neighbours(np.arange(100), (np.arange(100) ^ 1)[:, None], slice(0, 1))
    >>> float(share_of_recurring(np.repeat(np.arange(50.0) ** 2, 2), found))
    1.0
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

    Parameters
    ----------
    column : ndarray, shape (n_rows,)

    Returns
    -------
    ndarray of int, shape (n_rows,), or None
        What is not finite has the last place.  None unless there are 20 values or more, of 2 to 40 rows on average,
        and at most a tenth of the rows has a value of 1 row or of more than 80.

    Examples
    --------
    >>> int(places_of_recurring(np.repeat(np.arange(50.0) ** 2, 2)).max())
    49
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

    Parameters
    ----------
    places : ndarray of int, shape (n_rows,)
        As of :func:`places_of_recurring`.
    measured : ndarray, shape (n_rows, n_columns)

    Returns
    -------
    ndarray, shape (n_columns,)

    Notes
    -----
    The mean of each value is compared with the middle of those of the next values below and above.

    Examples
    --------
    >>> places = np.repeat(np.arange(50), 4)
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=200)
    >>> measured = np.column_stack([0.1 * places + noise, rng.normal(size=50)[places] + 0.1 * noise])
    >>> (jumps_between_values(places, measured.astype(np.float32)) > 6.0).tolist()
    [False, True]
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

    Parameters
    ----------
    places : ndarray of int, shape (n_rows,)
        As of :func:`places_of_recurring`.
    scaled : ndarray of float32, shape (n_rows, n_columns)
    target : ndarray of float32, shape (n_rows, n_targets)
        Several for labels: whether a row has each.
    queries : ndarray of int, shape (n_queries,)
        Rows that are predicted.

    Notes
    -----
    The squared loss of the mean of five rows.  What the loss rises further without the values beside the own one too
    is due to the distance, and is taken off: of a smooth function of the value, the second step is the larger one.
    Standard errors are over values.
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

    Parameters
    ----------
    column : ndarray, shape (n_rows,)
    found : Neighbours

    Notes
    -----
    Of independent rows, the nearest one has the same value at least as often as the fifth to twelfth nearest, and at
    least as often as the next value above, or below.  Two measurements of one subject are of different years, though,
    and no two of a series are of one day.

    Examples
    --------
    >>> found = Neighbours(np.arange(100), (np.arange(100) ^ 1)[:, None], slice(0, 1))
    >>> turns_taken(np.tile([2001.0, 2002.0, 2003.0, 2004.0], 25), found) > 5.0
    True
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

    Parameters
    ----------
    column : ndarray, shape (n_rows,)

    Notes
    -----
    By Pearson's statistic, with a correction of half a row, at a level of 0.0001; for three values or more, of three
    rows or more on average.  In a balanced panel each year has as many rows.

    Examples
    --------
    >>> years = np.repeat(np.arange(2000.0, 2010.0), 30)
    >>> drawn = np.random.default_rng(0).integers(2000, 2010, 300).astype(float)
    >>> are_equally_frequent(years), are_equally_frequent(drawn)
    (True, False)
    """
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if values.size < FEWEST_VALUES or counts.mean() < EVEN_ROWS_EACH:
        return False
    statistic = float(np.square(np.maximum(np.abs(counts - counts.mean()), 0.5)).sum() / counts.mean())
    return bool(gammainc((values.size - 1) / 2.0, statistic / 2.0) < EVEN_LEVEL)
