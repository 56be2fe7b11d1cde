r"""Wolpert and Macready 1996: the error of a bagged predictor, estimated by its own members, and stacking them.

Stacked estimates of a bagged ensemble's squared error: a line from the members' variance to the error. Wolpert and
Macready (1996), section 3.4. At a training row the out-of-bag members form an ensemble whose variance V_c and error
are both known; the line through these pairs turns V_c(q), which needs no label, into the error at a test input q.
Label probabilities are treated through the Brier score.

Squared error of a bagged ensemble at test inputs without labels, from its trained members. Wolpert and Macready
(1996), section 3: the expected error E of one member less the variance V of members is the error of their average.
Outputs are values, shape (n_members, n_rows), or label probabilities, shape (n_members, n_rows, n_labels); for the
latter every square is summed over the labels, so that the error is the Brier score. Functions of training rows return
one number per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_predict

from ens_plugin.analysis.analyze import analyze
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    SINGLE_ROUNDING,
    BoolArray,
    FloatArray,
    as_numbers,
    as_values,
    check_finite,
    check_shares,
    counted,
)
from ens_plugin.errors import BagError, InputError, TooFewMembersError
from ens_plugin.papers.members import label_probabilities, out_of_bag_members, outputs_without_target

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BaggingErrors", "HybridError", "estimate", "hybrid_error"]


def as_outputs(outputs: ArrayLike, name: str) -> FloatArray:
    """Return members' outputs as a checked float64 array, or raise InputError with `name` in its message.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Values; or, with three dimensions, probabilities of at least two labels that sum to 1.
    name : str

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> as_outputs([[1, 2], [3, 4]], "outputs").shape
    (2, 2)
    """
    array = as_numbers(outputs, name)
    if array.ndim not in (2, 3):
        raise InputError(f"{name} must have shape (members, rows) or (members, rows, labels), got {array.shape}.")
    if array.size == 0:
        raise InputError(f"{name} is empty, shape {array.shape}; at least one member and one row are needed.")
    check_finite(array, name)
    if array.ndim == 3:
        _check_probabilities(array, name)
    return array


def _check_probabilities(array: FloatArray, name: str) -> None:
    if array.shape[2] < 2:
        raise InputError(f"{name} holds probabilities of one label only; give one column per label.")
    check_shares(array, name)
    worst = float(np.abs(array.sum(axis=2) - 1.0).max())
    if worst > SINGLE_ROUNDING:
        raise InputError(f"{name} must sum to 1 over the labels; the worst sum is off by {worst:g}.")


def as_mask(out_of_bag: ArrayLike, outputs: FloatArray, least: int) -> BoolArray:
    """Return the checked out-of-bag mask: one entry per member and row, at least `least` members per row."""
    array = np.asarray(out_of_bag)
    if array.shape != outputs.shape[:2]:
        raise InputError(f"out_of_bag must have shape {outputs.shape[:2]} as outputs has, got {array.shape}.")
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise InputError("out_of_bag must hold True or False: whether the row is out of bag for the member.")
    mask = np.asarray(array, dtype=np.bool_)
    few = int(np.count_nonzero(mask.sum(axis=0) < least))
    if few:
        raise InputError(
            f"out_of_bag leaves {few} of {counted(mask.shape[1], 'row')} with fewer than "
            f"{counted(least, 'out-of-bag member')}; leave these rows out or train more members."
        )
    return mask


def as_aligned_target(target: ArrayLike, outputs: FloatArray) -> FloatArray:
    """Return the target in the form of one member's outputs: values, or indicators of labels.

    Parameters
    ----------
    target : array-like, shape (n_rows,)
        Values; or label codes 0 to n_labels - 1 where `outputs` holds probabilities.
    outputs : ndarray
        As returned by :func:`as_outputs`.

    Returns
    -------
    ndarray of float64, shape (n_rows,) or (n_rows, n_labels)
        Label codes are returned as indicators, so that squared distances sum to the Brier score.

    Examples
    --------
    >>> as_aligned_target([1, 0], as_outputs([[[0.5, 0.5], [1.0, 0.0]]], "outputs"))
    array([[0., 1.],
           [1., 0.]])
    """
    y = as_values(target, "target", outputs.shape[1])
    if outputs.ndim == 2:
        return y
    n_labels = outputs.shape[2]
    if np.any(y != np.floor(y)) or y.min() < 0 or y.max() >= n_labels:
        raise InputError(f"target must hold label codes 0 to {n_labels - 1}, the columns of outputs.")
    return np.eye(n_labels)[y.astype(np.int64)]


def check_same_members(outputs: FloatArray, test_outputs: FloatArray) -> None:
    """Raise InputError unless both outputs have equally many members and labels."""
    if outputs.ndim != test_outputs.ndim or outputs.shape[2:] != test_outputs.shape[2:]:
        raise InputError(f"test_outputs must have the labels of outputs: {test_outputs.shape} against {outputs.shape}.")
    if outputs.shape[0] != test_outputs.shape[0]:
        raise InputError(
            f"test_outputs must come from the {counted(outputs.shape[0], 'member')} of outputs, got "
            f"{len(test_outputs)}."
        )


def v1(outputs: ArrayLike) -> FloatArray:
    r"""Return V1: the variance of all members' outputs at each training row, with their number less one as divisor.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        In squared units of the outputs.

    Raises
    ------
    InputError
        If `outputs` has a wrong shape, holds anything not finite or not a probability, or fewer than two members.

    Notes
    -----
    1996 section 3.2, V_1.

    Examples
    --------
    >>> v1([[1.0, 2.0], [3.0, 2.0]])
    array([2., 0.])
    """
    return _unbiased_variance(outputs, "outputs")


def v2(outputs: ArrayLike, out_of_bag: ArrayLike) -> FloatArray:
    r"""Return V2: the variance of the out-of-bag members' outputs at each training row, with divisor number less one.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    out_of_bag : array-like of bool, shape (n_members, n_rows)
        True where the row is out of bag for the member; at least two members per row.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Raises
    ------
    InputError
        If shapes differ, an output is not allowed, or a row has fewer than two out-of-bag members.

    Notes
    -----
    1996 section 3.2, V_2.

    Examples
    --------
    >>> v2([[1.0, 2.0], [3.0, 2.0], [9.0, 5.0]], [[True, True], [True, False], [False, True]])
    array([2. , 4.5])
    """
    h = as_outputs(outputs, "outputs")
    is_oob = as_mask(out_of_bag, h, 2)
    n = is_oob.sum(axis=0)
    counted = _spread(is_oob, h)
    mean = np.sum(h, axis=0, where=counted) / n.reshape(-1, *(1,) * (h.ndim - 2))
    return np.asarray(_over_labels(np.sum((h - mean) ** 2, axis=0, where=counted)) / (n - 1))


def v3(test_outputs: ArrayLike) -> FloatArray:
    r"""Return V3: the variance of all members' outputs at each test input, with their number less one as divisor.

    Argument, result and errors as for :func:`v1`, but at test inputs, which need no labels (1996 section 3.2, V_3).

    Examples
    --------
    >>> v3([[1.0], [3.0]])
    array([2.])
    """
    return _unbiased_variance(test_outputs, "test_outputs")


def v_c(test_outputs: ArrayLike) -> FloatArray:
    r"""Return V_c: the exact variance of all members' outputs at each test input, with their number as divisor.

    Argument, result and errors as for :func:`v3`, but one member is enough.  1996 section 3.3: the ensemble's squared
    error at q is E_c(q) - V_c(q).

    Examples
    --------
    >>> v_c([[1.0], [3.0]])
    array([1.])
    """
    h = as_outputs(test_outputs, "test_outputs")
    return _over_labels(h.var(axis=0))


def e1(outputs: ArrayLike, target: ArrayLike) -> FloatArray:
    r"""Return E1: the mean squared error of all members at each training row.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    target : array-like, shape (n_rows,)
        Values; label codes 0 to n_labels - 1 where outputs are probabilities.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Raises
    ------
    InputError
        If shapes differ, or outputs or target hold anything not allowed.

    Notes
    -----
    1996 section 3.2, E_1.  Optimistic: the row is in bag for most members.

    Examples
    --------
    >>> e1([[1.0, 2.0], [3.0, 2.0]], [1.0, 3.0])
    array([2., 1.])
    """
    h = as_outputs(outputs, "outputs")
    return _over_labels(np.mean((h - as_aligned_target(target, h)) ** 2, axis=0))


def e2(outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike) -> FloatArray:
    r"""Return E2: the mean squared error of the out-of-bag members of each training row.

    Parameters
    ----------
    outputs, target
        As for :func:`e1`.
    out_of_bag : array-like of bool, shape (n_members, n_rows)
        True where the row is out of bag for the member; at least one member per row.

    Returns
    -------
    ndarray of float64, shape (n_rows,)

    Raises
    ------
    InputError
        If shapes differ, outputs or target hold anything not allowed, or a row has no out-of-bag member.

    Notes
    -----
    1996 section 3.2, E_2.

    Examples
    --------
    >>> e2([[1.0, 2.0], [3.0, 2.0]], [[True, True], [False, True]], [0.0, 3.0])
    array([1., 1.])
    """
    h = as_outputs(outputs, "outputs")
    is_oob = as_mask(out_of_bag, h, 1)
    square = (h - as_aligned_target(target, h)) ** 2
    return np.asarray(_over_labels(np.sum(square, axis=0, where=_spread(is_oob, h))) / is_oob.sum(axis=0))


def simple_estimate(error: ArrayLike, variance: ArrayLike) -> float:
    r"""Return :math:`[E_j - V_i]^+`: the mean expected error less the mean variance, 0 where that is negative.

    Parameters
    ----------
    error : array-like, shape (n_rows,)
        :func:`e1` or :func:`e2`.
    variance : array-like, shape (n_points,)
        :func:`v1`, :func:`v2`, or at test inputs :func:`v3` or :func:`v_c`.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If an argument is empty, negative or not finite.

    Notes
    -----
    1996 section 3.2.  The cut at 0 applies to the averaged difference, not row by row.

    Examples
    --------
    >>> simple_estimate([2.0, 1.0], [0.5])
    1.0
    """
    e, v = as_values(error, "error"), as_values(variance, "variance")
    for name, values in (("error", e), ("variance", v)):
        if values.min() < 0:
            raise InputError(f"{name} must not be negative: it is a mean of squares.")
    return max(float(e.mean() - v.mean()), 0.0)


def simple_estimates(
    outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike
) -> dict[str, float]:
    r"""Return six estimates of the ensemble's mean squared error at test inputs: members' mean error less variance.

    Parameters
    ----------
    outputs, out_of_bag, target, test_outputs
        As for :func:`ratio`.

    Returns
    -------
    dict of str to float
        Keys "E1-V1", "E2-V2", "E1-V3", "E2-V3", "E1-Vc", "E2-Vc"; "E2-V2" is the best of them.

    Raises
    ------
    InputError
        As for the functions whose values are combined.

    Notes
    -----
    1996 sections 3.2 and 3.3, Table 1(a).  "E2-V2" is the unbiased error of the infinite ensemble
    (:func:`ens_plugin.core.losses.fit_moments`), hence below that of a finite one.

    Examples
    --------
    >>> is_oob = [[True, True], [True, True], [True, False], [False, True]]
    >>> found = simple_estimates([[0, 1], [2, 1], [1, 3], [1, 4]], is_oob, [3, 4], [[0.0], [0.0], [1.0], [1.0]])
    >>> round(found["E1-V1"], 3), round(found["E2-V2"], 3), round(found["E2-Vc"], 3)
    (3.167, 3.333, 5.083)
    """
    h, q = as_outputs(outputs, "outputs"), as_outputs(test_outputs, "test_outputs")
    check_same_members(h, q)
    errors = {"E1": e1(h, target), "E2": e2(h, out_of_bag, target)}
    variances = {"V1": v1(h), "V2": v2(h, out_of_bag), "V3": v3(q), "Vc": v_c(q)}
    pairs = (("E1", "V1"), ("E2", "V2"), ("E1", "V3"), ("E2", "V3"), ("E1", "Vc"), ("E2", "Vc"))
    return {f"{e}-{v}": simple_estimate(errors[e], variances[v]) for e, v in pairs}


def ratio(outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike) -> FloatArray:
    r"""Return the squared error at each test input: the mean out-of-bag error, scaled by the members' variance at q.

    Parameters
    ----------
    outputs : array-like, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Members' outputs for the training rows.
    out_of_bag : array-like of bool, shape (n_members, n_rows)
    target : array-like, shape (n_rows,)
    test_outputs : array-like, shape (n_members, n_test) or (n_members, n_test, n_labels)
        Members' outputs for test inputs, which need no labels.

    Returns
    -------
    ndarray of float64, shape (n_test,)
        The estimate for a test set is its mean.

    Raises
    ------
    InputError
        If shapes differ, a value is not allowed, or a row has fewer than two out-of-bag members.

    Notes
    -----
    Not in the paper: :math:`[E_2 - V_2]^+ \min(V(q), \max_i S_i^2) / \overline{S^2} + V(q)/M` with V = V_3 and
    :math:`S_i^2` = V_2; the first term is 0 where the out-of-bag members never differ.  No tuning, no unit.
    It is worse than E2 - V2 where noise hides the link of variance and error.

    Examples
    --------
    >>> is_oob = [[True, True], [True, True], [True, False], [False, True]]
    >>> ratio([[0, 1], [2, 1], [1, 3], [1, 4]], is_oob, [3, 4], [[0.0], [0.0], [1.0], [1.0]]).round(3)
    array([0.639])
    """
    h, q = as_outputs(outputs, "outputs"), as_outputs(test_outputs, "test_outputs")
    check_same_members(h, q)
    spread = v2(h, out_of_bag)
    asymptote = simple_estimate(e2(h, out_of_bag, target), spread)
    variance = v3(q)
    mean = float(spread.mean())
    share = np.minimum(variance, spread.max()) / mean if mean > 0 else np.zeros_like(variance)
    return np.asarray(asymptote * share + variance / h.shape[0])


def _unbiased_variance(outputs: ArrayLike, name: str) -> FloatArray:
    h = as_outputs(outputs, name)
    if h.shape[0] < 2:
        raise InputError(f"{name} holds one member; a variance needs at least two.")
    return _over_labels(h.var(axis=0, ddof=1))


def _over_labels(squares: FloatArray) -> FloatArray:
    """Return the squares summed over the labels, if there are any: a Brier score for each row."""
    return squares if squares.ndim == 1 else np.asarray(squares.sum(axis=1))


def _spread(mask: NDArray[np.bool_], outputs: FloatArray) -> NDArray[np.bool_]:
    """Return a mask of members and rows, extended by a label axis if the outputs have one."""
    return mask if outputs.ndim == 2 else mask[:, :, None]


MIN_ROWS = 3


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
    level = np.abs(centred).max() <= NEGLIGIBLE * variance.max()
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


_IN_BAG = "too low: members were trained on the rows"
_FAR = "hangs on members that extrapolate at single test rows"
REMARKS = {
    "E1-V1": _IN_BAG,
    "E2-V2": "of infinitely many members, unbiased unless cut at 0",
    "E1-V3": _IN_BAG,
    "E2-V3": _FAR,
    "E1-Vc": _IN_BAG,
    "E2-Vc": _FAR,
    "conservative": "the paper's: the line or E2-V2, whichever its misfit says",
    "weighted": "the paper's best: a mean of the line and E2-V2",
    "ratio": "to use for these test rows, unless y is mostly noise",
    "closed form": "to use for rows like the training rows: unbiased, of these members",
    "closed form, infinite": "the same as E2-V2",
}


@dataclass(frozen=True, eq=False)
class BaggingErrors:
    """Estimates of an ensemble's squared error, by name of the method.

    Attributes
    ----------
    n_members : int
    per_set : dict of str to float
        Estimates of the mean over rows: squared units of y, or a classifier's Brier score, summed over its labels.
    per_point : dict of str to ndarray, shape (n_test,)
        Estimates for each test row; empty where no test rows were given.
    """

    n_members: int
    per_set: dict[str, float]
    per_point: dict[str, FloatArray]

    def __repr__(self) -> str:
        """Return the estimates of the mean error as text."""
        table = self.to_frame().to_string(index=False, float_format="{:.4g}".format)
        return f"BaggingErrors of {counted(self.n_members, 'member')}:\n{table}"

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates of the mean error: columns estimate, error and remark, on which to use and why."""
        import pandas as pd

        remarks = [REMARKS[name] for name in self.per_set]
        return pd.DataFrame({"estimate": list(self.per_set), "error": list(self.per_set.values()), "remark": remarks})


