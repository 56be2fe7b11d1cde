from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin._kernel.tree import FlatTree
from ens_plugin.adapters import trees as row_queues
from ens_plugin.adapters.tree_table import count_leaves
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL

N_FEATURES = 5


def forest_of(trees: list[FlatTree], dtype: Any = np.float64, **options: Any) -> Any:
    from ens_plugin._kernel.forest import Forest

    return Forest(trees, N_FEATURES, dtype, **options)


def numbers(trees: list[FlatTree]) -> list[NDArray[np.int32]]:
    return [np.arange(tree.left.size, dtype=np.int32) for tree in trees]


def grown(rng: np.random.Generator, n_splits: int, *, with_sets: bool = False) -> FlatTree:
    """A random tree, whose nodes are in the order in which they were split."""
    n_nodes = 2 * n_splits + 1
    left, right = np.full((2, n_nodes), -1)
    leaves = [0]
    for split in range(n_splits):
        own = leaves.pop(int(rng.integers(len(leaves))))
        left[own], right[own] = 2 * split + 2, 2 * split + 1
        leaves += [2 * split + 1, 2 * split + 2]
    sets, starts, words = None, None, None
    if with_sets:
        sets = np.where((rng.random(n_nodes) < 0.5) & (left >= 0), np.arange(n_nodes), -1)
        starts = np.concatenate([[0], np.cumsum(rng.integers(0, 3, n_nodes))])
        words = rng.integers(2**32, size=starts[-1], dtype=np.uint32)
    feature = rng.integers(0, N_FEATURES, n_nodes)
    return FlatTree(
        left, right, feature, rng.normal(size=n_nodes).round(1), rng.random(n_nodes) < 0.5, sets, starts, words
    )


def walked(tree: FlatTree, row: NDArray[Any], least: float = 0.0) -> int:
    """Return the leaf of one row, by one comparison after the other."""
    node = 0
    while tree.left[node] >= 0:
        x = float(row[tree.feature[node]])
        if np.isnan(x):
            goes_left = bool(tree.missing_left[node])
        elif tree.sets is not None and tree.set_starts is not None and tree.sets[node] >= 0:
            assert tree.set_words is not None
            start, stop = tree.set_starts[tree.sets[node] : tree.sets[node] + 2]
            known = least <= x < 32 * (stop - start)
            goes_left = known and bool(tree.set_words[start + int(x) // 32] >> np.uint32(int(x) % 32) & np.uint32(1))
        else:
            goes_left = x <= tree.threshold[node]
        node = int((tree.left if goes_left else tree.right)[node])
    return node


def rows_of(rng: np.random.Generator, n_rows: int, dtype: Any) -> NDArray[Any]:
    X = np.where(rng.random((n_rows, N_FEATURES)) < 0.5, rng.normal(size=(n_rows, N_FEATURES)).round(1), 0)
    X[rng.random(X.shape) < 0.2] = rng.integers(0, 70)
    X[rng.random(X.shape) < 0.05] = rng.choice([np.inf, -np.inf, -0.5, 1e300 if dtype == np.float64 else 3e38])
    return X.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("with_sets", [False, True])
def test_every_leaf_is_the_one_that_comparisons_lead_to(dtype: Any, with_missing: bool, with_sets: bool) -> None:
    rng = np.random.default_rng(3)
    trees = [grown(rng, n_splits, with_sets=with_sets) for n_splits in (0, 1, 2, 30, 200)]
    X = rows_of(rng, 150, dtype)
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    forest = forest_of(trees, dtype)
    expected = [[walked(tree, row) for row in X] for tree in trees]
    np.testing.assert_array_equal(forest.read(X, forest.table(numbers(trees))), expected)


def test_thresholds_between_two_numbers_of_float32_are_rounded_down() -> None:
    below, above = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    for threshold, expected in ((float(below), [1, 2]), ((float(below) + float(above)) / 2, [1, 2]), (1e300, [1, 1])):
        tree = FlatTree(*np.array([[1, -1, -1], [2, -1, -1], [0, 0, 0], [threshold, 0, 0], [0, 0, 0]]))
        forest = forest_of([tree], np.float32)
        X = np.zeros((2, N_FEATURES), np.float32)
        X[:, 0] = below, above
        assert forest.read(X, forest.table(numbers([tree])))[0].tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_splits", [1, 600])
def test_no_number_is_up_to_a_threshold_that_is_not_one(dtype: Any, n_splits: int) -> None:
    rng = np.random.default_rng(11)
    tree = grown(rng, n_splits)
    tree.threshold[rng.random(tree.threshold.size) < 0.2] = np.nan
    tree.threshold[0] = np.nan
    X = rows_of(rng, 100, dtype)
    expected = [[walked(tree, row) for row in X]]
    forest = forest_of([tree], dtype)
    np.testing.assert_array_equal(forest.read(X, forest.table(numbers([tree]))), expected)


@pytest.mark.parametrize("least", [0.0, float(np.nextafter(-1.0, 0.0))])
def test_numbers_below_the_least_category_go_right(least: float) -> None:
    tree = grown(np.random.default_rng(0), 40, with_sets=True)
    X = np.repeat(np.array([[-1.0], [-0.5], [-0.0], [0.5], [31.0], [32.0], [3e9], [-np.inf]]), N_FEATURES, axis=1)
    forest = forest_of([tree], least_category=least)
    assert forest.read(X, forest.table(numbers([tree])))[0].tolist() == [walked(tree, row, least) for row in X]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float64])
