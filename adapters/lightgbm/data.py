"""Preparation of rows for LightGBM's own ``predict``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.categories import check_no_text, is_text, with_trained_categories
from ens_plugin.adapters.shared.frames import as_pandas
from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError

__all__ = ["PreparedRows", "prepare_table", "with_categories"]


class PreparedRows:
    """A table that can be sliced by rows, with the leaves that its rows reach where these are computed.

    Parameters
    ----------
    table : ndarray, CSR matrix or DataFrame of shape (n_rows, n_features)
    leaves : ndarray of unsigned int, shape (n_trees, n_rows), or None
    """

    def __init__(self, table: Any, leaves: NDArray[Any] | None = None) -> None:
        self.table = table
        self.shape: tuple[int, int] = table.shape
        self.leaves = leaves

    def __getitem__(self, rows: Any) -> PreparedRows:
        table = self.table.iloc[rows] if hasattr(self.table, "iloc") else self.table[rows]
        return PreparedRows(table, None if self.leaves is None else self.leaves[:, rows])

    def blocks(self, n_rows: int) -> Iterator[PreparedRows]:
        """Yield all rows in order, `n_rows` at a time."""
        for start in range(0, self.shape[0], n_rows):
            yield self[start : start + n_rows]


def prepare_table(booster: Any, X: Any) -> Any:
    """Return X as an array, CSR matrix or DataFrame, its columns checked against `booster`.

    LightGBM itself turns these into numbers, categories included, when it predicts.

    Raises
    ------
    DataMismatchError
        If the columns, or those of them that are categories, are not the ones the model was trained on.
    InputError
        If `X` is not a table, or columns hold text.
    """
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X
    elif hasattr(X, "tocsr"):
        table = X.tocsr()
    else:
        table = _as_array(X)
    if len(table.shape) != 2:
        raise InputError(f"X must have two dimensions, rows and columns, got shape {table.shape}.")
    if table.shape[1] != booster.num_feature():
        raise DataMismatchError(
            f"X has {counted(table.shape[1], 'column')}, but the model was trained on {booster.num_feature()}; pass "
            "the columns it was trained on, in the same order."
        )
    if hasattr(table, "columns"):
        _check_names(booster.feature_name(), table.columns)
        _check_categories(booster, table)
    return table


def with_categories(booster: Any, table: Any) -> Any:
    """Return a DataFrame whose columns of text, or of values that were categories, are the booster's categories.

    The booster stores the categories of each column in order, without its name.  The table is returned as it is unless
    its columns of text, or the columns that the trees split by category, are as many as those that are stored.

    Raises
    ------
    DataMismatchError
        If no value of a column is among its categories.
    """
    stored = booster.pandas_categorical or []
    if not stored or _category_columns(table):
        return table
    texts = [name for name, column in table.items() if is_text(column)]
    for names in (texts, [name for name in table.columns if name in {*texts, *_split_by_category(booster, table)}]):
        if len(names) == len(stored):
            return with_trained_categories(table, dict(zip(names, stored, strict=True)))
    return table


def _split_by_category(booster: Any, table: Any) -> list[Any]:
    known = booster.dump_model(num_iteration=1)["feature_infos"]
    trained = zip(booster.feature_name(), table.columns, strict=True)
    return [name for own, name in trained if known.get(own, {}).get("values")]


def _category_columns(table: Any) -> list[str]:
    return [str(name) for name, column in table.items() if hasattr(column.dtype, "categories")]


def _check_categories(booster: Any, table: Any) -> None:
    found, stored = _category_columns(table), booster.pandas_categorical or []
    if len(found) != len(stored):
        raise DataMismatchError(
            f"The model was trained on {counted(len(stored), 'column')} of categories, and X has {len(found)}"
            f"{f' ({shortened(found)})' if found else ''}. Pass the same columns as categories of pandas as for "
            "training: X[column] = X[column].astype(X_train[column].dtype)."
        )
    check_no_text(table)


def _as_array(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype.kind not in "biuf" else array
    except (TypeError, ValueError) as error:
        raise InputError(
            f"X cannot be used ({error}); pass numbers as an array, a sparse matrix or a DataFrame."
        ) from error


def _check_names(trained: list[str], columns: Any) -> None:
    if trained == [f"Column_{index}" for index in range(len(trained))]:
        return  # trained on an array
    # LightGBM stores names with underscores for blanks.
    names = [str(name).replace(" ", "_") for name in columns]
    if names == trained:
        return
    missing = [name for name in trained if name not in set(names)]
    found = f"missing {shortened(missing)}" if missing else "the same names in another order, or repeated"
    raise DataMismatchError(
        f"The columns of X are not the ones the model was trained on ({found}); pass them in training order."
    )
