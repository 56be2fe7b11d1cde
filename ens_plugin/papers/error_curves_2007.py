r"""Hernandez-Lobato, Martinez-Munoz and Suarez 2007: the error by size from the votes of one ensemble.

Bias of the plug-in estimator of 2007, from the binomial distribution of a finite number of votes. The plug-in puts
the share m/M of M votes into the majority's error :math:`\pi`. As :math:`\pi` is not linear, its expectation differs
from :math:`\pi(p, B)`: upwards for p < 1/2, downwards above (2007 section 3.1, eq. 9 and 10, Fig. 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py, xlogy

from ens_plugin.core.error_curve import hypergeometric_limit
from ens_plugin.core.validation import (
    MOST_MEMBERS,
    FloatArray,
    IntArray,
    as_count,
    as_probability,
    as_sizes,
    as_values,
    as_weight,
)
from ens_plugin.core.votes import majority_curve, majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.members import out_of_bag_members, wrong_labels
from ens_plugin.papers.wrong_votes import Mixture, binomial_curve, fit_mixture, hypergeometric_curve

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["curves", "expected_plugin_error", "plugin_bias"]


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


SIZES = (1, 3, 5, 11, 21, 51, 101, 201, 501, 1001, np.inf)


def curves(model: Any, X: Any, y: ArrayLike, sizes: ArrayLike = SIZES) -> pd.DataFrame:
    r"""Return the 0-1 error of an ensemble at each size, by Hernandez-Lobato et al. (2007) and by this package.

    Parameters
    ----------
    model : fitted classifier of two labels
        The estimates are for majority votes of its members' labels, whatever the model itself averages.
    X, y : array-like
        The training rows, in training order.
    sizes : array-like of int or inf, shape (n_sizes,)

    Returns
    -------
    DataFrame
        One row for each size, with the columns size; plug_in, the paper's estimate (eq. 7 and 11), too high by
        plug_in_bias at large sizes; unbiased, the mean over subsets of the out-of-bag members, NaN where few rows have
        enough; deconvolved, this package's and the one to use, near unbiased where there is one; and plug_in_bias,
        which eq. 9 and 10 give for the deconvolved distribution and the rows' numbers of out-of-bag members.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for regressors and for more than two labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import error_curves_2007
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    >>> found = error_curves_2007.curves(forest, X, y, sizes=[1, 11, 1001])
    >>> list(found.columns)
    ['size', 'plug_in', 'unbiased', 'deconvolved', 'plug_in_bias']
    >>> bool(abs(found.unbiased[0] - found.plug_in[0]) < 1e-9)
    True
    """
    import pandas as pd

    members = out_of_bag_members(model, X, y).with_trials(1)
    wanted = as_sizes(sizes)
    trials = members.is_oob.sum(axis=0)
    wrong = (wrong_labels(members) & members.is_oob).sum(axis=0)
    rows = fit_mixture(wrong, trials)
    is_reached = wanted <= hypergeometric_limit(trials)
    unbiased = np.full(wanted.size, np.nan)
    if is_reached.any():
        unbiased[is_reached] = hypergeometric_curve(wrong, trials, wanted[is_reached])
    return pd.DataFrame(
        {
            "size": wanted,
            "plug_in": binomial_curve(wrong, trials, wanted),
            "unbiased": unbiased,
            "deconvolved": rows.error(wanted),
            "plug_in_bias": _expected_plug_in(rows, trials, wanted) - rows.error(wanted),
        }
    )


def _expected_plug_in(rows: Mixture, trials: IntArray, sizes: FloatArray) -> FloatArray:
    """Return the mean over seeds of the plug-in estimate, shape (n_sizes,), for rows with these numbers of members."""
    numbers, n_rows = np.unique(trials, return_counts=True)
    by_number = [
        expected_plugin_curve(rows.support, np.full(rows.support.size, votes), sizes, rows.weights) for votes in numbers
    ]
    return np.asarray(n_rows @ np.array(by_number) / trials.size)
