r"""The variance of a mean loss over seeds: what the members that happened to be trained add to it.

To the first order, member t adds :math:`\sum_i w_i d_{ti}` to the loss of N rows, with :math:`d_{ti}` its deviation
from the mean output of the members that count for row i, and :math:`w_i` the derivative of the row's expected loss in
that mean.  The square of this sum has a part by pairs of different rows, which is the luck that rows share, and a part
by each row with itself, which fresh rows do not share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tally import count_members
from ens_plugin.core.validation import BoolArray, FloatArray

# Few, so that the deviations of some members stay in a processor's cache.
CELLS_AT_ONCE = 2**17
# What a row's own variance counts for on fresh rows, whose errors its label has balanced (docs/methods/uncertainty.md).
OWN_PART = 0.8
LEAST_OWN_PART = 0.25


class Units(NamedTuple):
    """The order of rows by group, and where each group starts in it."""

    order: NDArray[np.intp]
    starts: NDArray[np.intp]


def shared_luck_variance(outputs: NDArray[Any], counted: BoolArray, slopes: FloatArray, n_rows: float) -> float:
    r"""Return the variance of the measured mean loss over seeds and bags, without each row's own part.

    It is :math:`\sum_t [(\sum_i e_{ti})^2 - \sum_i e_{ti}^2] / N^2`, at least 0, with
    :math:`e_{ti} = w_i d_{ti} / \sqrt{n_i (n_i - 1)}` for the :math:`n_i` members that count.  The outputs, of a random
    subset of the N rows, determine the loss.
    """
    n_sampled, n = slopes.size, count_members(counted)
    if n_sampled < 2:
        return 0.0
    factors = np.where(n > 1, slopes / np.sqrt(np.maximum(n, 2.0) * np.maximum(n - 1.0, 1.0)), 0.0)
    pairs = float(pair_products(outputs, counted, factors)[0].sum())
    return max(pairs, 0.0) / (n_sampled * (n_sampled - 1.0)) * (n_rows - 1.0) / n_rows


def variance_on_held_out_rows(
    outputs: NDArray[Any], slopes: FloatArray, own_variance: FloatArray, size: float, n_rows: float
) -> float:
    r"""Return the variance over seeds of the mean loss of B members on these rows, for which all members count.

    It is :math:`\sum_{i \neq j} w_i w_j C_{ij} / (N^2 B) + \sum_i v_i / N^2`, with C the covariance of two rows'
    outputs over members and :math:`v_i` a row's own variance at size B times the square of its relative weight; the
    first sum is at least 0.  The outputs are of a random subset of the N rows.
    """
    pairs = mean_pair_covariance(outputs, np.ones(outputs.shape, dtype=bool), slopes)[0]
    return max(pairs, 0.0) * (n_rows - 1.0) / n_rows / size + float(own_variance.mean()) / n_rows


def variance_on_fresh_rows(
    outputs: NDArray[Any],
    counted: BoolArray,
    slopes: FloatArray,
    size: float,
    n_effective: float,
    groups: NDArray[np.integer] | None = None,
) -> float:
    r"""Return the variance over seeds of the mean loss of B members on infinitely many fresh rows, or groups.

    It is :math:`(\kappa c + 0.8 d / N) / B`, at least :math:`0.25 \, d / (N B)`, with c the mean of :math:`w_i w_j
    C_{ij}` over pairs of different rows, d the mean of :math:`w_i^2 C_{ii}`, and :math:`\kappa = S / (S + \tau^2)`,
    :math:`\tau^2` the variance of c over members, :math:`S = (d/N)^2 + [c^2 - \tau^2]^+`
    (``docs/methods/uncertainty.md``).  The rows of one group count as one row.
    """
    pairs, noise, own = mean_pair_covariance(outputs, counted, slopes, groups)
    n_units = slopes.size if groups is None else np.unique(groups).size
    from_own = own * n_units / (slopes.size**2 * n_effective)
    signal = from_own**2 + max(pairs**2 - noise, 0.0)
    kept = signal / (signal + noise) if signal > 0.0 else 0.0
    return max(kept * pairs + OWN_PART * from_own, LEAST_OWN_PART * from_own) / size


def mean_pair_covariance(
    outputs: NDArray[Any], counted: BoolArray, slopes: FloatArray, groups: NDArray[np.integer] | None = None
) -> tuple[float, float, float]:
    r"""Return the mean of :math:`w_i w_j C_{ij}` over pairs of rows, its variance over members, and the rows' own sum.

    Pairs are of rows of different groups, and count by the members :math:`n_{ij}` that count for both rows.  Deviations
    from means over :math:`n_i` and :math:`n_j` of M members have the expected product :math:`C_{ij} (1 - 1/n_i - 1/n_j
    + n_{ij}/(n_i n_j))`; in it, :math:`n_{ij}` is taken as :math:`n_i n_j / M`, which is exact where all members count.
    Without any pair the mean is 0.  The last number is the sum of :math:`w_i w_j C_{ij}` over pairs within groups, of a
    row with itself where there are none.
    """
    n = count_members(counted)
    known = n > 1
    products, squares = pair_products(outputs, counted, np.where(known, slopes, 0.0), groups)
    units = None if groups is None else _sorted(groups)
    own = float((squares / np.maximum(_of_units(n, units) - 1.0, 1.0)).sum())
    # The product of this factor for two rows of equally many members is the one above.
    centring = np.where(known, np.sqrt(1.0 - 2.0 / np.maximum(n, 2.0) + 1.0 / counted.shape[0]), 0.0)
    degrees = np.concatenate(
        [_products(np.multiply(counted[part], centring), units)[0] for part in _parts(*counted.shape)]
    )
    total = float(degrees.sum())
    if total <= 0.0:
        return 0.0, 0.0, own
    mean = float(products.sum()) / total
    return mean, float(np.square(products - mean * degrees).sum()) / total**2, own


def pair_products(
    outputs: NDArray[Any], counted: BoolArray, factors: FloatArray, groups: NDArray[np.integer] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of products of deviations times factors: by member over pairs of different rows, and of each row.

    The shapes are (n_members,) and (n_rows,).  With groups, pairs are of rows of different groups, and the second sums
    are of the squared sums of each group, shape (n_groups,).
    """
    n_members, n_rows = outputs.shape
    total = np.zeros(n_rows)
    for members in _parts(n_members, n_rows):
        total += (outputs[members] * counted[members]).sum(axis=0, dtype=np.float64)
    mean = total / np.maximum(count_members(counted), 1.0)
    units = None if groups is None else _sorted(groups)
    products, squares = [], []
    for members in _parts(n_members, n_rows):
        deviations = (outputs[members] - mean) * counted[members]
        deviations *= factors
        of_members, of_units = _products(deviations, units)
        products.append(of_members)
        squares.append(of_units)
    return np.concatenate(products), np.asarray(np.sum(squares, axis=0))


def _parts(n_members: int, n_rows: int) -> list[slice]:
    height = max(CELLS_AT_ONCE // max(n_rows, 1), 1)
    return [slice(start, start + height) for start in range(0, n_members, height)]


def _products(values: NDArray[Any], units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Return by member the sum over pairs of different rows of products of values, and by row the sum of squares."""
    if units is not None:
        values = np.add.reduceat(values[:, units.order], units.starts, axis=1)
    squares = np.square(values)
    return np.square(values.sum(axis=1)) - squares.sum(axis=1), squares.sum(axis=0)


def _sorted(groups: NDArray[np.integer]) -> Units:
    order = np.argsort(groups, kind="stable")
    return Units(order, np.flatnonzero(np.diff(groups[order], prepend=groups.min(initial=0) - 1)))


def _of_units(values: FloatArray, units: Units | None) -> FloatArray:
    """Return the mean value of each group in their order, or of each row."""
    if units is None:
        return values
    return np.asarray(np.add.reduceat(values[units.order], units.starts) / np.diff(units.starts, append=values.size))
