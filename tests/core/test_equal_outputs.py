"""Rows that no member tells apart, of members whose kinds of rows are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import are_alike, output_cells
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
    assert cell is not None
    assert np.unique(np.column_stack([cell, kind]), axis=0).shape == (9, 2)
    assert np.array_equal(np.unique(cell), np.arange(9))


def test_cells_of_probabilities_are_the_kinds_of_rows() -> None:
    kind = np.random.default_rng(2).integers(0, 5, 120)
    outputs = np.random.default_rng(3).dirichlet([1.0, 1.0, 1.0], (60, 5))[:, kind]
    sample = sample_of(outputs, 3)
    assert are_alike(sample)
    cell = output_cells(sample.block)
    assert cell is not None
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


def test_cells_are_given_up_where_there_are_too_many() -> None:
    outputs = np.random.default_rng(8).integers(0, 2, (80, 1200))
    assert output_cells(sample_of(outputs, 2, share=1.0).block) is None
