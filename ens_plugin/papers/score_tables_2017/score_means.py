r"""The mean of K independent probabilities: its probability to be below one half, and its logarithm.

No random numbers are drawn.  The chance that the mean is below one half comes from the members' distribution on
a lattice: its characteristic function (FFT), the K-th power, and the tail as one sum over
frequencies.  The moments of the logarithm come from the Laplace transform
:math:`L(t) = E\,e^{-tp}`: if E is exponential and S the sum of K probabilities, then
:math:`U = \log E - \log S` has survival function :math:`L(e^u)^K`, and E is independent of S.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import rfft

from ens_plugin.core.validation import FloatArray, as_sizes, as_values
from ens_plugin.errors import InputError

__all__ = ["log_mean_moments", "mean_below_half"]

# Sums of few members depend on the shape of one member's distribution, mostly ties, and need a finer lattice.
LATTICES = ((4, 2**15), (16, 2**13), (np.inf, 2**9))
REACH = 9.0
NEGLIGIBLE = 1e-14
LOG_STEP = 0.25
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
    for index in np.argsort(sizes):
        visible = squared > NEGLIGIBLE ** (2.0 / sizes[index])
        squared, transform, weight = squared[visible], transform[visible], weight[visible]
        powers = squared ** (sizes[index] / 2.0) * np.sin(sizes[index] * np.angle(transform))
        result[index] = 0.5 + powers @ weight
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
    log_transform = _log_laplace(p, w, np.exp(u))
    survival = np.exp(k[:, None] * log_transform)
    # U >= start always, so both moments above it are integrals of the survival function (trapezoid
    # rule, with the Euler-Maclaurin term of the end where the second integrand has a slope).
    above = LOG_STEP * survival.sum(axis=1) - LOG_STEP / 2.0
    square = 2.0 * LOG_STEP * (survival @ (u - start)) + LOG_STEP**2 / 6.0
    mean = -EULER - (start + above) - np.log(k)
    return mean, np.maximum(square - above**2 - np.pi**2 / 6.0, 0.0)


def _log_laplace(p: FloatArray, w: FloatArray, t: FloatArray) -> FloatArray:
    """Return the logarithm of E exp(-t p) at each t, in blocks of t that bound the memory."""
    blocks = np.array_split(t, max(1, t.size * p.size // 2**21))
    transform = np.concatenate([np.exp(-block[:, None] * p) @ w for block in blocks])
    return np.asarray(np.log(np.maximum(transform, 1e-300)))
