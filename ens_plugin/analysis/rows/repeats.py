"""Rows that occur more than once in the training data, and their effect on out-of-bag estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.rows.hashes import HashedRows, row_hashes
from ens_plugin.core.likeness.oversampled_labels import oversampled_labels
from ens_plugin.core.likeness.repeated_rows import (
    appended_rows,
    column_halves,
    copied_rows,
    numbered,
    point_masses,
)
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.records import record
from ens_plugin.report.result import FEWEST_ROWS

__all__ = [
    "RepeatedRows",
    "appended_doubt",
    "copies_findings",
    "find_repeats",
    "held_out_copies",
    "identical_rows",
    "record_hashes",
    "refuse_copies",
]

IntArray = NDArray[np.integer]

REFUSED_SHARE = 0.25
DOUBTED_HELD_OUT = 0.05
FEWEST_SINGLE_ROWS = 10

SEPARATE = "If the rows are separate cases that happen to be equal, state that with groups=np.arange(len(y))."
UNSURE = (
    "Rows of so few different values can also be equal by chance, and the data do not tell which it is. If they are "
    "separate cases, the error is right. If they are copies, it may be far too low, and groups='identical' gives the "
    "right one. "
)
REMEDIES = (
    "Train without the copies, and to balance labels draw inside each bag (class_weight='balanced_subsample', or "
    "imbalanced-learn's BalancedRandomForestClassifier). Or pass groups='identical', which counts a row as in bag "
    "wherever a copy of it is."
)


@record
class RepeatedRows:
    """Masks of repeated and copied training rows, and rows that an oversampler appended.

    Attributes
    ----------
    repeated : ndarray of bool, shape (n_rows,)
        Rows whose features and target occur in the data more than once.
    copied : ndarray of bool, shape (n_rows,)
        Repeated rows that chance does not explain; see :func:`find_repeats`.
    appended : int
        Number of rows of one label at the end of the data, as oversamplers append them; 0 without such rows.
    appended_label : int
        Code of that label.
    is_sure : bool
        Whether the copied rows are hardly ordinary ties of a table of few values.
    reach : str
        A sentence on the groups of copies that can be judged with the model's bags.
    """

    repeated: NDArray[np.bool_]
    copied: NDArray[np.bool_]
    appended: int = 0
    appended_label: int = 0
    is_sure: bool = True
    reach: str = ""

    def take(self, rows: NDArray[np.intp]) -> RepeatedRows:
        """Return the repeats of some of the rows, with flags as among all rows."""
        return replace(self, repeated=self.repeated[rows], copied=self.copied[rows])


def find_repeats(rows: HashedRows | None, target: NDArray[Any]) -> RepeatedRows:
    """Return which rows have the same features and target as another.

    Parameters
    ----------
    rows : HashedRows or None
        The training rows; None where they are not a table.
    target : ndarray, shape (n_rows,)
        Label codes or values.

    Returns
    -------
    RepeatedRows
        All False where `rows` is None, as for a CustomEnsemble of arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.analysis.rows.hashes import hash_rows
    >>> X = np.array([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]])
    >>> found = find_repeats(hash_rows(None, X), np.array([0, 1, 0]))
    >>> found.copied
    array([ True, False,  True])
    """
    has_labels = target.dtype.kind in "iu"
    appended = (appended_rows(target), int(target[-1])) if has_labels else (0, 0)
    records = None if rows is None else _records(rows, target)
    if rows is None or records is None or records.max() + 1 == records.size:
        nothing = np.broadcast_to(np.False_, target.size)
        return RepeatedRows(nothing, nothing, *appended)
    halves = row_hashes(rows.table, column_halves(rows.table.shape[1]))
    labels = target if has_labels else None
    copied, is_sure = copied_rows(records, halves, labels), True
    # Rows of a point mass, as a blank form, are no copies: fresh rows are of that record as often.
    apart = ~point_masses(records, labels) if copied.any() else np.ones(target.size, dtype=bool)
    copied = copied & apart
    if copied.any():
        # Few tables have copies.
        from ens_plugin.analysis.rows.ordinary_rows import without_ordinary

        copied, is_sure = without_ordinary(rows.table, target, numbered(rows.hashes), records, copied)
    repeated = np.asarray(np.bincount(records)[records] > 1)
    if has_labels and np.mean(copied) < REFUSED_SHARE:
        rest = numbered(records[apart].astype(np.uint64))
        found = oversampled_labels(rest, halves[:, apart], target[apart])
        drawn_again = repeated & apart & np.isin(target, found)
        copied, is_sure = copied | drawn_again, is_sure and not drawn_again.any()
    return RepeatedRows(repeated, copied, *appended, is_sure)


def identical_rows(rows: HashedRows | None, target: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each row, equal for rows with the same features and target; see :func:`find_repeats`.

    Raises
    ------
    InputError
        If the rows are not a table.
    """
    records = None if rows is None else _records(rows, target)
    if records is None:
        raise InputError(
            "groups='identical' compares rows, and this ensemble was given none that can be compared; pass one group "
            "for each row."
        )
    # Numbered by first appearance, as groups given by the user.
    return records.astype(np.int64)


