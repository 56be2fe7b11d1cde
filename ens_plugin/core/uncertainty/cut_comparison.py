r"""Comparison of an ensemble cut to its first members with the whole one: equal labels, and the expected error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ens_plugin.core.uncertainty.intervals import wilson_interval
from ens_plugin.core.validation import as_weight

__all__ = ["agreement_interval", "interval_over_seeds"]


def agreement_interval(
    first: ArrayLike, second: ArrayLike, weight: ArrayLike | None, level: float
) -> tuple[float, float, float]:
    """Return the share of rows to which two models give the same label, with its Wilson interval.

    Parameters
    ----------
    first, second : array-like, shape (n_rows,)
        Labels that the two models predict.
    weight : array-like, shape (n_rows,), or None
    level : float

    Returns
    -------
    share, lower, upper : float
        The interval is for Kish's effective number of rows.

    Raises
    ------
    InputError
        If there are not as many weights as rows, one is negative, or all are 0.

    Examples
    --------
    >>> [round(value, 3) for value in agreement_interval(["a", "b", "b", "b"], ["a", "b", "b", "a"], None, 0.95)]
    [0.75, 0.301, 0.954]
    """
    same = np.asarray(first) == np.asarray(second)
    w = as_weight(weight, same.size)
    n_effective = float(w.sum() ** 2 / (w @ w))
    share = float(w @ same / w.sum())
    lower, upper = wilson_interval(share, np.sqrt(share * (1.0 - share) / n_effective), n_effective, level)
    return share, float(lower), float(upper)


def interval_over_seeds(
    error: float, interval: tuple[float, float], algorithmic_sd: float, level: float
) -> tuple[float, float]:
    r"""Return an interval of an error over samples of rows, widened to cover the variation over seeds.

    Parameters
    ----------
    error : float
        Inside `interval`.
    interval : tuple of float
        Over samples of rows, at `level`.
    algorithmic_sd : float
        Standard deviation over seeds.
    level : float

    Returns
    -------
    lower, upper : float
        Each end moved out from its distance d to `error` to :math:`\sqrt{d^2 + (z \, \mathrm{sd})^2}`.

    Examples
    --------
    >>> interval_over_seeds(0.5, (0.2, 0.9), 0.0, 0.95)
    (0.2, 0.9)
    """
    seeds = float(ndtri(0.5 + level / 2.0)) * algorithmic_sd
    lower, upper = interval
    return error - float(np.hypot(error - lower, seeds)), error + float(np.hypot(upper - error, seeds))
