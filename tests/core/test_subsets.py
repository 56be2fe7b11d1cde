from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.sample import (
    Sample,
    combined_outputs,
    content_order,
    pack_outputs,
    subset_orders,
)
from ens_plugin.core.tally import RowBlock
from ens_plugin.errors import InputError

FloatArray = NDArray[np.float64]


class EveryOrder:
    """Stands in for a generator: its permutations are all orders, one after the other."""

    def __init__(self, n_members: int) -> None:
        self.orders = iter(permutations(range(n_members)))

    def permutation(self, n_members: int) -> NDArray[np.int64]:
        order = np.array(next(self.orders))
        assert order.size == n_members
        return order


def block(kind: str, n_members: int = 5, n_rows: int = 4) -> RowBlock:
    rng = np.random.default_rng(3)
    is_oob = np.ones((n_members, n_rows), dtype=bool)
    is_oob[0, 1] = is_oob[2, 2] = is_oob[3, 2] = False
    target = rng.integers(0, 3, n_rows)
    if kind == "labels":
        return RowBlock(rng.integers(0, 3, (n_members, n_rows)), is_oob, target, 3)
    if kind == "probabilities":
        return RowBlock(rng.dirichlet(np.ones(3), (n_members, n_rows)), is_oob, target, 3)
    return RowBlock(rng.normal(size=(n_members, n_rows)), is_oob, rng.normal(size=n_rows), 0)


def means_of(data: RowBlock, sizes: NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    """Means over subsets in the order of the rows, all of which have members."""
    packed = pack_outputs(data)
    return next(subset_orders(packed, sizes, 1, rng))[:, np.argsort(packed.rows)]


def said_by(data: RowBlock, row: int) -> FloatArray:
    """Outputs of the members that count for a row, votes as indicators."""
    outputs = data.outputs[data.counted[:, row], row]
    return np.asarray(np.eye(data.n_labels)[outputs] if data.outputs.ndim == 2 and data.n_labels else outputs)


def brute_mean(data: RowBlock, row: int, size: int, statistic: object) -> float:
    subsets = combinations(said_by(data, row), size)
    return float(np.mean([statistic(np.mean(subset, axis=0), data.target[row]) for subset in subsets]))  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["labels", "probabilities", "values"])
def test_mean_over_all_orders_is_the_mean_over_all_subsets(kind: str) -> None:
    """Of a square, which is not linear, so that the subsets must be the right ones."""
    data, sizes, rng = block(kind), np.array([1, 2, 3]), EveryOrder(5)
    squares = np.mean([means_of(data, sizes, rng) ** 2 for _ in range(120)], axis=0)  # type: ignore[arg-type]
    for row in range(4):
        for index, size in enumerate(sizes):
            subsets = combinations(said_by(data, row), size)
            expected = np.mean([np.mean(subset, axis=0) ** 2 for subset in subsets], axis=0)
            np.testing.assert_allclose(squares[index, row], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["labels", "probabilities", "values"])
def test_equal_rows_have_equal_means_at_every_size(kind: str) -> None:
    """Rankings count ties: means that a product of matrices rounds by the place of the row would break them."""
    rng = np.random.default_rng(0)
    n_members, n_alike = 60, 37
    tenths = rng.integers(0, 11, (n_members, 1)) / 10.0
    outputs = {"labels": (tenths > 0.5).astype(np.int8), "probabilities": np.stack([1.0 - tenths, tenths], axis=2)}
    alike = np.repeat(outputs.get(kind, tenths), n_alike, axis=1)
    counted = np.repeat(rng.random((n_members, 1)) < 0.9, n_alike, axis=1)
    block = RowBlock(alike, counted, np.zeros(n_alike, dtype=int), 0 if kind == "values" else 2)
    sizes = np.arange(1, 40)
    means = next(subset_orders(pack_outputs(block), sizes, 1, np.random.default_rng(1)))
    assert (means == means[:, :1]).all()
    if kind == "labels":
        votes = means[:, 0, 1] * sizes
        np.testing.assert_array_equal(means[:, 0, 1], np.round(votes) / sizes)