def test_only_wanted_leaves_of_some_trees_are_read_from_a_table(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    trees = [grown(rng, 20) for _ in range(6)]
    X, wanted = rows_of(rng, 40_000, np.float64), rng.random((3, 40_000)) < 0.37
    values = [rng.integers(1, 200, tree.left.size).astype(dtype) for tree in trees]
    forest = forest_of(trees)
    leaves = forest.read(X, forest.table(numbers(trees)), range(2, 5))
    found = forest.read(X, forest.table(values), range(2, 5), wanted)
    expected = np.stack([own.take(reached) for own, reached in zip(values[2:5], leaves, strict=True)])
    np.testing.assert_array_equal(found, np.where(wanted, expected, 0))
    assert found.dtype == dtype


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("n_rows", [9, 16, 700])
def test_rows_that_walk_large_trees_together_reach_the_leaves_that_comparisons_lead_to(
    with_missing: bool, n_rows: int
) -> None:
    """Trees have more leaves than the search by bits takes; the rows fill neither the last vector nor the last part."""
    rng = np.random.default_rng(7)
    trees = [grown(rng, n_splits) for n_splits in (0, 3, 400, 900)]
    X, wanted = rows_of(rng, n_rows, np.float32), rng.random((4, n_rows)) < 0.37
    wanted[2] = False
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    forest = forest_of(trees, np.float32)
    expected = np.array([[walked(tree, row) for row in X] for tree in trees])
    np.testing.assert_array_equal(forest.read(X, forest.table(numbers(trees))), expected)
    labels = [rng.integers(1, 200, tree.left.size).astype(np.uint8) for tree in trees]
    found = forest.read(X, forest.table(labels), wanted=wanted)
    reached = np.stack([own.take(leaves) for own, leaves in zip(labels, expected, strict=True)])
    np.testing.assert_array_equal(found, np.where(wanted, reached, 0))


def stopped(values: NDArray[Any], checkpoints: list[int], lower: Any, upper: Any) -> tuple[float, int]:
    """Add up one row's values of the trees, one after the other, until the bounds settle it."""
    total = 0.0
    for n_trees, value in enumerate(values, start=1):
        total += value
        if n_trees in checkpoints:
            place = checkpoints.index(n_trees)
            if total <= lower[place] or total >= upper[place]:
                return total, n_trees
    return total, len(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_sets", [False, True])
def test_trees_are_added_up_in_turn_until_a_row_is_settled(dtype: Any, with_sets: bool) -> None:
    rng = np.random.default_rng(9)
    trees = [grown(rng, int(rng.integers(0, 60)), with_sets=with_sets) for _ in range(150)]
    X = rows_of(rng, 200, dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    forest, values = forest_of(trees, dtype), [rng.normal(size=tree.left.size) for tree in trees]
    checkpoints, bound = [3, 4, 20, 100, 150], np.array([2.0, 2.0, 6.0, 15.0, 1e9])
    stopping = forest.stopping(forest.table(values), np.array(checkpoints), -bound, bound)
    totals, n_trees = stopping.sums(X)
    of_row = [[own[walked(tree, row)] for own, tree in zip(values, trees, strict=True)] for row in X]
    expected = [stopped(own, checkpoints, -bound, bound) for own in of_row]
    assert list(zip(totals.tolist(), n_trees.tolist(), strict=True)) == expected
    assert len(set(n_trees.tolist())) >= 4


def test_checkpoints_that_do_not_ascend_to_all_trees_are_refused() -> None:
    tree = grown(np.random.default_rng(0), 3)
    forest = forest_of([tree, tree])
    table = forest.table([np.zeros(tree.left.size)] * 2)
    for checkpoints in ([1], [2, 2], [0, 2], [], [1, 2, 3]):
        bounds = np.zeros(len(checkpoints))
        with pytest.raises(ValueError, match="checkpoints"):
            forest.stopping(table, np.array(checkpoints, int), bounds, bounds)
    with pytest.raises(ValueError, match="two bounds"):
        forest.stopping(table, np.array([1, 2]), np.zeros(2), np.zeros(1))
    with pytest.raises(ValueError, match="table"):
        forest.stopping(table[1:], np.array([2]), np.zeros(1), np.zeros(1))


def test_threads_find_what_one_thread_finds() -> None:
    rng = np.random.default_rng(6)
    trees = [grown(rng, 300) for _ in range(5)]
    X = rows_of(rng, 5000, np.float32)
    forest = forest_of(trees, np.float32)
    table = forest.table(numbers(trees))
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda start: forest.read(X[start : start + 500], table), range(0, 5000, 500))
        np.testing.assert_array_equal(np.concatenate(list(parts), axis=1), forest.read(X, table))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [64, 255, 256, 700])
@pytest.mark.parametrize("with_missing", [False, True])
def test_the_search_by_bits_finds_what_comparisons_lead_to(dtype: Any, n_rows: int, with_missing: bool) -> None:
    rng = np.random.default_rng(n_rows)
    trees = [grown(rng, n_splits) for n_splits in (0, 255, 1, 2, 63, 255, 30, 100)]
    X, wanted = rows_of(rng, n_rows, dtype), rng.random((5, n_rows)) < 0.4
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    forest = forest_of(trees, dtype)
    assert forest._slices.is_shorter(range(2, 7), n_rows)
    expected = np.array([[walked(tree, row) for row in X] for tree in trees])
    for own in (np.uint16, np.int32, np.float64):
        table = forest.table([np.arange(tree.left.size).astype(own) for tree in trees])
        np.testing.assert_array_equal(forest.read(X, table), expected)
        np.testing.assert_array_equal(forest.read(X, table, range(2, 7), wanted), np.where(wanted, expected[2:7], 0))


@pytest.mark.parametrize("n_rows", [1, 9, 700])
def test_rows_of_each_leaf_are_those_that_numpy_counts(n_rows: int) -> None:
    rng = np.random.default_rng(8)
    trees = [grown(rng, n_splits) for n_splits in (0, 255, 1, 60)]
    X, in_bag = rows_of(rng, n_rows, np.float32), rng.random((2, n_rows)) < 0.6
    forest, bag_of = forest_of(trees, np.float32), np.array([1, 0, 0, 1])
    found = forest.count(X, np.packbits(in_bag, axis=1), bag_of)
    edges = np.cumsum([tree.left.size for tree in trees])[:-1]
    parts = [np.split(own, edges) for own in found]
    leaves = forest.read(X, forest.table(numbers(trees)))
    for tree, bag, reached, drawn, every in zip(trees, bag_of, leaves, *parts, strict=True):
        expected = count_leaves(reached.astype(np.uint16), in_bag[bag], tree.left.size)
        np.testing.assert_array_equal((drawn, every), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 9, 256, 700])
