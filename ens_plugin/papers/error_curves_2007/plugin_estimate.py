r"""Bias of the plug-in estimator of 2007, from the binomial distribution of a finite number of votes.

The plug-in puts the share m/M of M votes into the majority's error :math:`\pi`.  As :math:`\pi` is
not linear, its expectation differs from :math:`\pi(p, B)`: upwards for p < 1/2, downwards above
(2007 section 3.1, eq. 9 and 10, Fig. 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py, xlogy

from ens_plugin.core.row_models.majority import majority_curve, majority_error
from ens_plugin.core.validation import (
    MOST_MEMBERS,
    FloatArray,
    as_count,
    as_probability,
    as_sizes,
    as_values,
    as_weight,
)
from ens_plugin.errors import InputError

__all__ = ["expected_plugin_curve", "expected_plugin_error", "plugin_bias", "plugin_bias_curve"]


def expected_plugin_error(probability: ArrayLike, n_votes: int, sizes: ArrayLike) -> FloatArray:
    r"""Return the expected plug-in estimate (vote shares as probabilities) of rows' errors.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        True probability that one member is wrong.
    n_votes : int
        Number of votes M in the share m/M: the row's out-of-bag members, or all members for held-out
        rows.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes B, whole numbers or infinity.

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_points)
        :math:`\sum_m \binom{M}{m} p^m (1-p)^{M-m} \pi(m/M, B)` (2007 eq. 10).  With ``n_votes=1``
        this is p itself at every size.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], or `n_votes` or a size is below 1, or `n_votes` above a million.

    Examples
    --------
    >>> expected_plugin_error([0.2, 0.8], 5, [1, 1001]).round(3)
    array([[0.2  , 0.8  ],
           [0.058, 0.942]])
    """
    p = as_probability(probability, "probability")
    votes = as_count(n_votes, "n_votes", largest=MOST_MEMBERS)
    shares = np.arange(votes + 1) / votes
    return np.asarray(majority_error(shares, sizes) @ _binomial(votes, p))


def plugin_bias(probability: ArrayLike, n_votes: int, sizes: ArrayLike) -> FloatArray:
    r"""Return the bias of the plug-in estimate (vote shares as probabilities) of rows' errors.

    Parameters
    ----------
    probability, n_votes, sizes
        As for :func:`expected_plugin_error`.

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_points)
        2007 eq. 10 minus eq. 2: the vertical distance between the lines of the paper's Fig. 1.

    Raises
    ------
    InputError
        As :func:`expected_plugin_error`.

    Examples
    --------
    >>> plugin_bias([0.4, 0.6], 50, [float("inf")]).round(3)
    array([[ 0.078, -0.078]])
    """
    return expected_plugin_error(probability, n_votes, sizes) - majority_error(probability, sizes)


def expected_plugin_curve(
    probability: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | None = None
) -> FloatArray:
    """Return the mean over seeds of the plug-in estimate (vote shares as probabilities) of a data set's error, by size.

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,)
        True probability that one member is wrong for each row.
    trials : array-like of int, shape (n_rows,)
        Number of votes for each row.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes, whole numbers or infinity.
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        2007 eq. 9, with another number of votes for each row.

    Raises
    ------
    InputError
        If shapes differ, a probability is outside [0, 1], or votes or sizes are not whole numbers
        of at least 1.

    Examples
    --------
    >>> expected_plugin_curve([0.2, 0.4], [5, 20], [1001]).round(3)
    array([0.122])
    """
    p = as_probability(probability, "probability")
    n = _as_trials(trials, p.size)
    w = as_weight(weight, p.size)
    total = np.zeros(as_sizes(sizes).size)
    for votes in np.unique(n):
        rows = n == votes
        points, index = np.unique(p[rows], return_inverse=True)
        total += expected_plugin_error(points, int(votes), sizes) @ np.bincount(index, w[rows])
    return np.asarray(total / w.sum())


def plugin_bias_curve(
    probability: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | None = None
) -> FloatArray:
    """Return the bias of the plug-in estimate (vote shares as probabilities) of a data set's error, by ensemble size.

    Parameters
    ----------
    probability, trials, sizes, weight
        As for :func:`expected_plugin_curve`.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        2007 eq. 9 minus eq. 5.  Rows on either side of 1/2 cancel in part (2007 section 3.1).

    Raises
    ------
    InputError
        As :func:`expected_plugin_curve`.

    Examples
    --------
    >>> plugin_bias_curve([0.2, 0.4, 0.6], [18, 18, 18], [1001]).round(4)
    array([0.0009])
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    return expected_plugin_curve(p, trials, sizes, w) - majority_curve(p, w / w.sum(), sizes)


def _binomial(votes: int, p: FloatArray) -> FloatArray:
    """Return the probabilities of 0, 1, ..., `votes` wrong votes, shape (votes + 1, n_points)."""
    m = np.arange(votes + 1.0)[:, None]
    log_choose = gammaln(votes + 1.0) - gammaln(m + 1.0) - gammaln(votes - m + 1.0)
    return np.asarray(np.exp(log_choose + xlogy(m, p) + xlog1py(votes - m, -p)))


def _as_trials(trials: ArrayLike, length: int) -> FloatArray:
    n = as_values(trials, "trials", length)
    if n.min() < 1 or np.any(n != np.floor(n)):
        raise InputError(f"trials must hold whole numbers of at least 1, got values from {n.min():g} to {n.max():g}.")
    return n
