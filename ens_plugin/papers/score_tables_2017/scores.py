r"""Mahajan et al. 2017: the distribution of scores, and the losses that follow from it.

Distributions over members of the score for each row (2017, sections 4.2 and A.3). Scores are log odds of the true
label: positive where the member is right. Three models of them, all used by
:mod:`ens_plugin.papers.score_tables_2017.scores`: a normal per row, a mixture of two normals, and a beta distribution
of the probability. Each is a weighted set of rows, so that a fitted distribution over rows
(:mod:`ens_plugin.papers.score_tables_2017.scores`) is one as well.

Loss of an ensemble of any size, with bias and variance, from a model of its rows' scores (2017).

Losses of a row whose true label has probability p: ``"zero_one"`` 1[p < 1/2] (a tie is broken at random), ``"log"``
-log p, ``"squared"`` the squared distance of the probability vectors, 2 (1 - p)^2.  Aggregation:
``"mean_score"`` (parameter mixing: the logistic function of the mean score), ``"mean_proba"`` (voting
in the paper's sense: the mean probability) or ``"vote"`` (hard labels; 0-1 loss only).

Shrunken rows: the distribution over rows of the members' mean score, without the noise of few members. With 25
members a row's mean score has a standard error of a fifth of one member's spread; uncorrected, means vary more over
rows than the true ones. This is the future work no. 1 of 2017 (section 7); the distribution over rows is deconvolved
as for margins (``docs/methods/margins.md``).

Normal scores that match mean and variance of the probabilities, for ensembles that average probabilities. The
distribution of the mean of many probabilities depends only on the mean and variance of one. Scores of trees are far
from normal; a normal fitted to them has a wrong variance of the probability, and hence a wrong loss at every size of
a voting ensemble. Here the normal is chosen by these two moments, and the universal tables of 2017 need no change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.special import betainc, expit, log_expit, logit, logsumexp, ndtr, ndtri, softmax
from scipy.stats import binom

from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import effective_votes, is_close
from ens_plugin.core.validation import (
    FloatArray,
    IntArray,
    as_numbers,
    as_sizes,
    as_values,
    as_weight,
    check_finite,
    check_shares,
    counted,
)
from ens_plugin.core.votes import majority_error
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.score_tables_2017.score_tables import (
    EFFECT_MEANS,
    MAX_MIXED_SPREAD,
    ScoreTables,
    log_laplace,
    mean_below_half,
    moments_of_log_mean,
    score_quadrature,
)
from ens_plugin.papers.wrong_votes import fit_mixture

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "BetaProbabilities",
    "BiasVarianceCurve",
    "NormalPair",
    "NormalScores",
    "ScoreRows",
    "expected_loss",
    "fit_beta_probabilities",
    "fit_matched_scores",
    "fit_normal_pair",
    "fit_normal_scores",
    "linearized_scores",
    "loss_curve",
    "loss_variance",
    "match_probabilities",
    "row_moments",
    "score_bias_variance",
    "scores_of_truth",
    "shrink_beta_probabilities",
    "shrink_matched_scores",
    "shrink_normal_scores",
    "shrink_rows",
    "smallest_size_within",
]


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


# Probabilities are kept so far away from 0 and 1.
EDGE = 1e-6


def score_of(probability: ArrayLike, floor: float = EDGE) -> FloatArray:
    """Return the log odds of probabilities kept `floor` away from 0 and 1, in their shape."""
    p = np.clip(np.asarray(probability, dtype=np.float64), floor, 1.0 - floor)
    return np.asarray(np.log(p) - np.log1p(-p))


# Range of alpha + beta: nearly certain labels at the low end, one value of all members at the high end.
MIN_CONCENTRATION, MAX_CONCENTRATION = 0.02, 1e6
NODE_MASS = 38.0
N_NODES = 160
# A step of one half integrates the survival function of a logarithm's exponential to 1e-7.
LOG_TIMES: FloatArray = np.arange(-48.0, 40.5, 0.5)
SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
OCTAVES: FloatArray = np.arange(-6, 11).astype(np.float64)


@dataclass(frozen=True, eq=False)
class BetaProbabilities:
    """Weighted rows whose members' probability of the true label is Beta(alpha, beta).

    Attributes
    ----------
    alpha, beta : ndarray, shape (n_rows,)
    weight : ndarray, shape (n_rows,)
        Weight of each row.
    """

    alpha: FloatArray
    beta: FloatArray
    weight: FloatArray

    def flipped(self) -> BetaProbabilities:
        """Return the same rows with the two labels exchanged."""
        return BetaProbabilities(self.beta, self.alpha, self.weight)

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label, shape (n_rows,)."""
        _refuse_scores(aggregation)
        if np.isinf(size) and aggregation == "mean_proba":
            return np.asarray((1.0 - np.sign(self.alpha - self.beta)) / 2.0)
        single: FloatArray = np.asarray(betainc(self.alpha, self.beta, 0.5), dtype=np.float64)
        if aggregation == "vote":
            return np.asarray(majority_error(single, [size])[0])
        if size == 1:
            return single
        total = self.alpha + self.beta
        effect = _effects_of_rows(self._standardized(), total, size)
        return np.asarray(ndtr(-effect * self._standardized() * np.sqrt(size)))

    def _standardized(self) -> FloatArray:
        """Return the mean probability less one half, in standard deviations of one member, shape (n_rows,)."""
        total = self.alpha + self.beta
        mean = self.alpha / total
        return np.asarray((mean - 0.5) / np.sqrt(mean * (1.0 - mean) / (total + 1.0)))

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label, shape (2, n_rows)."""
        _refuse_scores(aggregation)
        if np.isinf(size):
            return np.stack([np.log(self.alpha / (self.alpha + self.beta)), np.zeros(self.alpha.size)])
        transforms, inverse = self._log_transforms
        moments = moments_of_log_mean(LOG_TIMES, np.exp(size * transforms), size)
        return np.stack(moments)[:, inverse]

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label, shape (4, n_rows)."""
        _refuse_scores(aggregation)
        total = self.alpha + self.beta
        steps = np.stack([(self.beta + j) / (total + j) for j in range(4)])
        return moments_of_mean(np.asarray(np.cumprod(steps, axis=0), dtype=np.float64), size)

    @cached_property
    def _log_transforms(self) -> tuple[FloatArray, IntArray]:
        """Logarithms of the Laplace transforms of distinct rows, which all sizes share, and which of them each row has.

        Rows of trees often are equal.
        """
        pairs, inverse = np.unique(np.stack([self.alpha, self.beta]), axis=1, return_inverse=True)
        transforms = [log_laplace(LOG_TIMES, *_score_nodes(float(a), float(b))) for a, b in pairs.T]
        return np.stack(transforms), inverse.ravel()


