r"""Universal tables: expected losses of an ensemble whose members' scores are normal (2017, section 4.3).

One member's score for the true label is normal with mean a and variance b; its probability is the
logistic function s of it.  All quantities are smooth functions of (a, b) or of (a, b, K), tabulated
once by quadrature and FFT and interpolated by cubic splines; no random numbers are drawn.

Not the loss is tabulated but a quantity that varies slowly: for the 0-1 loss of the mean
probability the effect :math:`-\Phi^{-1}(T)\sqrt b/(a \sqrt K)`, which is 1 for K = 1, K = 2 and b = 0; for
its log loss the gain over a single member, and the variance, both divided by b.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.special import expit, logit, ndtr, ndtri

from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_means import log_mean_moments, mean_below_half

__all__ = ["TABLE_VERSION", "ScoreTables", "build_score_tables", "score_quadrature"]

TABLE_VERSION = 1
MAX_SPREAD = 64.0
MAX_MIXED_SPREAD = 8.0
MAX_LOG_SPREAD = 16.0
# Means are measured in sqrt(1 + b), spreads as asinh(sqrt(b)): smooth in both for b from 0 on.
SINGLE_MEANS: FloatArray = np.linspace(-12.0, 12.0, 241, dtype=np.float64)
SINGLE_SPREADS: FloatArray = np.linspace(0.0, np.arcsinh(MAX_SPREAD), 65)
LOG_MEANS: FloatArray = np.linspace(-12.0, 12.0, 97, dtype=np.float64)
LOG_SPREADS: FloatArray = np.linspace(0.0, np.arcsinh(MAX_LOG_SPREAD), 38)
MIXED_SPREADS: FloatArray = np.linspace(0.0, np.arcsinh(MAX_MIXED_SPREAD), 19)
LOG_SIZES: FloatArray = np.linspace(0.0, 20.0 * np.log(2.0), 61)
# Effects are even in the mean; the first node stands for the limit at 0.
EFFECT_MEANS: FloatArray = np.linspace(0.0, 5.0, 11, dtype=np.float64)
NEAR_ZERO = 0.01
FEW_SIZES = np.arange(3, 25)
# Odd: with an even number of members ties occur, which change effects of wide spreads up to about 20 members.
MANY_SIZES: FloatArray = np.array([np.inf, 1025.0, 257.0, 101.0, 49.0, 33.0, 25.0, 21.0, 17.0])
GRIDS = (
    SINGLE_MEANS,
    SINGLE_SPREADS,
    LOG_MEANS,
    LOG_SPREADS,
    MIXED_SPREADS,
    LOG_SIZES,
    EFFECT_MEANS,
    FEW_SIZES,
    MANY_SIZES,
)
QUADRATURE_REACH = 8.5
# Below this spread one score is integrated, not interpolated: the mean of 800 scores has a variance of the loss
# of 1e-5, too small beside an error of 1e-6 in a spline of moments.
NARROW_SPREAD = 0.5
NARROW_NODES, NARROW_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
NARROW_WEIGHTS = NARROW_WEIGHTS / NARROW_WEIGHTS.sum()
VISIBLE = 1e-11


def score_quadrature(spread: float) -> tuple[FloatArray, FloatArray]:
    """Return quadrature nodes and weights of a standard normal z for functions as smooth as logistic(`spread` z).

    Parameters
    ----------
    spread : float
        Standard deviation of the score, not negative.

    Returns
    -------
    nodes, weights : ndarrays, shape (n_nodes,)
        The trapezoid rule, exact to about 1e-12 for functions as smooth as the logistic.

    Examples
    --------
    >>> nodes, weights = score_quadrature(2.0)
    >>> float(weights @ (1.0 / (1.0 + np.exp(-2.0 * nodes)))).__round__(12)
    0.5
    """
    step = min(0.25, 0.36 / max(spread, 1e-9))
    half = int(np.ceil(QUADRATURE_REACH / step))
    nodes: FloatArray = step * np.arange(-half, half + 1, dtype=np.float64)
    weights: FloatArray = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Tables of expected losses of ensembles with normal scores, computed by :func:`build_score_tables`.

    Attributes
    ----------
    single : ndarray, shape (6, 241, 65)
        Moments for one normal score: first to fourth moment of the probability of the wrong label, and first
        and second moment of the log loss in units of sqrt(1 + b) and 1 + b.
    few : ndarray, shape (22, 11, 19)
        Effect of the mean of K = 3, ..., 24 probabilities, by a/sqrt(b) and spread.
    many : ndarray, shape (9, 11, 19)
        The same for larger K, by a sqrt(K/b) and spread.
    log_gain : ndarray, shape (62, 97, 38)
        (E log mean p - E log p)/b by log K, mean and spread; the last layer is for infinite K.
    log_variance : ndarray, shape (61, 97, 38)
        (Var log mean p)/b.
    """

    single: FloatArray
    few: FloatArray
    many: FloatArray
    log_gain: FloatArray
    log_variance: FloatArray

    @cached_property
    def _single_splines(self) -> list[RectBivariateSpline]:
        return [RectBivariateSpline(SINGLE_MEANS, SINGLE_SPREADS, layer, s=0) for layer in self.single]

    @cached_property
    def _many_spline(self) -> CubicSpline:
        return CubicSpline(1.0 / np.sqrt(MANY_SIZES), self.many)

    @cached_property
    def _log_splines(self) -> tuple[CubicSpline, CubicSpline]:
        return CubicSpline(LOG_SIZES, self.log_gain[:-1]), CubicSpline(LOG_SIZES, self.log_variance)

    def miss_moments(self, mean: FloatArray, spread: FloatArray) -> FloatArray:
        """Return first to fourth moment of one member's probability of the wrong label, shape (4, n_rows)."""
        place, width = _place(mean, spread, SINGLE_MEANS, MAX_SPREAD)
        moments = np.stack([np.clip(spline.ev(place, width), 0.0, 1.0) for spline in self._single_splines[:4]])
        narrow = spread < NARROW_SPREAD
        miss = expit(-_narrow_scores(mean[narrow], spread[narrow]))
        moments[:, narrow] = np.stack([miss**power @ NARROW_WEIGHTS for power in range(1, 5)])
        return moments

    def log_loss_moments(self, mean: FloatArray, spread: FloatArray) -> FloatArray:
        """Return mean and second moment of one member's log loss, shape (2, n_rows)."""
        place, width = _place(mean, spread, SINGLE_MEANS, MAX_SPREAD)
        scale = np.sqrt(1.0 + spread**2)
        first, second = (np.maximum(spline.ev(place, width), 0.0) for spline in self._single_splines[4:])
        hopeless = mean < SINGLE_MEANS[0] * scale
        moments = np.stack(
            [
                np.where(hopeless, -mean, first * scale),
                np.where(hopeless, mean**2 + spread**2, second * scale**2),
            ]
        )
        narrow = spread < NARROW_SPREAD
        loss = np.logaddexp(0.0, -_narrow_scores(mean[narrow], spread[narrow]))
        moments[:, narrow] = np.stack([loss @ NARROW_WEIGHTS, loss**2 @ NARROW_WEIGHTS])
        return moments

    def below_half(self, mean: FloatArray, spread: FloatArray, size: float) -> FloatArray:
        """Return the probability that the mean of `size` probabilities is below one half, shape (n_rows,).

        Spreads above 8 are treated as 8 at the same a/sqrt(b): the error is at most 0.009 up to a spread of
        16, and 0.02 up to 60.
        """
        scaled = np.sqrt(size) * mean / np.maximum(spread, 1e-12)
        if size <= 2:
            return np.asarray(ndtr(-scaled))
        if size <= FEW_SIZES[-1]:
            layer, place = self.few[int(size) - FEW_SIZES[0]], scaled / np.sqrt(size)
        else:
            layer = self._many_spline(1.0 / np.sqrt(size))
            place = scaled
        nodes = np.concatenate([-EFFECT_MEANS[:0:-1], EFFECT_MEANS])
        even = np.concatenate([layer[:0:-1], layer])
        spline = RectBivariateSpline(nodes, MIXED_SPREADS, even, s=0)
        width = np.minimum(np.arcsinh(spread), MIXED_SPREADS[-1])
        effect = spline.ev(np.clip(place, nodes[0], nodes[-1]), width)
        return np.asarray(ndtr(-effect * scaled))

    def log_mean(self, mean: FloatArray, spread: FloatArray, size: float) -> FloatArray:
        """Return mean and variance of the logarithm of the mean of `size` probabilities, shape (2, n_rows)."""
        place, width = _place(mean, spread, LOG_MEANS, MAX_LOG_SPREAD)
        gain, variance = (
            RectBivariateSpline(LOG_MEANS, LOG_SPREADS, layer, s=0).ev(place, width) * spread**2
            for layer in self._log_layers(size)
        )
        return np.stack([gain - self.log_loss_moments(mean, spread)[0], np.maximum(variance, 0.0)])

    def _log_layers(self, size: float) -> tuple[FloatArray, FloatArray]:
        if np.isinf(size):
            return self.log_gain[-1], np.zeros_like(self.log_gain[-1])
        log_size = min(np.log(size), LOG_SIZES[-1])
        return (
            np.asarray(self._log_splines[0](log_size)),
            np.asarray(self._log_splines[1](log_size)),
        )


