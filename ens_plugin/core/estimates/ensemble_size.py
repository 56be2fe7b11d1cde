r"""Agreement with the infinite ensemble, and the smallest size with a wanted agreement (2013)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.row_models.majority import majority_curve, soft_majority_error
from ens_plugin.core.validation import FloatArray, as_probability, as_weight
from ens_plugin.errors import InputError

__all__ = ["agreement", "recommended_size", "smallest_odd_size"]


def agreement(probability: ArrayLike, weight: ArrayLike | None, sizes: ArrayLike) -> FloatArray:
    r"""Return the mean probability that an ensemble of each size predicts the infinite ensemble's label.

    Parameters
    ----------
    probability : array-like, shape (n_points,)
        Probabilities of one vote, of rows or of the points of a fitted distribution.
    weight : array-like, shape (n_points,), or None
        Weights of the points; None for equal ones.
    sizes : array-like, shape (n_sizes,)

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`A(T) = \sum_i w_i I_{\max(p_i, 1-p_i)}(\lfloor T/2 \rfloor + 1, T - \lfloor T/2 \rfloor)`
        (2013 eq. 9 and 17); even sizes as the odd size below.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], or shapes or sizes are wrong.

    Examples
    --------
    >>> agreement([0.1, 0.9], None, [1, 3]).round(3)
    array([0.9  , 0.972])
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    return 1.0 - majority_curve(np.minimum(p, 1.0 - p), w / w.sum(), sizes)


def recommended_size(
    probability: ArrayLike, weight: ArrayLike | None = None, confidence: float = 0.99, max_size: int = 20001
) -> int | None:
    """Return the smallest odd size whose agreement with the infinite ensemble is at least `confidence`.

    Parameters
    ----------
    probability, weight
        As for :func:`agreement`.
    confidence : float, default=0.99
        Wanted agreement, strictly between 0.5 and 1.
    max_size : int, default=20001

    Returns
    -------
    int or None
        None if the size is above `max_size`.

    Raises
    ------
    InputError
        If `confidence` is outside (0.5, 1) or anything else is out of range.

    Examples
    --------
    >>> recommended_size([0.1, 0.2, 0.4])
    87
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    folded, index = np.unique(np.minimum(p, 1.0 - p), return_inverse=True)
    shares = np.bincount(index, w) / w.sum()

    def mean_agreement(size: float) -> float:
        return float(1.0 - soft_majority_error(folded, [size])[0] @ shares)

    return smallest_odd_size(mean_agreement, confidence, max_size)


def smallest_odd_size(mean_agreement: Callable[[float], float], confidence: float, max_size: int) -> int | None:
    """Return the smallest odd size at which an increasing function reaches `confidence`; None if above `max_size`."""
    if not 0.5 < confidence < 1.0:
        raise InputError(f"confidence must lie strictly between 0.5 and 1, got {confidence}.")
    if max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size}.")
    low, high = 0, (int(max_size) - 1) // 2
    if mean_agreement(2 * high + 1) < confidence:
        return None
    while low < high:
        middle = (low + high) // 2
        if mean_agreement(2 * middle + 1) >= confidence:
            high = middle
        else:
            low = middle + 1
    return 2 * low + 1