def _refuse_scores(aggregation: str) -> None:
    if aggregation == "mean_score":
        raise InputError(
            "aggregation='mean_score' averages scores, and the beta model is for probabilities; use fit_normal_scores."
        )


def _effects_of_rows(standardized: FloatArray, concentration: FloatArray, size: float) -> FloatArray:
    r"""Return :math:`-\Phi^{-1}(T) / (r \sqrt K)` of rows, T the error of K members and r the standardized mean."""
    place = np.minimum(np.abs(standardized) * np.sqrt(size), EFFECT_MEANS[-1])
    if np.ptp(concentration) <= 1e-9 * concentration[0]:
        return _even_spline(_effects(float(concentration[0]), size))(place)
    octave = np.clip(np.log2(concentration), OCTAVES[0], OCTAVES[-1])
    table = np.stack([_effects(float(2.0**node), size) for node in OCTAVES])
    nodes = np.concatenate([-EFFECT_MEANS[:0:-1], EFFECT_MEANS])
    even = np.concatenate([table[:, :0:-1], table], axis=1)
    return np.asarray(RectBivariateSpline(OCTAVES, nodes, even, s=0).ev(octave, place))


def _even_spline(effects: FloatArray) -> CubicSpline:
    nodes = np.concatenate([-EFFECT_MEANS[:0:-1], EFFECT_MEANS])
    return CubicSpline(nodes, np.concatenate([effects[:0:-1], effects]))


@lru_cache(maxsize=4096)
def _effects(concentration: float, size: float) -> FloatArray:
    """Return -Phi^-1(T) / x at nodes x, T the error at standardized mean x / sqrt(size); the last one for tiny T."""
    effects = np.ones(EFFECT_MEANS.size)
    for index, scaled in enumerate(EFFECT_MEANS):
        r = max(scaled, 0.01) / np.sqrt(size)
        ratio = r**2 / (concentration + 1.0)
        mean = 0.5 + 0.5 * np.sqrt(ratio / (1.0 + ratio))
        tail = _beta_below_half(mean * concentration, (1.0 - mean) * concentration, size)
        if tail > 1e-11:
            effects[index] = -ndtri(tail) / (r * np.sqrt(size))
        elif index:
            effects[index] = effects[index - 1]
    return effects


def _beta_below_half(alpha: float, beta: float, size: float) -> float:
    mean = alpha / (alpha + beta)
    sd = np.sqrt(mean * (1.0 - mean) / (alpha + beta + 1.0))
    low, high = (0.0, 1.0) if alpha + beta < 500.0 else (max(0.0, mean - 12.0 * sd), min(1.0, mean + 12.0 * sd))
    return float(mean_below_half(lambda p: np.asarray(betainc(alpha, beta, p)), low, high, [size])[0])


