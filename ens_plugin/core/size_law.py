"""What a size is recommended by: any quantity of an ensemble that tends to that of the infinite ensemble."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray

__all__ = ["NoLimit", "SizeLaw"]


class SizeLaw(Protocol):
    """How close an ensemble of each size is to the infinite ensemble, in one respect.

    Agreement of labels, error, Brier score and every metric have a law each: the recommended size, its interval and the
    table of a criterion come from these three methods alone (:func:`ens_plugin.analysis.sizes.recommend`).  Another way
    to one of these sizes is a class with them.  Another *criterion* needs its words too, where
    :attr:`ens_plugin.SizeRecommendation.criterion` is read.
    """

    def values(self, sizes: ArrayLike) -> FloatArray:
        """Return the closeness at each size, shape (n_sizes,): an agreement, which grows, or an excess, which falls.

        An excess is signed where the quantity may lie on either side of its limit.

        NaN where nothing can be relative to the infinite ensemble, whose error is 0.
        """
        ...

    def size_within(self, wanted: float, max_size: int) -> int | None:
        """Return the smallest size from which on the closeness is as wanted; None if above `max_size`, or unknown.

        Of votes, odd sizes alone are considered: an even one errs as often as the odd one below it.
        """
        ...

    def size_interval(self, wanted: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the ends of that size's interval: the lower at most `max_size`, the upper None if above it."""
        ...


class NoLimit:
    """The law of a quantity that cannot be distinguished from 0 for the infinite ensemble: no size is known."""

    def values(self, sizes: ArrayLike) -> FloatArray:
        """Return NaN for each size."""
        return np.full(np.shape(sizes), np.nan)

    def size_within(self, wanted: float, max_size: int) -> None:
        """Return None."""
        return

    def size_interval(self, wanted: float, max_size: int, level: float) -> tuple[int, None]:
        """Return 1 and no upper end."""
        return 1, None
