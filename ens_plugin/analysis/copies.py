"""Copies among rows, rows of equal features, and doubts about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.analysis.weights import encode_groups
from ens_plugin.core.alike_rows import (
    appended_rows,
    chance_share,
    column_halves,
    copied_rows,
    evenly_repeated,
    near_missed,
    nearest_rows,
    numbered,
    oversampled_labels,
    paired_halves,
    point_masses,
    tied_pairs,
    ties_explain,
    unlike_columns,
)
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.validation import EXACT, ROUNDING, AnyIntArray, FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS

__all__ = [
    "FEWEST_REAL",
    "MOST_COLUMNS",
    "NEAREST",
    "QUERIES",
    "HashedRows",
    "RepeatedRows",
    "RowLikeness",
    "appended_doubt",
    "as_table",
    "copies_findings",
    "find_repeats",
    "hash_rows",
    "held_out_copies",
    "identical_rows",
    "record_hashes",
    "refuse_copies",
    "row_cells",
    "row_hashes",
    "row_likeness",
    "without_ordinary",
]

Hashes = NDArray[np.uint64]

BLOCK_VALUES = 32_768  # stay in a processor's cache
# Multipliers of MurmurHash3's last step (Appleby), which lets every bit of a value act on every bit of its hash.
MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
HALF = np.uint64(33)


def as_table(features: Any, rows: Any) -> Any:
    """Return rows as an array of two dimensions, a CSR matrix or a DataFrame; None where they are none of these."""
    if rows is None:
        return None
    for found in (rows, features, getattr(features, "table", None), getattr(features, "frame", None)):
        if isinstance(found, pd.DataFrame) or (isinstance(found, np.ndarray) and found.ndim == 2):
            return found
        if sparse.issparse(found):
            matrix: Any = found
            return sparse.csr_matrix(matrix)
    return None


@dataclass(frozen=True, eq=False)
class HashedRows:
    """A table of rows, with the :func:`row_hashes` of all columns."""

    table: Any
    hashes: Hashes


def hash_rows(features: Any, rows: Any) -> HashedRows | None:
    """Return the rows with a hash of each over all columns; None if they are no table; parameters as of `as_table`."""
    table = as_table(features, rows)
    return None if table is None or table.shape[1] == 0 else HashedRows(table, row_hashes(table)[0])


def row_hashes(table: Any, chosen: NDArray[np.bool_] | None = None) -> Hashes:
    """Return a hash of each row over all columns, or over some; equal values have equal hashes, others hardly ever.

    0 equals -0, 1 equals 1.0, and a missing value equals a missing value.  The time is proportional to the number of
    stored values.
    """
    n_rows, n_columns = table.shape
    sets = np.ones((1, n_columns), dtype=bool) if chosen is None else chosen
    factors = _mixed(np.arange(1, n_columns + 1, dtype=np.uint64)) | np.uint64(1)
    if sparse.issparse(table):
        return _sparse_hashes(table, sets, factors)
    hashes = np.zeros((len(sets), n_rows), dtype=np.uint64)
    if isinstance(table, pd.DataFrame):
        for column in range(n_columns):
            hashes[sets[:, column]] += _column_hashes(table.iloc[:, column]) * factors[column]
        return hashes
    height = max(BLOCK_VALUES // max(n_columns, 1), 1)
    for start in range(0, n_rows, height):
        rows = slice(start, start + height)
        values = _value_hashes(table[rows])
        values *= factors
        for index, columns in enumerate(sets):
            hashes[index, rows] = (values if columns.all() else values[:, columns]).sum(axis=1, dtype=np.uint64)
    return hashes


def _sparse_hashes(matrix: Any, sets: NDArray[np.bool_], factors: Hashes) -> Hashes:
    rows = sparse.csr_matrix(matrix, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    values = _value_hashes(rows.data) * factors[rows.indices]
    hashes = np.zeros((len(sets), rows.shape[0]), dtype=np.uint64)
    for index, columns in enumerate(sets):
        # Sums of unsigned integers wrap around, so that differences of running sums are exact.
        running = np.cumsum(np.append(np.uint64(0), np.where(columns[rows.indices], values, np.uint64(0))))
        hashes[index] = running[rows.indptr[1:]] - running[rows.indptr[:-1]]
    return hashes


def _column_hashes(column: pd.Series[Any]) -> Hashes:
    if isinstance(column.dtype, (np.dtype, pd.SparseDtype)):
        return _value_hashes(np.asarray(column))
    try:
        return np.asarray(pd.util.hash_array(column.array))
    except (TypeError, ValueError):
        return _text_hashes(column.to_numpy(dtype=object))


def _value_hashes(values: NDArray[Any]) -> Hashes:
    kind = values.dtype.kind
    if kind == "f":
        # Adding 0 changes -0 to 0; missing values have many patterns of bits.
        numbers = np.add(values, 0.0, dtype=np.float64)
        missing = np.isnan(numbers)
        if missing.any():
            numbers[missing] = np.nan
        return _mixed(numbers.view(np.uint64))
    if kind in "biu":
        numbers = values.astype(np.float64)
        if values.dtype.itemsize == 8:
            # Above this limit, several whole numbers have the same float.
            return _mixed(np.where(np.abs(numbers) < EXACT, numbers.view(np.uint64), values.astype(np.uint64)))
        return _mixed(numbers.view(np.uint64))
    flat = np.ascontiguousarray(values).reshape(-1)
    try:
        hashes = pd.util.hash_array(flat)
    except (TypeError, ValueError):
        hashes = _text_hashes(flat)
    return np.asarray(hashes).reshape(values.shape)


def _text_hashes(values: NDArray[Any]) -> Hashes:
    return np.asarray(pd.util.hash_array(np.array([repr(value) for value in values], dtype=object)))


def _mixed(values: Hashes) -> Hashes:
    """Return the values with their bits mixed, in place."""
    for mixer in MIXERS:
        values ^= values >> HALF
        values *= mixer
    values ^= values >> HALF
    return values


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


@dataclass(frozen=True, eq=False)
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
    """Return which rows have the same features and target as another."""
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
        copied, is_sure = without_ordinary(rows.table, target, numbered(rows.hashes), records, copied)
    repeated = np.asarray(np.bincount(records)[records] > 1)
    if has_labels and np.mean(copied) < REFUSED_SHARE:
        rest = numbered(records[apart].astype(np.uint64))
        found = oversampled_labels(rest, halves[:, apart], target[apart])
        drawn_again = repeated & apart & np.isin(target, found)
        copied, is_sure = copied | drawn_again, is_sure and not drawn_again.any()
    return RepeatedRows(repeated, copied, *appended, is_sure)


def identical_rows(rows: HashedRows | None, target: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number for each row, equal for rows with the same features and target; see :func:`find_repeats`."""
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
    """Raise InputError if a large part of the training rows are copies of each other, for sure."""
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
) -> tuple[Finding, ...]:
    """Return a doubt where copies may bias the error by more than a standard error, and a note where by less.

    If it had no copies, a copied row may have the mean loss of the single rows of its label, or the largest possible
    loss where a label has fewer than ten single rows.
    """
    copied = repeats.copied
    n_copied = int(np.count_nonzero(copied))
    if n_copied == 0:
        return ()
    share = weight / weight.sum()
    standard_error = float(np.sqrt(share @ (losses - share @ losses) ** 2 * (share @ share)))
    alike = counted(n_copied, "looks like a copy", "look like copies", of=f"{copied.size} rows")
    found = f"{alike} of another row: same features, same target."
    bias = _hidden_loss(copied, losses, target, share)
    numbers = {"n_copied": n_copied, "largest_bias": bias, "standard_error": standard_error}
    if bias <= standard_error:
        few = f"{found} They may bias the error, by less than its own standard error."
        return (finding("few-copies", few, **numbers),)
    why = (
        "Members that were trained on a copy of a row have fitted it too, so the error may be far too low. "
        if repeats.is_sure
        else UNSURE
    )
    return (finding("copies", f"{found} {why}{REMEDIES} {repeats.reach} {SEPARATE}", **numbers),)