@pytest.mark.parametrize("with_bags", [False, True])
def test_sums_of_values_are_those_of_the_values_of_each_row(dtype: Any, n_rows: int, with_bags: bool) -> None:
    from ens_plugin._kernel.outputs import value_sums

    rng = np.random.default_rng(n_rows)
    trees = [grown(rng, n_splits) for n_splits in (0, 255, 1, 2, 63, 100)]
    X, in_bag = rows_of(rng, n_rows, dtype), rng.random((6, n_rows)) < 0.6
    X[rng.random(X.shape) < 0.1] = np.nan
    # Whole numbers, so that some values are 0 and some sums are those of one tree.
    forest, values = forest_of(trees, dtype), [rng.normal(size=tree.left.size).round() for tree in trees]
    if n_rows > 9:
        values = [own * 1.1 for own in values]
    table = forest.table(values)
    outputs = np.array([[own[walked(tree, row)] for row in X] for own, tree in zip(values, trees, strict=True)])
    counted = ~in_bag if with_bags else np.ones_like(in_bag)
    found = forest.value_sums(X, table, np.packbits(in_bag, axis=1) if with_bags else None)
    np.testing.assert_array_equal(found, value_sums(outputs, counted))
    if with_bags:
        bits = np.packbits(in_bag, axis=1)
        *counts, sums = forest.count_and_sum(X, table, bits)
        np.testing.assert_array_equal(sums, found)
        np.testing.assert_array_equal(counts, forest.count(X, bits, np.arange(6)))
    with pytest.raises(ValueError, match="bits"):
        forest.value_sums(X, table, np.zeros((5, 1), np.uint8))
    with pytest.raises(ValueError, match="table"):
        forest.value_sums(X, table[1:], None)