def estimate(model: Any, X: Any, y: ArrayLike, X_test: Any = None) -> BaggingErrors:
    r"""Return the estimates of a bagged ensemble's squared error by all methods of Wolpert and Macready (1996).

    Parameters
    ----------
    model : fitted ensemble
        A regressor, or a classifier whose members vote or have probabilities.
    X, y : array-like
        The training rows, in training order.
    X_test : array-like of shape (n_test, n_features), optional
        Rows to predict, without labels, whose error is estimated by V3, Vc, stacking and `ratio`.

    Returns
    -------
    BaggingErrors
        "E1-V1" and "E2-V2" of the training rows; with test rows "E1-V3", "E2-V3", "E1-Vc", "E2-Vc", "conservative",
        "weighted" (in the target's own unit; a constant target has none, and is left as it is), and, not in the paper,
        "ratio".  "closed form" is this package's for the current size, E2 - V2 + V2/M; "closed form,
        infinite" for infinitely many members.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for members with raw scores.

    Notes
    -----
    1996 sections 3.2 to 3.4.  Rows that fewer than two members are out of bag for are left out.  E1 - V1 is
    optimistic: most members were trained on the row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.papers import bagging_error_1996
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(60, random_state=0).fit(X[:300], y[:300])
    >>> errors = bagging_error_1996.estimate(forest, X[:300], y[:300], X[300:])
    >>> errors.per_set["E1-V1"] < errors.per_set["E2-V2"] < errors.per_set["closed form"]
    True
    >>> errors.per_point["ratio"].shape
    (142,)
    """
    members = out_of_bag_members(model, X, y).with_trials(2)
    outputs = label_probabilities(members.outputs, members)
    given = (outputs, members.is_oob, members.target)
    spread = v2(outputs, members.is_oob)
    asymptote = simple_estimate(e2(*given), spread)
    ours = {"closed form": asymptote + float(spread.mean()) / outputs.shape[0], "closed form, infinite": asymptote}
    if X_test is None:
        simple = {"E1-V1": simple_estimate(e1(outputs, members.target), v1(outputs)), "E2-V2": asymptote}
        return BaggingErrors(outputs.shape[0], simple | ours, {})
    at_test = label_probabilities(outputs_without_target(model, X_test), members)
    unit = target_unit(outputs, members.target) if np.ptp(members.target) > 0 else 1.0
    per_point = {
        "conservative": conservative_stacking(*given, at_test, unit=unit),
        "weighted": weighted_stacking(*given, at_test, unit=unit),
        "ratio": ratio(*given, at_test),
    }
    of_the_mean = {name: float(values.mean()) for name, values in per_point.items()}
    return BaggingErrors(outputs.shape[0], simple_estimates(*given, at_test) | of_the_mean | ours, per_point)


