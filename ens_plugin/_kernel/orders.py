"""An order of rows by the labels of their members, and the labels moved into it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, neighbours

__all__ = ["label_places", "move_labels"]

LARGEST_LABEL = 127


def label_places(labels: NDArray[np.uint8], counted: NDArray[np.bool_], factors: ArrayLike) -> NDArray[np.float64]:
    """Return the sum over the members that count of a row of one more than their label times their factor.

    Parameters
    ----------
    labels : ndarray of uint8, shape (n_members, n_rows)
    counted : ndarray of bool, shape (n_members, n_rows)
    factors : array-like of float, shape (n_members,)

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Added up in the order of the members.

    Examples
    --------
    >>> labels, counted = np.array([[0, 1], [1, 1]], np.uint8), np.array([[True, True], [False, True]])
    >>> label_places(labels, counted, [0.5, 10.0]).tolist()
    [0.5, 21.0]
    """
    own, mask = neighbours(labels, np.uint8), neighbours(counted, np.bool_)
    numbers = neighbours(factors, np.float64)
    if own.ndim != 2 or mask.shape != own.shape or numbers.shape != own.shape[:1]:
        raise ValueError(f"labels, those that count and factors have shapes {own.shape}, {mask.shape}, {numbers.shape}")
    places = np.empty(own.shape[1])
    n_members, n_rows = own.shape
    native.place(address(own), address(mask), n_members, n_rows, address(numbers), address(places))
    return places


def move_labels(labels: NDArray[np.uint8], counted: NDArray[np.bool_], order: NDArray[Any]) -> None:
    """Overwrite labels below 128, and which of them count, with those of the rows in another order.

    Parameters
    ----------
    labels : ndarray of uint8, shape (n_members, n_rows)
    counted : ndarray of bool, shape (n_members, n_rows)
        Both in C order.
    order : ndarray of int, shape (n_rows,)
        The row whose labels each row gets.

    Examples
    --------
    >>> labels, counted = np.array([[3, 4, 5]], np.uint8), np.array([[True, False, True]])
    >>> move_labels(labels, counted, np.array([2, 2, 1]))
    >>> labels.tolist(), counted.tolist()
    ([[5, 5, 4]], [[True, True, False]])
    """
    if order.dtype.kind not in "iu":
        raise ValueError(f"an order is of whole numbers, not of {order.dtype}")
    places = neighbours(order, np.int64)
    if labels.ndim != 2 or counted.shape != labels.shape or places.shape != labels.shape[1:]:
        raise ValueError(
            f"labels, those that count and the order have shapes {labels.shape}, {counted.shape}, {places.shape}"
        )
    is_in_place = all(own.flags.c_contiguous and own.flags.writeable for own in (labels, counted))
    if labels.dtype != np.uint8 or counted.dtype != np.bool_ or not is_in_place:
        raise ValueError("labels of another type or order cannot be moved in their place")
    if labels.max(initial=0) > LARGEST_LABEL:
        raise ValueError(f"labels above {LARGEST_LABEL} cannot be moved beside whether they count")
    if places.size and not 0 <= places.min() <= places.max() < places.size:
        raise ValueError(f"the order is not one of {places.size} rows")
    n_members, n_rows = labels.shape
    native.move_labels(address(labels), address(counted), n_members, n_rows, address(places))
