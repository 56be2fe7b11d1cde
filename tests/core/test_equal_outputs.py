"""Rows that no member tells apart, of members whose kinds of rows are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import are_alike, are_few, merge_alike, output_cells
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock


def sample_of(outputs: NDArray[Any], n_labels: int, *, share: float = 0.37) -> Sample:
    counted = np.random.default_rng(5).random(outputs.shape[:2]) < share
    counted[:2] = True
    block = RowBlock(outputs, counted, np.zeros(outputs.shape[1], dtype=np.int64), n_labels)
    return Sample(block, np.arange(outputs.shape[1]), np.ones(outputs.shape[1]))


def votes_by_kind(kind: NDArray[np.int64], n_members: int, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 0.8, int(kind.max()) + 1)
    return np.asarray((rng.random((n_members, p.size)) < p).astype(np.int64)[:, kind])


@pytest.mark.parametrize("share", [0.37, 1.0])
def test_cells_are_the_kinds_of_rows(share: float) -> None:
    kind = np.random.default_rng(0).integers(0, 9, 300)
    sample = sample_of(votes_by_kind(kind, 200, 1), 2, share=share)
    assert are_alike(sample)
    cell = output_cells(sample.block)
    assert np.unique(np.column_stack([cell, kind]), axis=0).shape == (9, 2)
    assert np.array_equal(np.unique(cell), np.arange(9))


def test_cells_of_probabilities_are_the_kinds_of_rows() -> None:
    kind = np.random.default_rng(2).integers(0, 5, 120)
    outputs = np.random.default_rng(3).dirichlet([1.0, 1.0, 1.0], (60, 5))[:, kind]
    sample = sample_of(outputs, 3)
    assert are_alike(sample)
    cell = output_cells(sample.block)
    assert np.unique(np.column_stack([cell, kind]), axis=0).shape == (5, 2)


@pytest.mark.parametrize("n_members", [15, 50, 200])
def test_rows_of_their_own_are_not_alike(n_members: int) -> None:
    assert not are_alike(sample_of(votes_by_kind(np.arange(400), n_members, 4), 2))


def test_votes_are_alike_where_their_probabilities_are() -> None:
    """Of about 66 kinds of rows, half have four rows or more with close votes."""
    found = []
    for n_kinds in range(48, 90, 3):
        votes = votes_by_kind(np.random.default_rng(8).integers(0, n_kinds, 256), 60, 9)
        found.append(are_alike(sample_of(votes, 2)))
        assert found[-1] == are_alike(sample_of(np.eye(2)[votes], 2))
    assert found[0]
    assert not found[-1]


def test_pairs_of_rows_are_too_few() -> None:
    assert not are_alike(sample_of(votes_by_kind(np.arange(400) // 2, 200, 6), 2))


def test_rows_without_close_votes_do_not_count() -> None:
    kind = np.repeat([0, 1], [300, 100])
    outputs = np.where(kind == 0, 0, (np.random.default_rng(7).random((60, 400)) < 0.5).astype(np.int64))
    assert not are_alike(sample_of(outputs, 2))
    assert not are_alike(sample_of(np.zeros((60, 400), dtype=np.int64), 2))


def test_eight_of_ten_votes_are_not_close() -> None:
    """A mean margin of 0.6 with a deviation of 0.8: the runner-up leads at infinity in one case of 80; of seven, 10."""
    order = np.random.default_rng(10).permuted(np.tile(np.arange(10), (6, 1)), axis=1).T
    for n_second, is_close in ((2, False), (3, True)):
        votes = np.repeat((order < n_second).astype(np.int64), 30, axis=1)
        assert are_alike(sample_of(votes, 2, share=1.0)) == is_close


def test_rows_without_weight_do_not_count() -> None:
    kind = np.append(np.arange(100), np.full(200, 100))
    sample = sample_of(votes_by_kind(kind, 60, 11), 2)
    assert are_alike(sample)
    assert not are_alike(replace(sample, weight=(kind < 100).astype(np.float64)))


def test_every_member_counts_once_in_a_record() -> None:
    """With the outputs of all members that leave out any of its rows, and the weights of all."""
    kind = np.random.default_rng(0).integers(0, 3, 120)
    votes, weight = votes_by_kind(kind, 60, 1), np.where(kind == 1, 3.0, 1.0)
    found = merge_alike(replace(sample_of(votes, 2), weight=weight), kind)
    assert found.n_rows == 120
    records = found.sample
    np.testing.assert_array_equal(records.block.trials, [60, 60, 60])
    second = np.array([votes[:, kind == each][:, 0].sum() for each in range(3)])
    total = np.bincount(kind, weight)
    expected = sorted(zip(second, total, strict=True))
    assert sorted(zip(records.block.support[:, 1], records.weight, strict=True)) == expected
    np.testing.assert_array_equal(records.block.target, np.argmax(records.block.support, axis=1))


def test_records_do_not_depend_on_the_numbers_of_the_kinds() -> None:
    kind = np.random.default_rng(0).integers(0, 5, 100)
    sample = sample_of(votes_by_kind(kind, 60, 1), 2)
    one, other = merge_alike(sample, kind), merge_alike(sample, 7 - kind)
    np.testing.assert_array_equal(one.sample.block.outputs, other.sample.block.outputs)
    np.testing.assert_array_equal(one.sample.weight, other.sample.weight)


def test_rows_that_are_known_to_be_equal_are_merged_from_four_each_on() -> None:
    assert are_few(np.arange(400) % 100)
    assert not are_few(np.arange(400) % 101)
    own = sample_of(votes_by_kind(np.arange(400), 60, 4), 2)
    assert merge_alike(own, None) is None
    assert merge_alike(own, np.arange(400) % 101) is None


def test_rows_that_no_member_tells_apart_are_merged() -> None:
    kind = np.random.default_rng(0).integers(0, 9, 300)
    found = merge_alike(sample_of(votes_by_kind(kind, 200, 1), 2), None)
    assert sorted(found.sample.weight) == sorted(np.bincount(kind))
