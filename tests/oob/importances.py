"""The permutation importance by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_friedman1

Array = np.ndarray[Any, Any]

N = 90
X, Y = make_friedman1(N, n_features=6, noise=1.0, random_state=0)
X3, Y3 = make_classification(N, 5, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=1)
NAMES = np.array(["birch", "ash", "oak"])


def orders(column: int, n_repeats: int, n_rows: int) -> list[Array]:
    """The permutations, as the docstring of the seed has them: one generator for each column and repetition."""
    return [np.random.default_rng([0, column, repeat]).permutation(n_rows) for repeat in range(n_repeats)]


def in_bag_of(samples: Any, n_rows: int = N) -> Array:
    mask = np.zeros((len(samples), n_rows), dtype=bool)
    for member, rows in enumerate(samples):
        mask[member, rows] = True
    return mask


def values_of(members: Any) -> Any:
    return lambda table: np.stack([member.predict(table) for member in members])
