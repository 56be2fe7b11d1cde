r"""Members whose probabilities have a beta distribution on each row, mostly trees (2017, section A.3 (b))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.special import betainc, betaln, log_expit, ndtr, ndtri

from ens_plugin.core.row_models.effective_votes import effective_votes, is_close
from ens_plugin.core.row_models.majority import majority_error
from ens_plugin.core.row_models.mixture import fit_mixture
from ens_plugin.core.validation import FloatArray, as_weight, check_shares
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_means import log_mean_moments, mean_below_half
from ens_plugin.papers.score_tables_2017.score_models import as_outputs, moments_of_mean, row_moments
from ens_plugin.papers.score_tables_2017.score_tables import EFFECT_MEANS, ScoreTables

__all__ = ["BetaProbabilities", "fit_beta_probabilities", "shrink_beta_probabilities"]

# Range of alpha + beta: nearly certain labels at the low end, one value of all members at the high end.
MIN_CONCENTRATION, MAX_CONCENTRATION = 0.02, 1e6
EDGE = 1e-6
NODE_MASS = 38.0
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
        return self._by_distinct_row(lambda a, b: _log_moments(a, b, size))

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label, shape (4, n_rows)."""
        _refuse_scores(aggregation)
        total = self.alpha + self.beta
        steps = np.stack([(self.beta + j) / (total + j) for j in range(4)])
        return moments_of_mean(np.asarray(np.cumprod(steps, axis=0), dtype=np.float64), size)

    def _by_distinct_row(self, value: Callable[[float, float], tuple[float, float]]) -> FloatArray:
        """Return two values for each row, shape (2, n_rows), computed once for equal rows, which trees often have."""
        pairs, inverse = np.unique(np.stack([self.alpha, self.beta]), axis=1, return_inverse=True)
        values = np.array([value(float(a), float(b)) for a, b in pairs.T])
        return np.asarray(np.moveaxis(values, 0, -1)[..., inverse.ravel()])


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
        tail = _below_half(mean * concentration, (1.0 - mean) * concentration, size)
        if tail > 1e-11:
            effects[index] = -ndtri(tail) / (r * np.sqrt(size))
        elif index:
            effects[index] = effects[index - 1]
    return effects


def _below_half(alpha: float, beta: float, size: float) -> float:
    mean = alpha / (alpha + beta)
    sd = np.sqrt(mean * (1.0 - mean) / (alpha + beta + 1.0))
    low, high = (0.0, 1.0) if alpha + beta < 500.0 else (max(0.0, mean - 12.0 * sd), min(1.0, mean + 12.0 * sd))
    return float(mean_below_half(lambda p: np.asarray(betainc(alpha, beta, p)), low, high, [size])[0])


def _log_moments(alpha: float, beta: float, size: float) -> tuple[float, float]:
    p, weights = _score_nodes(alpha, beta)
    mean, variance = log_mean_moments(p, weights, [size])
    return float(mean[0]), float(variance[0])


def _score_nodes(alpha: float, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes and weights of a beta variable, equidistant in its log odds, whose density is smooth."""
    centre = np.log(alpha / beta)
    sd = float(np.sqrt(1.0 / alpha + 1.0 / beta))
    low = max(centre - NODE_MASS * max(1.0 / alpha, sd / 4.0), -650.0)
    high = min(centre + NODE_MASS * max(1.0 / beta, sd / 4.0), 650.0)
    score = np.arange(low, high, min(0.4, sd / 3.0))
    log_density = alpha * log_expit(score) + beta * log_expit(-score) - betaln(alpha, beta)
    weights = np.exp(log_density - log_density.max())
    kept = weights > 1e-18
    return np.maximum(np.exp(log_expit(score[kept])), 1e-300), weights[kept] / weights[kept].sum()


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
        If a probability is outside [0, 1], or as :func:`ens_plugin.papers.score_tables_2017.score_models.row_moments`.
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
    (``docs/methods.md``, section 2); a beta variable with alpha + beta = votes - 1 is just as variable.
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
