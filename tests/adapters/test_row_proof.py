from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.adapters.tree_table import FlatTree, TreeTable, chance_of_draws, count_rows, proved_trees
from ens_plugin.core.bags import Bags

STUMP = FlatTree(*np.array([[1, -1, -1], [2, -1, -1], [0, 0, 0], [0.5, 0, 0]]))
ALONE = FlatTree(*np.array([[-1], [-1], [0], [0]]))
LEAVES = np.array([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]])
IN_BAG = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], dtype=bool)


def table_of(*covers: list[float]) -> TreeTable:
    trees = [ALONE if len(own) == 1 else STUMP for own in covers]
    by_node = [np.array(own if len(own) == 1 else [0, *own]) for own in covers]
    return TreeTable(trees, values=[], covers=by_node)


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_rows_are_counted_in_the_bag_of_each_tree_and_in_all(n_blocks: int) -> None:
    table, padded = table_of([0, 0], [0], [0, 0]), np.tile(LEAVES, 16)
    blocks = [(slice(start, start + 80 // n_blocks), padded[:, start : start + 80 // n_blocks]) for start in (0, 40)]
    bags = Bags.from_mask(np.tile(IN_BAG, 16))
    in_bag, every = count_rows(table, bags, np.array([0, 1, 1]), blocks[:n_blocks])
    assert (in_bag // 16).tolist() == [2, 1, 4, 3, 1]
    assert (every // 16).tolist() == [2, 3, 5, 3, 2]


def test_a_tree_is_proved_where_all_its_leaves_have_their_cover() -> None:
    table = table_of([2, 1], [4], [3, 1])
    assert proved_trees(table, np.array([2, 1, 4, 3, 2])).tolist() == [True, True, False]
    nearly = np.array([2.01, 1, 4, 3, 1.2])
    assert proved_trees(table, nearly).tolist() == [False, True, False]
    assert proved_trees(table, nearly, np.array([0.01, 0.0, 0.1])).tolist() == [True, True, False]
    assert proved_trees(table, nearly, 0.2).all()


def test_chances_multiply_over_draws_and_trees_of_one_draw_count_once() -> None:
    chances = np.array([0.5, 0.25, 0.1, 1.0])
    assert chance_of_draws(np.log(chances), np.arange(4), 1) == pytest.approx(0.0125)
    assert chance_of_draws(np.log(chances), np.array([0, 0, 1, 1]), 3) == pytest.approx(0.075)
