r"""The number of votes until the label is that of the infinite ensemble, row by row and over rows (2013).

``probability`` is the probability that one member votes for a given label of two, or, equally well,
that it is wrong: only the distance from 1/2 matters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, ndtri

from ens_plugin.core.estimates.ensemble_size import recommended_size
from ens_plugin.core.row_models.mixture import fit_mixture
from ens_plugin.core.validation import (
    FloatArray,
    IntArray,
    as_confidence,
    as_count,
    as_probability,
    as_sizes,
    as_values,
    as_weight,
)
from ens_plugin.errors import InputError

__all__ = ["deconvolved_size", "normal_row_size", "plugin_size", "row_size", "row_size_tail"]

LARGEST_SIZE = 10**9


def row_size(probability: ArrayLike, confidence: float = 0.99, max_size: int = LARGEST_SIZE) -> FloatArray:
    r"""Return the smallest odd number of votes that gives each row the infinite ensemble's label, with a confidence.

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,)
        Probability of one vote.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.
    max_size : int, default=10**9
        Largest size tried.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        :math:`T^*(\alpha, p)`, the smallest odd T with
        :math:`\alpha \le I_{\max(p, 1-p)}(\lfloor T/2 \rfloor + 1, T - \lfloor T/2 \rfloor)`
        (2013 eq. 10); infinity above `max_size`, as at p = 1/2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], `confidence` outside (0.5, 1) or `max_size` below 1.

    Examples
    --------
    >>> row_size([0.0, 0.3, 0.55, 0.5])
    array([  1.,  31., 539.,  inf])
    """
    p = as_probability(probability, "probability")
    wanted = as_confidence(confidence)
    limit = (as_count(max_size, "max_size") - 1) // 2
    minority, index = np.unique(np.minimum(p, 1.0 - p), return_inverse=True)
    return _smallest_odd(minority, wanted, limit)[index]


def _smallest_odd(minority: FloatArray, wanted: float, limit: int) -> FloatArray:
    """Return, by vote probability, the smallest odd size whose majority is the likelier label as often as wanted."""
    enough: IntArray = np.zeros(minority.size, dtype=np.int64)
    settled = _settles(minority, enough, wanted)
    too_few: IntArray = np.full(minority.size, -1, dtype=np.int64)
    while not settled.all() and enough.max() < limit:
        too_few = np.where(settled, too_few, enough)
        enough = np.where(settled, enough, np.minimum(2 * enough + 1, limit))
        settled[~settled] = _settles(minority[~settled], enough[~settled], wanted)
    while np.any(open_ := settled & (enough - too_few > 1)):
        middle = (enough[open_] + too_few[open_]) // 2
        down = _settles(minority[open_], middle, wanted)
        enough[open_] = np.where(down, middle, enough[open_])
        too_few[open_] = np.where(down, too_few[open_], middle)
    return np.where(settled, 2.0 * enough + 1.0, np.inf)


def _settles(minority: FloatArray, k: NDArray[np.int64], wanted: float) -> NDArray[np.bool_]:
    return np.asarray(betaincc(k + 1.0, k + 1.0, minority) >= wanted)


def normal_row_size(probability: ArrayLike, confidence: float = 0.99) -> FloatArray:
    r"""Return an approximation of :func:`row_size` for vote probabilities close to 1/2.

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,)
        Probability of one vote.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        :math:`\Phi^{-1}(\alpha)^2 \, p(1-p) / (p - 1/2)^2` (2013 eq. 12); not rounded, infinity at
        p = 1/2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1] or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> normal_row_size([0.3, 0.55]).round(1)
    array([ 28.4, 535.8])
    """
    p = as_probability(probability, "probability")
    quantile = float(ndtri(as_confidence(confidence)))
    distance = (p - 0.5) ** 2
    away = distance > 0
    return np.where(away, quantile**2 * p * (1.0 - p) / np.where(away, distance, 1.0), np.inf)


def row_size_tail(
    probability: ArrayLike, sizes: ArrayLike, confidence: float = 0.99, weight: ArrayLike | None = None
) -> FloatArray:
    r"""Return the share of rows that need more votes than each size for the infinite ensemble's label.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        Probability of one vote, of rows or of the points of a fitted distribution.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes, whole numbers or infinity.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.
    weight : array-like, shape (n_points,), optional

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`P(T^*(\alpha, p) > T)`, the left-hand side of 2013 eq. 13 and the dots of its Fig. 2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], `confidence` outside (0.5, 1), a size below 1, or shapes
        differ.

    Examples
    --------
    >>> row_size_tail([0.1, 0.3, 0.45, 0.5], [1, 31, 1001])
    array([1.  , 0.5 , 0.25])
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    wanted = as_sizes(sizes)
    own = row_size(p, confidence)
    order = np.argsort(own)
    settled = np.concatenate([[0.0], np.cumsum(w[order])]) / w.sum()
    # At infinity all rows are settled but those with probability 1/2.
    finite = np.where(np.isinf(wanted), np.finfo(np.float64).max, wanted)
    return np.asarray(np.clip(1.0 - settled[np.searchsorted(own[order], finite, side="right")], 0.0, 1.0))


