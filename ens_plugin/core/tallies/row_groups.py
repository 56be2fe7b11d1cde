"""Groups of dependent rows: the number of independent rows that they are worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ens_plugin.core.validation import FloatArray

__all__ = ["design_effect", "effective_groups", "group_sums", "small_number_factor"]

IntArray = NDArray[np.integer]


def group_sums(values: FloatArray, groups: IntArray) -> FloatArray:
    """Return the sum of values over the rows of each group, groups in ascending order.

    Examples
    --------
    >>> group_sums(np.array([1.0, 2.0, 4.0]), np.array([5, 2, 5])).tolist()
    [2.0, 5.0]
    """
    codes = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(codes, weights=values), dtype=np.float64)


def effective_groups(weight: FloatArray, groups: IntArray) -> float:
    """Return Kish's effective number of groups.

    Examples
    --------
    >>> effective_groups(np.ones(4), np.array([0, 0, 1, 1]))
    2.0
    """
    sums = group_sums(weight, groups)
    return float(sums.sum() ** 2 / (sums @ sums))


def design_effect(losses: FloatArray, weight: FloatArray, groups: IntArray) -> float:
    r"""Return the factor by which groups of rows raise the variance of a weighted mean loss.

    Parameters
    ----------
    losses : ndarray, shape (n_rows,)
    weight : ndarray, shape (n_rows,)
    groups : ndarray of int, shape (n_rows,)
        Group of each row; at least two have weight.

    Returns
    -------
    float
        At least 1.

    Notes
    -----
    :math:`\frac{G}{G-1} \sum_g (\sum_{i \in g} w_i (l_i - \bar l))^2` over :math:`s^2 \sum_i w_i^2`, with
    :math:`s^2` the weighted variance of the losses: the cluster-robust variance over Kish's.  Where all losses are
    equal, rows of a group are taken as perfectly correlated: :math:`\sum_g w_g^2 / \sum_i w_i^2`.

    Examples
    --------
    >>> pairs = np.array([0, 0, 1, 1, 2, 2])
    >>> round(design_effect(np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), np.ones(6), pairs), 6)
    3.0
    """
    share = weight / weight.sum()
    squares = float(share @ share)
    deviations = losses - share @ losses
    variance = float(share @ deviations**2)
    shares = group_sums(share, groups)
    whole = float(shares @ shares) / squares
    if variance <= 1e-12 * max(float(share @ losses**2), 1e-300):
        return max(whole, 1.0)
    sums = group_sums(share * deviations, groups)
    n_groups = int(np.count_nonzero(shares))
    found = float(sums @ sums) * n_groups / max(n_groups - 1, 1) / (variance * squares)
    return max(found, 1.0)


def small_number_factor(weight: FloatArray, groups: IntArray, level: float) -> float:
    r"""Return the factor on a variance estimated from few groups by which a normal interval becomes Student's.

    Parameters
    ----------
    weight : ndarray, shape (n_rows,)
    groups : ndarray of int, shape (n_rows,)
    level : float
        Level of the interval.

    Notes
    -----
    :math:`(t_{G - 1} / z)^2`, G Kish's effective number of groups, taken as at least 2.

    Examples
    --------
    >>> round(small_number_factor(np.ones(20), np.arange(20) // 2, 0.95), 2)
    1.33
    """
    n_groups = max(effective_groups(weight, groups), 2.0)
    tail = 0.5 + level / 2.0
    return float(stdtrit(n_groups - 1.0, tail) / ndtri(tail)) ** 2
