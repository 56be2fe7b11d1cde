from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.tree_table import FlatTree, TreeTable, damage_of_tree

LEFT, RIGHT = np.array([1, -1, 3, -1, -1]), np.array([2, -1, 4, -1, -1])
FEATURE, THRESHOLD = np.array([1, 0, 0, 0, 0]), np.array([0.5, 0.0, 2.5, 0.0, 0.0])
SOUND: dict[str, Any] = {"left": LEFT, "right": RIGHT, "feature": FEATURE, "n_features": 2, "threshold": THRESHOLD}


def table_of(*trees: FlatTree) -> TreeTable:
    sizes = [len(tree.left) for tree in trees]
    values, covers = ([part * np.arange(size) for size in sizes] for part in (0.5, 3))
    return TreeTable(trees, values, covers)


def test_values_and_covers_of_leaves_are_in_the_order_of_nodes() -> None:
    alone = FlatTree(*np.array([[-1], [-1], [0], [0]]))
    table = table_of(FlatTree(LEFT, RIGHT, FEATURE, THRESHOLD), alone)
    assert table.n_leaves.tolist() == [3, 1]
    assert [own.tolist() for own in table.leaf_values] == [[0.5, 1.5, 2.0], [0.0]]
    assert [own.tolist() for own in table.leaf_covers] == [[3, 9, 12], [0]]


def test_splits_by_category_have_no_thresholds() -> None:
    by_set = FlatTree(LEFT, RIGHT, FEATURE, np.where(np.arange(5) == 2, np.nan, THRESHOLD))
    table = table_of(FlatTree(LEFT, RIGHT, FEATURE, THRESHOLD + 1), by_set)
    assert {column: values.tolist() for column, values in table.splits()} == {0: [3.5], 1: [1.5, 0.5]}


def test_a_sound_tree_has_no_damage() -> None:
    assert damage_of_tree(**SOUND, value=np.zeros((5, 1, 3))) is None
    assert damage_of_tree(np.array([-1]), np.array([-1]), np.array([-2]), 2) is None


@pytest.mark.parametrize(
    ("name", "node", "number", "damage"),
    [
        ("left", 0, 0, "from its root to each leaf once"),
        ("left", 2, 2**62, "from its root to each leaf once"),
        ("left", 2, 1, "from its root to each leaf once"),
        ("left", 2, -1, "from its root to each leaf once"),
        ("right", 1, -(2**63), "from its root to each leaf once"),
        ("feature", 2, 2, "a feature that the model does not have"),
        ("feature", 0, -1, "a feature that the model does not have"),
        ("threshold", 2, np.nan, "a threshold that is no number"),
    ],
)
def test_damage_is_found_wherever_it_is(name: str, node: int, number: Any, damage: str) -> None:
    broken = SOUND[name].copy()
    broken[node] = number
    found = damage_of_tree(**{**SOUND, name: broken})
    assert found is not None
    assert damage in found


def test_values_that_are_not_finite_are_damage_where_they_are_passed() -> None:
    assert damage_of_tree(**SOUND, value=np.array([0.0, 1.0, 0.0, np.inf, 0.0])) == "has values that are not finite"
