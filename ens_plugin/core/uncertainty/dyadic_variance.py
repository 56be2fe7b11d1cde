r"""The variance of a sum over pairs of rows, in which each row stands in several pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray

__all__ = ["dyadic_variance"]


def dyadic_variance(terms: FloatArray, first: NDArray[np.integer], second: NDArray[np.integer]) -> float:
    r"""Return the variance over rows of a sum of terms, each of which belongs to two rows.

    Parameters
    ----------
    terms : ndarray of float64, shape (n_terms,)
        Less their mean.
    first, second : ndarray of int, shape (n_terms,)
        The two rows of each term, or their groups, numbered from 0; they may be the same.

    Returns
    -------
    float
        0 for a single row or group, from which nothing is known.

    Notes
    -----
    :math:`\frac{G}{G-1} \sum_{s, t} e_s e_t`, over all pairs of terms that share a row, of G rows in all: P. M. Aronow,
    C. Samii, V. A. Assenova (2015), *Cluster-robust variance estimation for dyadic data*, Political Analysis 23,
    eq. 3.  Sums of terms by row count the pairs that share both rows twice, which is put right.  The estimate is at
    least that of the first rows alone, below which only chance takes it where few terms differ from 0.

    Examples
    --------
    >>> round(dyadic_variance(np.array([1.0, -1.0, 0.0]), np.array([0, 1, 2]), np.array([0, 1, 2])), 6)
    3.0
    """
    n_rows = int(max(first.max(), second.max())) + 1
    if np.unique(first).size < 2:
        return 0.0
    own = np.bincount(first, terms, n_rows)
    apart = first != second
    both = own + np.bincount(second[apart], terms[apart], n_rows)
    pair = np.minimum(first, second)[apart].astype(np.int64) * n_rows + np.maximum(first, second)[apart]
    twice = np.bincount(np.unique(pair, return_inverse=True)[1], terms[apart])
    n_units = np.unique(first).size
    return float(max(both @ both - twice @ twice, own @ own)) * n_units / (n_units - 1.0)
