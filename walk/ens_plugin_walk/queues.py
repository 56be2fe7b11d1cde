"""Values of each row that move up to places of the row, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin_walk import _kernel
from ens_plugin_walk.slices import address

__all__ = ["move_values"]


def move_values(
    values: NDArray[np.float64], taken: NDArray[np.bool_], outputs: NDArray[np.float64], filled: NDArray[np.bool_]
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number.

    Parameters
    ----------
    values, outputs : ndarray of float64, shape (n_members, n_rows)
        The rows of an output are next to each other.
    taken, filled : ndarray of bool, shape (n_members, n_rows)
        A row has at least as many values taken as outputs filled.

    Examples
    --------
    >>> outputs = np.zeros((3, 1))
    >>> taken, filled = np.array([[[False], [True], [True]], [[True], [False], [True]]])
    >>> move_values(np.array([[1.0], [2.0], [3.0]]), taken, outputs, filled)
    >>> outputs[[0, 2], 0].tolist()
    [2.0, 3.0]
    """
    own: list[NDArray[Any]] = [np.ascontiguousarray(values, np.float64)]
    own += [np.ascontiguousarray(mask, np.bool_) for mask in (taken, filled)]
    width = outputs.itemsize
    if outputs.dtype != np.float64 or outputs.ndim != 2 or any(one.shape != outputs.shape for one in own):
        raise ValueError("values, masks and outputs of float64 have one shape")
    if outputs.strides[1] != width or outputs.strides[0] % width or not outputs.flags.writeable:
        raise ValueError("the rows of an output are not next to each other")
    n_members, n_rows = outputs.shape
    of_values, of_taken, of_filled = map(address, own)
    _kernel.serve(of_values, of_taken, of_filled, n_members, n_rows, outputs.strides[0] // width, address(outputs))
