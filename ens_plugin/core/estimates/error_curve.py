r"""Error as a function of ensemble size, from counts of wrong votes (two labels, or right and wrong)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.columns import sums_by_code, whole_counts
from ens_plugin.core.row_models.majority import majority_curve, subset_majority_error
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight
from ens_plugin.core.validation import FloatArray, as_counts, as_sizes, pair_index, row_parts
from ens_plugin.errors import InputError

__all__ = ["binomial_curve", "hypergeometric_curve", "hypergeometric_limit"]

ROWS_PER_DROPPED_ROW = 10


def binomial_curve(
    wrong: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | RowWeight | None = None
) -> FloatArray:
    r"""Return the plug-in estimate of the error at each size: shares of wrong votes taken as probabilities (2007).

    Parameters
    ----------
    wrong, trials : array-like, shape (n_rows,)
        Wrong members and out-of-bag members of each row.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes, whole numbers or infinity.
    weight : array-like, shape (n_rows,), or RowWeight, optional

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`\sum_i w_i \pi(k_i/n_i, B) / \sum_i w_i` (2007 eq. 7, 11).  Biased, mostly upwards;
        the bias vanishes as the number of members grows (2007 eq. 9-10).

    Raises
    ------
    InputError
        If shapes differ, counts or sizes are out of range, or anything is not finite.

    Examples
    --------
    >>> binomial_curve([0, 1, 2], [3, 3, 3], [1, 3]).round(4)
    array([0.3333, 0.3333])
    """
    k, n = as_counts(wrong, trials)
    w = as_row_weight(weight, k.size).total
    probability, index = np.unique(k / n, return_inverse=True)
    shares = np.bincount(index, w) / w.sum()
    return majority_curve(probability, shares, sizes)


def hypergeometric_limit(trials: ArrayLike, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least 90 % of the rows have as many members (0 if there is none).

    Parameters
    ----------
    trials : array-like, shape (n_entries,)
    rows : ndarray, shape (n_entries,), or None
        Number of rows of each entry; None for one each.
    """
    n = np.asarray(trials, dtype=np.float64)
    found = whole_counts(n) if rows is None else None
    if found is not None:
        n, rows = found
    if rows is None:
        n = np.sort(n)
        place = n.size // ROWS_PER_DROPPED_ROW
    else:
        order = np.argsort(n, kind="stable")
        last = np.cumsum(rows[order])
        n, place = n[order], int(np.searchsorted(last, last[-1] // ROWS_PER_DROPPED_ROW, side="right"))
    largest = int(n[place])
    return largest if largest % 2 else max(largest - 1, 0)


def hypergeometric_curve(
    wrong: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | RowWeight | None = None
) -> FloatArray:
    r"""Return the unbiased estimate of the error at small sizes: the mean over all subsets of the members.

    Parameters
    ----------
    wrong, trials : array-like, shape (n_rows,)
        Wrong members and out-of-bag members of each row, whole numbers.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes.  Rows with fewer members than a size do not enter its mean.
    weight : array-like, shape (n_rows,), or RowWeight, optional

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        Weighted mean over rows of :math:`P[\mathrm{Hypergeom}(n_i, k_i, B) > B/2]`.

    Raises
    ------
    InputError
        If fewer than 90 % of the rows have as many members as a size; the message has the
        largest size that can be estimated.

    Examples
    --------
    >>> hypergeometric_curve([1, 2], [5, 5], [1, 3, 5])
    array([0.3 , 0.15, 0.  ])
    """
    k, n = as_counts(wrong, trials)
    row_weight = as_row_weight(weight, k.size)
    wanted = as_sizes(sizes)
    limit = hypergeometric_limit(n, row_weight.rows)
    odd = 2.0 * np.ceil(wanted / 2.0) - 1.0
    if odd.max() > limit:
        raise InputError(
            f"size {wanted.max():g} is above {limit}, the largest size for which 90 % of the rows have enough "
            "out-of-bag members; pass smaller sizes, or use estimator='deconvolved', which reaches every size."
        )
    k_pair, n_pair, shares = _pairs(k, n, row_weight.total)
    tails = subset_majority_error(k_pair, n_pair, int(odd.max()))
    rows = tails[((odd - 1) // 2).astype(np.int64)]
    is_reached = ~np.isnan(rows)
    return np.asarray((np.where(is_reached, rows, 0.0) @ shares) / (is_reached @ shares))


def _pairs(k: FloatArray, n: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct pairs of k and n, and the weight of the rows of each."""
    index = pair_index(k, n)
    pairs = np.empty((2, int(index.max()) + 1))
    for part in row_parts(k.size):
        pairs[:, index[part]] = k[part], n[part]
    return pairs[0], pairs[1], sums_by_code(index, weight, pairs.shape[1])
