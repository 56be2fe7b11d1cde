"""Rows as LightGBM takes them: tables with the columns and categories of training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import TableRows, as_pandas, check_no_text, is_text, shortened, with_trained_categories
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError


def prepare_table(booster: Any, X: Any) -> TableRows:
    """Return X as an array, CSR matrix or DataFrame, its columns checked against `booster`."""
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
    if not hasattr(table, "columns"):
        return TableRows(table)
    _check_names(booster.feature_name(), table.columns)
    _check_categories(booster, table)
    # LightGBM would turn a DataFrame into numbers in each call, and members predict one after the other.
    return TableRows(table, _numbers(booster, table))


def _numbers(booster: Any, table: Any) -> NDArray[Any]:
    """Return a DataFrame as LightGBM reads it: categories by their positions among those of training."""
    stored = iter(booster.pandas_categorical or [])
    columns = []
    for _, column in table.items():
        if hasattr(column.dtype, "categories"):
            codes = column.cat.set_categories(next(stored)).cat.codes.to_numpy(np.float64)
            columns.append(np.where(codes < 0, np.nan, codes))
        else:
            columns.append(column.to_numpy(np.float64, na_value=np.nan))
    # LightGBM takes single precision where no column needs more.
    kinds = {
        getattr(own.dtype, "numpy_dtype", own.dtype) for _, own in table.items() if not hasattr(own.dtype, "categories")
    }
    dtype = np.result_type(np.float32, *(kind for kind in kinds if isinstance(kind, np.dtype)))
    return np.stack(columns, axis=1).astype(dtype) if columns else np.empty(table.shape)


def with_categories(booster: Any, table: Any) -> Any:
    """Return a DataFrame whose columns of text, or of values that were categories, are the booster's categories."""
    # The booster stores the categories of each column in order, without its name. The table is returned as it is unless
    # its columns of text, or the columns that the trees split by category, are as many as those that are stored.
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
