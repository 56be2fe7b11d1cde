"""Variance of single predictions over training sets, by a ratio that all rows share (docs/methods.md, section 15)."""

from __future__ import annotations

import numpy as np

from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["N_PARTS", "TrainingRatio", "pooled_ratio", "pooled_variance"]

N_PARTS = 8
# One-sided, of 95 %.
UPPER = 1.645
# With this relative deviation of the ratio, that of a standard error is half as large.
LARGEST_NOISE = 0.3


@record
class TrainingRatio:
    """Ratio of the variance over training sets to the variance over members, in the mean of many predictions.

    Attributes
    ----------
    value : float
    sd : float
        Standard deviation of `value` over members.
    """

    value: float
    sd: float

    @property
    def is_estimated(self) -> bool:
        """Return whether the members are many enough for more than an upper bound."""
        return self.sd <= LARGEST_NOISE * self.value

    @property
    def members_needed(self) -> float:
        """Return how many times the members it takes until `is_estimated` is true; infinite where unknown."""
        return self.sd / (LARGEST_NOISE * self.value) if self.value > 0.0 else np.inf

    @property
    def upper(self) -> float:
        """Return the upper end of a one-sided 95 % interval; at least 0."""
        return max(self.value, 0.0) + UPPER * self.sd


def pooled_ratio(variances: FloatArray, member_variances: FloatArray, weight: FloatArray) -> TrainingRatio:
    """Return the ratio of weighted means of the variances, and its standard deviation by a jackknife over members.

    Parameters
    ----------
    variances, member_variances : ndarray, shape (n_parts + 1, n_predictions)
        Over training sets, and over members: of all members, then without each part of them.
    weight : ndarray, shape (n_predictions,)

    Returns
    -------
    TrainingRatio
        Without predictions nothing is known: 0, with an infinite standard deviation.

    Examples
    --------
    >>> found = pooled_ratio(np.array([[1.0], [1.0], [2.0]]), np.full((3, 1), 10.0), np.ones(1))
    >>> found.value, round(found.sd, 4), found.is_estimated, round(found.upper, 3)
    (0.1, 0.05, False, 0.182)
    """
    if not variances.size:
        return TrainingRatio(0.0, np.inf)
    over_members = member_variances @ weight
    ratios = np.divide(variances @ weight, over_members, out=np.zeros(over_members.size), where=over_members > 0)
    return TrainingRatio(float(ratios[0]), float(np.sqrt(ratios.size - 2.0) * np.std(ratios[1:])))


def pooled_variance(member_variance: FloatArray, typical: FloatArray | float, ratio: float) -> FloatArray:
    r"""Return the variance over training sets of single predictions, from their variances over members.

    Parameters
    ----------
    member_variance : ndarray
        Variance of the members' predictions.
    typical : float, or ndarray that broadcasts
        Its mean over many rows.
    ratio : float
        Variance over training sets by variance over members.

    Notes
    -----
    Where each member predicts the target of one of k rows, of variance :math:`\sigma^2`, the variance over members is
    :math:`\sigma^2 (k - 1)/k`, and that of their mean over training sets :math:`\sigma^2/k`: the ratio :math:`\rho` is
    :math:`1/(k - 1)`.  A variance over members thus has :math:`1/\rho` degrees of freedom, which are few, and the
    typical variance counts as one more.

    Examples
    --------
    >>> pooled_variance(np.array([0.0, 4.0]), 2.0, 0.25).tolist()
    [0.1, 0.9]
    """
    return np.asarray(ratio * (member_variance + ratio * typical) / (1.0 + ratio))
