r"""Comparison of two ensembles on the same rows: the loss of each row, and the difference of the mean losses."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ens_plugin.core.tallies.tally import AnyTally, SupportTally, ValueTally, parts_of
from ens_plugin.core.validation import FloatArray

__all__ = [
    "OUT_OF_BAG_FACTOR",
    "Difference",
    "mean_difference",
    "row_losses",
    "separate_difference",
    "share_difference",
]

# Bound on the variance of a mean of out-of-bag losses, in variances of a mean of as many independent ones.
OUT_OF_BAG_FACTOR = 2.0


class Difference(NamedTuple):
    """A difference of two mean losses, with the limits of its interval."""

    estimate: float
    lower: float
    upper: float


def row_losses(tally: AnyTally, target: NDArray[Any] | None = None) -> FloatArray:
    """Return the 0-1 error or squared error, on each row, of the mean output of its out-of-bag members.

    Parameters
    ----------
    tally : SupportTally, MarginTally or ValueTally
    target : ndarray of int, shape (n_rows,), optional
        Label codes; if given, the first of two labels wins a tie of supports, as in the libraries.

    Returns
    -------
    ndarray, shape (n_rows,)
        Any other tie counts as half an error; NaN for a row without out-of-bag members.

    Examples
    --------
    >>> import numpy as np
    >>> trials, wrong = np.array([3.0, 3.0, 2.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.0])
    >>> row_losses(SupportTally(trials, wrong, wrong, wrong))
    array([0. , 1. , 0.5, nan])
    >>> row_losses(SupportTally(trials, wrong, wrong, wrong), np.array([0, 0, 1, 1]))
    array([ 0.,  1.,  1., nan])
    """
    losses = np.empty(tally.n_rows)
    for rows, part in parts_of(tally):
        losses[rows] = _losses(part, None if target is None else target[rows])
    return losses


def _losses(tally: AnyTally, target: NDArray[Any] | None) -> FloatArray:
    if isinstance(tally, ValueTally):
        losses = (tally.mean - tally.target) ** 2
    elif isinstance(tally, SupportTally):
        excess = tally.wrong - tally.trials / 2.0
        losses = _zero_one(excess) if target is None else np.where(excess == 0.0, target == 1, excess > 0.0)
    else:
        losses = _zero_one(-tally.mean)
    return np.where(tally.trials > 0, losses, np.nan)


def _zero_one(excess: FloatArray) -> FloatArray:
    return np.asarray((np.sign(excess) + 1.0) / 2.0)


def share_difference(candidate: FloatArray, baseline: FloatArray, level: float) -> Difference:
    r"""Return the difference of two shares of wrong labels on the same rows, with its interval.

    Parameters
    ----------
    candidate, baseline : ndarray, shape (n_rows,)
        0-1 errors.
    level : float
        Level of the interval.

    Returns
    -------
    Difference
        Candidate minus baseline.

    Notes
    -----
    Agresti and Min (2005): the estimate is the plain :math:`\bar d`; for the interval, half a row is added
    to each cell of the table of both losses, so that its width is positive also where the ensembles never differ.
    With :math:`N' = N + 2` and :math:`d' = \sum d / N'` it is
    :math:`d' \pm z \sqrt{(\sum d^2 + 1)/N' - d'^2} / \sqrt{N'}`.

    Examples
    --------
    >>> import numpy as np
    >>> found = share_difference(np.zeros(100), np.zeros(100), 0.95)
    >>> found.estimate, round(found.upper, 4)
    (0.0, 0.0192)
    """
    difference = candidate - baseline
    n = difference.size + 2.0
    centre = float(difference.sum()) / n
    variance = (float(difference @ difference) + 1.0) / n - centre**2
    half = float(ndtri(0.5 + level / 2.0)) * math.sqrt(variance / n)
    return Difference(float(difference.mean()), max(centre - half, -1.0), min(centre + half, 1.0))


def mean_difference(candidate: FloatArray, baseline: FloatArray, level: float) -> Difference:
    """Return the difference of two mean losses on the same rows, with Student's interval.

    Parameters
    ----------
    candidate, baseline : ndarray, shape (n_rows,)
        Losses on any scale; at least two rows.
    level : float
        Level of the interval.

    Returns
    -------
    Difference
        Candidate minus baseline.

    Examples
    --------
    >>> import numpy as np
    >>> mean_difference(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]), 0.95).estimate
    1.0
    """
    difference = candidate - baseline
    estimate = float(difference.mean())
    sd = float(difference.std(ddof=1))
    half = float(stdtrit(difference.size - 1, 0.5 + level / 2.0)) * sd / math.sqrt(difference.size)
    return Difference(estimate, estimate - half, estimate + half)


def separate_difference(candidate: Difference, baseline: Difference) -> Difference:
    """Return the difference of two independent estimates, with the widest interval that their intervals allow.

    Parameters
    ----------
    candidate, baseline : Difference
        An estimate with its interval.

    Returns
    -------
    Difference
        Candidate minus baseline.

    Examples
    --------
    >>> separate_difference(Difference(3.0, 2.0, 4.0), Difference(1.0, 0.5, 2.5))
    Difference(estimate=2.0, lower=-0.5, upper=3.5)
    """
    return Difference(
        candidate.estimate - baseline.estimate, candidate.lower - baseline.upper, candidate.upper - baseline.lower
    )