def held_out_copies(rows: HashedRows | None, target: NDArray[Any], weight: FloatArray) -> tuple[Finding, ...]:
    """Return a doubt if many held-out rows are copies of each other: training rows may then be copies of them too."""
    repeats = find_repeats(rows, target)
    if weight[repeats.copied].sum() < DOUBTED_HELD_OUT * weight.sum() or weight.size < FEWEST_ROWS:
        return ()
    unsure = "" if repeats.is_sure else "Rows of so few different values can also be equal by chance. "
    sentence = (
        f"{np.count_nonzero(repeats.copied)} of {repeats.copied.size} held-out rows look like copies of another one: "
        "same features, same target. If rows were copied before some were held out, as an oversampler or a join "
        "copies them, members were trained on copies of these rows, and the error is far too low. Hold rows out first, "
        f"and copy training rows alone. {unsure}{SEPARATE}"
    )
    return (finding("copied-held-out-rows", sentence, n_copied=int(np.count_nonzero(repeats.copied))),)


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


def appended_doubt(n_appended: int, label: Any) -> Finding:
    """Return the doubt about rows that look like those an oversampler appends."""
    return finding(
        "appended-rows",
        f"The last {n_appended} rows all have the label {label!r} and make all labels equally frequent, as "
        "oversamplers such as SMOTE leave them. The members were then trained on near-copies of the rows that they are "
        "judged by, so the error is too low. Pass rows that were neither trained on nor oversampled with "
        "data='holdout', or balance inside each bag (class_weight='balanced_subsample', or imbalanced-learn's "
        "BalancedRandomForestClassifier).",
        n_appended=n_appended,
    )