def plugin_size(votes: ArrayLike, trials: ArrayLike, confidence: float = 0.99, max_size: int = 20001) -> int | None:
    """Return the recommended size as published in 2013, with shares of votes in place of probabilities.

    Parameters
    ----------
    votes : array-like, shape (n_rows,)
        Votes of each row for one of the two labels, the same label for all rows.  No true label is
        needed, so test rows can be unlabelled.  Where the truth is known (out-of-bag or validation rows), wrong
        votes give the same size.
    trials : array-like, shape (n_rows,)
        Votes of each row for either label: its out-of-bag members for training rows, all members for
        test and validation rows.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1.
    max_size : int, default=20001

    Returns
    -------
    int or None
        Smallest odd size that satisfies 2013 eq. 17; None above `max_size`.

    Raises
    ------
    InputError
        If shapes differ, votes are not within 0 <= votes <= trials, or `confidence` or `max_size` is
        out of range.

    Notes
    -----
    Biased upwards while the rows have fewer votes than that size: use :func:`deconvolved_size`, or
    train more members until the ensemble is larger than its own recommendation (2013 Fig. 3).

    Examples
    --------
    >>> plugin_size([10, 80, 45], [100, 100, 100])
    353
    """
    k, n = _as_votes(votes, trials)
    wanted = as_confidence(confidence)
    return recommended_size(k / n, None, wanted, as_count(max_size, "max_size"))


def deconvolved_size(
    votes: ArrayLike, trials: ArrayLike, confidence: float = 0.99, max_size: int = 20001
) -> int | None:
    """Return the recommended size from a fitted distribution of the rows' vote probabilities; few members suffice.

    Parameters
    ----------
    votes, trials, confidence, max_size
        As for :func:`plugin_size`.

    Returns
    -------
    int or None
        Smallest odd size whose agreement (2013 eq. 15), with the density f estimated by
        :func:`ens_plugin.core.row_models.mixture.fit_mixture`, reaches `confidence`; None above `max_size`.

    Raises
    ------
    InputError
        As :func:`plugin_size`.

    Warns
    -----
    WeakEstimateWarning
        If there are fewer than 30 rows.

    Notes
    -----
    Wrong votes, where the truth is known, usually have a smoother distribution than votes for one
    label, whose shares are mostly near 0 or 1: prefer wrong votes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> wrong = rng.binomial(20, rng.beta(1, 4, size=2000))
    >>> few = np.full(2000, 20)
    >>> deconvolved_size(wrong, few), plugin_size(wrong, few)
    (413, None)
    """
    k, n = _as_votes(votes, trials)
    wanted = as_confidence(confidence)
    largest = as_count(max_size, "max_size")
    mixture = fit_mixture(k, n)
    return recommended_size(mixture.support, mixture.weights, wanted, largest)


def _as_votes(votes: ArrayLike, trials: ArrayLike) -> tuple[FloatArray, FloatArray]:
    k = as_values(votes, "votes")
    n = as_values(trials, "trials", k.size)
    if n.min() <= 0:
        raise InputError("trials must be positive for every row; leave out rows that no member votes on.")
    if k.min() < 0 or np.any(k > n):
        raise InputError("votes must lie between 0 and trials for every row.")
    return k, n