def build_score_tables() -> ScoreTables:
    """Return tables of expected losses of ensembles with normal scores, computed in some seconds.

    Returns
    -------
    ScoreTables

    Notes
    -----
    2017 sections 4.3.1 and 4.3.2.  Parameter mixing has only two arguments, because the mean of K
    scores is normal with variance b/K (the paper prints the sum of the scores in :math:`T_{pm}`; it is
    the mean).

    Examples
    --------
    >>> tables = build_score_tables()  # doctest: +SKIP
    >>> tables.below_half(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 11).round(3)  # doctest: +SKIP
    array([0.5, 0. ])
    """
    log_gain, log_variance = _log_tables()
    return ScoreTables(_single_table(), _few_table(), _many_table(), log_gain, log_variance)


def _narrow_scores(mean: FloatArray, spread: FloatArray) -> FloatArray:
    """Return normal scores at the 16 quadrature nodes of each row, shape (n_rows, 16)."""
    return np.asarray(mean[:, None] + spread[:, None] * NARROW_NODES)


def _place(mean: FloatArray, spread: FloatArray, nodes: FloatArray, limit: float) -> tuple[FloatArray, FloatArray]:
    if spread.size and spread.max() > limit:
        raise InputError(
            f"scores vary too much over members to be log odds: their standard deviation is "
            f"{spread.max():.3g}, and at most {limit:g} is allowed. Divide all scores by a constant, or pass "
            "probabilities."
        )
    return np.clip(mean / np.sqrt(1.0 + spread**2), nodes[0], nodes[-1]), np.arcsinh(spread)


