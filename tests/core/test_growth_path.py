from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.tally import CHUNK, PathTally, RowBlock, merge_paths, tally_path

FloatArray = NDArray[np.float64]

N_MEMBERS, N_ROWS, N_LABELS = 6, 2 * CHUNK + 40, 3


def block(kind: str) -> RowBlock:
    rng = np.random.default_rng(0)
    is_oob = rng.random((N_MEMBERS, N_ROWS)) < 0.4
    target = rng.integers(0, N_LABELS, N_ROWS)
    if kind == "labels":
        return RowBlock(rng.integers(0, N_LABELS, (N_MEMBERS, N_ROWS)), is_oob, target, N_LABELS)
    if kind == "probabilities":
        return RowBlock(rng.dirichlet(np.ones(N_LABELS), (N_MEMBERS, N_ROWS)), is_oob, target, N_LABELS)
    return RowBlock(rng.normal(size=(N_MEMBERS, N_ROWS)), is_oob, rng.normal(size=N_ROWS), 0)


def brute_force(data: RowBlock, weight: FloatArray) -> list[float]:
    """Row by row: the mean output of the out-of-bag members among the first T, and its loss."""
    curve = []
    for size in range(1, N_MEMBERS + 1):
        losses, weights = [], []
        for row in range(data.target.size):
            outputs = data.outputs[:size, row][data.counted[:size, row]]
            if len(outputs) == 0:
                continue
            if data.n_labels and outputs.ndim == 1:
                outputs = np.eye(data.n_labels)[outputs]
            mean = outputs.mean(axis=0)
            truth = data.target[row]
            losses.append(float(np.argmax(mean) != truth) if data.n_labels else (mean - truth) ** 2)
            weights.append(weight[row])
        curve.append(float(np.average(losses, weights=weights)))
    return curve


@pytest.mark.parametrize("kind", ["labels", "probabilities", "values"])
def test_path_scores_each_row_by_its_members_so_far(kind: str) -> None:
    data, weight = block(kind), np.random.default_rng(1).random(N_ROWS)
    np.testing.assert_allclose(tally_path(data, weight).curve(), brute_force(data, weight), rtol=1e-12)


@pytest.mark.parametrize("kind", ["labels", "probabilities", "values"])
def test_blocks_of_whole_chunks_change_no_bit(kind: str) -> None:
    data, weight = block(kind), np.random.default_rng(1).random(N_ROWS)
    parts = []
    for start, stop in [(0, CHUNK), (CHUNK, 2 * CHUNK), (2 * CHUNK, N_ROWS)]:
        rows = slice(start, stop)
        part = RowBlock(data.outputs[:, rows], data.counted[:, rows], data.target[rows], data.n_labels)
        parts.append(tally_path(part, weight[rows]))
    whole = tally_path(data, weight)
    merged = merge_paths(parts)
    np.testing.assert_array_equal(merged.loss, whole.loss)
    np.testing.assert_array_equal(merged.weight, whole.weight)
    np.testing.assert_array_equal(merged.curve(), whole.curve())


def test_first_of_tied_labels_wins_as_in_predict() -> None:
    votes = np.array([[1, 1], [0, 0]])
    data = RowBlock(votes, np.ones((2, 2), dtype=bool), np.array([0, 1]), 2)
    np.testing.assert_array_equal(tally_path(data, np.ones(2)).curve(), [0.5, 0.5])
    first_row = RowBlock(votes[:, :1], np.ones((2, 1), dtype=bool), np.array([0]), 2)
    np.testing.assert_array_equal(tally_path(first_row, np.ones(1)).curve(), [1.0, 0.0])


def test_no_row_yet_is_nan_not_zero() -> None:
    data = RowBlock(np.array([[0], [1]]), np.array([[False], [True]]), np.array([1]), 2)
    np.testing.assert_array_equal(tally_path(data, np.ones(1)).curve(), [np.nan, 0.0])


def test_rows_of_weight_zero_do_not_count() -> None:
    curve = PathTally(np.array([[0.0]]), np.array([[0.0]])).curve()
    assert np.isnan(curve).all()
