"""How many rows of a bag, and how many in all, reach each leaf of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_leaves"]

IntArray = NDArray[np.int64]


def count_leaves(leaves: NDArray[Any], in_bag: NDArray[np.bool_], n_leaves: int) -> tuple[IntArray, IntArray]:
    """Count a tree's rows by leaf: those in its bag, then all.

    Parameters
    ----------
    leaves : ndarray of unsigned int, shape (n_rows,)
        Leaf that each row reaches.
    in_bag : ndarray of bool, shape (n_rows,)
    n_leaves : int

    Returns
    -------
    in_bag_counts, counts : ndarrays of int, shape (n_leaves,)

    Examples
    --------
    >>> count_leaves(np.array([0, 2, 2], dtype=np.uint8), np.array([True, True, False]), 3)
    (array([1, 0, 1]), array([1, 0, 2]))
    """
    # The smallest type that holds twice a leaf: arithmetic on bytes is an eighth of that on words.
    code = leaves.astype(np.min_scalar_type(2 * n_leaves))
    code *= 2
    code += in_bag
    counts = np.bincount(code, minlength=2 * n_leaves)
    return counts[1::2], counts[::2] + counts[1::2]
