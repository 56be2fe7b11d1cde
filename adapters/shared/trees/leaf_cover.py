"""A test of whether rows fill the leaves of trees as training rows do, which recognises these in any order.

A leaf that counted some rows of its bag is reached by at least as many of the training rows.  Of as many fresh rows,
often fewer reach it: the bag is about two thirds of the training rows, and small leaves were fitted to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

if TYPE_CHECKING:
    from ens_plugin.adapters.shared.trees.row_origin import RowOrigin

__all__ = ["LeafCover", "judge_origin", "measure_cover"]

IntArray = NDArray[np.integer]

# Below this chance, one tree proves training rows; sums over trees, which resemble each other, are only a sign.
MAX_CHANCE = 1e-9
EXPECTED_GAPS = 5.0


@dataclass(frozen=True)
class LeafCover:
    """Test result: how unlikely fresh rows are to fill the leaves of trees as well as the given rows do.

    Attributes
    ----------
    chance : float
        Bound on the chance that fresh rows fill all leaves of a tree, the smallest of all trees.
    expected_gaps : float
        Leaves, or labels of leaves, of all trees that fresh rows would be expected to leave short.
    """

    chance: float
    expected_gaps: float

    @property
    def is_proof(self) -> bool:
        """Return whether the rows are proved to be training rows."""
        return self.chance < MAX_CHANCE

    @property
    def is_doubtful(self) -> bool:
        """Return whether the rows are probably training rows."""
        return self.expected_gaps >= EXPECTED_GAPS


def measure_cover(trees: Iterable[tuple[IntArray, IntArray]], n_rows: int) -> LeafCover | None:
    """Return how unlikely fresh rows would be to fill every leaf; None if too few of the given rows reach a leaf.

    Parameters
    ----------
    trees : iterable of (counted, found)
        For each tree, numbers of rows in disjoint cells (leaves, or labels in leaves): the least number of training
        rows of the bag, and the number of given rows.
    n_rows : int
        Given rows.

    Examples
    --------
    >>> measure_cover([(np.array([3, 2]), np.array([4, 1]))], 5) is None
    True
    >>> measure_cover([(np.array([1, 1]), np.array([2, 2]))], 4).chance.__round__(2)
    0.79
    """
    least, gaps = 0.0, 0.0
    for counted, found in trees:
        held = counted > 0
        if (found[held] < counted[held]).any():
            return None
        if not held.any():
            continue
        # If c of m rows of the bag are in a cell, the number of n fresh rows there is negative binomial: c or more have
        # this chance.  Numbers in disjoint cells are negatively associated, so the product bounds the joint chance.
        chance = betainc(counted[held], counted[held] + 1.0, n_rows / (n_rows + float(counted.sum())))
        least = min(least, float(np.log(chance).sum()))
        gaps += float((1.0 - chance).sum())
    return LeafCover(float(np.exp(least)), gaps)


def judge_origin(
    are_training_rows: bool, trees: Iterable[tuple[IntArray, IntArray]], n_rows: int, would_show: Callable[[], bool]
) -> RowOrigin:
    """Return whether rows are training rows, by what a model stores of these and by how rows fill its leaves.

    Parameters
    ----------
    are_training_rows : bool
        Whether the model shows that it was trained on these rows.
    trees, n_rows
        As of :func:`measure_cover`.  Trees are read until a cell has too few rows.
    would_show : callable
        Returns whether `are_training_rows` would be True for training rows in any order.  Called last.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters.sklearn.tools import judge_origin
    >>> judge_origin(False, [(np.array([3, 2]), np.array([4, 1]))], 5, lambda: False)
    'fresh'
    >>> judge_origin(False, [], 5, lambda: False)
    'unknown'
    """
    if are_training_rows:
        return "training"
    cover = measure_cover(trees, n_rows)
    if cover is None:
        return "fresh"
    if cover.is_doubtful:
        return "training" if cover.is_proof else "like_training"
    return "fresh" if would_show() else "unknown"