def _records(rows: HashedRows, target: NDArray[Any]) -> NDArray[np.int32] | None:
    if rows.hashes.size != target.size:
        return None
    return numbered(record_hashes(rows.hashes, target))


def record_hashes(hashes: NDArray[np.uint64], target: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row together with its target, shape (n_rows,)."""
    # No column has this factor, because the target is no column.
    own = row_hashes(target.reshape(-1, 1))[0] * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(hashes + own)


def refuse_copies(repeats: RepeatedRows, weight: FloatArray) -> None:
    """Raise InputError if a large part of the training rows are copies of each other, for sure.

    Raises
    ------
    InputError
        If copies have a quarter of the weight or more.
    """
    share = float(weight[repeats.copied].sum() / weight.sum())
    if share >= REFUSED_SHARE and weight.size >= FEWEST_ROWS and repeats.is_sure:
        raise InputError(
            f"{np.count_nonzero(repeats.copied)} of {repeats.copied.size} rows have the same features and target as "
            "another row, and are probably copies (an oversampler leaves them, or a join). A member that was trained "
            f"on a copy of a row has fitted the row too, so the out-of-bag error would be far too low. "
            f"{REMEDIES} {repeats.reach} {SEPARATE}"
        )


def copies_findings(
    repeats: RepeatedRows, losses: FloatArray, target: NDArray[Any], weight: FloatArray
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return doubts where copies may bias the error by more than a standard error, and warnings where by less.

    Parameters
    ----------
    repeats : RepeatedRows
    losses : ndarray, shape (n_rows,)
        Loss of each row at the current size.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    weight : ndarray, shape (n_rows,)

    Returns
    -------
    doubts, warnings : tuples of str

    Notes
    -----
    If it had no copies, a copied row may have the mean loss of the single rows of its label, or the largest possible
    loss where a label has fewer than ten single rows.
    """
    copied = repeats.copied
    n_copied = int(np.count_nonzero(copied))
    if n_copied == 0:
        return (), ()
    share = weight / weight.sum()
    standard_error = float(np.sqrt(share @ (losses - share @ losses) ** 2 * (share @ share)))
    alike = counted(n_copied, "looks like a copy", "look like copies", of=f"{copied.size} rows")
    found = f"{alike} of another row: same features, same target."
    if _hidden_loss(copied, losses, target, share) <= standard_error:
        return (), (f"{found} They may bias the error, by less than its own standard error.",)
    if not repeats.is_sure:
        return (f"{found} {UNSURE}{REMEDIES} {repeats.reach} {SEPARATE}",), ()
    return (
        f"{found} Members that were trained on a copy of a row have fitted it too, so the error may be far too low. "
        f"{REMEDIES} {repeats.reach} {SEPARATE}",
    ), ()


def held_out_copies(rows: HashedRows | None, target: NDArray[Any], weight: FloatArray) -> tuple[str, ...]:
    """Return a doubt if many held-out rows are copies of each other: training rows may then be copies of them too.

    Parameters
    ----------
    rows : HashedRows or None
        The held-out rows.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    weight : ndarray, shape (n_rows,)
    """
    repeats = find_repeats(rows, target)
    if weight[repeats.copied].sum() < DOUBTED_HELD_OUT * weight.sum() or weight.size < FEWEST_ROWS:
        return ()
    unsure = "" if repeats.is_sure else "Rows of so few different values can also be equal by chance. "
    return (
        f"{np.count_nonzero(repeats.copied)} of {repeats.copied.size} held-out rows look like copies of another one: "
        "same features, same target. If rows were copied before some were held out, as an oversampler or a join "
        "copies them, members were trained on copies of these rows, and the error is far too low. Hold rows out first, "
        f"and copy training rows alone. {unsure}{SEPARATE}",
    )


def _hidden_loss(copied: NDArray[np.bool_], losses: FloatArray, target: NDArray[Any], share: FloatArray) -> float:
    """Return by how much the mean loss would rise if copied rows had the mean loss of single rows."""
    has_labels = target.dtype.kind in "iu"
    kinds = target if has_labels else np.zeros(target.size, dtype=np.int64)
    hidden = 0.0
    for kind in np.unique(kinds[copied]):
        single, copies = (kinds == kind) & ~copied, (kinds == kind) & copied
        hardest = 1.0 if has_labels else float(losses.max())
        if np.count_nonzero(single) >= FEWEST_SINGLE_ROWS:
            hardest = float(losses[single].mean())
        hidden += float(share[copies] @ np.maximum(hardest - losses[copies], 0.0))
    return hidden


def appended_doubt(n_appended: int, label: Any) -> str:
    """Return the doubt about rows that look like those an oversampler appends."""
    return (
        f"The last {n_appended} rows all have the label {label!r} and make all labels equally frequent, as "
        "oversamplers such as SMOTE leave them. The members were then trained on near-copies of the rows that they are "
        "judged by, so the error is too low. Pass rows that were neither trained on nor oversampled with "
        "data='holdout', or balance inside each bag (class_weight='balanced_subsample', or imbalanced-learn's "
        "BalancedRandomForestClassifier)."
    )