def _score_nodes(alpha: float, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes and weights of a beta variable, equidistant in its log odds, whose density is smooth.

    Probabilities beyond the first and the last node count as these: `SMALLEST_PROBABILITY`, as in scikit-learn's log
    loss, and one.
    """
    centre = np.log(alpha / beta)
    sd = float(np.sqrt(1.0 / alpha + 1.0 / beta))
    low = max(centre - NODE_MASS * max(1.0 / alpha, sd / 4.0), logit(SMALLEST_PROBABILITY))
    high = min(centre + NODE_MASS * max(1.0 / beta, sd / 4.0), -logit(SMALLEST_PROBABILITY))
    score = np.linspace(low, high, N_NODES)
    log_density = alpha * log_expit(score) + beta * log_expit(-score)
    weights = np.exp(log_density - log_density.max())
    weights[[0, -1]] /= 2.0
    below, above = betainc(alpha, beta, expit(low)), betainc(beta, alpha, expit(-high))
    weights *= (1.0 - below - above) / weights.sum()
    weights[[0, -1]] += below, above
    return expit(score), weights


def fit_beta_probabilities(
    probabilities: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> BetaProbabilities:
    """Return a beta distribution for each row, fitted by the mean and variance of its members' probabilities.

    Parameters
    ----------
    probabilities : array-like, shape (n_members, n_rows)
        Probability of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    BetaProbabilities

    Raises
    ------
    InputError
        If a probability is outside [0, 1], or as :func:`ens_plugin.papers.score_tables_2017.scores.row_moments`.
    TooFewMembersError
        If a row has fewer than 2 members.

    Notes
    -----
    2017 section A.3 (b).  Means are kept 1e-6 away from 0 and 1 and alpha + beta in [0.02, 1e6], which
    covers certain labels and members that agree.

    Examples
    --------
    >>> rows = fit_beta_probabilities([[0.25], [0.75]])
    >>> rows.alpha, rows.beta
    (array([0.5]), array([0.5]))
    """
    mean, variance, _ = row_moments(probabilities, used, "probabilities")
    check_shares(as_outputs(probabilities, "probabilities"), "probabilities")
    m = np.clip(mean, EDGE, 1.0 - EDGE)
    with np.errstate(divide="ignore"):
        concentration = np.where(variance > 0, m * (1.0 - m) / variance, np.inf) - 1.0
    concentration = np.clip(concentration, MIN_CONCENTRATION, MAX_CONCENTRATION)
    return BetaProbabilities(m * concentration, (1.0 - m) * concentration, as_weight(weight, m.size))


def shrink_beta_probabilities(
    probabilities: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> BetaProbabilities:
    """Return the distribution over rows of the mean probability, without the noise of few members, as weighted rows.

    Parameters and errors are those of :func:`fit_beta_probabilities`.

    Returns
    -------
    BetaProbabilities
        Its rows are points of the fitted distribution, all with one concentration alpha + beta.

    Notes
    -----
    A member is worth as many votes as its probability is less variable than a vote
    (``docs/methods/votes.md``); a beta variable with alpha + beta = votes - 1 is just as variable.
    """
    mean, variance, trials = row_moments(probabilities, used, "probabilities")
    check_shares(as_outputs(probabilities, "probabilities"), "probabilities")
    w = as_weight(weight, mean.size)
    votes = _votes_per_member(mean, variance, trials)
    mixture = fit_mixture(trials * (1.0 - mean), trials, w, votes_per_member=votes)
    share = mixture.weights * w.sum()
    kept = share > 1e-9 * w.sum()
    concentration = float(np.clip(votes - 1.0, MIN_CONCENTRATION, MAX_CONCENTRATION))
    right = np.clip(1.0 - mixture.support[kept], EDGE, 1.0 - EDGE)
    return BetaProbabilities(right * concentration, (1.0 - right) * concentration, share[kept])


def _votes_per_member(mean: FloatArray, variance: FloatArray, trials: FloatArray) -> float:
    """Return how many hard votes one member's probability is worth, from rows with a small margin."""
    # The square of a mean is too high by the variance of the mean.
    as_votes, close = mean * (1.0 - mean) + variance / trials, is_close(2.0 * mean - 1.0)
    spreads = as_votes, variance
    return effective_votes([float(trials @ s) for s in spreads], [float(trials[close] @ s[close]) for s in spreads])


EM_STEPS = 100
PRIOR_MEMBERS = 2.0
COUNTED_SIZE = 400


@dataclass(frozen=True, eq=False)
class NormalPair:
    """Weighted rows whose members' scores are a mixture of two normals.

    Attributes
    ----------
    share : ndarray, shape (n_rows,)
        Probability of the first component.
    mean, variance : ndarray, shape (2, n_rows)
        Moments of the two components.
    weight : ndarray, shape (n_rows,)
        Weight of each row.
    """

    share: FloatArray
    mean: FloatArray
    variance: FloatArray
    weight: FloatArray

    def flipped(self) -> NormalPair:
        """Return the same rows with the two labels exchanged."""
        return NormalPair(self.share, -self.mean, self.variance, self.weight)

    def pooled(self) -> NormalScores:
        """Return rows with normal scores of the mixtures' mean and variance."""
        shares = np.stack([self.share, 1.0 - self.share])
        mean = np.sum(shares * self.mean, axis=0)
        variance = np.sum(shares * (self.variance + (self.mean - mean) ** 2), axis=0)
        return NormalScores(mean, variance, self.weight)

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label, shape (n_rows,)."""
        if aggregation == "mean_score":
            return np.asarray(self._over_counts(lambda rows: rows.wrong(1, "mean_score", tables)[None], size)[0])
        if aggregation == "vote":
            single = self._over_counts(lambda rows: rows.wrong(1, "mean_score", tables)[None], 1)[0]
            return np.asarray(majority_error(single, [size])[0])
        if np.isinf(size):
            miss = self._over_counts(lambda rows: rows.miss_moments(1, "mean_score", tables), 1)[0]
            return np.asarray((1.0 + np.sign(np.round(miss - 0.5, 12))) / 2.0)
        return np.array([self._below_half(row, size) for row in range(self.share.size)])

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label, shape (2, n_rows)."""
        if aggregation == "mean_score":
            first, second = self._over_counts(lambda rows: tables.log_loss_moments(rows.mean, rows.spread), size)
            return np.stack([-first, np.maximum(second - first**2, 0.0)])
        if np.isinf(size):
            right = self._over_counts(lambda rows: tables.miss_moments(-rows.mean, rows.spread), 1)[0]
            return np.stack([np.log(np.maximum(right, SMALLEST_PROBABILITY)), np.zeros(right.size)])
        return np.stack(moments_of_log_mean(LOG_TIMES, np.exp(size * self._log_transforms), size))

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label, shape (4, n_rows)."""
        if aggregation == "mean_score":
            return self._over_counts(lambda rows: tables.miss_moments(rows.mean, rows.spread), size)
        single = self._over_counts(lambda rows: tables.miss_moments(rows.mean, rows.spread), 1)
        return moments_of_mean(single, size)

    def _over_counts(self, moments: Callable[[NormalScores], FloatArray], size: float) -> FloatArray:
        """Return moments of the mean score, averaged over how many of `size` members are from the first component.

        Given that number the mean score is normal; above 400 members it is taken as normal.
        """
        if size > COUNTED_SIZE:
            return moments(self.pooled().mixed_scores(size))
        total: FloatArray = np.zeros(1)
        for first in range(int(size) + 1):
            chance: FloatArray = np.asarray(binom.pmf(first, int(size), self.share))
            if chance.max() < 1e-14:
                continue
            counts = np.array([first, size - first])[:, None]
            mean = np.sum(counts * self.mean, axis=0) / size
            variance = np.sum(counts * self.variance, axis=0) / size**2
            total = total + chance * moments(NormalScores(mean, variance, self.weight))
        return total

    def _below_half(self, row: int, size: float) -> float:
        share, mean, spread = self.share[row], self.mean[:, row], np.sqrt(self.variance[:, row])
        low, high = expit([float((mean - 9.0 * spread).min()), float((mean + 9.0 * spread).max())])

        def cumulative(p: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                score = logit(p)
            below = ndtr((score - mean[:, None]) / spread[:, None])
            return np.asarray(share * below[0] + (1.0 - share) * below[1])

        return float(mean_below_half(cumulative, float(low), float(high), [size])[0])

    @cached_property
    def _log_transforms(self) -> FloatArray:
        """Logarithms of the Laplace transforms of rows, which all sizes share, shape (n_rows, n_times)."""
        return np.stack([log_laplace(LOG_TIMES, *self._nodes(row)) for row in range(self.share.size)])

    def _nodes(self, row: int) -> tuple[FloatArray, FloatArray]:
        """Return quadrature nodes of a row's probability, at least `SMALLEST_PROBABILITY`, and their weights."""
        scores, weights = [], []
        for share, mean, spread in zip(
            (self.share[row], 1.0 - self.share[row]), self.mean[:, row], np.sqrt(self.variance[:, row]), strict=True
        ):
            nodes, masses = score_quadrature(float(spread))
            scores.append(mean + spread * nodes)
            weights.append(share * masses)
        return np.maximum(expit(np.concatenate(scores)), SMALLEST_PROBABILITY), np.concatenate(weights)


def fit_normal_pair(scores: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None) -> NormalPair:
    """Return a mixture of two normals for each row, fitted to its scores by EM.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalPair

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`ens_plugin.papers.score_tables_2017.scores.row_moments`.

    Notes
    -----
    2017 section A.3 (c).  EM starts from the members below and above the row's mean and takes 100 steps;
    as a prior, each component has two more members with a tenth of the row's variance, and one more of its
    share, so that none degenerates to a single member.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(np.where(rng.random((400, 1)) < 0.3, -2.0, 2.0), 0.5)
    >>> fit_normal_pair(scores).mean.round(1).ravel()
    array([-2.,  2.])
    """
    values = as_outputs(scores, "scores")
    centre, variance, trials = row_moments(values, used, "scores")
    mask = np.ones(values.shape) if used is None else np.asarray(used, dtype=np.float64)
    scale = np.maximum(variance, 1e-12)
    first = np.where(values < centre, 0.9, 0.1) * mask
    for _ in range(EM_STEPS):
        share, means, variances = _components(values, mask, first, scale, trials)
        deviations = (values - means[:, None]) ** 2 / variances[:, None]
        log_odds = 0.5 * (deviations[1] - deviations[0] + np.log(variances[1] / variances[0])) + logit(share)
        first = expit(log_odds) * mask
    share, means, variances = _components(values, mask, first, scale, trials)
    return NormalPair(share, means, variances, as_weight(weight, share.size))


def _components(
    values: FloatArray, mask: FloatArray, first: FloatArray, scale: FloatArray, trials: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    belongs = np.stack([first, mask - first])
    mass = belongs.sum(axis=1)
    means = np.sum(belongs * values, axis=1) / np.maximum(mass, 1e-12)
    squares = np.sum(belongs * (values - means[:, None]) ** 2, axis=1)
    variances = (squares + PRIOR_MEMBERS * 0.1 * scale) / (mass + PRIOR_MEMBERS)
    return (mass[0] + 1.0) / (trials + 2.0), means, variances


def linearized_scores(scores: ArrayLike, target: ArrayLike, used: ArrayLike | None = None) -> FloatArray:
    r"""Return every member's log odds of the true label, linearised at the mean scores.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows, n_labels)
        Scores whose softmax is the vector of label probabilities.
    target : array-like of int, shape (n_rows,)
        Code of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
        Members whose mean is linearised at; all if None.

    Returns
    -------
    ndarray of float64, shape (n_members, n_rows)
        Input of the fits of :mod:`ens_plugin.papers.score_tables_2017.scores`.

    Raises
    ------
    InputError
        If shapes differ, a score is not finite or a label code is out of range.

    Notes
    -----
    2017 section A.1 member by member, so that scores of different labels need not be independent.  The log odds
    of label j are :math:`c_j - \log\sum_{i\ne j} e^{c_i}` (the paper prints their negative); their slope in a
    rival's score is minus its share of the rivals' sum.  With two labels it is exact.  Use it for the log loss; with
    three or more labels the 0-1 loss depends on the strongest rival (:mod:`ens_plugin.core.margins`).

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
    mask = np.ones(c.shape[:2], dtype=bool) if used is None else np.asarray(used, dtype=bool)
    if mask.shape != c.shape[:2] or not mask.any(axis=0).all():
        raise InputError("used must have shape (n_members, n_rows), with at least one member for every row.")
    mean = np.mean(c, axis=0, where=mask[..., None])
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


LOSSES = ("zero_one", "log", "squared")
AGGREGATIONS = ("mean_score", "mean_proba", "vote")
Rows = TypeVar("Rows", bound="ScoreRows")


class ScoreRows(Protocol):
    """Protocol of a model of the rows, which returns an ensemble's error and moments by size and row."""

    @property
    def weight(self) -> FloatArray:
        """Weight of each row, shape (n_rows,)."""
        ...

    def flipped(self: Rows) -> Rows:
        """Return the same rows with the two labels exchanged."""
        ...

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label."""
        ...

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label."""
        ...

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label."""
        ...


@dataclass(frozen=True, eq=False)
class BiasVarianceCurve:
    """Bias and variance by size, over seeds given one training set; their sum is the expected loss.

    Attributes
    ----------
    sizes, bias, variance : ndarray, shape (n_sizes,)
    loss : str
        "log" or "squared".
    """

    sizes: FloatArray
    bias: FloatArray
    variance: FloatArray
    loss: str


def expected_loss(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "zero_one", aggregation: str = "mean_proba"
) -> FloatArray:
    r"""Return the expected loss of an ensemble of each size on each row.

    Parameters
    ----------
    rows : NormalScores, NormalPair or BetaProbabilities
    sizes : array-like, shape (n_sizes,)
        Whole numbers of at least 1, or infinity.
    tables : ScoreTables
        From :func:`ens_plugin.papers.score_tables_2017.score_tables.build_score_tables`, or `cache.load_score_tables`.
    loss : {"zero_one", "log", "squared"}
    aggregation : {"mean_proba", "mean_score", "vote"}

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_rows)

    Raises
    ------
    InputError
        If a size, the loss or the aggregation is not allowed.

    Notes
    -----
    :math:`T_v(a, b, K)` and :math:`T_{pm}(a, b, K)` of 2017 sections 4.3.1 and 4.3.2 for y = 1.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores
    >>> from ens_plugin.papers.score_tables_2017.score_tables import load_score_tables
    >>> rows = fit_normal_scores([[0.0, 1.0], [2.0, 1.0]])
    >>> expected_loss(rows, [1, 8], load_score_tables(), aggregation="mean_score").round(4)
    array([[0.2398, 0.    ],
           [0.0228, 0.    ]])
    """
    wanted = as_sizes(sizes)
    check_loss(loss, aggregation)
    return np.stack([_mean_loss(rows, size, tables, loss, aggregation) for size in wanted])


def loss_curve(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "zero_one", aggregation: str = "mean_proba"
) -> FloatArray:
    """Return the weighted mean over rows of :func:`expected_loss`: the generalization error G (2017, Algorithm 1).

    Parameters and errors are those of :func:`expected_loss`.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
    """
    by_row = expected_loss(rows, sizes, tables, loss=loss, aggregation=aggregation)
    return np.asarray(by_row @ rows.weight / rows.weight.sum())


def score_bias_variance(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "log", aggregation: str = "mean_proba"
) -> BiasVarianceCurve:
    r"""Return bias and variance of the log or the squared loss at each size (2017 section 5).

    Parameters
    ----------
    rows, sizes, tables
        See :func:`expected_loss`.
    loss : {"log", "squared"}
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    BiasVarianceCurve

    Raises
    ------
    InputError
        If the loss is "zero_one", or as :func:`expected_loss`.

    Notes
    -----
    Log loss: :math:`\bar p \propto \exp E\log p`, bias :math:`-\log\bar p`, variance :math:`-\log Z`,
    :math:`Z = e^{E\log p} + e^{E\log(1-p)}`.  Squared loss: :math:`\bar p = E\,p`, bias
    :math:`2(1-\bar p)^2`, variance :math:`2\,\mathrm{Var}\,p`.
    """
    wanted = as_sizes(sizes)
    check_loss(loss, aggregation)
    if loss == "zero_one":
        raise InputError("loss must be 'log' or 'squared': 2017 has no bias and variance for the 0-1 loss.")
    share = rows.weight / rows.weight.sum()
    split = (_log_splits if loss == "log" else _squared_splits)(rows, wanted, aggregation, tables)
    parts = np.array([[bias @ share, variance @ share] for bias, variance in split])
    return BiasVarianceCurve(wanted, parts[:, 0], parts[:, 1], loss)


def loss_variance(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "zero_one", aggregation: str = "mean_proba"
) -> FloatArray:
    r"""Return the mean over rows of the variance of a row's loss over ensembles of each size (2017 section 4.4).

    Parameters and errors are those of :func:`expected_loss`.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)

    Notes
    -----
    With :math:`G(x, y) = E_r L(y, p_r(x))`, the expected loss of one row,

    .. math:: S^2 = E_{(x,y)} E_r (L(y, p_r(x)) - G(x, y))^2 = E_{(x,y)} E_r L^2(y, p_r(x)) - E_{(x,y)} G^2(x, y).

    The paper takes it for the variance of the error, as if the losses of different rows were independent: the mean loss
    of n rows would then have the variance :math:`S^2 / n` over ensembles.  All rows share the members, so that this is
    an approximation.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores
    >>> from ens_plugin.papers.score_tables_2017.score_tables import load_score_tables
    >>> rows = fit_normal_scores([[0.0, 1.0], [2.0, 1.0]])
    >>> loss_variance(rows, [1, 8], load_score_tables(), aggregation="mean_score").round(4)
    array([0.0911, 0.0111])
    """
    wanted = as_sizes(sizes)
    check_loss(loss, aggregation)
    share = rows.weight / rows.weight.sum()
    return np.array([_variance_of_loss(rows, size, tables, loss, aggregation) @ share for size in wanted])


def _variance_of_loss(rows: ScoreRows, size: float, tables: ScoreTables, loss: str, aggregation: str) -> FloatArray:
    if loss == "zero_one":
        wrong = rows.wrong(size, aggregation, tables)
        return np.asarray(wrong * (1.0 - wrong))
    if loss == "log":
        return np.asarray(rows.log_moments(size, aggregation, tables)[1])
    moments = rows.miss_moments(size, aggregation, tables)
    return np.asarray(4.0 * np.maximum(moments[3] - moments[1] ** 2, 0.0))


def smallest_size_within(
    rows: ScoreRows,
    tables: ScoreTables,
    *,
    loss: str = "zero_one",
    aggregation: str = "mean_proba",
    tolerance: float = 0.01,
    max_size: int = 20001,
) -> int | None:
    """Return the smallest odd size from which on the loss is within a tolerance of the asymptote (2017 section 6.5).

    Parameters
    ----------
    rows, tables, loss, aggregation
        See :func:`expected_loss`.
    tolerance : float, default=0.01
        Relative to the loss of infinitely many members; positive.
    max_size : int, default=20001

    Returns
    -------
    int or None
        None if it is above `max_size`.

    Raises
    ------
    InputError
        If `tolerance` or `max_size` is out of range.

    Notes
    -----
    Sizes are tried from `max_size` down in ratios of about 1.4, and between the last two by bisection.
    From above, because a 0-1 loss may fall below its limit and rise again: small ensembles can be right by
    chance for rows on which the infinite one is wrong.
    The error of a row's mean score is its spread over the root of the number of probes: a size many times that
    number is an extrapolation, and tends to be too small.  Fit more probes for larger sizes.
    """
    if not 0.0 < tolerance < np.inf:
        raise InputError(f"tolerance must be positive and finite, got {tolerance!r}.")
    if not 1 <= max_size < np.inf:
        raise InputError(f"max_size must be at least 1, got {max_size!r}.")
    limit = float(loss_curve(rows, [np.inf], tables, loss=loss, aggregation=aggregation)[0])

    def within(size: int) -> bool:
        found = float(loss_curve(rows, [size], tables, loss=loss, aggregation=aggregation)[0])
        return abs(found - limit) <= tolerance * limit

    top = max(1, (int(max_size) + 1) // 2)
    grid = np.unique(np.geomspace(1, top, 2 + int(3 * np.log(top))).round().astype(np.int64)) * 2 - 1
    good: int | None = None
    for size in grid[::-1]:
        if not within(int(size)):
            return good if good is None else _first_within(within, int(size), good)
        good = int(size)
    return good


def _first_within(within: Callable[[int], bool], bad: int, good: int) -> int:
    """Return the smallest odd size within the tolerance, by bisection between `bad` outside and `good` within it."""
    while good - bad > 2:
        middle = bad + (good - bad) // 4 * 2
        if within(middle):
            good = middle
        else:
            bad = middle
    return good


def check_loss(loss: str, aggregation: str) -> None:
    """Refuse an unknown loss or aggregation, and one that does not go with the other."""
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    if aggregation not in AGGREGATIONS:
        raise InputError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {aggregation!r}.")
    if aggregation == "vote" and loss != "zero_one":
        raise InputError(
            "aggregation='vote' gives labels, for which only the 0-1 loss is defined. Pass loss='zero_one'."
        )


def _mean_loss(rows: ScoreRows, size: float, tables: ScoreTables, loss: str, aggregation: str) -> FloatArray:
    if loss == "zero_one":
        return rows.wrong(size, aggregation, tables)
    if loss == "squared":
        return np.asarray(2.0 * rows.miss_moments(size, aggregation, tables)[1])
    return np.asarray(-rows.log_moments(size, aggregation, tables)[0])


def _log_splits(
    rows: ScoreRows, sizes: FloatArray, aggregation: str, tables: ScoreTables
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield bias and variance of each row's log loss, for each size."""
    sides = (rows, rows.flipped())
    # For infinitely many members the logarithm of Z is 0 up to the tables' error, which is nearly the same for many.
    limit = np.logaddexp(*_log_means(sides, np.inf, aggregation, tables)) if aggregation == "mean_proba" else 0.0
    for size in sizes:
        right, wrong = _log_means(sides, size, aggregation, tables)
        log_z = np.minimum(np.logaddexp(right, wrong) - limit, 0.0)
        yield log_z - right, -log_z