def test_each_subset_contains_the_one_before_and_the_last_is_all_members() -> None:
    data, sizes = block("values"), np.array([1, 2, 5])
    means = means_of(data, sizes, np.random.default_rng(0))
    np.testing.assert_allclose(means[2, [0, 3]], data.outputs[:, [0, 3]].mean(axis=0), rtol=1e-12)
    newcomer = 2 * means[1] - means[0]
    for row in range(4):
        assert np.isclose(data.outputs[:, row], newcomer[row]).any()


def test_rows_with_too_few_members_hold_nan() -> None:
    data = block("values")
    means = means_of(data, np.array([3, 4, 5, 9]), np.random.default_rng(0))
    expected = data.counted.sum(axis=0)[None] < np.array([3, 4, 5, 9])[:, None]
    np.testing.assert_array_equal(np.isnan(means), expected)


def test_subsets_are_of_the_row_s_own_members_whatever_the_others_hold() -> None:
    for kind in ("labels", "probabilities", "values"):
        data = block(kind)
        spoiled = np.where(data.counted.reshape(5, 4, *(1,) * (data.outputs.ndim - 2)), data.outputs, 2)
        other = RowBlock(spoiled, data.counted, data.target, data.n_labels)
        means = [means_of(rows, np.array([1, 2, 3]), np.random.default_rng(0)) for rows in (data, other)]
        np.testing.assert_array_equal(means[0], means[1])


def test_orders_hold_every_member_equally_often() -> None:
    """Of a linear statistic, as many orders as members leave no chance at any size."""
    rng = np.random.default_rng(0)
    data = RowBlock(rng.normal(size=(6, 5)), np.ones((6, 5), dtype=bool), np.zeros(5), 0)
    table = np.array([means.sum(axis=1) for means in subset_orders(pack_outputs(data), np.array([1, 2, 5]), 12, rng)])
    np.testing.assert_allclose(table.mean(axis=0), data.outputs.mean(axis=0).sum())
    assert np.ptp(table[:, 0]) > 0.1


def test_mean_outputs_average_the_members_that_count() -> None:
    for kind in ("labels", "probabilities", "values"):
        data = block(kind)
        expected = [said_by(data, row).mean(axis=0) for row in range(4)]
        np.testing.assert_allclose(Sample(data, np.arange(4), np.ones(4)).mean_outputs(), expected, rtol=1e-12)


def test_mean_output_without_any_member_is_zero_not_nan() -> None:
    data = RowBlock(np.ones((2, 1)), np.zeros((2, 1), dtype=bool), np.zeros(1), 0)
    np.testing.assert_array_equal(Sample(data, np.arange(1), np.ones(1)).mean_outputs(), [0.0])


def marked(rows: list[int]) -> Sample:
    """A sample whose output, target and weight all are the row's number in the whole data."""
    values = np.array(rows, dtype=np.float64)
    return Sample(RowBlock(values[None], np.ones((1, len(rows)), dtype=bool), values, 0), np.array(rows), values)


def test_select_takes_rows_with_all_that_is_theirs() -> None:
    part = marked([3, 5, 8]).select(np.array([2, 0]))
    for content in (part.rows, part.block.target, part.weight, part.block.outputs[0]):
        np.testing.assert_array_equal(content, [8, 3])


def test_keep_renumbers_the_rows_that_stay() -> None:
    usable = np.array([True, False, True, True, False, True, True])
    kept = marked([1, 2, 3, 6]).keep(usable)
    np.testing.assert_array_equal(kept.weight, [2, 3, 6])
    np.testing.assert_array_equal(kept.rows, [1, 2, 4])
    np.testing.assert_array_equal(np.flatnonzero(usable)[kept.rows], kept.weight)