MOST_VALUES = 2_000_000
MOST_COLUMNS = 64
# Counts that drawing rarely gives: the table is then not judged more mildly.
DOUBTED_LEVEL = 0.01
QUERIES = 200
NEAREST = 48
COMPARED = 4
FEWEST_COMPARED = 50
# A column of real numbers has many values, and gaps between them of all sizes.
FEWEST_REAL = 20
FILLED_SHARE = 0.1
# If the halves depend on each other, ties are some times as many as those of independent ones.
LARGEST_CHANCE = 0.05


def without_ordinary(
    table: Any, target: NDArray[Any], cells: AnyIntArray, records: AnyIntArray, copied: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], bool]:
    """Return which of the rows taken for copies are no ordinary ties, and whether the rest are copies for sure."""
    n_rows, n_columns = table.shape
    labels = target if target.dtype.kind in "iu" else None
    if n_columns > MOST_COLUMNS or n_rows * n_columns > MOST_VALUES or _is_strange(records, labels):
        return copied, True
    chosen = unlike_columns(row_hashes(table, np.eye(n_columns, dtype=bool)))
    halves = row_hashes(table, paired_halves(chosen, n_columns))
    left = copied & ~near_missed(records, halves)
    if not left.any():
        return left, True
    tied = _lone_ties(cells, halves if chosen.size > 1 else halves[:0], left)
    numbers = _numbers(table)
    agreement = _chance_agreement(target, numbers, cells, np.flatnonzero(tied))
    if ties_explain(*tied_pairs(cells[tied], records[tied]), agreement):
        return np.zeros(n_rows, dtype=bool), True
    return left, chance_share(records, halves) < LARGEST_CHANCE or any(_is_real(column) for column in numbers.T)


def _is_strange(records: AnyIntArray, labels: AnyIntArray | None) -> bool:
    """Return whether counts are hardly those of drawn rows, or exactly as many of each label, as oversamplers leave."""
    counts = np.zeros(0) if labels is None else np.unique(labels, return_counts=True)[1]
    return (counts.size > 1 and np.ptp(counts) == 0) or bool(evenly_repeated(records, labels, DOUBTED_LEVEL).any())


