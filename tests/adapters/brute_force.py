"""Out-of-bag outputs by the definition: row by row, member by member, with nothing of ens_plugin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["oob_means"]


def oob_means(
    bags: Sequence[Any], predict: Callable[[int, Any], Any], X: Any
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean output of the members that were not trained on each row, and the number of these members.

    Rows without any have NaN.
    """
    n_rows = len(X)
    total: Any = 0.0
    count = np.zeros(n_rows, dtype=np.int64)
    for member, bag in enumerate(bags):
        is_oob = ~np.isin(np.arange(n_rows), bag)
        values = np.asarray(predict(member, X), dtype=np.float64)
        total = total + np.where(is_oob.reshape(-1, *(1,) * (values.ndim - 1)), values, 0.0)
        count += is_oob
    divisor = np.where(count == 0, np.nan, count)
    return total / divisor.reshape(-1, *(1,) * (total.ndim - 1)), count
