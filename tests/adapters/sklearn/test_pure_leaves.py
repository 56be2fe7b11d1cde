"""Forests whose leaves have one label each, of probability 1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.sklearn.seeded import pure_labels

LEFT = np.array([1, -1, 3, -1, -1])


def tree_of(*labels: int, n_labels: int, inner: float = 0.5) -> Any:
    """A tree with leaves of these labels, whose second inner node gives its first label a probability."""
    values = np.zeros((LEFT.size, n_labels))
    values[[0, 2], 0], values[[0, 2], 1] = (0.5, inner), (0.5, 1.0 - inner)
    values[np.flatnonzero(LEFT < 0), list(labels)] = 1.0
    return SimpleNamespace(tree_=SimpleNamespace(value=values[:, None, :], children_left=LEFT))


@pytest.mark.parametrize("n_labels", [2, 3, 300])
# With balanced weights, those of few rows of another label can be lost.
@pytest.mark.parametrize("inner", [0.5, 1.0])
def test_the_labels_of_leaves_do_not_depend_on_inner_nodes(n_labels: int, inner: float) -> None:
    found = pure_labels([tree_of(1, 0, n_labels - 1, n_labels=n_labels, inner=inner)], n_labels)
    assert found is not None
    assert found[0][LEFT < 0].tolist() == [1, 0, n_labels - 1]


@pytest.mark.parametrize("n_labels", [2, 3])
def test_one_mixed_leaf_leaves_no_labels_however_many_inner_nodes_are_pure(n_labels: int) -> None:
    mixed = tree_of(1, 0, 1, n_labels=n_labels, inner=1.0)
    mixed.tree_.value[4, 0, :2] = 0.5
    assert pure_labels([tree_of(1, 0, 1, n_labels=n_labels), mixed], n_labels) is None