def _lone_ties(cells: AnyIntArray, halves: NDArray[np.uint64], copied: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have equal features, as few as rows taken for copies have, and no near misses either."""
    counts = np.bincount(cells)[cells]
    tied = (counts > 1) & (counts <= counts[copied].max())
    return np.asarray(tied & ~near_missed(cells, halves) if len(halves) else tied)


def _chance_agreement(target: NDArray[Any], numbers: FloatArray, cells: AnyIntArray, tied: NDArray[np.intp]) -> float:
    """Return the share of pairs of rows with equal targets: of any rows, or, if larger, of near rows in other cells."""
    _, code, count = np.unique(target, return_inverse=True, return_counts=True)
    base = float(np.sum((count / target.size) ** 2))
    _, first, cell, n_in_cell = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    if numbers.shape[1] == 0 or first.size == 1:
        return base
    # Rows with equal features and targets have the same neighbours: one stands for all.
    pairs, one, n_tied = np.unique(_numbered_pairs(cell, code)[tied], return_index=True, return_counts=True)
    chosen = spread_rows(pairs.size, QUERIES)
    queries = tied[one[chosen]]
    # A missing value is at the mean.
    values = np.nan_to_num(numbers[first], posinf=0.0, neginf=0.0)
    near, distances = nearest_rows(values, cell[queries], min(NEAREST, first.size - 1))
    weight = _weight_of_rows(distances, n_in_cell[near]) * n_tied[chosen, None]
    n_compared = float(np.sum(weight * n_in_cell[near]))
    if n_compared < FEWEST_COMPARED:
        return base
    agree = float(np.sum(weight * _counts_of_pairs(cell, code, near, code[queries, None]))) / n_compared
    return min(max(base, agree), 1.0 - 1.0 / n_compared)


def _weight_of_rows(distances: FloatArray, n_in_cell: AnyIntArray) -> FloatArray:
    """Return the weight of each row of the cells near a query, so that COMPARED of the nearest rows count.

    All rows that are equally far away have equal weights: which of them come first is no property of the table.
    """
    is_farther = np.diff(distances, axis=1, prepend=-1.0) > ROUNDING * distances
    step = np.cumsum(is_farther, axis=1) - 1 + distances.shape[1] * np.arange(distances.shape[0])[:, None]
    n_at_step = np.bincount(step.ravel(), weights=n_in_cell.ravel(), minlength=distances.size)
    n_reached = n_at_step.reshape(distances.shape).cumsum(axis=1).ravel()
    n_wanted = np.clip(COMPARED - (n_reached - n_at_step), 0.0, n_at_step)
    return np.asarray((n_wanted / np.maximum(n_at_step, 1.0))[step])


def _counts_of_pairs(cell: AnyIntArray, code: AnyIntArray, cells: AnyIntArray, codes: AnyIntArray) -> AnyIntArray:
    """Return how many rows have each pair of a cell and a target, of shapes that broadcast together."""
    pairs, counts = np.unique(_numbered_pairs(cell, code), return_counts=True)
    wanted = cells * (int(code.max()) + 1) + codes
    place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    return np.where(pairs[place] == wanted, counts[place], 0)


def _numbered_pairs(cell: AnyIntArray, code: AnyIntArray) -> AnyIntArray:
    """Return a number for each row that is equal where cell and target are."""
    return cell * (int(code.max()) + 1) + code


def _numbers(table: Any) -> FloatArray:
    """Return the numeric columns as differences from their mean in units of their spread; none of sparse rows."""
    if isinstance(table, pd.DataFrame):
        is_numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
        table = table.loc[:, is_numeric].to_numpy(dtype=np.float64, na_value=np.nan)
    if sparse.issparse(table) or table.dtype.kind not in "fiub":
        return np.empty((table.shape[0], 0))
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(np.isfinite(table), table, np.nan).astype(np.float64)
        values = values[:, ~np.isnan(values).all(axis=0)]
        mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        return np.asarray((values - mean) / np.where(spread > 0, spread, 1.0))


def _is_real(column: FloatArray) -> bool:
    """Return whether the values of a column are no multiples of a step that are mostly taken."""
    values = np.unique(column[np.isfinite(column)])
    if values.size <= FEWEST_REAL:
        return False
    return bool(np.diff(values).min() * values.size < FILLED_SHARE * (values[-1] - values[0]))


def row_cells(rows: HashedRows | None) -> NDArray[np.int32] | None:
    """Return a number for each row, from 0 without gaps, equal for rows with equal features."""
    return None if rows is None else numbered(rows.hashes)


@dataclass(frozen=True, eq=False)
class RowLikeness:
    """Groups, copies and equal features among the rows of an analysis.

    Attributes
    ----------
    groups : ndarray of int64, shape (n_rows,), or None
        Group of each row, where the user gave groups.
    repeats : RepeatedRows or None
        Copies among training rows, where the user gave no groups.
    cell : ndarray of int32, shape (n_rows,), or None
        A number for each row, the same for rows with equal features; None where the rows are not a table, and where
        all of them differ.
    all_differ : bool
        Whether the rows are a table in which no two have equal features.
    """

    groups: NDArray[np.int64] | None
    repeats: RepeatedRows | None
    cell: NDArray[np.int32] | None
    all_differ: bool = False

    def take(self, rows: NDArray[np.intp]) -> RowLikeness:
        """Return the groups, copies and equal features of some of the rows."""
        return RowLikeness(
            None if self.groups is None else self.groups[rows],
            None if self.repeats is None else self.repeats.take(rows),
            None if self.cell is None else self.cell[rows],
            self.all_differ,
        )


def row_likeness(groups: Any, rows: HashedRows | None, target: NDArray[Any], data: str) -> RowLikeness:
    """Return the groups given by the user, or copies found among training rows, and rows of equal features."""
    cell = row_cells(rows)
    all_differ = cell is not None and int(cell.max()) + 1 == cell.size
    cell = None if all_differ else cell
    if isinstance(groups, str) and groups == "identical":
        return RowLikeness(identical_rows(rows, target), None, cell, all_differ)
    if groups is not None:
        return RowLikeness(encode_groups(groups, target.size), None, cell, all_differ)
    return RowLikeness(None, None if data == "holdout" else find_repeats(rows, target), cell, all_differ)
