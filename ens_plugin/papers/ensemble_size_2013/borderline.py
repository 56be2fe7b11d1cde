r"""Borderline rows, and the law of large ensembles: disagreement is proportional to size^(-1/2) (2013).

In large ensembles only rows whose vote probability is close to 1/2 can change their label.  With f the density
of that probability over rows, everything is proportional to f(1/2) (2013 eq. 13, 14 and 16).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ens_plugin.core.validation import FloatArray, as_chance, as_confidence, as_probability, as_sizes, as_weight
from ens_plugin.errors import InputError

__all__ = ["borderline_density", "borderline_size", "limiting_disagreement", "limiting_row_size_tail"]

# The integral of the normal distribution function from minus infinity to 0 (2013 eq. 14).
HALF_LINE = 1.0 / math.sqrt(2.0 * math.pi)


def borderline_density(probability: ArrayLike, weight: ArrayLike | None = None, width: float = 0.1) -> float:
    """Return the density at 1/2 of the rows' vote probability: the share of rows in a window, over its width.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        Probability of one vote, or of a wrong vote: f(1/2) is the same.  Shares of many votes, or the
        points of a fitted distribution.
    weight : array-like, shape (n_points,), optional
    width : float, default=0.1
        Width of the window around 1/2, strictly between 0 and 1.  Shares of M votes are blurred by
        0.5 / sqrt(M); the window should be wider.

    Returns
    -------
    float
        f(1/2) of 2013 eq. 13, 14 and 16; a point on the window's edge counts half.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], shapes differ, or `width` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import beta
    >>> round(borderline_density(beta.ppf((np.arange(10_000) + 0.5) / 10_000, 2, 2), width=0.05), 3)
    1.5
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    window = as_chance(width, "width")
    beyond = np.abs(p - 0.5) - window / 2.0
    # Shares such as 0.45 are not exact in binary: a point within rounding of the edge is taken to be on it.
    inside = np.where(np.abs(beyond) < 1e-12, 0.5, beyond < 0)
    return float(inside @ w / w.sum() / window)


def limiting_row_size_tail(density: float, sizes: ArrayLike, confidence: float = 0.99) -> FloatArray:
    r"""Return the share of rows that need more votes than each size for the infinite ensemble's label, for large sizes.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes T, whole numbers or infinity.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`f(1/2) \, \Phi^{-1}(\alpha) / \sqrt{T}` (2013 eq. 13).

    Raises
    ------
    InputError
        If `density` is negative or not finite, a size below 1, or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> limiting_row_size_tail(1.5, [10_000]).round(4)
    array([0.0349])
    """
    quantile = float(ndtri(as_confidence(confidence)))
    return np.asarray(_as_density(density) * quantile / np.sqrt(as_sizes(sizes)))


def limiting_disagreement(density: float, sizes: ArrayLike) -> FloatArray:
    r"""Return the share of rows on which an ensemble differs from the infinite one, for large sizes.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes T, whole numbers or infinity.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`f(1/2) / \sqrt{2 \pi T}` (2013 eq. 14 and 18, where the integral is
        :math:`1/\sqrt{2\pi}`).

    Raises
    ------
    InputError
        If `density` is negative or not finite, or a size is below 1.

    Examples
    --------
    >>> limiting_disagreement(1.5, [1001]).round(4)
    array([0.0189])
    """
    return np.asarray(_as_density(density) * HALF_LINE / np.sqrt(as_sizes(sizes)))


def borderline_size(density: float, confidence: float = 0.99) -> float:
    r"""Return the recommended size from the density at 1/2 alone, for a confidence close to 1.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1.

    Returns
    -------
    float
        :math:`(f(1/2) / (\sqrt{2 \pi} (1 - \alpha)))^2` (2013 eq. 16); not rounded.

    Raises
    ------
    InputError
        If `density` is negative or not finite, or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> round(borderline_size(0.5), 1)
    397.9
    """
    return (_as_density(density) * HALF_LINE / (1.0 - as_confidence(confidence))) ** 2


def _as_density(density: float) -> float:
    if not math.isfinite(density) or density < 0:
        raise InputError(f"density must be a finite number of at least 0, got {density!r}.")
    return float(density)