def _log_means(
    sides: tuple[ScoreRows, ScoreRows], size: float, aggregation: str, tables: ScoreTables
) -> tuple[FloatArray, FloatArray]:
    """Return the mean logarithms of the mixed probabilities of the true label and of the other, by row."""
    right, wrong = (side.log_moments(size, aggregation, tables)[0] for side in sides)
    return right, wrong


def _squared_splits(
    rows: ScoreRows, sizes: FloatArray, aggregation: str, tables: ScoreTables
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield bias and variance of each row's squared loss, for each size."""
    for size in sizes:
        first, second, *_ = rows.miss_moments(size, aggregation, tables)
        yield 2.0 * first**2, 2.0 * np.maximum(second - first**2, 0.0)


SCORE_QUANTILE = 0.995
NEGLIGIBLE_SHARE = 1e-9
# Matched rows on which members differ more have another distribution of means: each group has its own density.
MATCHED_GROUPS, GROUP_ROWS = 3, 100


def shrink_normal_scores(
    scores: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> NormalScores:
    """Return the distribution over rows of mean score and spread, without the noise of few members, as weighted rows.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalScores
        Its rows are points of the fitted distribution, not the rows given.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`ens_plugin.papers.score_tables_2017.scores.row_moments`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(0.5, 1.0, size=1000)
    >>> rows = shrink_normal_scores(rng.normal(truth, 2.0, size=(10, 1000)))
    >>> spread = np.sqrt(rows.weight @ (rows.mean - 0.5) ** 2 / rows.weight.sum())
    >>> bool(abs(spread - 1.0) < 0.1)
    True
    """
    mean, variance, trials = row_moments(scores, used, "scores")
    return shrink_rows(NormalScores(mean, variance, as_weight(weight, mean.size)), trials)


def shrink_rows(rows: NormalScores, trials: ArrayLike, most_groups: int = 1) -> NormalScores:
    """Return the distribution over rows of the mean score, without the noise of the estimates, as weighted rows.

    Parameters
    ----------
    rows : NormalScores
        Estimated means and variances.
    trials : array-like, shape (n_rows,)
        Number of members that each row's mean was estimated from, at least 2.
    most_groups : int, default=1
        Rows are fitted in up to so many groups by their estimated variance, of 100 rows or more.

    Returns
    -------
    NormalScores

    Raises
    ------
    InputError
        If `trials` has another length or a value below 2.

    Notes
    -----
    Where members' scores are skewed, a row's estimated variance tells part of the noise of its mean, and within a group
    the means are less noisy than is taken out: the error of infinitely many trees came out at half.  Probabilities,
    and normals matched to them, are less skewed, and groups help there.
    Rows beyond the 99.5 % quantile of the absolute mean, where the density's grid would be extended for a few rows,
    keep their means.
    """
    n = as_values(trials, "trials", rows.mean.size)
    if n.min() < 2:
        raise InputError(f"trials must be at least 2 for every row, got {n.min():g}.")
    inside = np.abs(rows.mean) <= np.quantile(np.abs(rows.mean), SCORE_QUANTILE)
    order = np.flatnonzero(inside)[np.lexsort((rows.mean[inside], rows.variance[inside]))]
    groups = np.array_split(order, max(1, min(most_groups, order.size // GROUP_ROWS)))
    parts = [
        _subset(rows, np.flatnonzero(~inside)),
        *(_shrink_group(_subset(rows, group), n[group]) for group in groups),
    ]
    return NormalScores(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _subset(rows: NormalScores, chosen: IntArray) -> NormalScores:
    return NormalScores(rows.mean[chosen], rows.variance[chosen], rows.weight[chosen])


def _shrink_group(rows: NormalScores, trials: FloatArray) -> NormalScores:
    unit = float(np.abs(rows.mean).max())
    total = float(rows.weight.sum())
    if unit <= 0.0 or not rows.variance.any() or total <= 0.0:
        return rows
    model = fit_margins(rows.mean / unit, rows.spread / unit, trials, rows.weight)
    share = model.point_weights * total
    kept = share > NEGLIGIBLE_SHARE * total
    return NormalScores(model.support[kept] * unit, (model.spread[kept] * unit) ** 2, share[kept])


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
        If a probability is outside [0, 1], or as :func:`ens_plugin.papers.score_tables_2017.scores.row_moments`.
    TooFewMembersError
        If a row has fewer than 2 members.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.score_tables import load_score_tables
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
    :func:`ens_plugin.papers.score_tables_2017.scores.shrink_rows` applied to :func:`fit_matched_scores`.
    """
    check_shares(as_outputs(probabilities, "probabilities"), "probabilities")
    mean, variance, trials = row_moments(probabilities, used, "probabilities")
    return shrink_rows(match_probabilities(mean, variance, tables, weight), trials, MATCHED_GROUPS)


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
        moments = tables.miss_moments(score, spread, highest=2)
        wide = moments[1] - moments[0] ** 2 > v
        high, low = np.where(wide, spread, high), np.where(wide, low, spread)
    spread = (low + high) / 2.0
    score = _mean_score(m, spread, score, tables)
    return NormalScores(score, spread**2, as_weight(weight, m.size))


def _mean_score(mean: FloatArray, spread: FloatArray, score: FloatArray, tables: ScoreTables) -> FloatArray:
    """Return the rows' mean scores at which the expected probability is `mean`, iterated from `score`."""
    slope = np.sqrt(1.0 + np.pi * spread**2 / 8.0)
    for _ in range(MEAN_STEPS):
        found = np.clip(tables.miss_moments(-score, spread, highest=1)[0], 1e-9, 1.0 - 1e-9)
        score = score + np.clip(logit(mean) - logit(found), -2.0, 2.0) * slope
    return np.asarray(score)
