"""Values of each row that move up to places of the row, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.slices import address, mask_of, neighbours

__all__ = ["move_values"]


def move_values(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number.

    Parameters
    ----------
    values : ndarray of float64, shape (n_members, n_rows), or (n_members, n_leaves) with `leaves`
    outputs : ndarray of float64, shape (n_members, n_rows)
        The rows of an output are next to each other.
    taken, filled : ndarray of bool, shape (n_members, n_rows)
        A row has at least as many values taken as outputs filled.
    leaves : ndarray of uint8, shape (n_members, n_rows), optional
        Leaf of each member that each row reaches, whose value is the row's.

    Examples
    --------
    >>> outputs = np.zeros((3, 1))
    >>> taken, filled = np.array([[[False], [True], [True]], [[True], [False], [True]]])
    >>> move_values(np.array([[1.0], [2.0], [3.0]]), taken, outputs, filled)
    >>> outputs[[0, 2], 0].tolist()
    [2.0, 3.0]
    """
    source = neighbours(values, np.float64)
    own: list[NDArray[Any]] = [mask_of(mask) for mask in (taken, filled)]
    own.append(source if leaves is None else neighbours(leaves, np.uint8))
    width = outputs.itemsize
    if outputs.dtype != np.float64 or outputs.ndim != 2 or any(one.shape != outputs.shape for one in own):
        raise ValueError("values, masks and outputs of float64 have one shape")
    if not outputs.size:  # whose steps are 0
        return
    if outputs.strides[1] != width or outputs.strides[0] % width or not outputs.flags.behaved:
        raise ValueError("the rows of an output are not next to each other")
    n_members, n_rows = outputs.shape
    n_leaves = 0 if leaves is None else source.shape[1]
    if leaves is not None and (source.shape[0] != n_members or own[2].max(initial=0) >= n_leaves):
        raise ValueError("the values of leaves are not of each leaf of each member")
    n_short = native.serve(
        address(source), 0 if leaves is None else address(own[2]), address(own[0]), address(own[1]),
        n_members, n_rows, n_leaves, outputs.strides[0] // width, address(outputs),
    )  # fmt: skip
    if n_short:
        raise ValueError(f"{n_short} of {n_rows} rows have fewer values taken than outputs filled")
