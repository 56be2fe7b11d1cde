"""Nodes as Spark saves them become trees: sides of a categorical split, leaves without weight, single leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ens_plugin.adapters.spark_ml import _tree


def nodes(*rows: tuple[float, list[float], int, int, int, list[float], int]) -> Any:
    """Prediction, impurity statistics, children, feature, threshold or categories, number of categories."""
    names = (
        "prediction",
        "impurityStats",
        "leftChild",
        "rightChild",
        "featureIndex",
        "leftCategoriesOrThreshold",
        "numCategories",
    )
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    integers = {name: pa.int32() for name in ("leftChild", "rightChild", "featureIndex", "numCategories")}
    return table.cast(pa.schema([(field.name, integers.get(field.name, field.type)) for field in table.schema]))


def leaf(*counts: float, prediction: float = 0.0) -> Any:
    return (prediction, list(counts), -1, -1, -1, [], -1)


@pytest.mark.parametrize(
    ("left", "n_categories", "others_go_left"),
    [
        ([0.0], 4, False),
        ([0.0, 2.0], 4, False),
        ([0.0, 2.0, 3.0], 4, True),
        ([0.0, 2.0], 5, False),
        ([0.0, 1.0, 4.0], 5, True),
    ],
)
def test_unknown_categories_take_the_side_that_is_not_listed(
    left: list[float], n_categories: int, others_go_left: bool
) -> None:
    """CategoricalSplit lists the left side where it holds at most half of the categories, else the right one."""
    tree = _tree(nodes((0.0, [3.0, 3.0], 1, 2, 0, left, n_categories), leaf(3.0, 0.0), leaf(0.0, 3.0)), 2)
    goes_left, others = tree.categories[0]
    assert others is others_go_left
    assert np.flatnonzero(goes_left).tolist() == left
    assert np.isnan(tree.threshold[0])


def test_leaf_without_weight_adds_nothing_and_small_weights_are_shares() -> None:
    tree = _tree(nodes((0.0, [1.0, 1.0], 1, 2, 3, [0.5], -1), leaf(0.0, 0.0), leaf(0.1, 0.3)), 2)
    np.testing.assert_allclose(tree.value, [[0.5, 0.5], [0.0, 0.0], [0.25, 0.75]], rtol=1e-15)
    assert tree.categories == {}
    assert tree.threshold[0] == 0.5
    assert tree.depth == 1


def test_single_leaf_is_a_tree_of_depth_0() -> None:
    tree = _tree(nodes(leaf(5.0, prediction=1e300)), None)
    assert (tree.depth, tree.value.tolist(), tree.children.tolist()) == (0, [1e300], [[0, 0]])
