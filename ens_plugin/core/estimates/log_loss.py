r"""The log loss by ensemble size, from beta distributions of the rows' mean probabilities."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.laguerre import laggauss
from numpy.typing import ArrayLike
from scipy.special import digamma, exp1

from ens_plugin.core.validation import FloatArray

__all__ = ["expected_log_loss", "inverse_probability", "relative_variance", "vote_variances"]

LEAST_CONCENTRATION = 0.05
# From here on the asymptotic series of the exponential integral has an error below 1e-12; its value would underflow.
FAR, N_TERMS = 40.0, 30
NODES, WEIGHTS = laggauss(12)
SMALL = 1e-3


def relative_variance(mean: FloatArray, variance: FloatArray, trials: FloatArray) -> float:
    r"""Return the variance of one member's probability as a share of :math:`p(1-p)`, that of a vote.

    Parameters
    ----------
    mean, variance : ndarray, shape (n_rows,)
        Of the members' probabilities for the label of each row; the variance with divisor n - 1.
    trials : ndarray, shape (n_rows,)
        Number of members of each row, at least two.

    Notes
    -----
    A ratio of sums.  Rows weigh as their variance does in the log loss, by :math:`1/p^2`, with :math:`1/n` added to p.
    """
    votes, weight = vote_variances(mean, variance, trials)
    total = float(weight @ votes)
    return float(weight @ variance) / total if total > 0 else 0.0


def vote_variances(mean: FloatArray, variance: FloatArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the variance that one vote would have in each row, and the weight of the row in :func:`relative_variance`.

    Parameters
    ----------
    mean, variance, trials : ndarray, shape (n_rows,)
    """
    return mean * (1.0 - mean) + variance / trials, (mean + 1.0 / trials) ** -2.0


def expected_log_loss(mean: FloatArray, trials: FloatArray, share: float, size: ArrayLike) -> FloatArray:
    r"""Return the expected log loss of each row at a size, or at several, infinity allowed.

    Parameters
    ----------
    mean : ndarray, shape (n_rows,)
        Mean probability, over a row's members, of its label; above 0.
    trials : ndarray, shape (n_rows,)
    share : float
        See :func:`relative_variance`.
    size : float or ndarray, shape (n_sizes,)

    Returns
    -------
    ndarray, shape (n_rows,) or (n_sizes, n_rows)

    Notes
    -----
    The mean of B members is taken as :math:`\mathrm{Beta}(pK, (1-p)K)`, :math:`K = B/c - 1`, which has their mean p and
    variance :math:`c\,p(1-p)/B`.  Then :math:`E[-\log \bar p_B] = \psi(K) - \psi(pK)`.  To the
    loss with all n members, the difference of this expectation between B and n is added.  Its first term is
    :math:`(1/p - 1)/2 \cdot (1/K - 1/K_n)`, and :math:`1/\bar p` errs high, so 1/p is replaced by its unbiased estimate
    :math:`K_n \int_0^\infty e^{-K_n v} / (1 - (1 - \bar p) e^{-v}) \, dv`.

    Examples
    --------
    >>> mean, trials = np.array([0.2, 0.5]), np.array([40.0, 40.0])
    >>> expected_log_loss(mean, trials, 0.3, 40.0).round(3), expected_log_loss(mean, trials, 0.3, np.inf).round(3)
    (array([1.609, 0.693]), array([1.595, 0.689]))
    """
    sizes = np.asarray(size, dtype=np.float64)[..., None]
    if share <= 0.0:
        return np.asarray(-np.log(mean) + np.zeros_like(sizes))
    own = _concentration(trials, share)
    limit = 1.0 / inverse_probability(mean, own)
    is_finite = np.isfinite(sizes)
    at_size = np.where(is_finite, _excess(limit, _concentration(np.where(is_finite, sizes, 1.0), share)), 0.0)
    return np.asarray(np.maximum(-np.log(mean) + at_size - _excess(limit, own), 0.0))


def inverse_probability(mean: FloatArray, concentration: FloatArray) -> FloatArray:
    r"""Return the unbiased estimate of 1/p from one draw of :math:`\mathrm{Beta}(pK, (1-p)K)`, at least 1.

    Parameters
    ----------
    mean : ndarray, shape (n_rows,)
        The draws, above 0.
    concentration : ndarray, shape (n_rows,)
        K.

    Notes
    -----
    Divided by K it is an integral whose Mellin transform is 1/(pK) times that of the density.  With
    :math:`w = -\log(1 - \bar p)` it is :math:`e^{Kw} E_1(Kw)`, and a smooth part by Gauss's and Laguerre's quadrature.

    Examples
    --------
    >>> draws = np.random.default_rng(0).beta(0.1 * 20, 0.9 * 20, 100_000)
    >>> (1.0 / draws).mean().round(1), inverse_probability(draws, np.full(100_000, 20.0)).mean().round(1)
    (np.float64(19.0), np.float64(10.0))
    """
    way = -np.log1p(-np.minimum(mean, 1.0 - np.finfo(np.float64).eps))
    smooth = _smooth_part(way[:, None] + NODES / concentration[:, None]) @ WEIGHTS
    return np.maximum(concentration * _scaled_exponential_integral(concentration * way) + smooth, 1.0)


def _smooth_part(way: FloatArray) -> FloatArray:
    """Return 1/(1 - exp(-x)) - 1/x, which is 1/2 at 0."""
    near = np.maximum(way, SMALL)
    return np.where(way < SMALL, 0.5 + way / 12.0, -1.0 / np.expm1(-near) - 1.0 / near)


def _scaled_exponential_integral(argument: FloatArray) -> FloatArray:
    """Return exp(x) E1(x) of positive x."""
    near, far = np.minimum(argument, FAR), np.maximum(argument, FAR)
    series = np.ones_like(far)
    for power in range(N_TERMS, 0, -1):
        series = 1.0 - power * series / far
    return np.where(argument < FAR, np.exp(near) * exp1(near), series / far)


def _concentration(size: FloatArray, share: float) -> FloatArray:
    return np.asarray(np.maximum(size / share - 1.0, LEAST_CONCENTRATION))


def _excess(probability: FloatArray, concentration: FloatArray) -> FloatArray:
    """Return the expected log loss of a beta-distributed probability above that of its mean."""
    return np.asarray(digamma(concentration) - digamma(probability * concentration) + np.log(probability))
