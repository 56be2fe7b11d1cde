r"""Limits of a prediction error on a fresh row, from out-of-bag residuals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.estimates.squared_loss import fit_moments, loss_moments
from ens_plugin.core.tallies.row_groups import group_sums
from ens_plugin.core.tallies.tally import ValueTally, select_rows
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError

__all__ = ["residual_limits", "residuals_at_size"]

ROUNDING = 1e-9


def residuals_at_size(tally: ValueTally, weight: FloatArray, size: float) -> FloatArray:
    r"""Return residuals of out-of-bag means, narrowed to those of an ensemble of `size` members.

    Parameters
    ----------
    tally : ValueTally
        At least one member for each row, and at least two for two rows with weight.
    weight : ndarray, shape (n_rows,)
    size : float
        Members of the ensemble that predicts fresh rows.

    Returns
    -------
    ndarray, shape (n_rows,)
        Target less prediction.

    Raises
    ------
    InputError
        If fewer than two rows with weight have two members.

    Notes
    -----
    The mean square of residuals of m members, about their mean, is :math:`s^2 + v/m` with v the variance of a member
    (``docs/methods.md``, section 4), and a row has fewer out-of-bag members, :math:`m_i`, than the ensemble has
    members, B.  Each residual's distance from the weighted mean residual is therefore multiplied by
    :math:`\sqrt{(s^2 + v/B) / (s^2 + v/m_i)}`, with :math:`s^2` 0 where its estimate is negative: the spread is then
    that of B members, the shape is kept.

    Examples
    --------
    >>> ones = np.ones(2)
    >>> tally = ValueTally(trials=4 * ones, mean=0 * ones, variance=4 * ones, target=np.array([-2.0, 2.0]))
    >>> residuals_at_size(tally, ones, 4).tolist(), residuals_at_size(tally, ones, np.inf).round(4).tolist()
    ([-2.0, 2.0], [-1.7321, 1.7321])
    """
    several = (tally.trials >= 2) & (weight > 0)
    if np.count_nonzero(several) < 2:
        raise InputError("Fewer than two rows have two out-of-bag members; train more members.")
    residuals = tally.target - tally.mean
    centre = float(np.average(residuals, weights=weight))
    known = select_rows(tally, several)
    assert isinstance(known, ValueTally)
    # About their mean: what all rows have in common is no part of the spread.
    moments = loss_moments(known.mean + centre, known.variance, known.trials, known.target, weight[several])
    law = fit_moments(moments)
    expected, wanted = (law.asymptote + law.member_variance / members for members in (tally.trials, size))
    factor = np.sqrt(np.divide(wanted, expected, out=np.ones_like(expected), where=expected > 0))
    return np.asarray(centre + factor * (residuals - centre))


def residual_limits(
    residuals: FloatArray, level: float, weight: FloatArray, groups: NDArray[np.integer] | None = None
) -> tuple[float, float]:
    r"""Return quantiles between which the residual of one more row lies with a chance of `level`.

    Parameters
    ----------
    residuals : ndarray, shape (n_rows,)
    level : float
        Between 0 and 1.
    weight : ndarray, shape (n_rows,)
    groups : ndarray of int, shape (n_rows,), optional
        Group of each row; the fresh row is then one of a fresh group.

    Returns
    -------
    lower, upper : float

    Raises
    ------
    InputError
        If the rows, or groups, are too few for this level: fewer than 2 / (1 - level) - 1.

    Notes
    -----
    `upper` is the smallest residual that with all below has :math:`(1 - \alpha/2)(W + w)` of the weight :math:`W`, with
    :math:`\alpha` one less the level and w the weight that the fresh row may have: that of a row, or group, drawn by
    weight, :math:`\sum w_i^2 / W`.  `lower` mirrors it.  With equal weights they are the
    :math:`\lfloor(n + 1)\alpha/2\rfloor`-th residuals from below and above, between which a further exchangeable one
    lies with at least the chance `level` (V. Vovk, A. Gammerman, G. Shafer 2005; with weights, R. J. Tibshirani and
    others 2019).

    Examples
    --------
    >>> residual_limits(np.arange(1.0, 40.0), 0.95, np.ones(39))
    (1.0, 39.0)
    >>> residual_limits(np.arange(1.0, 40.0), 0.8, np.ones(39))
    (4.0, 36.0)
    """
    units = weight if groups is None else group_sums(weight, groups)
    total = float(units.sum())
    one = float(units @ units) / total
    needed = (0.5 + level / 2.0) * (total + one) * (1.0 - ROUNDING)
    if needed > total:
        what = "rows" if groups is None else "groups"
        raise InputError(
            f"An interval of level {level:g} needs at least {np.ceil(2.0 / (1.0 - level) - 1.0 - ROUNDING):.0f} {what} "
            f"with out-of-bag members, and there are {np.count_nonzero(units)}, which weigh as much as "
            f"{total / one:.3g} of equal weight. Pass a lower interval_level, or train on more rows."
        )
    return -_quantile(-residuals, weight, needed), _quantile(residuals, weight, needed)


def _quantile(values: FloatArray, weight: FloatArray, needed: float) -> float:
    """Return the smallest value that with all below has the weight that is needed."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(below, needed)), values.size - 1)]])
