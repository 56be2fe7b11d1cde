"""A check that the child links of a tree lead from its root to each node at most once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_sound"]


def are_sound(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Return whether the path of any row from node 0 along the child links ends at a leaf.

    With damaged links, prediction may never end, or may read memory outside the tree.  Where no node is the
    child of two nodes, and the root is the child of none, every path from the root ends.

    Parameters
    ----------
    left, right : ndarray of int, shape (n_nodes,)
        Children of each node; negative where the child is no node.

    Returns
    -------
    bool

    Examples
    --------
    >>> are_sound(np.array([1, -1, -1]), np.array([2, -1, -1]))
    True
    >>> are_sound(np.array([1, -1, 1]), np.array([2, -1, -1])), are_sound(np.array([3]), np.array([-1]))
    (False, False)
    """
    children = np.concatenate([left, right])
    children = children[children >= 0]
    if children.size == 0:
        return True
    return bool(
        children.min() > 0 and children.max() < left.size and np.bincount(children, minlength=left.size).max() <= 1
    )
