"""Labels whose rows were drawn again and again, as oversamplers do, where rows are also equal by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.likeness.repeated_rows import is_of_few_cells

__all__ = ["oversampled_labels"]

IntArray = NDArray[np.integer]
FloatArray = NDArray[np.float64]
Hashes = NDArray[np.uint64]

FEWEST_ROWS = 25
FEWEST_REPEATED = 0.6
TIMES_REPEATED = 1.5
LARGEST_RATIO = 0.5
# Recombined rows of each split of the columns.
MOST_RECOMBINED = 20_000


def oversampled_labels(records: IntArray, halves: Hashes, labels: IntArray) -> IntArray:
    r"""Return the labels whose rows are repeated more often than their combinations of values explain.

    Parameters
    ----------
    records : ndarray of int, shape (n_rows,)
        Number of each row's record, its features and label, from 0 without gaps.  Up to 50 records that occur ten
        times or more on average are the cells of discrete data.
    halves : ndarray of uint64, shape (n_halves, n_rows)
        Hashes of each row over halves of the columns, each followed by the other half; the sum of the two is a hash of
        the row.
    labels : ndarray of int, shape (n_rows,)
        Label codes.

    Returns
    -------
    ndarray of int, shape (n_found,)

    Notes
    -----
    A new row of a label occurs among its rows with a chance of about the share of rows that are no single ones (I. J.
    Good 1953, The population frequencies of species, equation 9).  Half of the columns of one row joined to the other
    half of another is nearly a new row: it occurs about as often, or less often where the halves depend on each other.
    Copies make the share of repeated rows larger, but not the chance of a recombined row.  A label is returned if that
    chance, relative to the share, is less than half of what it is among the other rows, at least 60 % of its rows are
    repeated, and its records occur 1.5 times as often as the others.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.integers(0, 20, (2, 300)).astype(np.uint64)
    >>> first[200:], second[200:] = np.repeat(first[200:220], 5), np.repeat(second[200:220], 5)
    >>> halves, labels = np.stack([first, 100 * second]), np.repeat([0, 1], [200, 100])
    >>> records = np.unique(halves.sum(axis=0) + 10_000 * labels.astype(np.uint64), return_inverse=True)[1]
    >>> oversampled_labels(records, halves, labels).tolist()
    [1]
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
