"""Rows that are in the data more than once: detection of copies, beyond what chance explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

__all__ = [
    "EVENNESS_LEVEL",
    "appended_rows",
    "column_halves",
    "copied_rows",
    "evenly_repeated",
    "is_of_few_cells",
    "near_missed",
    "numbered",
    "point_masses",
    "too_even",
]

IntArray = NDArray[np.integer]
Hashes = NDArray[np.uint64]

N_SPLITS = 8
EVENNESS_LEVEL = 1e-6
LEAST_APPENDED = 20
RUN_RATIO = 10
MOST_CELLS = 50
ROWS_PER_CELL = 10
# A record that occurs so many times as often as half of the others is a point at which rows lie, if such are few.
TIMES_TYPICAL, MOST_MASSES = 10, 10


def numbered(hashes: Hashes) -> NDArray[np.int32]:
    """Return a number for each row, equal for rows with equal hashes, in the order in which these first appear.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n_rows,)

    Returns
    -------
    ndarray of int32, shape (n_rows,)
        From 0 without gaps.

    Examples
    --------
    >>> numbered(np.array([7, 3, 7, 5], dtype=np.uint64)).tolist()
    [0, 1, 0, 2]
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
    """Return random halves of the columns, each followed by its complement, as booleans of shape (16, n_columns).

    Examples
    --------
    >>> halves = column_halves(4)
    >>> halves.shape, bool(np.all(halves[0] != halves[1]))
    ((16, 4), True)
    """
    rng = np.random.default_rng(seed)
    halves = np.zeros((2 * N_SPLITS, n_columns), dtype=bool)
    for split in range(N_SPLITS):
        halves[2 * split, rng.permutation(n_columns)[: n_columns // 2]] = True
    halves[1::2] = ~halves[::2]
    return halves


def copied_rows(records: IntArray, halves: Hashes, labels: IntArray | None = None) -> NDArray[np.bool_]:
    r"""Return which rows are repeated more often than chance explains.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        Number of each row's record: its features and target.
    halves : ndarray of uint64, shape (n_halves, n_rows)
        Hashes of each row over the :func:`column_halves` of the features.
    labels : ndarray of int, shape (n_rows,), or None
        Label codes; None for values.

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Notes
    -----
    Where rows are drawn one by one, a record can be drawn twice only if single values are common, and then there are
    other records that share half of its values: near misses.  A repeated record counts as drawn if most splits of the
    columns show near misses in both halves; otherwise its rows are taken for copies.  One column of real numbers
    leaves no near miss in the half that holds it.

    All repeated records are taken for copies where they are too even, among all records or those of a label: with
    :math:`f_k` records that occur k times, drawing gives :math:`k \bar f_k^2 \le (k + 1) \bar f_{k-1} \bar f_{k+1}` in
    the mean, whatever the probabilities (Cauchy-Schwarz on the mixed Poisson counts), which "each row five times" and
    "a fifth of the rows twice" break (:func:`too_even`).

    Up to 50 records that occur ten times or more on average are the cells of discrete data, however even.

    Examples
    --------
    >>> halves = np.array([[1, 1, 2], [5, 5, 6]], dtype=np.uint64)
    >>> copied_rows(np.array([0, 0, 1]), halves).tolist()
    [True, True, False]
    """
    counts = np.bincount(records)
    repeated = counts[records] > 1
    if is_of_few_cells(counts) or not repeated.any():
        return np.zeros(records.size, dtype=bool)
    return np.asarray(evenly_repeated(records, labels) | (repeated & ~near_missed(records, halves)))


def is_of_few_cells(counts: IntArray) -> bool:
    """Return whether the records are the cells of discrete data, by how often each occurs.

    Examples
    --------
    >>> is_of_few_cells(np.full(8, 30)), is_of_few_cells(np.full(30, 8))
    (True, False)
    """
    n_records = np.count_nonzero(counts)
    return bool(n_records <= MOST_CELLS and counts.sum() >= ROWS_PER_CELL * n_records)


def point_masses(records: IntArray, labels: IntArray | None = None) -> NDArray[np.bool_]:
    """Return which rows are of a few records that occur far more often than the others, as a blank form does.

    Fresh rows are of these records as often, so that such rows hide no error, as copies do.  Copying repeats many
    records, or all records of a label, and none far more often than most others.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        Number of each row's record, from 0 without gaps.
    labels : ndarray of int, shape (n_rows,), or None
        Label codes, which are equal in the rows of a record; None for values.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        Of up to ten records that occur ten times as often as the median record of their label; all False where more do.

    Examples
    --------
    >>> records = np.append(np.arange(50), np.full(30, 50))
    >>> int(point_masses(records).sum()), int(point_masses(np.arange(300) // 3).sum())
    (30, 0)
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


def near_missed(records: IntArray, halves: Hashes) -> NDArray[np.bool_]:
    """Return which rows share both halves of the columns with other records, in most splits of the columns.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
    halves : ndarray of uint64, shape (n_halves, n_rows)

    Examples
    --------
    >>> halves = np.array([[1, 1, 2], [5, 6, 5]], dtype=np.uint64)
    >>> near_missed(np.arange(3), halves).tolist()
    [True, False, False]
    """
    copies = np.bincount(records)[records]
    found = np.zeros(records.size)
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        found += _near_misses(first, copies) & _near_misses(second, copies)
    return np.asarray(2 * found >= halves.shape[0] // 2)


def _near_misses(half: Hashes, copies: IntArray) -> NDArray[np.bool_]:
    """Return which rows have the same half of the columns as a row of another record, shape (n_rows,)."""
    _, index, alike = np.unique(half, return_inverse=True, return_counts=True)
    return np.asarray(alike[index] > copies)


def too_even(counts: IntArray, level: float = EVENNESS_LEVEL) -> bool:
    r"""Return whether the numbers of copies of the records vary less than random drawing of rows can explain.

    Parameters
    ----------
    counts : ndarray of int, shape (n_records,)
    level : float
        How improbable the counts must be if rows were drawn.

    Notes
    -----
    Of the numbers :math:`f_k` of records that occur k times, each three in a row are compared with the most likely
    means that drawing allows, those with :math:`k \mu_k^2 = (k + 1) \mu_{k-1} \mu_{k+1}`.  They are
    :math:`f_{k-1} + t, f_k - 2t, f_{k+1} + t`, because the condition is linear in the logarithms of the means of
    Poisson variables.  The counts are too even where a ratio of the likelihoods is below the level, divided by the
    number of ratios.

    Examples
    --------
    >>> too_even(np.full(20, 5)), too_even(np.random.default_rng(0).poisson(5, 200))
    (True, False)
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


def evenly_repeated(records: IntArray, labels: IntArray | None, level: float = EVENNESS_LEVEL) -> NDArray[np.bool_]:
    """Return which rows are repeated too evenly: all repeated rows, or those of a label whose counts are too even.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        Number of each row's record, from 0 without gaps.
    labels : ndarray of int, shape (n_rows,), or None
        Label codes, which are equal in the rows of a record; None for values.
    level : float
        As of :func:`too_even`.

    Examples
    --------
    >>> records = np.append(np.arange(90), np.repeat(np.arange(90, 110), 2))
    >>> int(evenly_repeated(records, None).sum()), int(evenly_repeated(records, records // 90).sum())
    (0, 40)
    """
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


def appended_rows(target: IntArray) -> int:
    """Return the number of rows of one label at the end that make all labels equally frequent; 0 if there are none.

    Parameters
    ----------
    target : ndarray of int, shape (n_rows,)
        Label codes in the order of the rows.

    Notes
    -----
    Oversamplers append such rows.  The labels must have exactly equal counts, and the last run of one label must be
    ten times as long as the other runs on average: neither shuffled nor sorted rows have both.

    Examples
    --------
    >>> mixed = np.tile([0, 0, 0, 0, 1], 20)
    >>> appended_rows(np.append(mixed, np.ones(60, dtype=int))), appended_rows(mixed)
    (61, 0)
    """
    counts = np.bincount(target)
    counts = counts[counts > 0]
    if counts.size < 2 or np.any(counts != counts[0]):
        return 0
    starts = np.flatnonzero(np.append(True, target[1:] != target[:-1]))
    last = target.size - int(starts[-1])
    others = int(starts[-1]) / max(starts.size - 1, 1)
    return last if last >= LEAST_APPENDED and last >= RUN_RATIO * others else 0
