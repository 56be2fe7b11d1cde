"""Mahajan et al. 2017, section A.2: bias and variance of the squared loss in closed form, for normal scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ens_plugin.core.validation import FloatArray, as_sizes
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.scores import BiasVarianceCurve, NormalScores

__all__ = ["closed_form_bias_variance"]

LAMBDA, DELTA = 0.703, 0.937


def closed_form_bias_variance(
    rows: NormalScores, sizes: ArrayLike, *, aggregation: str = "mean_proba"
) -> BiasVarianceCurve:
    r"""Return bias and variance of the squared loss at each size, by the closed forms of 2017 section A.2.

    Parameters
    ----------
    rows : NormalScores
        Mean :math:`\mu` and variance :math:`\sigma^2` of each row's log odds of the true label.
    sizes : array-like, shape (n_sizes,)
        Whole numbers of at least 1, or infinity.
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    BiasVarianceCurve
        Means over rows.

    Raises
    ------
    InputError
        If a size or the aggregation is not allowed.

    Notes
    -----
    With s the logistic function, :math:`\kappa(\sigma^2) = (1 + \pi\sigma^2/8)^{-1/2}`,
    :math:`\rho(\sigma^2) = (1 + \lambda^2\sigma^2)^{-1/2}`, :math:`\lambda = 0.703` and :math:`\delta = 0.937`, one
    member has

    .. math:: \bar p = s(\kappa\mu), \quad B = 2 (1 - \bar p)^2, \quad
              V = 2 (s^2(\rho\mu + \delta(1 - \rho)) - \bar p^2).

    The mean probability of K members has the bias B and the variance V/K; their mean score has the B and V of one
    member with :math:`\sigma^2/K`.  They are approximations, of the logistic function and of its square by normal
    distribution functions: up to 0.06 from the tables in one member's bias and up to 0.04 in its variance.  A variance
    below 0 counts as 0.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores
    >>> rows = fit_normal_scores([[0.0, 1.0], [2.0, 1.0]])
    >>> closed_form_bias_variance(rows, [1, 4]).variance.round(4)
    array([0.0684, 0.0171])
    """
    wanted = as_sizes(sizes)
    if aggregation not in ("mean_proba", "mean_score"):
        raise InputError(f"aggregation must be 'mean_proba' or 'mean_score', got {aggregation!r}.")
    share = rows.weight / rows.weight.sum()
    if aggregation == "mean_score":
        parts = [_of_one_member(rows.mean, rows.variance / size) for size in wanted]
    else:
        bias, variance = _of_one_member(rows.mean, rows.variance)
        parts = [(bias, variance / size) for size in wanted]
    means = np.array([[bias @ share, variance @ share] for bias, variance in parts])
    return BiasVarianceCurve(wanted, means[:, 0], means[:, 1], "squared")


def _of_one_member(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    kappa = 1.0 / np.sqrt(1.0 + np.pi * variance / 8.0)
    rho = 1.0 / np.sqrt(1.0 + LAMBDA**2 * variance)
    expected = expit(kappa * mean)
    square = expit(rho * mean + DELTA * (1.0 - rho)) ** 2
    return 2.0 * (1.0 - expected) ** 2, 2.0 * np.maximum(square - expected**2, 0.0)
