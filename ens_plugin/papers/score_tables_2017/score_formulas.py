r"""Closed forms for the squared loss and the linearisation for many labels (2017, appendix A.1 and A.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp, softmax

from ens_plugin.core.validation import as_probability, as_sizes, as_values
from ens_plugin.errors import InputError

__all__ = ["linearized_moments", "linearized_scores", "squared_bias_closed", "squared_variance_closed"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SQUARE_SLOPE, SQUARE_SHIFT = 0.703, 0.937


def squared_bias_closed(
    mean: ArrayLike, variance: ArrayLike, truth: ArrayLike, sizes: ArrayLike, *, aggregation: str = "mean_proba"
) -> FloatArray:
    r"""Bias of the squared loss in closed form (2017 section A.2).

    Parameters
    ----------
    mean, variance : array-like, shape (n_rows,)
        Of one member's score for label 1.
    truth : array-like, shape (n_rows,)
        True probability of label 1 (or the label).
    sizes : array-like, shape (n_sizes,)
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_rows)
        :math:`2(s(\kappa(\sigma^2)\mu) - p^*)^2`, with :math:`\sigma^2/K` for the mean score.

    Raises
    ------
    InputError
        If shapes differ, a variance is negative, a truth is outside [0, 1], or the aggregation is another.

    Notes
    -----
    :math:`\kappa = (1 + \pi\sigma^2/8)^{-1/2}`, which approximates E s(c) to within 0.016.

    Examples
    --------
    >>> squared_bias_closed([1.0], [2.0], [1.0], [1, 10], aggregation="mean_score").round(4)
    array([[0.2063],
           [0.1527]])
    """
    m, b = _moments(mean, variance)
    p = as_probability(truth, "truth")
    if p.size != m.size:
        raise InputError(f"truth must have length {m.size}, got {p.size}.")
    spread = _spread_by_size(b, as_sizes(sizes), aggregation)
    return np.asarray(2.0 * (_mean_probability(m, spread) - p) ** 2)


def squared_variance_closed(
    mean: ArrayLike, variance: ArrayLike, sizes: ArrayLike, *, aggregation: str = "mean_proba"
) -> FloatArray:
    r"""Variance of the squared loss in closed form (2017 section A.2).

    Parameters, errors raised: see :func:`squared_bias_closed`.

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_rows)
        :math:`V_b = 2[s^2(\rho\mu + \delta(1-\rho)) - s^2(\kappa\mu)]` as printed for one member, with
        :math:`\rho = (1 + \lambda^2\sigma^2)^{-1/2}`; :math:`V_b/K` for voting, and :math:`V_b` at
        :math:`\sigma^2/K` for the mean score.

    Notes
    -----
    Within 0.041 of the exact value for spreads up to 8 (0.018 up to 1).  The variance is the same for either
    label; the printed approximation is not (by up to 0.063), and where it is negative (by up to 0.0005) it is
    given as 0.

    Examples
    --------
    >>> squared_variance_closed([0.0], [1.0], [1, 4]).round(3)
    array([[0.089],
           [0.022]])
    """
    m, b = _moments(mean, variance)
    k = as_sizes(sizes)
    spread = _spread_by_size(b, k, aggregation)
    rho = 1.0 / np.sqrt(1.0 + SQUARE_SLOPE**2 * spread)
    square = expit(rho * m + SQUARE_SHIFT * (1.0 - rho)) ** 2
    single = 2.0 * np.maximum(square - _mean_probability(m, spread) ** 2, 0.0)
    return np.asarray(single / k[:, None] if aggregation == "mean_proba" else single)


def _moments(mean: ArrayLike, variance: ArrayLike) -> tuple[FloatArray, FloatArray]:
    m = as_values(mean, "mean")
    b = as_values(variance, "variance", m.size)
    if b.min() < 0:
        raise InputError("variance must not be negative.")
    return m, b


def _spread_by_size(variance: FloatArray, sizes: FloatArray, aggregation: str) -> FloatArray:
    if aggregation not in ("mean_proba", "mean_score"):
        raise InputError(f"aggregation must be 'mean_proba' or 'mean_score', got {aggregation!r}.")
    return (
        variance / sizes[:, None]
        if aggregation == "mean_score"
        else np.broadcast_to(variance, (sizes.size, variance.size))
    )


def _mean_probability(mean: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def linearized_moments(mean: ArrayLike, variance: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Mean and variance of the true label's log odds, linearised at the mean scores (2017 section A.1).

    Parameters
    ----------
    mean, variance : array-like, shape (n_rows, n_labels)
        Of one member's score for each label; scores of different labels are taken as independent.
    target : array-like of int, shape (n_rows,)
        Code of the true label.

    Returns
    -------
    mean, variance : ndarrays of float64, shape (n_rows,)
        For :class:`ens_plugin.papers.score_tables_2017.score_models.NormalScores`.

    Raises
    ------
    InputError
        If shapes differ, a variance is negative or a label code is out of range.

    Notes
    -----
    The log odds of label j are :math:`c_j - \log\sum_{i\ne j} e^{c_i}` (the paper prints their
    negative).  The slope in a rival's score is minus its share of the rivals' sum.  With two labels it
    is exact.

    Examples
    --------
    >>> linearized_moments([[1.0, 3.0]], [[0.5, 0.25]], [1])
    (array([2.]), array([0.75]))
    """
    m, b = _label_table(mean, "mean"), _label_table(variance, "variance")
    if b.shape != m.shape:
        raise InputError(f"variance must have shape {m.shape}, got {b.shape}.")
    if b.min() < 0:
        raise InputError("variance must not be negative.")
    codes = _codes(target, *m.shape)
    rows, slopes = np.arange(m.shape[0]), _rival_shares(m, codes)
    odds = m[rows, codes] - logsumexp(_without(m, codes), axis=1)
    return np.asarray(odds), b[rows, codes] + np.sum(slopes**2 * b, axis=1)


