r"""Mahajan et al. 2017: tables of scores, the errors estimated by them, and their file.

No random numbers are drawn.  The chance that the mean is below one half comes from the members' distribution on
a lattice: its characteristic function (FFT), the K-th power, and the tail as one sum over
frequencies.  The moments of the logarithm come from the Laplace transform
:math:`L(t) = E\,e^{-tp}`: if E is exponential and S the sum of K probabilities, then
:math:`U = \log E - \log S` has survival function :math:`L(e^u)^K`, and E is independent of S.

One member's score for the true label is normal with mean a and variance b; its probability is the
logistic function s of it.  All quantities are smooth functions of (a, b) or of (a, b, K), tabulated
once by quadrature and FFT and interpolated by cubic splines; no random numbers are drawn.

Not the loss is tabulated but a quantity that varies slowly: for the 0-1 loss of the mean
probability the effect :math:`-\Phi^{-1}(T)\sqrt b/(a \sqrt K)`, which is 1 for K = 1, K = 2 and b = 0; for
its log loss the gain over a single member, and the variance, both divided by b.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from platformdirs import user_cache_path
from scipy.fft import rfft
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.special import expit, logit, ndtr, ndtri

from ens_plugin.core.validation import FloatArray, as_sizes, as_values
from ens_plugin.errors import EnsPluginWarning, InputError, warn_user
from ens_plugin.files import write_whole

__all__ = [
    "ScoreTables",
    "build_effects",
    "build_score_tables",
    "load_score_tables",
    "log_laplace",
    "log_mean_moments",
    "mean_below_half",
    "moments_of_log_mean",
    "score_quadrature",
    "score_table_path",
]

# Sums of few members depend on the shape of one member's distribution, mostly ties, and need a finer lattice.
LATTICES = ((4, 2**15), (16, 2**13), (np.inf, 2**9))
REACH = 9.0
NEGLIGIBLE = 1e-14
LOG_STEP = 0.25
LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
EULER = float(np.euler_gamma)


def mean_below_half(
    cumulative: Callable[[FloatArray], FloatArray], low: float, high: float, sizes: ArrayLike
) -> FloatArray:
    r"""Return the probability that the mean of K independent probabilities is below one half, ties counting half.

    Parameters
    ----------
    cumulative : callable
        Distribution function of one member's probability, on arrays of points in [0, 1].
    low, high : float
        Bounds of all but a negligible share of it, 0 <= low < high <= 1.
    sizes : array-like, shape (n_sizes,)
        Numbers of members K, whole numbers of at least 1.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)

    Raises
    ------
    InputError
        If `low` and `high` are not 0 <= low < high <= 1, or a size is below 1 or infinite.

    Notes
    -----
    This is :math:`T_v` of 2017 section 4.3.1 for the 0-1 loss, without its 5000 draws.  The lattice
    contains 0, 1/2 and 1; probabilities closer than 2^-15 to one of them are rounded to it, which can
    change the result of an even number of members that are nearly certain (by 1e-4 for two with scores
    spread by 6).
    With :math:`\varphi_j` the characteristic function at frequency :math:`2\pi j/M`, the tail is
    :math:`\tfrac12 + \tfrac2M \sum_{j\,odd} \Im(\varphi_j^K) \cot(\pi j/M)`.

    Examples
    --------
    >>> mean_below_half(lambda p: p**2, 0.0, 1.0, [1, 3, 5]).round(4)
    array([0.25  , 0.1198, 0.0646])
    """
    if not 0.0 <= low < high <= 1.0:
        raise InputError(f"low and high must satisfy 0 <= low < high <= 1, got {low} and {high}.")
    wanted = as_sizes(sizes)
    if not np.isfinite(wanted).all():
        raise InputError("sizes must be finite; the mean of infinitely many probabilities is their expectation.")
    result = np.empty(wanted.size)
    previous = 0.0
    for limit, cells in LATTICES:
        chosen = np.flatnonzero((wanted > previous) & (wanted <= limit))
        if chosen.size:
            result[chosen] = _below_half(*_lattice(cumulative, low, high, cells), wanted[chosen])
        previous = limit
    return result


def _lattice(
    cumulative: Callable[[FloatArray], FloatArray], low: float, high: float, cells: int
) -> tuple[FloatArray, int]:
    """Return a distribution's masses at `cells` or more lattice points, and the first point in cells from one half."""
    per_unit = 2.0 ** max(1.0, np.ceil(np.log2(cells / (high - low))))
    first = int(np.floor((low - 0.5) * per_unit))
    last = int(np.ceil((high - 0.5) * per_unit))
    edges = np.clip(0.5 + (np.arange(first, last + 2) - 0.5) / per_unit, 0.0, 1.0)
    at_edges = cumulative(edges[1:-1])
    masses = np.diff(np.concatenate([[0.0], at_edges, [1.0]]))
    return masses, first