def test_large_trees_are_not_added_up() -> None:
    tree = grown(np.random.default_rng(0), 256)
    forest = forest_of([tree])
    with pytest.raises(ValueError, match="too large"):
        forest.value_sums(np.zeros((2, N_FEATURES)), forest.table([np.zeros(tree.left.size)]), None)
    with pytest.raises(ValueError, match="too large"):
        forest.count_and_sum(
            np.zeros((2, N_FEATURES)), forest.table([np.zeros(tree.left.size)]), np.zeros((1, 1), np.uint8)
        )


def test_nodes_that_no_path_leads_to_change_no_leaf() -> None:
    tree = grown(np.random.default_rng(0), 40)
    cut = tree._replace(left=tree.left.copy(), right=tree.right.copy())
    cut.left[1] = cut.right[1] = -1
    X = rows_of(np.random.default_rng(1), 200, np.float64)
    forest = forest_of([cut] * 9)
    expected = [walked(cut, row) for row in X]
    assert forest._slices.is_shorter(range(9), 200)
    np.testing.assert_array_equal(forest.read(X, forest.table(numbers([cut] * 9))), [expected] * 9)
    _, every = forest.count(X, np.zeros((1, 25), np.uint8), np.zeros(9, int))
    np.testing.assert_array_equal(every, np.tile(np.bincount(expected, minlength=cut.left.size), 9))


def test_trees_that_the_search_by_bits_does_not_take_are_not_counted() -> None:
    rng = np.random.default_rng(9)
    endless = grown(rng, 3)
    endless.threshold[0] = np.nan
    for tree in (grown(rng, 256), grown(rng, 20, with_sets=True), endless):
        forest, X = forest_of([tree]), rows_of(rng, 70, np.float64)
        assert not forest.counts_leaves
        assert forest.read(X, forest.table(numbers([tree])))[0].tolist() == [walked(tree, row) for row in X]
        with pytest.raises(ValueError, match="too large"):
            forest.count(X, np.zeros((1, 9), np.uint8), np.zeros(1, int))


@pytest.mark.parametrize("n_rows", [1, 31, 100])
def test_values_move_as_numpy_moves_them(n_rows: int) -> None:
    from ens_plugin._kernel.outputs import move_values

    rng = np.random.default_rng(n_rows)
    values, taken, filled = rng.random((40, n_rows)), *(rng.random((2, 40, n_rows)) < [[[0.5]], [[0.45]]])
    filled &= np.cumsum(filled, axis=0) <= taken.sum(axis=0)
    outputs, expected = np.empty((2, 40, 3, n_rows))
    for label in range(3):
        move_values(values + label, taken, outputs[:, label], filled)
        row_queues.move_values(values + label, taken, expected[:, label], filled)
    np.testing.assert_array_equal(outputs.swapaxes(1, 2)[filled], expected.swapaxes(1, 2)[filled])
    for row in range(n_rows):
        moved = outputs[filled[:, row], 1, row]
        np.testing.assert_array_equal(moved, (values + 1)[taken[:, row], row][: moved.size])
    for wrong in (outputs[:, 0, ::2], outputs[:, 0, :0], outputs[:, 0].astype(np.float32)):
        with pytest.raises(ValueError, match="output"):
            move_values(values[:, : wrong.shape[1]], taken[:, : wrong.shape[1]], wrong, filled)


