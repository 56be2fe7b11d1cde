r"""Squared error of a bagged ensemble at test inputs without labels, from its trained members.

Wolpert and Macready (1996), section 3: the expected error E of one member less the variance V of
members is the error of their average.  Outputs are values, shape (n_members, n_rows), or label
probabilities, shape (n_members, n_rows, n_labels); for the latter every square is summed over the
labels, so that the error is the Brier score.  Functions of training rows return one number per row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import FloatArray, as_values
from ens_plugin.errors import InputError
from ens_plugin.papers.bagging_error_1996.member_outputs import (
    as_aligned_target,
    as_mask,
    as_outputs,
    check_same_members,
)

__all__ = ["e1", "e2", "mix", "ratio", "simple_estimate", "simple_estimates", "v1", "v2", "v3", "v_c"]


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
    (:func:`ens_plugin.core.estimates.squared_loss.fit_moments`), hence below that of a finite one.

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
    It is worse than E2 - V2 where noise hides the link of variance and error: prefer :func:`mix` when in doubt.

    Examples
    --------
    >>> is_oob = [[True, True], [True, True], [True, False], [False, True]]
    >>> ratio([[0, 1], [2, 1], [1, 3], [1, 4]], is_oob, [3, 4], [[0.0], [0.0], [1.0], [1.0]]).round(3)
    array([0.639])
    """
    return _ratio_parts(outputs, out_of_bag, target, test_outputs)[0]


def mix(outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike) -> FloatArray:
    r"""Return the squared error at each test input: the mean of :func:`ratio` and the simple estimate E2 - V2.

    Arguments, result and errors as for :func:`ratio`.  It is the safest of these estimates, and not in the paper: the
    mean of `ratio` and :math:`[E_2 - V_2]^+ + V_3(q)/M`.

    Examples
    --------
    >>> is_oob = [[True, True], [True, True], [True, False], [False, True]]
    >>> mix([[0, 1], [2, 1], [1, 3], [1, 4]], is_oob, [3, 4], [[0.0], [0.0], [1.0], [1.0]]).round(3)
    array([2.028])
    """
    proportional, flat = _ratio_parts(outputs, out_of_bag, target, test_outputs)
    return (proportional + flat) / 2.0


def _ratio_parts(
    outputs: ArrayLike, out_of_bag: ArrayLike, target: ArrayLike, test_outputs: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return two squared errors at each test input: :func:`ratio`, and out-of-bag error less variance, plus V3/M."""
    h, q = as_outputs(outputs, "outputs"), as_outputs(test_outputs, "test_outputs")
    check_same_members(h, q)
    spread = v2(h, out_of_bag)
    asymptote = simple_estimate(e2(h, out_of_bag, target), spread)
    variance = v3(q)
    own = variance / h.shape[0]
    mean = float(spread.mean())
    share = np.minimum(variance, spread.max()) / mean if mean > 0 else np.zeros_like(variance)
    return asymptote * share + own, asymptote + own


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
