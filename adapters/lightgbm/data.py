"""Preparation of rows for LightGBM's own ``predict``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.errors import DataMismatchError, InputError

__all__ = ["PreparedRows", "prepare_table"]


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
        If the columns are not the ones the model was trained on.
    InputError
        If `X` is not a table.
    """
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
            f"X has {table.shape[1]} columns, but the model was trained on {booster.num_feature()}; pass the columns "
            "it was trained on, in the same order."
        )
    if hasattr(table, "columns"):
        _check_names(booster.feature_name(), table.columns)
    return table


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
