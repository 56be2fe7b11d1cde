"""Even sizes at which votes tie, and whose error is therefore that of the odd size below."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import FloatArray

__all__ = ["is_tied", "previous_odd_size"]


def previous_odd_size(sizes: ArrayLike, ties_to: float) -> FloatArray:
    """Return sizes with each even one up to `ties_to` replaced by the odd size below, which has the same error.

    `ties_to` is the largest even size at which votes tie: see :class:`ens_plugin.ErrorCurve`.
    """
    return np.asarray(np.asarray(sizes, dtype=np.float64) - is_tied(sizes, ties_to))


def is_tied(sizes: ArrayLike, ties_to: float) -> NDArray[np.bool_]:
    """Return which sizes are even and at most `ties_to`, shape as `sizes`."""
    wanted = np.asarray(sizes, dtype=np.float64)
    # The remainder of infinity is NaN, which is unequal to 0.
    with np.errstate(invalid="ignore"):
        return np.asarray((wanted % 2 == 0) & (wanted <= ties_to))
