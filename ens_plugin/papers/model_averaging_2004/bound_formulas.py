r"""Bounds on how far T bootstrap models are from infinitely many, for averages of stable learners (2004).

A parameter of T models, fitted to independent bootstrap samples, has a sample mean and a sample
standard deviation.  Each is within the bound of its limit for infinitely many models except with
chance :math:`\delta`.  The bounds do not cover the distance of that limit from the posterior, which
does not depend on T.  Where the paper's bound is exceeded more often, a valid one is given,
and the paper's is kept as ``published_...`` (``docs/methods.md``, section 8).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, as_chance, as_count, as_numbers
from ens_plugin.errors import InputError

__all__ = [
    "general_sd_bound",
    "mean_bound",
    "published_sd_bound",
    "sd_bound",
]


def mean_bound(sd: ArrayLike, n_models: int, delta: float = 0.05) -> FloatArray:
    r"""Return a bound on the distance of the mean of T models from that of infinitely many.

    Parameters
    ----------
    sd : array-like of float, any shape
        Standard deviation of a single model's parameter (or score) over bootstrap samples; in
        practice that of the T models.
    n_models : int
        Number of models T.
    delta : float, default=0.05
        Chance that the bound is exceeded, strictly between 0 and 1.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{T \delta}` (2004 eq. 11), by Chebyshev's inequality: for any distribution.

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 1 or `delta` out of range.

    Notes
    -----
    With the standard deviation of three or more models in place of the true one, the bound still holds
    for normal parameters: Student's t exceeds x with a chance of at most 1/x^2.

    The paper's example (its section 8.2) has 0.00456 for sd 0.057, T = 250, delta = 0.05: that is
    0.057 / 12.5, without the root.  Eq. 11 gives 0.0161.

    Examples
    --------
    >>> round(float(mean_bound(0.057, 250, 0.05)), 4)
    0.0161
    """
    return np.asarray(_as_sd(sd) / math.sqrt(as_count(n_models, "n_models") * as_chance(delta, "delta")))


def sd_bound(sd: ArrayLike, n_models: int, delta: float = 0.05) -> FloatArray:
    r"""Return a bound on the distance of the standard deviation of T models from that of infinitely many.

    Parameters
    ----------
    sd, delta
        As for :func:`mean_bound`.
    n_models : int
        Number of models T, at least 2.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{2 (T - 1) \delta}`, for normal parameters (2004 eq. 13 with the number of
        models where the paper has the number of rows).

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 2 or `delta` out of range.

    Notes
    -----
    With S the standard deviation (ddof 1) of T normal draws,
    :math:`E(S - \sigma)^2 = 2 \sigma^2 (1 - c_4(T)) \le \sigma^2 / (2 (T - 1))`, and Markov's inequality
    for :math:`(S - \sigma)^2` gives the bound.  It still holds with S in place of :math:`\sigma`, from five
    models.  Bootstrapped parameters are normal for many rows only;
    :func:`general_sd_bound` makes no such assumption.

    Examples
    --------
    >>> round(float(sd_bound(0.057, 250, 0.05)), 4)
    0.0114
    """
    models = as_count(n_models, "n_models", smallest=2)
    return np.asarray(_as_sd(sd) / math.sqrt(2.0 * (models - 1) * as_chance(delta, "delta")))


def general_sd_bound(sd: ArrayLike, n_models: int, delta: float = 0.05, excess_kurtosis: float = 0.0) -> FloatArray:
    r"""Return a bound as by :func:`sd_bound`, but for parameters of any distribution with a known kurtosis.

    Parameters
    ----------
    sd, n_models, delta
        As for :func:`sd_bound`.
    excess_kurtosis : float, default=0.0
        Excess kurtosis of a single model's parameter, at least -2; 0 for the normal distribution.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma \sqrt{(2 / (T - 1) + \kappa / T) / \delta}`; twice :func:`sd_bound` for
        :math:`\kappa = 0`.

    Raises
    ------
    InputError
        As :func:`sd_bound`, and if `excess_kurtosis` is below -2 or not finite.

    Notes
    -----
    :math:`\mathrm{Var}(S^2) = \sigma^4 (2 / (T - 1) + \kappa / T)` for any distribution, and
    :math:`|S - \sigma| \le |S^2 - \sigma^2| / \sigma`.

    Examples
    --------
    >>> round(float(general_sd_bound(1.0, 101, 0.05)), 4)
    0.6325
    """
    models = as_count(n_models, "n_models", smallest=2)
    if not math.isfinite(excess_kurtosis) or excess_kurtosis < -2.0:
        raise InputError(f"excess_kurtosis must be a finite number of at least -2, got {excess_kurtosis!r}.")
    relative = 2.0 / (models - 1) + excess_kurtosis / models
    return np.asarray(_as_sd(sd) * math.sqrt(relative / as_chance(delta, "delta")))


def published_sd_bound(sd: ArrayLike, n_models: int, n_rows: int, delta: float = 0.05) -> FloatArray:
    r"""Return the bound on the standard deviation as published in 2004, which is too small; for comparison only.

    Parameters
    ----------
    sd, n_models, delta
        As for :func:`mean_bound`.
    n_rows : int
        Number of rows n of the training data, at least 2.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{2 (n - 1) T \delta}` (2004 eq. 13).

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 1, `n_rows` below 2 or `delta` out of
        range.

    Notes
    -----
    The standard error of a standard deviation of T draws depends on T only; the paper divides by the
    number of rows as well.  With 50 rows and delta = 0.05 it is exceeded in more than half of the
    cases, whatever T is (``benchmarks/papers/model_averaging_2004.py``).

    Examples
    --------
    >>> round(float(published_sd_bound(0.057, 250, 50, 0.05)), 4)
    0.0016
    """
    models = as_count(n_models, "n_models")
    rows = as_count(n_rows, "n_rows", smallest=2)
    return np.asarray(_as_sd(sd) / math.sqrt(2.0 * (rows - 1) * models * as_chance(delta, "delta")))


def _as_sd(sd: ArrayLike) -> FloatArray:
    array = as_numbers(sd, "sd")
    if not np.isfinite(array).all() or np.any(array < 0):
        raise InputError("sd must hold finite numbers of at least 0.")
    return array
