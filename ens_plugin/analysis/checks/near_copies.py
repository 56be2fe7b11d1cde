"""Doubts about training rows that are nearly copies of each other, or lie between two others, in any order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.core.likeness.near_rows import Rows, companions, interpolated, nearest_rows
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["SEPARATE_CASES", "near_copy_doubts", "numbers", "numeric_columns"]

QUERIES = 200
# Of ordinary tables, an eighth of these rows is enough to see that they are.
FIRST_STEP = 8
FEWEST_FIRST = 2
NEAREST = 48
FEWEST_ROWS = 100
MOST_COLUMNS = 64
FEWEST_COLUMNS = 2
LOOKED_AT = 1000
# Columns of fewer values have steps between their values, which are no sign of copies.
FEWEST_VALUES = 20
# On a line with two others by chance: hardly ever, but for columns of few values.
DISTINCT_SHARE = 0.5
FEWEST_REAL_COLUMNS = 3
# In ordinary tables a smaller share of the rows has companions that are more alike in the target.
FEWEST_NEAR = 0.2
FEWEST_STANDARD_ERRORS = 5.0
LARGEST_RATIO = 0.5
FEWEST_INTERPOLATED = 0.05

SEPARATE_CASES = "If the rows are separate cases, state that with groups=np.arange(len(y))."


def near_copy_doubts(table: Any, target: NDArray[Any]) -> tuple[str, ...]:
    """Return doubts about training rows that are nearly copies of each other or were interpolated.

    Parameters
    ----------
    table : ndarray of two dimensions, CSR matrix or DataFrame
        The rows; of numeric columns with many values, up to 64 are compared.
    target : ndarray, shape (n_rows,)
        Label codes or values.

    Returns
    -------
    tuple of str
        Empty for fewer than 100 rows or two such columns, and for sparse rows.
    """
    values, is_real = _compared_columns(table)
    if len(values) < FEWEST_ROWS or is_real.size < FEWEST_COLUMNS or target.ndim > 1:
        return ()
    queries = spread_rows(len(values), QUERIES)
    first = _Alike.of(values, is_real, queries[::FIRST_STEP])
    if np.count_nonzero(first.companions) < FEWEST_FIRST and not first.interpolated.any():
        return ()
    found = _Alike.of(values, is_real, queries)
    doubts = (_doubt_about_companions(found, target), _doubt_about_lines(found.interpolated))
    return tuple(doubt for doubt in doubts if doubt is not None)


class _Alike(NamedTuple):
    """Some rows with their neighbours, the nearest first, and how these lie around them."""

    rows: NDArray[np.intp]
    neighbours: NDArray[np.intp]
    companions: NDArray[np.intp]
    interpolated: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Rows, is_real: NDArray[np.bool_], rows: NDArray[np.intp]) -> _Alike:
        neighbours, distances = nearest_rows(values, rows, min(NEAREST, len(values) // 4))
        on_lines = np.zeros(rows.size, dtype=bool)
        if np.count_nonzero(is_real) >= FEWEST_REAL_COLUMNS:
            on_lines = interpolated(values[rows][..., is_real], values[neighbours][..., is_real])
        return cls(rows, neighbours, companions(distances), on_lines)


@record
class _ScaledColumns:
    """Some columns of a table, scaled to compare them where rows are read: a whole copy of them could be too large.

    Missing and infinite values are put at the mean.
    """

    table: Any
    chosen: NDArray[np.intp]
    mean: FloatArray
    spread: FloatArray

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def __getitem__(self, rows: Any, /) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            values = numbers(self.table, rows, self.chosen) - self.mean
            values /= self.spread
        is_known = np.isfinite(values)
        return values if is_known.all() else np.where(is_known, values, 0.0)


def _compared_columns(table: Any) -> tuple[_ScaledColumns, NDArray[np.bool_]]:
    """Return up to 64 numeric columns with many values, and whether nearly all values differ in each.

    Mean, variance and number of values are those of up to 1000 rows.
    """
    numeric = numeric_columns(table)
    columns = numeric[spread_rows(numeric.size, MOST_COLUMNS)]
    some = numbers(table, spread_rows(table.shape[0], LOOKED_AT), columns).astype(np.float64)
    is_known = np.isfinite(some)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(is_known, some, 0.0).sum(axis=0) / n_known
        spread = np.sqrt(np.square(np.where(is_known, some - mean, 0.0)).sum(axis=0) / n_known)
    n_values = np.array([np.unique(column).size for column in some.T], dtype=np.intp)
    chosen = np.flatnonzero((n_values > FEWEST_VALUES) & (spread > 0) & np.isfinite(spread))
    is_real = n_values[chosen] > DISTINCT_SHARE * len(some)
    return _ScaledColumns(table, columns[chosen], mean[chosen], spread[chosen]), is_real


def numeric_columns(table: Any) -> NDArray[np.intp]:
    """Return the positions of the numeric columns; of none for sparse rows."""
    if isinstance(table, pd.DataFrame):
        return np.flatnonzero([_is_numeric(dtype) for dtype in table.dtypes])
    is_numeric = isinstance(table, np.ndarray) and table.dtype.kind in "fiu"
    return np.arange(table.shape[1] if is_numeric else 0)


def numbers(table: Any, rows: Any, columns: NDArray[np.intp]) -> NDArray[Any]:
    """Return some columns of the rows at a slice or an array of positions, shape (..., n_columns)."""
    if isinstance(rows, np.ndarray) and rows.ndim > 1:
        return numbers(table, rows.ravel(), columns).reshape(*rows.shape, columns.size)
    if columns.size == 0:
        return np.empty((rows.size, 0))
    if isinstance(table, pd.DataFrame):
        return np.asarray(table.iloc[rows, columns].to_numpy(dtype=np.float64, na_value=np.nan))
    # Columns ascend, so that as many as there are are all of them, in order.
    return np.asarray(table[rows] if columns.size == table.shape[1] else table[rows][:, columns])


def _is_numeric(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.SparseDtype)


def _doubt_about_companions(found: _Alike, target: NDArray[Any]) -> str | None:
    n_near, neighbours, queries = found.companions, found.neighbours, found.rows
    has_labels = target.dtype.kind in "iu"
    if has_labels:
        # A label of a single cluster has no rows elsewhere, as in cleanly separated labels.
        n_near = np.where(np.bincount(target)[target[queries]] > 2 * (n_near + 1), n_near, 0)
    near = np.flatnonzero(n_near)
    if near.size < FEWEST_NEAR * queries.size:
        return None
    own, other = target[queries[near], None], target[neighbours[near]]
    unlike = (own != other).astype(np.float64) if has_labels else np.abs(own - other)
    place, count = np.arange(neighbours.shape[1]), n_near[near, None]
    inside = np.mean(unlike, axis=1, where=place < count)
    outside = np.mean(unlike, axis=1, where=(place >= count) & (place <= 2 * count))
    rise = outside - inside
    error = float(rise.std()) / np.sqrt(near.size)
    if rise.mean() <= FEWEST_STANDARD_ERRORS * error or inside.mean() > LARGEST_RATIO * outside.mean():
        return None
    differ = (
        f"{100 * inside.mean():.0f} % of these, and {100 * outside.mean():.0f} % of the next rows beyond, have another "
        "label"
        if has_labels
        else f"their target differs by {inside.mean():.3g} on average, and that of the next rows beyond by "
        f"{outside.mean():.3g}"
    )
    return (
        f"{100 * near.size / queries.size:.0f} % of the rows lie far closer to a few others (mostly "
        f"{np.median(n_near[near]):.0f}) than to all the rest: {differ}. If these are measurements of one subject, or "
        "copies with small changes, members that were trained on some of them have fitted the others, and the error is "
        f"far too low. Name what belongs together with groups=. {SEPARATE_CASES}"
    )


def _doubt_about_lines(is_interpolated: NDArray[np.bool_]) -> str | None:
    share = float(is_interpolated.mean())
    if share < FEWEST_INTERPOLATED:
        return None
    return (
        f"{100 * share:.0f} % of the rows lie exactly on a line with two of their neighbours, as rows that an "
        "oversampler such as SMOTE made, or rows that were filled in. The members were then trained on what their rows "
        "were made of, so the error is too low. Pass held-out rows, neither trained on nor oversampled, or train "
        f"without the made rows. {SEPARATE_CASES}"
    )
