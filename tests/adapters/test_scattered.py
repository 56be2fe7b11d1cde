"""Bags told row by row are those of all rows at once, and sums over parts prove them or refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.base import find_adapter
from ens_plugin.adapters.scattered import Sums, merge_sums
from ens_plugin.adapters.xgboost_draws import RowSampler, powers_at
from ens_plugin.errors import BagError, DataMismatchError
from tests.spark.cases import fitted, in_order, trained_on

NAMES = ("votes", "shares", "values", "bagging", "lightgbm", "xgboost", "xgboost_exact")


def codes(adapter: Any, y: Any) -> Any:
    return y if adapter.classes is None else np.searchsorted(adapter.classes, y)


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_any_order_have_the_bags_of_all_rows(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    adapter = find_adapter(fitted(name))
    whole = adapter.bags(X, adapter.prepare(X), y).in_bag()
    rows = np.random.default_rng(0).permutation(len(y))[:200]
    found = adapter.row_bags(len(y), 0).at(rows, codes(adapter, y)[rows]).in_bag()
    np.testing.assert_array_equal(found, whole[:, rows])


@pytest.mark.parametrize("name", NAMES)
def test_sums_of_all_parts_prove_the_bags_and_sums_of_some_do_not(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    adapter = find_adapter(fitted(name))
    target, row_bags = codes(adapter, y), adapter.row_bags(len(y), 0)
    sums = []
    for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 5):
        bags = row_bags.at(rows, target[rows])
        sums.append(row_bags.sums(adapter.prepare(X[rows]), target[rows], bags))
    row_bags.prove(merge_sums(sums))
    with pytest.raises((BagError, DataMismatchError)):
        row_bags.prove(merge_sums(sums[:-1]))


@pytest.mark.parametrize("name", NAMES)
def test_possible_draws_come_to_an_end(name: str) -> None:
    adapter = find_adapter(fitted(name))
    with pytest.raises(BagError):
        adapter.row_bags(len(trained_on(name)), 100)


def test_adapter_without_bags_by_position_says_so() -> None:
    from ens_plugin import CustomEnsemble

    adapter = find_adapter(CustomEnsemble(np.eye(2), np.eye(2, dtype=bool), aggregation="mean"))
    with pytest.raises(BagError, match="cannot be told from a row's position"):
        adapter.row_bags(2, 0)


def test_sums_of_several_trees_are_told_apart() -> None:
    """Tree 1 from tree 11, too."""
    trees = {tree: Sums({"rows": np.array([tree])}, {"lowest": np.array([-tree])}) for tree in (1, 11, 111)}
    merged = merge_sums([sums.named(tree) for tree, sums in trees.items()])
    for tree in trees:
        own = merged.of_tree(tree)
        assert own.added == {"rows": np.array([tree])}
        assert own.least == {"lowest": np.array([-tree])}
    assert merged.of_tree(2).added == {}


def test_powers_of_single_rows_are_those_of_all() -> None:
    rows = np.array([0, 1, 5, 1000, 4095])
    np.testing.assert_array_equal(powers_at(rows), RowSampler(4096, 0.5).powers[rows])
