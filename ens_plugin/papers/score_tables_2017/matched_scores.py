r"""Normal scores that match mean and variance of the probabilities, for ensembles that average probabilities.

The distribution of the mean of many probabilities depends only on the mean and variance of one.
Scores of trees are far from normal; a normal fitted to them has a wrong variance of the probability,
and hence a wrong loss at every size of a voting ensemble.  Here the normal is chosen by these two
moments, and the universal tables of 2017 need no change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from ens_plugin.core.validation import FloatArray, as_weight, check_shares
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_models import NormalScores, as_outputs, row_moments
from ens_plugin.papers.score_tables_2017.score_shrinkage import shrink_rows
from ens_plugin.papers.score_tables_2017.score_tables import MAX_MIXED_SPREAD, ScoreTables

__all__ = ["fit_matched_scores", "match_probabilities", "shrink_matched_scores"]

EDGE = 1e-6
SPREAD_STEPS = 25
MEAN_STEPS = 6


def fit_matched_scores(
    probabilities: ArrayLike, tables: ScoreTables, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> NormalScores:
    """Return the rows' normal scores, matched to the mean and variance of each row's members' probabilities.

    Parameters
    ----------
    probabilities : array-like, shape (n_members, n_rows)
        Probability of the true label.
    tables : ScoreTables
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalScores
        For aggregation "mean_proba".

    Raises
    ------
    InputError
        If a probability is outside [0, 1], or as :func:`ens_plugin.papers.score_tables_2017.score_models.row_moments`.
    TooFewMembersError
        If a row has fewer than 2 members.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.cache import load_score_tables
    >>> rows = fit_matched_scores([[0.4], [0.6]], load_score_tables())
    >>> rows.mean.round(6) + 0.0, rows.variance.round(2)
    (array([0.]), array([0.38]))
    """
    check_shares(as_outputs(probabilities, "probabilities"), "probabilities")
    mean, variance, _ = row_moments(probabilities, used, "probabilities")
    return match_probabilities(mean, variance, tables, weight)


def shrink_matched_scores(
    probabilities: ArrayLike, tables: ScoreTables, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> NormalScores:
    """Return the distribution over rows of the mean probability, without members' noise, as weighted normal scores.

    Parameters and errors are those of :func:`fit_matched_scores`.

    Returns
    -------
    NormalScores
        Its rows are points of the fitted distribution, not the rows given.

    Notes
    -----
    :func:`ens_plugin.papers.score_tables_2017.score_shrinkage.shrink_rows` applied to :func:`fit_matched_scores`.
    """
    check_shares(as_outputs(probabilities, "probabilities"), "probabilities")
    mean, variance, trials = row_moments(probabilities, used, "probabilities")
    return shrink_rows(match_probabilities(mean, variance, tables, weight), trials)


def match_probabilities(
    mean: ArrayLike, variance: ArrayLike, tables: ScoreTables, weight: ArrayLike | None = None
) -> NormalScores:
    """Return the normal scores whose probabilities have a given mean and variance.

    Parameters
    ----------
    mean, variance : array-like, shape (n_rows,)
        Moments of one member's probability.  Means are kept 1e-6 away from 0 and 1; a variance that no spread of
        scores up to 8 reaches gets a spread of 8.
    tables : ScoreTables
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalScores

    Raises
    ------
    InputError
        If a mean is outside [0, 1] or a variance negative.
    """
    m, v = np.atleast_1d(np.asarray(mean, dtype=np.float64)), np.atleast_1d(np.asarray(variance, dtype=np.float64))
    if m.ndim != 1 or m.size == 0 or v.shape != m.shape or not (np.isfinite(m).all() and np.isfinite(v).all()):
        raise InputError("mean and variance must be finite and of shape (n_rows,).")
    if m.min() < 0 or m.max() > 1:
        raise InputError(f"mean must lie in [0, 1], got values from {m.min():g} to {m.max():g}.")
    if v.min() < 0:
        raise InputError("variance must not be negative.")
    m = np.clip(m, EDGE, 1.0 - EDGE)
    low: FloatArray = np.zeros(m.size)
    high: FloatArray = np.full(m.size, MAX_MIXED_SPREAD)
    score = logit(m)
    for _ in range(SPREAD_STEPS):
        spread = (low + high) / 2.0
        score = _mean_score(m, spread, score, tables)
        moments = tables.miss_moments(score, spread)
        wide = moments[1] - moments[0] ** 2 > v
        high, low = np.where(wide, spread, high), np.where(wide, low, spread)
    spread = (low + high) / 2.0
    score = _mean_score(m, spread, score, tables)
    return NormalScores(score, spread**2, as_weight(weight, m.size))


def _mean_score(mean: FloatArray, spread: FloatArray, score: FloatArray, tables: ScoreTables) -> FloatArray:
    """Return the rows' mean scores at which the expected probability is `mean`, iterated from `score`."""
    slope = np.sqrt(1.0 + np.pi * spread**2 / 8.0)
    for _ in range(MEAN_STEPS):
        found = np.clip(tables.miss_moments(-score, spread)[0], 1e-9, 1.0 - 1e-9)
        score = score + np.clip(logit(mean) - logit(found), -2.0, 2.0) * slope
    return np.asarray(score)
