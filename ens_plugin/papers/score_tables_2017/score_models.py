r"""Distributions over members of the score for each row (2017, sections 4.2 and A.3).

Scores are log odds of the true label: positive where the member is right.  Three models of them, all
used by :mod:`ens_plugin.papers.score_tables_2017.score_losses`: a normal per row, a mixture of two normals, and a beta
distribution of the probability.  Each is a weighted set of rows, so that a fitted distribution over
rows (:mod:`ens_plugin.papers.score_tables_2017.score_shrinkage`) is one as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from ens_plugin.core.row_models.majority import majority_error
from ens_plugin.core.validation import FloatArray, as_numbers, as_values, as_weight, check_finite, counted
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables

__all__ = ["NormalScores", "fit_normal_scores", "row_moments", "scores_of_truth"]


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Weighted rows whose members' scores are normal (2017 section 4.2).

    Attributes
    ----------
    mean, variance : ndarray, shape (n_rows,)
        Moments of one member's score for the true label.
    weight : ndarray, shape (n_rows,)
        Weight of each row.
    """

    mean: FloatArray
    variance: FloatArray
    weight: FloatArray

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of one member's score, shape (n_rows,)."""
        return np.sqrt(self.variance)

    def flipped(self) -> NormalScores:
        """Return the same rows with the two labels exchanged (2017: y = 0 takes a to -a)."""
        return NormalScores(-self.mean, self.variance, self.weight)

    def mixed_scores(self, size: float) -> NormalScores:
        """Return the rows' mean scores of `size` members, which are normal with variance b/K (2017 section 4.3.2)."""
        return NormalScores(self.mean, self.variance / size, self.weight)

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label, shape (n_rows,)."""
        if aggregation == "mean_score":
            return _wrong_side(self.mean, self.spread / np.sqrt(size))
        if aggregation == "vote":
            return np.asarray(majority_error(_wrong_side(self.mean, self.spread), [size])[0])
        if np.isinf(size):
            # The normal is symmetric, so that E p is above one half exactly where the mean score is positive.
            return _wrong_side(self.mean, np.zeros(self.mean.size))
        return tables.below_half(self.mean, self.spread, size)

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label, shape (2, n_rows)."""
        if aggregation == "mean_score":
            first, second = tables.log_loss_moments(self.mean, self.spread / np.sqrt(size))
            return np.stack([-first, np.maximum(second - first**2, 0.0)])
        return tables.log_mean(self.mean, self.spread, size)

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label, shape (4, n_rows)."""
        if aggregation == "mean_score":
            return tables.miss_moments(self.mean, self.spread / np.sqrt(size))
        return moments_of_mean(tables.miss_moments(self.mean, self.spread), size)


def _wrong_side(mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the probability that a normal variable is below 0; one half for a mean and spread of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        standardized = np.where(spread > 0, mean / spread, np.where(mean == 0, 0.0, np.sign(mean) * np.inf))
    return np.asarray(ndtr(-standardized))


def moments_of_mean(moments: FloatArray, size: float) -> FloatArray:
    """Return the first four moments of a mean of `size` independent variables from those of one, shape (4, n_rows)."""
    m1, m2, m3, m4 = moments
    variance = np.maximum(m2 - m1**2, 0.0) / size
    third = (m3 - 3 * m1 * m2 + 2 * m1**3) / size**2
    fourth = (m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4) / size**3
    return np.stack(
        [
            m1,
            m1**2 + variance,
            m1**3 + 3 * m1 * variance + third,
            m1**4 + 6 * m1**2 * variance + 4 * m1 * third + 3 * variance**2 + fourth,
        ]
    )


def scores_of_truth(scores: ArrayLike, target: ArrayLike) -> FloatArray:
    """Return scores for the true label from those for label 1: (2 y - 1) c (2017, Algorithm 1).

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of label 1.
    target : array-like, shape (n_rows,)
        Labels 0 and 1.

    Returns
    -------
    ndarray of float64, shape (n_members, n_rows)

    Raises
    ------
    InputError
        If shapes differ, a score is not finite or a label is not 0 or 1.

    Examples
    --------
    >>> scores_of_truth([[1.0, 2.0]], [1, 0])
    array([[ 1., -2.]])
    """
    c = as_outputs(scores, "scores")
    y = as_values(target, "target", c.shape[1])
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError("target must hold the labels 0 and 1.")
    return np.asarray((2.0 * y - 1.0) * c)


def as_outputs(outputs: ArrayLike, name: str) -> FloatArray:
    """Return outputs as a checked finite array (n_members, n_rows) of float64; errors name `name`."""
    array = as_numbers(outputs, name)
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"{name} must have shape (n_members, n_rows), got {array.shape}.")
    check_finite(array, name)
    return array


def row_moments(
    outputs: ArrayLike, used: ArrayLike | None = None, name: str = "outputs"
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean and variance (ddof 1) of each row's outputs, and the number of members they come from.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows)
    used : array-like of bool, shape (n_members, n_rows), optional
        Which members count for which row (those out of bag, for example); all if None.

    Returns
    -------
    mean, variance, trials : ndarrays, shape (n_rows,)

    Raises
    ------
    InputError
        If shapes differ or an output is not finite.
    TooFewMembersError
        If a row has fewer than 2 members.
    """
    values = as_outputs(outputs, name)
    mask = np.ones(values.shape, dtype=bool) if used is None else np.asarray(used, dtype=bool)
    if mask.shape != values.shape:
        raise InputError(f"used must have the shape of {name}, {values.shape}, got {mask.shape}.")
    trials = mask.sum(axis=0).astype(np.float64)
    if trials.min() < 2:
        raise TooFewMembersError(
            f"{counted(np.count_nonzero(trials < 2), 'row has', 'rows have')} fewer than 2 members to estimate a "
            "spread from; leave such rows out or train more members."
        )
    mean = np.sum(values, axis=0, where=mask) / trials
    variance = np.sum((values - mean) ** 2, axis=0, where=mask) / (trials - 1.0)
    return mean, variance, trials


def fit_normal_scores(
    scores: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> NormalScores:
    """Return normal scores with the mean and variance of each row's scores (2017 section 4.2, Algorithm 1).

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of the true label (:func:`scores_of_truth`).
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalScores

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`row_moments`.

    Examples
    --------
    >>> fit_normal_scores([[1.0, 2.0], [3.0, 2.0]]).variance
    array([2., 0.])
    """
    mean, variance, _ = row_moments(scores, used, "scores")
    return NormalScores(mean, variance, as_weight(weight, mean.size))


def score_of(probability: ArrayLike, floor: float = 1e-6) -> FloatArray:
    """Return the log odds of probabilities kept `floor` away from 0 and 1, in their shape."""
    p = np.clip(np.asarray(probability, dtype=np.float64), floor, 1.0 - floor)
    return np.asarray(np.log(p) - np.log1p(-p))
