"""A curve over ensemble sizes, as it is drawn: the values of its line and band, its level and its marked sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ens_plugin.core.estimates.tied_sizes import previous_odd_size
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError

__all__ = ["FIRST_SHOWN", "LARGEST_DRAWN", "SizeCurve", "shown_sizes"]

FIRST_SHOWN = 5
LARGEST_DRAWN = 1e300  # matplotlib multiplies values, and refuses limits that are not finite
N_DRAWN = 200


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """What one line of a chart over ensemble sizes shows.

    Attributes
    ----------
    quantity : str
        Of the values, with its unit: the label of their axis.
    kind : tuple
        Equal for curves that may share axes: what the values are of, in which unit and direction.
    name : str
        Of the line, in a legend.
    sizes : ndarray of int64, shape (n_sizes,)
        Tabulated sizes, ascending.
    value_at : callable
        ``value_at(size)`` is the value at one size; NaN where it is not known.
    as_text : callable
        ``as_text(value)`` is a value with its unit.
    n_members, recommended_size : int or None
        Sizes to mark.
    size_name : str, default="recommended"
        Of the latter beside its mark.
    covered : tuple of int
        Sizes that the size axis has to cover.
    level : float
        Value that is drawn as a horizontal line: that of the infinite ensemble, or the wanted one; NaN if there is
        none.
    level_name, level_text : str
        The latter has the value with its unit.
    interval_at : callable, optional
        ``interval_at(size)`` are the lower and the upper end of the band.
    size_interval : tuple of (int, int or None), optional
        Interval of the recommended size.
    is_share : bool, default=False
        Whether values are labelled in percent.
    is_log : bool, default=False
        Whether the axis of the values is logarithmic.
    ceiling : float, default=inf
        Largest value that exists.
    ties_to : float, default=0
        Even sizes up to this one have the value of the odd size below, and are not drawn.
    """

    quantity: str
    kind: tuple[object, ...]
    name: str
    sizes: IntArray
    value_at: Callable[[float], float]
    as_text: Callable[[float], str]
    n_members: int | None
    recommended_size: int | None
    covered: tuple[int, ...]
    level: float
    level_name: str
    level_text: str
    interval_at: Callable[[float], tuple[float, float]] | None = None
    size_interval: tuple[int, int | None] | None = None
    is_share: bool = False
    is_log: bool = False
    ceiling: float = math.inf
    ties_to: float = 0.0
    size_name: str = "recommended"

    @property
    def marks(self) -> list[tuple[str, int, float]]:
        """Return "current" and `size_name` with their sizes and the values there, as far as they are given."""
        named = (("current", self.n_members), (self.size_name, self.recommended_size))
        return [(name, size, self.value_at(size)) for name, size in named if size is not None]

    @property
    def level_is_drawable(self) -> bool:
        """Return whether the level is known, and small enough for matplotlib."""
        return abs(self.level) <= LARGEST_DRAWN

    def drawn(self, first: float, last: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sizes from `first` to `last` at which the line is drawn, its values, and its band.

        Returns
        -------
        sizes, values : ndarray of float64, shape (n_drawn,)
        band : ndarray of float64, shape (2, n_drawn)
            Lower and upper end; of shape (2, 0) without a band.
        """
        between = np.geomspace(max(first, float(self.sizes[0])), last, N_DRAWN)
        inside = self.sizes[(self.sizes >= first) & (self.sizes <= last)]
        dense = np.unique(np.concatenate([between, inside]))
        # Even sizes at which votes tie would turn the line into steps.
        odd = dense[previous_odd_size(dense, self.ties_to) == dense]
        values = np.array([self.value_at(size) for size in odd])
        known = ~np.isnan(values)
        band = [] if self.interval_at is None else [self.interval_at(size) for size in odd[known]]
        return odd[known], values[known], np.asarray(band, dtype=np.float64).reshape(-1, 2).T


def shown_sizes(curve: SizeCurve) -> tuple[float, float]:
    """Return the first and the last size of an axis that covers the sizes to mark.

    Raises
    ------
    InputError
        If a size to mark is below 1.
    """
    marked = list(curve.covered)
    if any(size < 1 for size in marked):
        raise InputError(f"Sizes to mark are {marked}, and an ensemble has at least 1 member; pass sizes from 1 on.")
    # The errors of one to four members are so large that they would flatten the rest of the curve.
    clipped = curve.sizes[0] < FIRST_SHOWN and min([*marked, int(curve.sizes[-1])]) >= 2 * FIRST_SHOWN
    first = float(FIRST_SHOWN if clipped else min([*marked, int(curve.sizes[0])]))
    last = 2.0 * max(marked) if marked else float(curve.sizes[-1])
    return first, max(last, 20.0 * first)