def linearized_scores(scores: ArrayLike, target: ArrayLike) -> FloatArray:
    """Log odds of the true label of every member, linearised at the mean scores.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows, n_labels)
        Scores whose softmax are the label probabilities.
    target : array-like of int, shape (n_rows,)
        Code of the true label.

    Returns
    -------
    ndarray of float64, shape (n_members, n_rows)
        For the fits of :mod:`ens_plugin.papers.score_tables_2017.score_models`.

    Raises
    ------
    InputError
        As :func:`linearized_moments`.

    Notes
    -----
    2017 section A.1 member by member, so that scores of different labels need not be independent.  Use it
    for the log loss; with three or more labels the 0-1 loss is a matter of the strongest rival
    (:mod:`ens_plugin.core.row_models.margins`).

    Examples
    --------
    >>> linearized_scores([[[0.0, 1.0]], [[0.5, 3.0]]], [1])
    array([[1. ],
           [2.5]])
    """
    c = np.asarray(scores, dtype=np.float64)
    if c.ndim != 3 or c.size == 0:
        raise InputError(f"scores must have shape (n_members, n_rows, n_labels), got {c.shape}.")
    if not np.isfinite(c).all():
        raise InputError("scores holds NaN or infinite values; remove or replace them.")
    mean = _label_table(c.mean(axis=0), "scores")
    codes = _codes(target, *mean.shape)
    rows, slopes = np.arange(mean.shape[0]), _rival_shares(mean, codes)
    odds = mean[rows, codes] - logsumexp(_without(mean, codes), axis=1)
    deviations = c - mean
    return np.asarray(odds + deviations[:, rows, codes] - np.sum(slopes * deviations, axis=2))


def _label_table(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise InputError(f"{name} must have shape (n_rows, n_labels) with at least 2 labels, got {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values; remove or replace them.")
    return array


def _codes(target: ArrayLike, n_rows: int, n_labels: int) -> IntArray:
    codes = as_values(target, "target", n_rows)
    if not np.isin(codes, np.arange(n_labels)).all():
        raise InputError(f"target must hold label codes from 0 to {n_labels - 1}.")
    return codes.astype(np.int64)


def _without(values: FloatArray, codes: IntArray) -> FloatArray:
    rivals = values.copy()
    rivals[np.arange(codes.size), codes] = -np.inf
    return rivals


def _rival_shares(mean: FloatArray, codes: IntArray) -> FloatArray:
    """Share of each rival in the rivals' sum of exponentials, 0 for the true label; shape (n_rows, n_labels)."""
    return np.asarray(softmax(_without(mean, codes), axis=1))
