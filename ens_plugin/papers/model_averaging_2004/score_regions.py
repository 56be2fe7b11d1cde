r"""Regions of the class scores of averaged models, and which labels are settled at T models (2004 section 8.2).

A model has the joint score P(y, x | theta_t) for each label y; T models predict the label of the largest
mean.  Around each mean is a region that holds the mean of infinitely many models except with a small
chance.  Where the best label's region overlaps no other region, the label is settled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import FloatArray, as_chance, as_numbers
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.model_averaging_2004.bound_formulas import mean_bound
from ens_plugin.papers.model_averaging_2004.settled_growth import models_for_share

__all__ = ["ScoreRegions", "models_by_row", "models_to_settle", "score_regions", "settled_rows"]

# With the standard deviation of two models in place of the true one, the bound is exceeded too often.
MIN_MODELS = 3


class ScoreRegions(NamedTuple):
    """Mean joint score of each row and label, with an interval that holds the mean of infinitely many models.

    Attributes
    ----------
    mean, lower, upper : ndarray, shape (n_rows, n_labels)
        Relative to the row's largest single score, which is 1: joint scores themselves underflow.
    """

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


def score_regions(log_scores: ArrayLike, delta: float = 0.05) -> ScoreRegions:
    r"""Return intervals that hold, for each row and label, the mean joint score of infinitely many models.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        Logarithms of the joint scores P(y, x | theta_t), as ``predict_joint_log_proba`` of
        scikit-learn's naive Bayes classes returns them; minus infinity for a score of 0.
    delta : float, default=0.05
        Chance that the mean of infinitely many models lies outside a region, strictly between 0
        and 1, for each region separately.

    Returns
    -------
    ScoreRegions
        Mean plus and minus :func:`ens_plugin.papers.model_averaging_2004.bound_formulas.mean_bound`, with the
        standard deviation over the models (2004 eq. 11 applied to eq. 9).

    Raises
    ------
    InputError
        If `log_scores` has another shape, fewer than two labels, NaN or plus infinity, or a row whose
        scores are all 0; or if `delta` is out of range.
    TooFewMembersError
        If there are fewer than three models.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.30, 0.10]], [[0.28, 0.12]], [[0.29, 0.09]], [[0.30, 0.11]]])
    >>> regions = score_regions(np.log(scores), delta=0.2)
    >>> bool(regions.lower[0, 0] > regions.upper[0, 1])
    True
    """
    chance = as_chance(delta, "delta")
    mean, sd, n_models = _score_moments(log_scores)
    half = mean_bound(sd, n_models, chance)
    return ScoreRegions(mean, mean - half, mean + half)


def settled_rows(log_scores: ArrayLike, delta: float = 0.05) -> NDArray[np.bool_]:
    r"""Return which rows have a settled label: the interval of its mean score overlaps that of no other label.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        As for :func:`score_regions`.
    delta : float, default=0.05
        Chance that a settled label is not that of infinitely many models.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        The mean is the share of settled rows.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`.

    Notes
    -----
    2004 section 8.2.  All of a row's regions must hold at once, so each has delta over the number
    of labels; in the paper each has the whole delta, and the chances add up.

    The standard deviation is that of the T models.  Where a rival's score varies by orders of magnitude and
    its mean depends on models rarer than one in T, both are underestimated: a rival that is log-normal with a
    standard deviation of 3 in logarithms and a mean 1.1 times the best label's is wrongly excluded in some 39 %
    of the cases at T = 25 and 6 % at 1000 (with 1.5 instead of 3, in 2 % and never).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> settled_rows(np.log(scores))
    array([ True, False])
    """
    chance = as_chance(delta, "delta")
    scores = _as_log_scores(log_scores)
    regions = score_regions(scores, chance / scores.shape[2])
    best = np.argmax(regions.mean, axis=1)
    rows = np.arange(best.size)
    upper = regions.upper.copy()
    upper[rows, best] = -np.inf
    return np.asarray(regions.lower[rows, best] > upper.max(axis=1))


def models_to_settle(log_scores: ArrayLike, share: float = 0.95, delta: float = 0.05) -> int | None:
    r"""Return the estimated number of models that give a share of the rows the label of infinitely many models.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        Scores of the current models, as for :func:`score_regions`.
    share : float, default=0.95
        Wanted share of settled rows, strictly between 0 and 1.
    delta : float, default=0.05
        Chance that a settled label is not that of infinitely many models.

    Returns
    -------
    int or None
        The number at which the regions of that share of the rows stop overlapping if means and standard
        deviations do not change: :math:`T > ((s_1 + s_2) / (m_1 - m_2))^2 L / \delta` for L labels
        and the rival that needs most models.  None where the means of too many rows are equal.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`; InputError also if `share` is out of range.

    Notes
    -----
    2004 section 8.2: "only as many models as required".  An extrapolation: check with
    :func:`settled_rows` after they are fitted.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> models_to_settle(np.log(scores), share=0.5), models_to_settle(np.log(scores), share=0.9)
    (3, 485)
    """
    wanted = as_chance(share, "share")
    return models_for_share(models_by_row(log_scores, delta), wanted)


def models_by_row(log_scores: ArrayLike, delta: float = 0.05) -> FloatArray:
    """Return the estimated number of models that give each row the label of infinitely many models.

    Parameters
    ----------
    log_scores, delta
        As for :func:`models_to_settle`.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Whole numbers of at least 3, infinite where the means of two labels are equal.  A row is settled
        (:func:`settled_rows`) exactly if this is at most the number of current models.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> models_by_row(np.log(scores))
    array([  3., 485.])
    """
    chance = as_chance(delta, "delta")
    mean, sd, _ = _score_moments(log_scores)
    best = np.argmax(mean, axis=1)[:, None]
    gap = np.take_along_axis(mean, best, 1) - mean
    spread = np.take_along_axis(sd, best, 1) + sd
    tied = gap <= 0
    needed = np.where(tied, np.inf, (spread / np.where(tied, 1.0, gap)) ** 2) * mean.shape[1] / chance
    np.put_along_axis(needed, best, 0.0, 1)
    return np.asarray(np.maximum(np.floor(needed.max(axis=1)) + 1.0, MIN_MODELS))


def _score_moments(log_scores: ArrayLike) -> tuple[FloatArray, FloatArray, int]:
    """Return mean and standard deviation (ddof 1) over models, relative to a row's largest score, and their number."""
    logs = _as_log_scores(log_scores)
    scores = np.exp(logs - logs.max(axis=(0, 2))[None, :, None])
    return scores.mean(axis=0), scores.std(axis=0, ddof=1), scores.shape[0]


def _as_log_scores(log_scores: ArrayLike) -> FloatArray:
    logs = as_numbers(log_scores, "log_scores")
    if logs.ndim != 3 or logs.shape[1] == 0 or logs.shape[2] < 2:
        raise InputError(
            f"log_scores must have shape (n_models, n_rows, n_labels) with at least two labels, got {logs.shape}."
        )
    if logs.shape[0] < MIN_MODELS:
        raise TooFewMembersError(
            f"log_scores holds {logs.shape[0]} model(s), and their spread needs at least {MIN_MODELS}. Add models."
        )
    if np.isnan(logs).any() or np.isposinf(logs).any():
        raise InputError(
            "log_scores holds NaN or plus infinity; logarithms of probabilities are finite or minus infinity."
        )
    if np.isneginf(logs.max(axis=(0, 2))).any():
        raise InputError("log_scores holds a row whose scores are 0 for every label and model; leave such rows out.")
    return logs