def _single_table() -> FloatArray:
    table = np.empty((6, SINGLE_MEANS.size, SINGLE_SPREADS.size))
    for column, spread in enumerate(np.sinh(SINGLE_SPREADS)):
        nodes, weights = score_quadrature(spread)
        scale = np.sqrt(1.0 + spread**2)
        score = SINGLE_MEANS[:, None] * scale + spread * nodes
        miss = expit(-score)
        for power in range(4):
            table[power, :, column] = miss ** (power + 1) @ weights
        loss = np.logaddexp(0.0, -score)
        table[4, :, column] = loss @ weights / scale
        table[5, :, column] = loss**2 @ weights / scale**2
    return table


def _below_half_at(mean: float, spread: float, sizes: FloatArray) -> FloatArray:
    low, high = expit(np.array([mean - 9.0 * spread, mean + 9.0 * spread]))

    def cumulative(p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(ndtr((logit(p) - mean) / spread))

    return mean_below_half(cumulative, float(low), float(high), sizes)


def _effects(tails: FloatArray, means: FloatArray) -> FloatArray:
    """Return -Phi^-1(T) over the scaled mean, for tail probabilities T; for negligible T, the value before it."""
    effects = np.empty(tails.size)
    for index, tail in enumerate(tails):
        effects[index] = -ndtri(tail) / means[index] if tail > VISIBLE else effects[index - 1]
    return effects


def _effect_means() -> FloatArray:
    return np.concatenate([[NEAR_ZERO], EFFECT_MEANS[1:]])


def _few_table() -> FloatArray:
    table = np.ones((FEW_SIZES.size, EFFECT_MEANS.size, MIXED_SPREADS.size))
    means = _effect_means()
    for column, spread in enumerate(np.sinh(MIXED_SPREADS[1:]), start=1):
        tails = np.stack([_below_half_at(mean * spread, spread, FEW_SIZES.astype(np.float64)) for mean in means])
        for layer, size in enumerate(FEW_SIZES):
            table[layer, :, column] = _effects(tails[:, layer], means * np.sqrt(size))
    return table


def _many_table() -> FloatArray:
    table = np.ones((MANY_SIZES.size, EFFECT_MEANS.size, MIXED_SPREADS.size))
    means = _effect_means()
    for column, spread in enumerate(np.sinh(MIXED_SPREADS[1:]), start=1):
        table[0, :, column] = _limiting_effect(spread)
        for layer, size in enumerate(MANY_SIZES[1:], start=1):
            sizes = np.array([size])
            tails = [_below_half_at(mean * spread / np.sqrt(size), spread, sizes)[0] for mean in means]
            table[layer, :, column] = _effects(np.array(tails), means)
    return table


def _limiting_effect(spread: float) -> float:
    """Return the limit of the effect for infinite K: the slope of E p in the mean score at 0, over the spread of p."""
    nodes, weights = score_quadrature(spread)
    p = expit(spread * nodes)
    return float(spread * (weights @ (p * (1.0 - p))) / np.sqrt(weights @ (p - 0.5) ** 2))


def _log_tables() -> tuple[FloatArray, FloatArray]:
    gain = np.empty((LOG_SIZES.size + 1, LOG_MEANS.size, LOG_SPREADS.size))
    variance = np.empty((LOG_SIZES.size, LOG_MEANS.size, LOG_SPREADS.size))
    sizes = np.exp(LOG_SIZES)
    for column, spread in enumerate(np.sinh(LOG_SPREADS)):
        for row, mean in enumerate(LOG_MEANS * np.sqrt(1.0 + spread**2)):
            # At b = 0 both are derivatives in b, computed by a very small spread.
            used = max(spread, 1e-2)
            gain[:, row, column], variance[:, row, column] = _log_gain(mean, used, sizes)
    return gain, variance


def _log_gain(mean: float, spread: float, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    nodes, weights = score_quadrature(spread)
    score = mean + spread * nodes
    single = -(weights @ np.logaddexp(0.0, -score))
    expected = float(np.log(weights @ expit(score)))
    mixed, variance = log_mean_moments(expit(score), weights, sizes)
    return (np.append(mixed, expected) - single) / spread**2, variance / spread**2