@pytest.mark.parametrize("n_rows", [0, 4])
def test_rows_without_out_of_bag_members_have_no_subsets(n_rows: int) -> None:
    empty = RowBlock(np.zeros((3, n_rows)), np.zeros((3, n_rows), dtype=bool), np.zeros(n_rows), 0)
    with pytest.raises(InputError, match="None of the sampled rows is out of bag"):
        next(subset_orders(pack_outputs(empty), np.array([1]), 2, np.random.default_rng(0)))


def as_sample(data: RowBlock) -> Sample:
    n_rows = data.target.size
    own = RowBlock(data.outputs.copy(), data.counted.copy(), data.target, data.n_labels)
    return Sample(own, np.arange(n_rows), np.arange(1.0, n_rows + 1.0))


@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_a_sorted_sample_does_not_depend_on_the_order_of_the_rows(kind: str) -> None:
    data, order = block(kind, n_rows=30), np.random.default_rng(0).permutation(30)
    found, shuffled = as_sample(data).sort_by_content(), as_sample(data).select(order).sort_by_content()
    for own, other in zip(vars(found.block).values(), vars(shuffled.block).values(), strict=True):
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(found.rows, shuffled.rows)
    np.testing.assert_array_equal(found.weight, found.rows + 1.0)
    np.testing.assert_array_equal(found.block.outputs, data.outputs[:, found.rows])
    np.testing.assert_array_equal(found.block.counted, data.counted[:, found.rows])


@pytest.mark.parametrize("kind", ["labels", "probabilities", "values"])
def test_parts_of_a_sample_are_copied_to_their_places(kind: str) -> None:
    whole = as_sample(block(kind, n_rows=9))
    joined = whole.select(np.arange(1)).empty(9)
    for rows in np.split(np.arange(9), [2, 5]):
        whole.select(rows).copy_into(joined, int(rows[0]))
    for own, other in zip(vars(joined.block).values(), vars(whole.block).values(), strict=True):
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(joined.rows, whole.rows)
    np.testing.assert_array_equal(joined.weight, whole.weight)


def test_combinations_average_over_all_subsets_of_a_row_s_own_members() -> None:
    data, sizes = block("values"), np.array([1, 2, 3])

    def highest(outputs: FloatArray) -> FloatArray:
        return np.asarray(outputs.max(axis=0))

    packed = pack_outputs(data)
    orders = subset_orders(packed, sizes, 120, EveryOrder(5), highest)  # type: ignore[arg-type]
    found = np.mean(list(orders), axis=0)[:, np.argsort(packed.rows)]
    for row in range(4):
        for place, size in enumerate(sizes):
            expected = np.mean([max(subset) for subset in combinations(said_by(data, row), int(size))])
            assert found[place, row] == pytest.approx(expected, rel=1e-12)


def test_combined_outputs_are_of_the_members_that_count() -> None:
    data = block("values")
    data.counted[:, 3] = False
    found = combined_outputs(data, lambda outputs: np.median(outputs, axis=0))
    np.testing.assert_array_equal(found[:3], [np.median(said_by(data, row)) for row in range(3)])
    assert found[3] == 0.0


@pytest.mark.parametrize("n_labels", [2, 3, 7, 8, 20])
def test_rows_are_ordered_by_the_sums_over_labels_that_numpy_computes(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    outputs, counted = rng.normal(size=(9, 300, n_labels)), rng.random((9, 300)) < 0.6
    data = RowBlock(outputs, counted, rng.integers(0, n_labels, 300), n_labels)
    of_rows = np.random.default_rng(0)
    by_member, by_label = of_rows.random(9), of_rows.random(n_labels)
    place = np.zeros(300)
    for output, counts, factor in zip(outputs, counted, by_member, strict=True):
        place += (np.add.reduce(output * by_label, axis=-1) + 1.0) * factor * counts
    expected = np.lexsort((place, np.modf(place * 1e3)[0], data.target))
    np.testing.assert_array_equal(content_order(data), expected)
