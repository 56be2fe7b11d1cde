"""Columns that tell of subjects or of a series: their values recur, take turns, or are equally frequent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from ens_plugin.core.likeness.ensemble_neighbours import Neighbours

__all__ = ["are_equally_frequent", "share_of_recurring", "turns_taken"]

FloatArray = NDArray[np.float64]

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
    values, counts = np.unique(column[np.isfinite(column)], return_counts=True)
    if values.size < FEWEST_SUBJECTS or not FEWEST_ROWS_EACH <= counts.mean() <= MOST_ROWS_EACH:
        return 0.0
    other_size = (counts < FEWEST_ROWS_EACH) | (counts > 2 * MOST_ROWS_EACH)
    if counts[other_size].sum() > MOST_OF_OTHER_SIZE * column.size:
        return 0.0
    own, nearest = column[found.rows], column[found.nearest[:, 0]]
    is_known = np.isfinite(own) & np.isfinite(nearest)
    apart = np.abs(np.searchsorted(values, nearest) - np.searchsorted(values, own))[is_known]
    n_same, n_beside = np.count_nonzero(apart == 0), np.count_nonzero(apart == 1)
    return n_same / own.size if n_beside <= LARGEST_BESIDE * n_same else 0.0


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
