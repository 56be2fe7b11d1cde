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
    `upper` is where the weight of all residuals up to it, interpolated between residuals, is
    :math:`(1 - \alpha/2)(W + w)`, with :math:`\alpha` one less the level, W the weight of all and w that which the
    fresh row may have: that of a row, or group, drawn by weight, :math:`\sum w_i^2 / W`.  `lower` mirrors it.  With
    equal weights they are the :math:`(n + 1)\alpha/2`-th residuals from below and above.  Between exchangeable
    residuals at whole places a further one lies with exactly the chance `level` (with weights: R. J. Tibshirani and
    others 2019).  Interpolation keeps that between places but for an error of order :math:`1/n^2` (R. Beran, P. Hall
    1993, *Interpolated nonparametric prediction intervals and confidence intervals*, JRSS B 55); the next place
    outwards would cover up to 2/(n + 1) more.

    Examples
    --------
    >>> residual_limits(np.arange(1.0, 40.0), 0.95, np.ones(39))
    (1.0, 39.0)
    >>> lower, upper = residual_limits(np.arange(1.0, 40.0), 0.75, np.ones(39))
    >>> round(lower, 6), round(upper, 6)
    (5.0, 35.0)
    """
    units = weight if groups is None else group_sums(weight, groups)
    total = float(units.sum())
    one = float(units @ units) / total
    needed = (0.5 + level / 2.0) * (total + one)
    if needed > total * (1.0 + ROUNDING):
        what = "rows" if groups is None else "groups"
        raise InputError(
            f"An interval of level {level:g} needs at least {np.ceil(2.0 / (1.0 - level) - 1.0 - ROUNDING):.0f} {what} "
            f"with out-of-bag members, and there are {_worth(units)}. Pass a lower interval_level, or train on more "
            "rows."
        )
    lower, upper = -_quantile(-residuals, weight, needed), _quantile(residuals, weight, needed)
    # A limit of 0 has no sign.
    return lower + 0.0, upper + 0.0


def _worth(weight: FloatArray) -> str:
    """Return how many rows count, and as how many of equal weight if they differ."""
    known = weight[weight > 0.0]
    if known.size == 0 or known.min() == known.max():
        return str(known.size)
    return f"{known.size}, which weigh as much as {known.sum() ** 2 / (known @ known):.3g} of equal weight"


def _quantile(values: FloatArray, weight: FloatArray, needed: float) -> float:
    """Return the value below which the values have the `needed` weight together, interpolated linearly."""
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0]
    return float(np.interp(needed, np.cumsum(weight[order]), values[order]))
