r"""Stacked estimates of a bagged ensemble's squared error: a line from the members' variance to the error.

Wolpert and Macready (1996), section 3.4.  At a training row the out-of-bag members form an ensemble
whose variance V_c and error are both known; the line through these pairs turns V_c(q), which needs no
label, into the error at a test input q.  Label probabilities are treated through the Brier score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.papers.bagging_error_1996.bagged_error import e2, simple_estimate, v2, v_c
from ens_plugin.papers.bagging_error_1996.member_outputs import (
    as_aligned_target,
    as_mask,
    as_outputs,
    check_same_members,
)

__all__ = ["StackedLine", "conservative_stacking", "fit_line", "target_unit", "weighted_stacking"]

MIN_ROWS = 3
ROUNDING = 1e-12


@dataclass(frozen=True)
class StackedLine:
    r"""The least-squares line from variance to squared error, :math:`\mathrm{Err} = a V_c + b`.

    Attributes
    ----------
    slope, intercept : float
        a (no unit) and b (squared units of y).
    chi_squared : float
        Plain sum of the squared residuals, in fourth powers of the unit of y.
    """

    slope: float
    intercept: float
    chi_squared: float

    def error(self, test_outputs: ArrayLike) -> FloatArray:
        """Return the squared error Err(q) on the line at each test input, shape (n_test,); it can be negative."""
        return self.slope * v_c(test_outputs) + self.intercept


def fit_line(outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike) -> StackedLine:
    r"""Return the line of squared error against variance, fitted to training rows with their out-of-bag members.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Members' outputs for three or more training rows.
    out_of_bag : array-like of bool, shape (n_members, n_rows)
        True where the row is out of bag for the member; at least two members per row.
    target : array-like, shape (n_rows,)
        Values; label codes 0 to n_labels - 1 where outputs are probabilities.

    Returns
    -------
    StackedLine
        Horizontal, at the mean error, where all rows have the same variance.

    Raises
    ------
    InputError
        If shapes differ, a value is not allowed, there are fewer than three rows, or a row has fewer
        than two out-of-bag members.

    Notes
    -----
    1996 section 3.4; unweighted, as in the paper.

    Examples
    --------
    >>> outputs = [[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]]
    >>> line = fit_line(outputs, [[True] * 3] * 2, [2.0, 4.0, 6.0])
    >>> round(line.slope, 6), round(abs(line.intercept), 6), round(line.chi_squared, 6)
    (1.0, 0.0, 0.0)
    """
    h = as_outputs(outputs, "outputs")
    if h.shape[1] < MIN_ROWS:
        raise InputError(
            f"outputs has {counted(h.shape[1], 'row')}, and fitting a line needs at least {MIN_ROWS}; pass more rows."
        )
    n = as_mask(out_of_bag, h, 2).sum(axis=0)
    variance = v2(h, out_of_bag) * ((n - 1) / n)
    error = np.maximum(e2(h, out_of_bag, target) - variance, 0.0)
    centred = variance - variance.mean()
    # With variances that are equal up to rounding, the slope would consist of rounding errors.
    level = np.abs(centred).max() <= ROUNDING * variance.max()
    slope = 0.0 if level else float(centred @ error) / float(centred @ centred)
    intercept = float(error.mean() - slope * variance.mean())
    residual = error - slope * variance - intercept
    return StackedLine(slope, intercept, float(residual @ residual))


def target_unit(outputs: ArrayLike, target: ArrayLike) -> float:
    r"""Return a unit of y for the stacked estimates: its standard deviation over the training rows.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Values or probabilities, which decide the kind of target.
    target : array-like, shape (n_rows,)
        Values; label codes where outputs are probabilities.

    Returns
    -------
    float
        For labels, the root of the sum of the variances over labels.

    Raises
    ------
    InputError
        If shapes differ, a value is not allowed, or the target is constant and hence has no unit.

    Notes
    -----
    Not in the paper, whose chi-squared depends on the unit in which y is measured.

    Examples
    --------
    >>> target_unit([[0.0, 0.0]], [-3.0, 3.0])
    3.0
    """
    y = as_aligned_target(target, as_outputs(outputs, "outputs"))
    if not np.any(np.ptp(y, axis=0) > 0):
        raise InputError("target is constant, so its standard deviation cannot serve as a unit; pass a unit yourself.")
    return float(np.sqrt(np.sum(y.var(axis=0))))


def conservative_stacking(
    outputs: ArrayLike,
    out_of_bag: ArrayLike,
    target: ArrayLike,
    test_outputs: ArrayLike,
    *,
    threshold: float = 1.0,
    unit: float = 1.0,
) -> FloatArray:
    r"""Return an estimate of the squared error at each test input, by a fitted line or by error less variance.

    The line is used where it fits the training rows well, and the mean error less the members' variance elsewhere.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Members' outputs for the training rows.
    out_of_bag : array-like of bool, shape (n_members, n_rows)
    target : array-like, shape (n_rows,)
    test_outputs : array-like, shape (n_members, n_test) or (n_members, n_test, n_labels)
        Members' outputs for test inputs, which need no labels.
    threshold : float
        c: the line is used if its chi-squared is at most this.  Not negative.
    unit : float
        Unit of y for chi-squared, positive.  1 is the paper's scheme, whose result depends on the scale of y;
        with :func:`target_unit` it does not.

    Returns
    -------
    ndarray of float64, shape (n_test,)
        The estimate for a test set is its mean.  Not cut at 0, as in the paper; a line can be negative.

    Raises
    ------
    InputError
        As :func:`fit_line`; if the members of the two outputs differ, or threshold or unit is not allowed.

    Notes
    -----
    1996 section 3.4 and Table 2(a), which has c = 1.

    Examples
    --------
    >>> is_oob = [[True] * 3] * 2
    >>> conservative_stacking([[0, 0, 0], [2, 4, 6]], is_oob, [2.0, 4.0, 6.0], [[0.0], [1.0]]).round(3)
    array([0.25])
    """
    if not threshold >= 0:
        raise InputError(f"threshold must not be negative, got {threshold}.")
    line, stacked, flat = _guesses(outputs, out_of_bag, target, test_outputs)
    return stacked if _misfit(line, unit) <= threshold else np.full_like(stacked, flat)


def weighted_stacking(
    outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike, *, unit: float = 1.0
) -> FloatArray:
    r"""Return the squared error at each test input: the stacked line and E2 - V2 (error less variance), weighted.

    Parameters
    ----------
    outputs, out_of_bag, target, test_outputs, unit
        As for :func:`conservative_stacking`, also the result and the errors.

    Notes
    -----
    1996 section 3.4 and Table 2: the line has weight :math:`\alpha = 1/(1+\chi^2)`, E2 - V2 has
    :math:`\beta = \chi^2/(1+\chi^2)`.

    Examples
    --------
    >>> is_oob = [[True] * 3] * 2
    >>> weighted_stacking([[0, 0, 0], [2, 4, 6]], is_oob, [2.0, 4.0, 6.0], [[0.0], [1.0]]).round(3)
    array([0.25])
    """
    line, stacked, flat = _guesses(outputs, out_of_bag, target, test_outputs)
    alpha = 1.0 / (1.0 + _misfit(line, unit))
    return alpha * stacked + (1.0 - alpha) * flat


def _guesses(
    outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike
) -> tuple[StackedLine, FloatArray, float]:
    """Return the stacked line, its squared error at each test input, and the simple estimate E2 - V2."""
    h, q = as_outputs(outputs, "outputs"), as_outputs(test_outputs, "test_outputs")
    check_same_members(h, q)
    flat = simple_estimate(e2(h, out_of_bag, target), v2(h, out_of_bag))
    line = fit_line(h, out_of_bag, target)
    return line, line.error(q), flat


def _misfit(line: StackedLine, unit: float) -> float:
    """Return a stacked line's chi-squared, a sum of fourth powers of y, with y in the given unit."""
    if not (unit > 0 and np.isfinite(unit)):
        raise InputError(f"unit must be positive and finite, got {unit}.")
    return line.chi_squared / unit**4
