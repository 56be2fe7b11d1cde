"""How many rows the trees of a forest drew, which a warm start can change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.sklearn.data import draws_by_weight
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError

__all__ = ["drawn_numbers", "refuse_other_numbers"]

# Relative rounding of the sum of weights that class_weight="balanced_subsample" makes.
CLOSE = 1e-6


def drawn_numbers(model: Any) -> NDArray[np.float64] | None:
    """Return how many rows each tree drew, counting repeats, shape (n_trees,); None where the trees do not show it."""
    trees = model.estimators_
    # Weights of labels inside a tree are those of its own rows.
    if not draws_by_weight(model) or any(getattr(tree, "class_weight", None) is not None for tree in trees):
        return None
    return np.array([tree.tree_.weighted_n_node_samples[0] for tree in trees])


def refuse_other_numbers(model: Any, n_drawn: NDArray[np.float64] | None, n_draws: int) -> None:
    """Raise BagError if some trees drew another number of rows than the seeds of the ensemble give now.

    Parameters
    ----------
    model : fitted ensemble
    n_drawn : ndarray, shape (n_trees,), or None
        :func:`drawn_numbers` of its trees.
    n_draws : int
        Number of rows that are drawn from each tree's seed.
    """
    if n_drawn is None:
        return
    is_other = np.abs(n_drawn - n_draws) > CLOSE * n_draws
    if not is_other.any():
        return
    first = int(np.flatnonzero(is_other)[0])
    raise BagError(
        f"{np.count_nonzero(is_other)} of {counted(n_drawn.size, 'tree')} of this {type(model).__name__} drew another "
        f"number of rows than {n_draws}, which its last fit drew for each tree: tree {first} drew "
        f"{n_drawn[first]:.0f}. So trees were added with warm_start after max_samples, bootstrap or the "
        "number of rows had changed, and the bags of the earlier trees are not kept. Refit all trees in one call of "
        'fit, or pass {data="holdout"} with rows the model was not trained on.'
    )
