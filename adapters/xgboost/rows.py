"""Rows as XGBoost takes them, with what a DMatrix holds beside its table."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy.sparse import issparse

from ens_plugin.adapters.members import as_pandas, check_no_text
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import DataMismatchError, InputError


class Rows:
    """A table that can be sliced by rows, and from which :meth:`matrix` makes a DMatrix for a booster."""

    # Weights, margins and labels are those of a DMatrix, or None.

    def __init__(self, X: Any, booster: Any, missing: float = np.nan) -> None:
        self.missing = missing
        self.names, self.types = booster.feature_names, booster.feature_types
        self.weight: FloatArray | None = None
        self.base_margin: FloatArray | None = None
        self.label: FloatArray | None = None
        if isinstance(X, xgboost.DMatrix):
            self._take_along(X)
            _check_names(X.feature_names, self.names)
        self.table = _sliceable(X)
        self.shape: tuple[int, int] = (int(self.table.shape[0]), int(self.table.shape[1]))
        _check_columns(self, booster)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Rows:
        part = object.__new__(Rows)
        part.missing, part.names, part.types = self.missing, self.names, self.types
        part.table = self.table.iloc[rows] if hasattr(self.table, "iloc") else self.table[rows]
        part.shape = (int(part.table.shape[0]), self.shape[1])
        part.weight, part.base_margin, part.label = (
            None if values is None else values[rows] for values in (self.weight, self.base_margin, self.label)
        )
        return part

    def with_weight(self, weight: FloatArray) -> Rows:
        """Return the same rows with training weights, as a DMatrix rounds them."""
        part = self[:]
        part.weight = weight.astype(np.float32).astype(np.float64)
        return part

    def matrix(self) -> Any:
        """Return the rows as a DMatrix, without weights or margins."""
        try:
            if hasattr(self.table, "iloc"):
                # A frame marks which of its columns are categories; the library recodes them for the model.
                return xgboost.DMatrix(self.table, missing=self.missing, nthread=1, enable_categorical=True)
            return xgboost.DMatrix(
                self.table,
                missing=self.missing,
                nthread=1,
                feature_names=self.names,
                feature_types=self.types,
                enable_categorical=self.types is not None,
            )
        except (xgboost.core.XGBoostError, TypeError, ValueError) as error:
            raise InputError(
                f"X cannot be used ({_first_line(error)}); pass the rows as the model's predict takes them."
            ) from error

    def _take_along(self, matrix: Any) -> None:
        weight, margin, label = matrix.get_weight(), matrix.get_base_margin(), matrix.get_label()
        n_rows = matrix.num_row()
        if weight.size:
            self.weight = weight.astype(np.float64)
        if margin.size:
            self.base_margin = margin.reshape(n_rows, -1).astype(np.float64)
        if label.size == n_rows:
            self.label = label.astype(np.float64)


def _sliceable(X: Any) -> Any:
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        return X.to_frame() if getattr(X, "ndim", 2) == 1 else X
    if issparse(X):
        sparse: Any = X
        return sparse.tocsr()
    if isinstance(X, xgboost.DMatrix):
        return X.get_data()
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"X cannot be used: it must be a table of numbers with one row per case, got shape {array.shape} of "
            f"{array.dtype}."
        )
    return array


def _check_columns(rows: Rows, booster: Any) -> None:
    expected = booster.num_features()
    if rows.shape[1] != expected:
        raise DataMismatchError(
            f"X has {counted(rows.shape[1], 'column')}, but the booster was trained on {expected}; pass the columns it "
            "was trained on, in the same order."
        )
    if hasattr(rows.table, "iloc"):
        _check_names([_trained_name(name) for name in rows.table.columns], rows.names)
        check_no_text(rows.table)


def _trained_name(column: Any) -> str:
    """Return the name of a column as XGBoost keeps it: it joins the levels of a MultiIndex by spaces."""
    return " ".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _check_names(found: Any, expected: Any) -> None:
    if found is None or expected is None or list(found) == list(expected):
        return
    raise DataMismatchError(
        f"The columns of X are not the ones the booster was trained on: {list(found)[:5]} instead of "
        f"{list(expected)[:5]}; pass X[booster.feature_names]."
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
