"""Number of rows of each entry of a tally, and their weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.columns import whole_counts
from ens_plugin.core.validation import FloatArray, as_values, as_weight
from ens_plugin.errors import InputError
from ens_plugin.records import record

__all__ = ["RowWeight", "as_row_weight", "row_quantiles"]


@record
class RowWeight:
    """Weights of the entries of a tally, each of which is one row or several equal rows.

    Attributes
    ----------
    total : ndarray, shape (n_entries,)
        Summed weight of the entry's rows.
    rows : ndarray, shape (n_entries,), or None
        Number of rows; None where every entry is one row.
    squares : ndarray, shape (n_entries,), or None
        Sum of the squares of the rows' weights; None where every entry is one row.
    groups : ndarray of int, shape (n_entries,), or None
        Group of each row, where rows belong together; None where they are independent.
    design_effect : float
        Factor by which the groups raise the variance of a mean over rows.

    Examples
    --------
    >>> pairs = RowWeight(np.array([2.0, 1.0]), np.array([2.0, 1.0]), np.array([2.0, 1.0]))
    >>> pairs.n_rows, pairs.n_effective, pairs.effective().tolist()
    (3, 3.0, [2.0, 1.0])
    """

    total: FloatArray
    rows: FloatArray | None = None
    squares: FloatArray | None = None
    groups: NDArray[np.integer] | None = None
    design_effect: float = 1.0

    @property
    def n_rows(self) -> int:
        """Return the number of rows of all entries together."""
        return self.total.size if self.rows is None else round(float(self.rows.sum()))

    @property
    def n_effective(self) -> float:
        """Return Kish's effective number of rows, divided by the design effect of their groups."""
        scaled, squares = self._scaled()
        return float(scaled.sum() ** 2 / squares / self.design_effect)

    def effective(self) -> FloatArray:
        """Return the weights scaled so that they sum to the effective number of rows, shape (n_entries,).

        Equal weights that take no memory have effective ones that take none.
        """
        scaled, squares = self._scaled()
        some = scaled[:1] if scaled.strides == (0,) else scaled
        return np.broadcast_to(some * scaled.sum() / squares / self.design_effect, self.total.shape)

    def row_sum(self, values: FloatArray) -> float:
        """Return the sum over all rows of values given by entry: each value times the number of rows of its entry."""
        return float(values.sum() if self.rows is None else values @ self.rows)

    def select(self, usable: NDArray[np.bool_]) -> RowWeight:
        """Return the weights of some of the entries; the same object if all are usable.

        Equal weights that take no memory take none afterwards.
        """
        if usable.all():
            return self
        one_number = self.total.strides == (0,)
        total = np.broadcast_to(self.total[0], int(np.count_nonzero(usable))) if one_number else self.total[usable]
        rows, squares = (None if part is None else part[usable] for part in (self.rows, self.squares))
        groups = None if self.groups is None else self.groups[usable]
        return RowWeight(total, rows, squares, groups, self.design_effect)

    def _scaled(self) -> tuple[FloatArray, float]:
        largest = self.total.max()
        if self.total.strides == (0,) and self.squares is None:
            return np.broadcast_to(np.float64(1.0), self.total.shape), float(self.total.size)
        scaled = self.total / largest
        squares = scaled @ scaled if self.squares is None else (self.squares / largest**2).sum()
        return scaled, float(squares)


def as_row_weight(weight: ArrayLike | RowWeight | None, length: int) -> RowWeight:
    """Return the weights of `length` entries, checked; those of an array are of one row each.

    Raises
    ------
    InputError
        If weights are negative or all 0, or of another length.
    """
    if not isinstance(weight, RowWeight):
        return RowWeight(as_weight(weight, length))
    as_weight(weight.total, length)
    if weight.rows is not None and as_values(weight.rows, "rows", length).min() < 0:
        raise InputError("rows has a negative value; give each entry a number of rows.")
    return weight


def row_quantiles(values: FloatArray, levels: ArrayLike, rows: FloatArray | None = None) -> FloatArray:
    """Return quantiles over rows of values given by entry, equal to those of numpy.quantile over all rows.

    Parameters
    ----------
    values : ndarray, shape (n_entries,)
    levels : array-like, shape (n_levels,)
    rows : ndarray, shape (n_entries,), or None
        Number of rows of each entry; None for one each.

    Examples
    --------
    >>> row_quantiles(np.array([3.0, 1.0]), [0.25, 0.5], np.array([1.0, 3.0])).tolist()
    [1.0, 1.0]
    """
    wanted = np.asarray(levels, dtype=np.float64)
    if rows is None:
        found = whole_counts(values)
        if found is None:
            return np.asarray(np.quantile(values, wanted))
        values, rows = found
    if (rows == rows[0]).all():
        # Without an order, which takes several times as long.
        ascending, last = np.sort(values), np.cumsum(rows)
    else:
        order = np.argsort(values, kind="stable")
        ascending, last = values[order], np.cumsum(rows[order])
    place = wanted * (last[-1] - 1.0)
    around = np.stack([np.floor(place), np.minimum(np.floor(place) + 1.0, last[-1] - 1.0)])
    low, high = ascending[np.searchsorted(last, around, side="right")]
    part, gap = place - around[0], high - low
    # Interpolated from the nearer end, as in numpy.quantile, for the same bits.
    return np.asarray(np.where(part >= 0.5, high - gap * (1.0 - part), low + gap * part))
