"""Labels of the leaves of trees whose leaves have one label each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, neighbours, whole_numbers

__all__ = ["pure_labels"]


def pure_labels(
    values: NDArray[np.float64], left: NDArray[Any], dtype: type[np.uint8] | type[np.uint16]
) -> NDArray[Any] | None:
    """Return the label of each leaf of a tree, by node, if each has one of probability 1, else None.

    Parameters
    ----------
    values : ndarray of float64, shape (n_nodes, n_labels)
        Probabilities of each node.
    left : ndarray of int, shape (n_nodes,)
        First child of each node; negative for leaves.
    dtype : {uint8, uint16}
        Of the labels.

    Returns
    -------
    ndarray of int, shape (n_nodes,), or None
        0 for nodes that are no leaves.

    Examples
    --------
    >>> values = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    >>> pure_labels(values, np.array([1, -1, -1]), np.uint8)
    array([0, 0, 1], dtype=uint8)
    >>> pure_labels(values, np.array([-1, -1, -1]), np.uint8) is None
    True
    """
    own, links = neighbours(values, np.float64), whole_numbers(left)
    if own.ndim != 2 or links.shape != own.shape[:1]:
        raise ValueError(f"probabilities of shape {own.shape} belong to {links.shape} nodes")
    if not 1 <= own.shape[1] <= np.iinfo(dtype).max + 1:
        raise ValueError(f"{np.dtype(dtype)} does not number {own.shape[1]} labels")
    labels = np.empty(own.shape[0], dtype)
    columns = (address(links), links.strides[0], links.itemsize)
    is_pure = native.label(address(own), columns, own.shape[0], own.shape[1], address(labels), labels.itemsize)
    return labels if is_pure else None
