"""Copies among training rows that are spread over a cluster, found by their sampled hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.rows.hashes import hash_rows, row_hashes
from ens_plugin.analysis.rows.repeats import REFUSED_SHARE, RepeatedRows, record_hashes
from ens_plugin.core.likeness.repeated_rows import column_halves, point_masses, too_even
from ens_plugin.errors import InputError

__all__ = ["Marks", "copies_finding", "merge_marks", "row_marks"]

Marks = NDArray[np.uint64]

N_SPLITS = 4
MARKED_ROWS = 20_000
DOUBTED_SHARE = 0.01
WHOLE = 0

REMEDIES = (
    "A row with a copy in a member's bag is not really out of bag, so the out-of-bag error may be far too low. Train "
    "without the copies, or analyse the rows on one machine with ens_plugin.analyze and its groups=."
)


def row_marks(features: Any, rows: Any, target: NDArray[Any], n_rows: int) -> Marks:
    """Return hashes of rows of a block, by which equal and nearly equal rows are found, also in other blocks.

    A row is kept, for its whole record and for each half of its columns, if the hash is small: rows that share it
    are then kept, too.

    Parameters
    ----------
    features, rows
        As of :func:`ens_plugin.analysis.rows.hashes.as_table`.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    n_rows : int
        Rows of all blocks, about 20 000 of which are kept for each half.

    Returns
    -------
    ndarray of uint64, shape (3, n_marks)
        Index of the half, 0 for the whole record; its hash; and the hash of the record.
    """
    hashed = hash_rows(features, rows)
    if hashed is None:
        return np.zeros((3, 0), dtype=np.uint64)
    records = record_hashes(hashed.hashes, target)
    halves = row_hashes(hashed.table, column_halves(hashed.table.shape[1])[: 2 * N_SPLITS])
    bound = np.uint64(min(MARKED_ROWS / n_rows, 1.0) * (2.0**64 - 2.0**12))
    marks = []
    for half, hashes in enumerate([records, *halves]):
        kept = hashes <= bound if n_rows > MARKED_ROWS else np.ones(hashes.size, dtype=bool)
        found = np.full(np.count_nonzero(kept), half, dtype=np.uint64)
        marks.append(np.stack([found, hashes[kept], records[kept]]))
    return merge_marks(marks)


def merge_marks(marks: list[Marks]) -> Marks:
    """Return the hashes of several disjoint blocks together, in an order that does not depend on that of the blocks."""
    merged = np.concatenate(marks, axis=1)
    return merged[:, np.lexsort(merged[::-1])]


def repeated_shares(marks: Marks) -> tuple[float, float]:
    """Return the share of rows whose record occurs more than once, and of rows that look like copies.

    The first is exact for the sampled records; the second leaves out those of a few records that occur far more often
    than the others (:func:`ens_plugin.core.likeness.repeated_rows.point_masses`), and counts, for each split of the
    columns, repeated rows without near misses in the worse of its halves
    (:func:`ens_plugin.core.likeness.repeated_rows.copied_rows`).
    """
    whole = marks[1:, marks[0] == WHOLE]
    n_rows, repeated = max(whole.shape[1], 1), _repeated(whole)
    apart = _repeated(_without_masses(whole))
    if not apart.any() or too_even(np.unique(whole[0], return_counts=True)[1]):
        return repeated.sum() / n_rows, apart.sum() / n_rows
    lone = [_lone_share(_without_masses(marks[1:, marks[0] == half])) for half in range(1, 2 * N_SPLITS + 1)]
    worse = np.maximum(lone[::2], lone[1::2])
    return repeated.sum() / n_rows, apart.sum() / n_rows * float(np.mean(worse))


def _repeated(marks: Marks) -> NDArray[np.bool_]:
    """Return which rows are of a record that occurs more than once."""
    _, record, copies = np.unique(marks[1], return_inverse=True, return_counts=True)
    return np.asarray(copies[record] > 1)


def _without_masses(marks: Marks) -> Marks:
    """Return the marks of rows that are of no point mass."""
    record = np.unique(marks[1], return_inverse=True)[1]
    return marks[:, ~point_masses(record)] if record.size else marks


def _lone_share(marks: Marks) -> float:
    """Return the share of repeated rows with values in half of the columns that no other record has."""
    _, half, alike = np.unique(marks[0], return_inverse=True, return_counts=True)
    _, record, copies = np.unique(marks[1], return_inverse=True, return_counts=True)
    repeated = copies[record] > 1
    return float(np.mean((alike[half] == copies[record])[repeated])) if repeated.any() else 0.0


def copies_finding(
    marks: Marks | None, n_rows: int, look_again: Callable[[], RepeatedRows | None] = lambda: None
) -> tuple[int, tuple[str, ...]]:
    """Return the number of repeated rows, and a doubt where more than one row in a hundred looks like a copy.

    Parameters
    ----------
    marks : ndarray or None
        Merged marks of all rows; None for held-out rows.
    n_rows : int
    look_again : callable
        Returns what all rows show together, or None where they are too many for one machine.  It is called where rows
        are repeated.

    Raises
    ------
    InputError
        If a quarter of the rows or more look like copies, and are copies for sure.
    """
    if marks is None:
        return 0, ()
    repeated, copied = repeated_shares(marks)
    whole = look_again() if repeated else None
    is_sure = whole is None or whole.is_sure
    if whole is not None:
        copied = float(np.mean(whole.copied))
    found = f"About {100 * copied:.2g} % of {n_rows} rows look like copies of another row: same features, same target."
    if copied >= REFUSED_SHARE and is_sure:
        raise InputError(f"{found} {REMEDIES}")
    unsure = "" if is_sure else "Rows of so few different values can also be equal by chance. "
    return round(repeated * n_rows), (f"{found} {unsure}{REMEDIES}",) if copied > DOUBTED_SHARE else ()
