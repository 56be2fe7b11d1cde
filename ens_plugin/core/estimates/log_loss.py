r"""The log loss by ensemble size, from beta distributions of the rows' mean probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from ens_plugin.core.validation import FloatArray

__all__ = ["expected_log_loss", "relative_variance"]

LEAST_CONCENTRATION = 0.05


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
    weight = (mean + 1.0 / trials) ** -2.0
    votes = float(weight @ (mean * (1.0 - mean) + variance / trials))
    return float(weight @ variance) / votes if votes > 0 else 0.0


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
    loss with all n members, the difference of this expectation between B and n is added.  It is taken at
    :math:`p = \bar p + (1-\bar p)/(2K_n)`, whose logarithm is unbiased up to :math:`K_n^{-2}`, like the logarithm of a
    count to which a half is added.

    Examples
    --------
    >>> mean, trials = np.array([0.2, 0.5]), np.array([40.0, 40.0])
    >>> expected_log_loss(mean, trials, 0.3, 40.0).round(3), expected_log_loss(mean, trials, 0.3, np.inf).round(3)
    (array([1.609, 0.693]), array([1.594, 0.689]))
    """
    sizes = np.asarray(size, dtype=np.float64)[..., None]
    if share <= 0.0:
        return np.asarray(-np.log(mean) + np.zeros_like(sizes))
    own = _concentration(trials, share)
    limit = np.minimum(mean + (1.0 - mean) / (2.0 * own), 1.0)
    is_finite = np.isfinite(sizes)
    at_size = np.where(is_finite, _excess(limit, _concentration(np.where(is_finite, sizes, 1.0), share)), 0.0)
    return np.asarray(np.maximum(-np.log(mean) + at_size - _excess(limit, own), 0.0))


def _concentration(size: FloatArray, share: float) -> FloatArray:
    return np.asarray(np.maximum(size / share - 1.0, LEAST_CONCENTRATION))


def _excess(probability: FloatArray, concentration: FloatArray) -> FloatArray:
    """Return the expected log loss of a beta-distributed probability above that of its mean."""
    return np.asarray(digamma(concentration) - digamma(probability * concentration) + np.log(probability))