class HybridError(NamedTuple):
    """An error on new rows, and where it is from.

    Attributes
    ----------
    error : float
        Share of wrong labels, or mean squared error.
    source : {"out of bag", "cross-validation"}
    doubts : tuple of str
        Why the trained members were not relied on; empty where they were.
    """

    error: float
    source: Literal["out of bag", "cross-validation"]
    doubts: tuple[str, ...]


def hybrid_error(model: Any, X: Any, y: ArrayLike, *, cv: Any = 5) -> HybridError:
    """Return the error by the trained members where nothing speaks against it, and else by cross-validation.

    Parameters
    ----------
    model : fitted ensemble
        An estimator of scikit-learn, which cross-validation can train again.
    X, y : array-like
        The training rows, in training order.
    cv : int, splitter or iterable, default=5
        As for :func:`sklearn.model_selection.cross_val_predict`: folds that keep together what belongs together, such
        as those of ``GroupKFold``, where the doubts are about that.

    Returns
    -------
    HybridError

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`, for rows that no cross-validation would help.

    Notes
    -----
    1996 section 6: where the members' estimate is dubious, a squared error below 0 for example, resort to
    cross-validation.  It is dubious here where that of infinitely many members is below 0, where the report of
    :func:`ens_plugin.analyze` has a doubt or fewer than 30 rows, or where the bags are not known.
    Cross-validation costs as many trainings as there are folds, and judges models of fewer rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import bagging_error_1996
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> bagging_error_1996.hybrid_error(forest, X, y).source
    'out of bag'
    """
    try:
        report = analyze(model, X, y)
    except (BagError, TooFewMembersError) as error:
        return _cross_validated(model, X, y, cv, (str(error),))
    doubts = list(report.basis.doubts)
    if not report.has_enough_rows:
        doubts.append(f"There are only {counted(report.n_rows, 'row')}.")
    if report.error_curve.asymptote_raw < 0:
        doubts.append("The error of infinitely many members is estimated below 0.")
    if doubts:
        return _cross_validated(model, X, y, cv, tuple(doubts))
    return HybridError(report.error, "out of bag", ())


def _cross_validated(model: Any, X: Any, y: ArrayLike, cv: Any, doubts: tuple[str, ...]) -> HybridError:
    target = np.asarray(y)
    predicted = cross_val_predict(clone(model), X, target, cv=cv)
    error = np.mean(predicted != target) if is_classifier(model) else np.mean((predicted - target) ** 2)
    return HybridError(float(error), "cross-validation", doubts)
