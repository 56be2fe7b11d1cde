"""Copies among rows that are spread over many blocks; no Spark is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.analysis.copies import find_repeats, hash_rows
from ens_plugin.spark import partition as repeats
from ens_plugin.spark.partition import copies_finding, merge_marks, repeated_shares, row_marks


def marks_of(X: NDArray[Any], y: NDArray[Any], n_blocks: int = 5, seed: int = 0) -> NDArray[np.uint64]:
    blocks = np.array_split(np.random.default_rng(seed).permutation(y.size), n_blocks)
    return merge_marks([row_marks(None, X[block], y[block], y.size) for block in blocks])


def copies(n_rows: int = 300, times: int = 5) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    return np.repeat(rng.normal(size=(n_rows, 4)), times, axis=0), np.repeat(rng.integers(0, 2, n_rows), times)


def binary(n_rows: int = 2000) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n_rows, 8)).astype(float)
    return X, (rng.random(n_rows) < 0.2 + 0.6 * X[:, 0]).astype(int)


def test_copies_are_doubted() -> None:
    n_repeated, (doubt,) = copies_finding(marks_of(*copies()), 1500)
    assert n_repeated == 1500
    assert "About 1e+02 % of 1500 rows look like copies" in doubt.sentence


def test_rows_that_are_equal_by_chance_are_let_pass() -> None:
    X, y = binary()
    expected = np.count_nonzero(find_repeats(hash_rows(None, X), y).repeated)
    assert copies_finding(marks_of(X, y), y.size) == (expected, ())


def test_some_copies_are_doubted() -> None:
    X, y = copies(300, 1)
    rows = np.append(np.arange(300), np.repeat(np.arange(8), 3))
    n_repeated, doubts = copies_finding(marks_of(X[rows], y[rows]), rows.size)
    assert n_repeated == 32
    assert len(doubts) == 1
    assert "look like copies" in str(doubts[0])


def test_all_rows_decide_where_they_are_few() -> None:
    X, y = copies()
    marks, found = marks_of(X, y), find_repeats(hash_rows(None, X), y)
    assert len(copies_finding(marks, 1500, lambda: found)[1]) == 1
    assert copies_finding(marks, 1500, lambda: replace(found, copied=np.zeros(1500, dtype=bool))) == (1500, ())


def test_rows_without_repeats_and_held_out_rows() -> None:
    assert copies_finding(marks_of(*copies(times=1)), 300) == (0, ())
    assert copies_finding(None, 300) == (0, ())


def test_blocks_do_not_matter() -> None:
    X, y = binary()
    np.testing.assert_array_equal(marks_of(X, y), marks_of(X, y, 1, 3))


@pytest.mark.parametrize("data", [copies(), binary(), copies(1500, 1)], ids=["copies", "chance", "single"])
def test_a_sample_of_hashes_tells_the_same(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data
    whole = repeated_shares(marks_of(X, y))
    monkeypatch.setattr(repeats, "MARKED_ROWS", 400)
    sampled = marks_of(X, y)
    assert sampled.shape[1] < 0.6 * 9 * y.size
    assert repeated_shares(sampled) == pytest.approx(whole, abs=0.12)
