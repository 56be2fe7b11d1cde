"""Checks of the outputs of a bagged ensemble's members: values, or probabilities of labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import BoolArray, FloatArray, as_numbers, as_values, check_finite, check_shares, counted
from ens_plugin.errors import InputError

__all__ = ["as_aligned_target", "as_mask", "as_outputs", "check_same_members"]

SUM_TOLERANCE = 1e-6


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
    if worst > SUM_TOLERANCE:
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