def _below_half(masses: FloatArray, first: int, sizes: FloatArray) -> FloatArray:
    places = first + np.arange(masses.size)
    mean = float(masses @ places)
    sd = float(np.sqrt(masses @ (places - mean) ** 2))
    result = np.empty(sizes.size)
    furthest = max(abs(first), abs(first + masses.size - 1))
    windows = np.minimum(sizes * furthest, np.abs(mean) * sizes + REACH * sd * np.sqrt(sizes)) + 2.0
    # Where the mean of many members is certainly on one side, no window is needed.
    sure = (np.abs(mean) * np.sqrt(sizes) > REACH * sd) & (sizes > LATTICES[1][0])
    result[sure] = float(mean < 0)
    open_ = np.flatnonzero(~sure)
    if open_.size:
        widest = max(2.0 * float(windows[open_].max()), float(masses.size))
        length = 1 << int(widest).bit_length()
        result[open_] = _tail(masses, first, length, sizes[open_])
    return np.clip(result, 0.0, 1.0)


def _tail(masses: FloatArray, first: int, length: int, sizes: FloatArray) -> FloatArray:
    circle = np.zeros(length)
    circle[(first + np.arange(masses.size)) % length] = masses
    transform = np.asarray(rfft(circle), dtype=np.complex128)[1 : length // 2 : 2]
    weight = _cotangents(length)
    squared = transform.real**2 + transform.imag**2
    result = np.empty(sizes.size)
    power, reached = np.ones_like(transform), 0.0
    for index in np.argsort(sizes):
        visible = squared > NEGLIGIBLE ** (2.0 / sizes[index])
        squared, transform, weight, power = squared[visible], transform[visible], weight[visible], power[visible]
        step = sizes[index] - reached
        power, reached = power * (transform if step == 1 else transform**step), sizes[index]
        result[index] = 0.5 + power.imag @ weight
    return result


@lru_cache(maxsize=4)
def _cotangents(length: int) -> FloatArray:
    """Return the Fourier weights of a step at 0, for the odd frequencies below the middle one."""
    return np.asarray(2.0 / length / np.tan(np.pi * np.arange(1, length // 2, 2) / length))


def log_mean_moments(probability: ArrayLike, weight: ArrayLike, sizes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    r"""Return mean and variance of the logarithm of the mean of K independent probabilities.

    Parameters
    ----------
    probability : array-like, shape (n_nodes,)
        Values of one member's probability, positive.
    weight : array-like, shape (n_nodes,)
        Their probabilities, summing to 1 (a quadrature rule of the member's distribution).
    sizes : array-like, shape (n_sizes,)
        Numbers of members K, at least 1; they need not be whole.

    Returns
    -------
    mean, variance : ndarrays of float64, shape (n_sizes,)

    Raises
    ------
    InputError
        If shapes differ, a probability is not in (0, 1], or a size is infinite.

    Notes
    -----
    :math:`T_v` of 2017 section 4.3.1 for the log loss.  With U as above,
    :math:`E\log S = -\gamma - E\,U` and :math:`\mathrm{Var}\log S = \mathrm{Var}\,U - \pi^2/6`.  The
    survival function of U is double exponential, so the error of the trapezoid rule in u is below rounding.

    Examples
    --------
    >>> mean, variance = log_mean_moments([0.2, 0.8], [0.5, 0.5], [1, 2])
    >>> bool(np.isclose(mean[1], 0.25 * np.log(0.2) + 0.5 * np.log(0.5) + 0.25 * np.log(0.8)))
    True
    """
    p = as_values(probability, "probability")
    w = as_values(weight, "weight", p.size)
    k = as_values(sizes, "sizes")
    if p.min() <= 0 or p.max() > 1:
        raise InputError(f"probability must lie in (0, 1], got values from {p.min():g} to {p.max():g}.")
    if k.min() < 1:
        raise InputError(f"sizes must be at least 1, got {k.min():g}.")
    if w.min() < 0 or w.sum() <= 0:
        raise InputError("weight must be non-negative with a positive sum.")
    w = w / w.sum()
    typical = float(w @ p)
    start = -np.log(k.max() * typical) - 34.0
    stop = -np.log(p[w > 0].min()) + 3.7
    u = np.arange(start, stop + LOG_STEP, LOG_STEP)
    return moments_of_log_mean(u, np.exp(k[:, None] * log_laplace(u, p, w)), k)


def log_laplace(u: FloatArray, p: FloatArray, w: FloatArray) -> FloatArray:
    """Return log E exp(-p e^u), shape (n_u, ...), p having values `p` with probabilities `w`, shape (n_nodes, ...)."""
    blocks = np.array_split(np.exp(u), max(1, u.size * p.size // 2**21))
    # The difference from 1, because for many members a transform very near 1 is raised to a high power.
    missing = np.concatenate([-np.expm1(-block[:, None] * p) @ w for block in blocks])
    return np.asarray(np.log1p(-np.minimum(missing, LARGEST_BELOW_ONE)))


def moments_of_log_mean(u: FloatArray, survival: FloatArray, sizes: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the logarithm of the mean of K probabilities, shape (...).

    Parameters
    ----------
    u : ndarray, shape (n_u,)
        Equidistant; U is hardly ever below the first.
    survival : ndarray, shape (..., n_u)
        Probability that U is above `u`.
    sizes : array-like, broadcast to shape (...)
        Numbers of members K.
    """
    start, step = u[0], u[1] - u[0]
    sums = survival @ np.stack([np.ones(u.size), u - start], axis=1)
    # Both moments above the start are integrals of the survival function (trapezoid rule, with the
    # Euler-Maclaurin term of the end where the second integrand has a slope).
    above = step * sums[..., 0] - step / 2.0
    square = 2.0 * step * sums[..., 1] + step**2 / 6.0
    mean = -EULER - (start + above) - np.log(sizes)
    return mean, np.maximum(square - above**2 - np.pi**2 / 6.0, 0.0)


TABLE_VERSION = 2
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
OCTAVES_OF_SQUARES = 5
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
EFFECTS_FILE = Path(__file__).with_name("effects.npz")


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

    single: FloatArray = field(repr=False)
    few: FloatArray = field(repr=False)
    many: FloatArray = field(repr=False)
    log_gain: FloatArray = field(repr=False)
    log_variance: FloatArray = field(repr=False)

    @cached_property
    def _single_splines(self) -> list[RectBivariateSpline]:
        return [RectBivariateSpline(SINGLE_MEANS, SINGLE_SPREADS, layer, s=0) for layer in self.single]

    @cached_property
    def _many_spline(self) -> CubicSpline:
        return CubicSpline(1.0 / np.sqrt(MANY_SIZES), self.many)

    @cached_property
    def _log_splines(self) -> tuple[CubicSpline, CubicSpline]:
        return CubicSpline(LOG_SIZES, self.log_gain[:-1]), CubicSpline(LOG_SIZES, self.log_variance)

    def miss_moments(self, mean: FloatArray, spread: FloatArray, highest: int = 4) -> FloatArray:
        """Return first to `highest` moment of one member's probability of the wrong label, shape (highest, n_rows)."""
        place, width = _place(mean, spread, SINGLE_MEANS, MAX_SPREAD)
        moments = np.stack([np.clip(spline.ev(place, width), 0.0, 1.0) for spline in self._single_splines[:highest]])
        narrow = spread < NARROW_SPREAD
        miss = expit(-_narrow_scores(mean[narrow], spread[narrow]))
        moments[:, narrow] = np.stack([miss**power @ NARROW_WEIGHTS for power in range(1, highest + 1)])
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
    """Return tables of expected losses of ensembles with normal scores, computed in about a second.

    The effects, which would take some seconds more, are read from the package.

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
    with EFFECTS_FILE.open("rb") as file, np.load(file, allow_pickle=False) as effects:
        return ScoreTables(_single_table(), effects["few"], effects["many"], log_gain, log_variance)


def build_effects() -> tuple[FloatArray, FloatArray]:
    """Return the effects of few and of many members, which the package has in `EFFECTS_FILE`, in some seconds.

    Write them with ``np.savez_compressed(EFFECTS_FILE, few=few, many=many)`` if their grids change.
    """
    return _few_table(), _many_table()


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
        power = miss
        for layer in range(4):
            table[layer, :, column] = power @ weights
            power = power * miss
        loss = np.log1p(np.exp(-np.abs(score))) + np.maximum(-score, 0.0)
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
    columns = [_log_column(spread) for spread in np.sinh(LOG_SPREADS)]
    gain, variance = (np.stack(parts, axis=-1) for parts in zip(*columns, strict=True))
    return gain, variance


def _log_column(spread: float) -> tuple[FloatArray, FloatArray]:
    """Return gains by size and mean, and variances, for one spread; the quadrature nodes are those of all means."""
    means = LOG_MEANS * np.sqrt(1.0 + spread**2)
    # At b = 0 both are derivatives in b, computed by a very small spread.
    used = max(spread, 1e-2)
    step = min(0.25 * used, 0.36)
    reach = means[-1] + QUADRATURE_REACH * used
    half = int(np.ceil(reach / step))
    scores: FloatArray = step * np.arange(-half, half + 1, dtype=np.float64)
    weights = np.exp(-0.5 * ((scores[:, None] - means) / used) ** 2)
    weights /= weights.sum(axis=0)
    p = expit(scores)
    u = np.arange(-LOG_SIZES[-1] - 34.0, reach + 4.0, LOG_STEP)
    log_transform = log_laplace(u, p, weights).T
    mixed, variance = _log_moments_by_size(u, log_transform)
    single = np.logaddexp(0.0, -scores) @ weights
    limit = np.log(p @ weights)
    return (np.vstack([mixed, limit]) + single) / used**2, variance / used**2


def _log_moments_by_size(u: FloatArray, log_transform: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the logarithm of the mean by size and row; three sizes of the table are an octave."""
    mixed, variance = (np.empty((LOG_SIZES.size, log_transform.shape[0])) for _ in range(2))
    survivals: deque[FloatArray] = deque(maxlen=3)
    for index, size in enumerate(np.exp(LOG_SIZES)):
        # A square is cheaper than a power, but doubles the rounding error: every fifth octave begins anew.
        is_new = index % (3 * OCTAVES_OF_SQUARES) < 3
        survivals.append(np.exp(size * log_transform) if is_new else survivals[0] ** 2)
        mixed[index], variance[index] = moments_of_log_mean(u, survivals[-1], size)
    return mixed, variance


# What NumPy, zipfile and zlib raise for damaged archives; RuntimeError for one that seems to be encrypted.
UNREADABLE = (OSError, KeyError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
NAMES = tuple(field.name for field in fields(ScoreTables))


def score_table_path(directory: Path | None = None) -> Path:
    """Return the path of the file with the score tables of this version.

    Parameters
    ----------
    directory : Path, optional
        Directory of the file; the user's cache directory for ens_plugin if None.
    """
    return (directory or user_cache_path("ens_plugin", appauthor=False)) / f"score_tables-{TABLE_VERSION}.npz"


def load_score_tables(directory: Path | None = None) -> ScoreTables:
    """Return the tables of expected losses of 2017, from memory, from the disk, or built now (about a second).

    Parameters
    ----------
    directory : Path, optional
        Directory of the tables; the user's cache directory for ens_plugin if None.

    Returns
    -------
    ScoreTables

    Warns
    -----
    EnsPluginWarning
        If the tables cannot be written; they are then built again by the next process.

    Examples
    --------
    >>> tables = load_score_tables()
    >>> tables.few.shape
    (22, 11, 19)
    """
    return _load(score_table_path(directory))


@lru_cache(maxsize=1)
def _load(path: Path) -> ScoreTables:
    tables = _read(path)
    if tables is None:
        tables = build_score_tables()
        _write(path, tables)
    return tables


def _checksum(tables: ScoreTables) -> str:
    digest = hashlib.sha256(f"score tables {TABLE_VERSION}".encode())
    for values in (*GRIDS, *(getattr(tables, name) for name in NAMES)):
        array = np.ascontiguousarray(values, dtype="<f8")
        digest.update(f"{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> ScoreTables | None:
    """Return the tables from the disk; None if they are absent, unreadable, or differ from their checksum."""
    try:
        # numpy would not close a file that it opened itself if the archive is broken.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            tables = ScoreTables(**{name: stored[name] for name in NAMES})
            kept = str(stored["checksum"])
    except UNREADABLE:
        return None
    return tables if kept == _checksum(tables) else None


def _write(path: Path, tables: ScoreTables) -> None:
    content = BytesIO()
    arrays = {name: getattr(tables, name) for name in NAMES}
    try:
        np.savez_compressed(content, checksum=np.array(_checksum(tables)), **arrays)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())
    except OSError as error:
        warn_user(
            f"The score tables could not be written to {path.parent} ({error}); they will be built again next time.",
            EnsPluginWarning,
        )
