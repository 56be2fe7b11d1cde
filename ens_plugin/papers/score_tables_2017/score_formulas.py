"""Linearised scores of ensembles of more than two labels (2017, appendix A.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from ens_plugin.core.validation import FloatArray, IntArray, as_values, check_finite
from ens_plugin.errors import InputError

__all__ = ["linearized_scores"]


def linearized_scores(scores: ArrayLike, target: ArrayLike) -> FloatArray:
    r"""Return every member's log odds of the true label, linearised at the mean scores.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows, n_labels)
        Scores whose softmax is the vector of label probabilities.
    target : array-like of int, shape (n_rows,)
        Code of the true label.

    Returns
    -------
    ndarray of float64, shape (n_members, n_rows)
        Input of the fits of :mod:`ens_plugin.papers.score_tables_2017.score_models`.

    Raises
    ------
    InputError
        If shapes differ, a score is not finite or a label code is out of range.

    Notes
    -----
    2017 section A.1 member by member, so that scores of different labels need not be independent.  The log odds
    of label j are :math:`c_j - \log\sum_{i\ne j} e^{c_i}` (the paper prints their negative); their slope in a
    rival's score is minus its share of the rivals' sum.  With two labels it is exact.  Use it for the log loss; with
    three or more labels the 0-1 loss depends on the strongest rival (:mod:`ens_plugin.core.row_models.margins`).

    Examples
    --------
    >>> linearized_scores([[[0.0, 1.0]], [[0.5, 3.0]]], [1])
    array([[1. ],
           [2.5]])
    """
    c = np.asarray(scores, dtype=np.float64)
    if c.ndim != 3 or c.size == 0:
        raise InputError(f"scores must have shape (n_members, n_rows, n_labels), got {c.shape}.")
    check_finite(c, "scores")
    mean = c.mean(axis=0)
    if mean.shape[1] < 2:
        raise InputError(f"scores must have shape (n_rows, n_labels) with at least 2 labels, got {mean.shape}.")
    codes = _codes(target, *mean.shape)
    rows, slopes = np.arange(mean.shape[0]), _rival_shares(mean, codes)
    odds = mean[rows, codes] - logsumexp(_without(mean, codes), axis=1)
    deviations = c - mean
    return np.asarray(odds + deviations[:, rows, codes] - np.sum(slopes * deviations, axis=2))


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
    """Return each rival's share in the rivals' sum of exponentials, 0 for the true label; shape (n_rows, n_labels)."""
    return np.asarray(softmax(_without(mean, codes), axis=1))