@pytest.mark.parametrize("n_rows", [1, 32, 100])
def test_values_of_leaves_move_as_the_values_of_rows(n_rows: int) -> None:
    from ens_plugin._kernel.outputs import move_values

    rng = np.random.default_rng(n_rows)
    leaves, of_leaf = rng.integers(0, 7, (40, n_rows), dtype=np.uint8), rng.random((40, 7))
    taken, filled = rng.random((2, 40, n_rows)) < [[[0.5]], [[0.45]]]
    filled &= np.cumsum(filled, axis=0) <= taken.sum(axis=0)
    outputs, expected = np.empty((2, 40, n_rows))
    move_values(of_leaf, taken, outputs, filled, leaves)
    move_values(np.take_along_axis(of_leaf, leaves.astype(int), axis=1), taken, expected, filled)
    np.testing.assert_array_equal(outputs[filled], expected[filled])
    assert filled.any()
    leaves[-1, 0] = 7
    for own, wrong in ((of_leaf, leaves), (of_leaf[1:], leaves - leaves), (of_leaf, leaves[1:])):
        with pytest.raises(ValueError, match="values"):
            move_values(own, taken, outputs, filled, wrong)


@pytest.mark.parametrize("kinds", [(np.int32, np.int32), (np.int64, np.int32)])
def test_a_visit_of_each_tree_changes_nothing(kinds: tuple[Any, Any]) -> None:
    """Nor do children of several types and columns in steps."""
    rng = np.random.default_rng(4)
    trees = [grown(rng, 5 + place) for place in range(4)]
    trees = [
        tree._replace(left=tree.left.astype(kinds[place % 2]), feature=tree.feature[::-1].copy()[::-1])
        for place, tree in enumerate(trees)
    ]
    visited: list[int] = []
    plain, seen = forest_of(trees), forest_of(trees, visit=visited.append)
    X = rows_of(rng, 90, np.float64)
    found = [forest.read(X, forest.table(numbers(trees))) for forest in (plain, seen)]
    np.testing.assert_array_equal(*found)
    assert visited == [0, 1, 2, 3]
    assert found[0][3].tolist() == [walked(trees[3], row) for row in X]


def test_few_trees_of_many_columns_are_walked_node_by_node() -> None:
    trees = [grown(np.random.default_rng(seed), 60) for seed in range(N_FEATURES)]
    assert forest_of(trees).counts_leaves
    assert not forest_of(trees[1:]).counts_leaves
    assert not forest_of(trees)._slices.is_shorter(range(N_FEATURES), 63)


def test_bags_of_other_shapes_are_refused() -> None:
    forest, X = forest_of([grown(np.random.default_rng(0), 3)]), np.zeros((9, N_FEATURES))
    for bits, bag_of in ((np.zeros((1, 1)), [0]), (np.zeros((1, 2)), [1]), (np.zeros((1, 2)), [0, 0])):
        with pytest.raises(ValueError, match="bag"):
            forest.count(X, bits.astype(np.uint8), np.array(bag_of))


@pytest.mark.parametrize(
    ("field", "values"),
    [("left", [1, 0, -1]), ("left", [3, -1, -1]), ("right", [-1, -1, -1]), ("feature", [N_FEATURES, 0, 0])],
)
def test_links_that_do_not_lead_to_leaves_are_refused(field: str, values: list[int]) -> None:
    tree = FlatTree(*np.array([[1, -1, -1], [2, -1, -1], [0, 0, 0], [0.5, 0, 0], [0, 0, 0]]))
    with pytest.raises(ValueError, match="links of tree 1"):
        forest_of([tree, tree._replace(**{field: np.array(values)})])


def test_arrays_of_other_shapes_are_refused() -> None:
    tree = grown(np.random.default_rng(0), 3)
    forest = forest_of([tree])
    table, X = forest.table(numbers([tree])), np.zeros((4, N_FEATURES))
    for rows, own, trees, wanted in (
        (X[:, 1:], table, None, None),
        (X, table[1:], None, None),
        (X, table, range(0, 2), None),
        (X, table, None, np.ones((2, 4), dtype=bool)),
    ):
        with pytest.raises(ValueError, match=r"columns|table|range|wanted"):
            forest.read(rows, own, trees, wanted)
    with pytest.raises(ValueError, match="one entry for each node"):
        forest_of([tree._replace(threshold=tree.threshold[1:])])
    with pytest.raises(ValueError, match="one number"):
        forest.table([np.zeros(3)])
