"""Sums over the members that count, by row, from which ens_plugin makes its tallies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, mask_of, neighbours

__all__ = ["class_margin_sums", "margin_sums", "value_sums"]

FloatArray = NDArray[np.float64]


def value_sums(scores: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Return sums over members of the scores of the second of two labels.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_members, n_rows)
        Finite.
    counted : ndarray of bool, shape (n_members, n_rows)

    Returns
    -------
    ndarray, shape (5, n_rows)
        Number of members that count; sum of their scores, and of squared deviations from the mean; members with a
        positive score; members whose score is at least the sum.

    Examples
    --------
    >>> value_sums(np.array([[1.0], [2.0], [9.0]]), np.array([[True], [True], [False]]))[:, 0].tolist()
    [2.0, 3.0, 0.5, 2.0, 0.0]
    """
    return _sums(scores[:, :, None], counted, None, 5)


def margin_sums(supports: FloatArray, counted: NDArray[np.bool_], target: NDArray[Any]) -> FloatArray:
    """Return sums over members of the margins of the true label.

    Parameters
    ----------
    supports : ndarray of float64, shape (n_members, n_rows, n_labels)
        Finite, for at least two labels.
    counted : ndarray of bool, shape (n_members, n_rows)
    target : ndarray of int, shape (n_rows,)

    Returns
    -------
    ndarray, shape (7, n_rows)
        Number of members that count; sum of their margins against the strongest rival, and of squared deviations from
        the mean; the same two against the rival that the other half of the members prefers; members whose label is
        wrong; members whose label is not that of the others.

    Examples
    --------
    >>> supports = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])
    >>> margin_sums(supports, np.ones((3, 1), dtype=bool), np.array([0]))[[0, 1, 5, 6], 0].tolist()
    [3.0, 1.0, 1.0, 1.0]
    """
    return _sums(supports, counted, _labels(target, *supports.shape[1:]), 7)


def class_margin_sums(
    values: FloatArray, leaves: NDArray[np.uint8], bits: NDArray[np.uint8], target: NDArray[Any]
) -> FloatArray:
    """Return :func:`margin_sums` where each label has trees, and bags, of its own.

    For each row, the trees of all labels out of whose bags it is form members in their order, as many as the label with
    the fewest has; they have the places of that label's trees.

    Parameters
    ----------
    values : ndarray of float64, shape (n_labels, n_trees, n_leaves)
        Support of the label by leaf; finite.
    leaves : ndarray of uint8, shape (n_labels, n_trees, n_rows)
        Leaf that each row reaches.
    bits : ndarray of uint8, shape (n_labels * n_trees, ceil(n_rows / 8))
        Rows in the bag of each tree, as ``np.packbits`` packs them, the trees of one label after those of another.
    target : ndarray of int, shape (n_rows,)

    Returns
    -------
    ndarray, shape (7, n_rows)

    Examples
    --------
    >>> values = np.array([[[1.0, 0.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]])
    >>> leaves, in_bag = np.array([[[0], [0]], [[1], [0]]], np.uint8), np.array([[0], [1], [0], [0]], np.uint8)
    >>> class_margin_sums(values, leaves, np.packbits(in_bag, axis=1), np.array([0]))[[0, 1, 5], 0].tolist()
    [1.0, -1.0, 1.0]
    """
    if np.asarray(leaves).dtype != np.uint8 or np.asarray(bits).dtype != np.uint8:
        raise ValueError("leaves and bits are arrays of uint8")
    own, reached, bags = neighbours(values, np.float64), neighbours(leaves, np.uint8), np.asarray(bits)
    if own.ndim != 3 or reached.ndim != 3 or own.shape[:2] != reached.shape[:2]:
        raise ValueError(f"values of shape {own.shape} are not those of leaves of shape {reached.shape}")
    n_labels, n_trees, n_rows = reached.shape
    labels = _labels(target, n_rows, n_labels)
    if bags.shape != (n_labels * n_trees, -(-n_rows // 8)):
        raise ValueError(f"the bits of {n_labels * n_trees} bags of {n_rows} rows have shape {bags.shape}")
    # The bits of some rows among more need no copy.
    if bags.strides[1] != 1 or bags.strides[0] < bags.shape[1]:
        bags = np.ascontiguousarray(bags)
    if reached.max(initial=0) >= max(own.shape[2], 1) or (reached.size and not own.size):
        raise ValueError(f"leaves up to {reached.max(initial=0)} have {own.shape[2]} values")
    sums = np.empty((7, n_rows))
    native.tally_classes(
        address(own), address(reached), address(bags), (n_labels, n_trees, n_rows, own.shape[2], bags.strides[0]),
        address(labels), address(sums),
    )  # fmt: skip
    return sums


def _labels(target: NDArray[Any], n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Return the labels of all rows; raise ValueError for any that is none."""
    # A copy, so that no other thread changes labels that were looked at.
    labels = np.array(target, np.int64)
    if n_labels < 2 or labels.shape != (n_rows,) or (labels < 0).any() or (labels >= n_labels).any():
        raise ValueError(f"the target of {n_rows} rows is not one of at least two labels each")
    return labels


def _sums(
    outputs: FloatArray, counted: NDArray[np.bool_], target: NDArray[np.int64] | None, n_columns: int
) -> FloatArray:
    mask = mask_of(counted)
    if outputs.dtype != np.float64 or mask.shape != outputs.shape[:2]:
        raise ValueError("the outputs are of float64, and each has an entry in the mask")
    # The kernel steps by whole numbers, as records do not, and reads a member's scores as neighbours.
    are_read = outputs.flags.aligned and not any(step % outputs.itemsize for step in outputs.strides)
    if not are_read or (target is None and outputs.strides[1] != outputs.itemsize):
        outputs = neighbours(outputs, np.float64)
    n_members, n_rows, n_labels = outputs.shape
    by_member, by_row, by_label = (int(step) // outputs.itemsize for step in outputs.strides)
    sums = np.empty((n_columns, n_rows))
    native.tally(
        address(outputs), address(mask), (n_members, n_rows, n_labels), (by_member, by_row, by_label),
        address(target), address(sums),
    )  # fmt: skip
    return sums
