"""Equal rows have equal hashes, and others have not, whatever their values are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from ens_plugin.analysis.copies import as_table, row_hashes


def groups_of(table: Any) -> list[list[int]]:
    """Rows with equal hashes, by their first."""
    hashes = row_hashes(table)[0].tolist()
    return [[row for row, found in enumerate(hashes) if found == value] for value in dict.fromkeys(hashes)]


@pytest.mark.parametrize(
    "column",
    [
        [1.5, 2.5, 1.5], [0.0, 1.0, -0.0], [np.nan, 1.0, np.nan], [1, 2, 1], [True, False, True],
        ["anna", "ben", "anna"], ["anna", None, "anna"], [None, "anna", np.nan], [("a", 1), ("a", 2), ("a", 1)],
        [["a"], ["b"], ["a"]], pd.Categorical(["u", "v", "u"]), pd.array([1, None, 1], dtype="Int64"),
        pd.array(["a", None, "a"], dtype="string"), pd.to_datetime(["2020-01-01", None, "2020-01-01"]),
        pd.arrays.SparseArray([0.0, 3.0, 0.0]),
    ],
    ids=str,
)  # fmt: skip
def test_first_and_last_row_are_equal_in_any_kind_of_column(column: Any) -> None:
    frame = pd.DataFrame({"a": pd.Series(column), "b": [1.0, 1.0, 1.0]})
    assert groups_of(frame) == [[0, 2], [1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, np.int64, bool, object])
def test_arrays_of_any_type(dtype: type) -> None:
    rows = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).astype(dtype)
    assert groups_of(rows) == [[0, 2], [1], [3]]


def test_order_of_columns_and_of_memory() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (200, 3)).astype(float)
    assert np.array_equal(row_hashes(rows), row_hashes(np.asfortranarray(rows)))
    assert row_hashes(rows[:, ::-1])[0][0] != row_hashes(rows)[0][0]
    assert len(np.unique(row_hashes(rows)[0])) == len(np.unique(rows, axis=0))


def test_blocks_and_sets_of_columns() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (3000, 40)).astype(float)
    chosen = np.random.default_rng(1).random((3, 40)) < 0.3
    expected = [row_hashes(np.where(columns, rows, 0.0))[0] for columns in chosen]
    assert np.array_equal(row_hashes(rows, chosen), expected)
    assert np.array_equal(row_hashes(sparse.csr_matrix(rows), chosen), expected)


def test_sparse_rows_are_hashed_as_dense_ones() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (50, 4)).astype(float)
    stored_zero = sparse.csr_matrix(rows)
    stored_zero[0, 0] = 1.0
    stored_zero[0, 0] = rows[0, 0]
    empty = sparse.csr_matrix((5, 4))
    assert np.array_equal(row_hashes(stored_zero), row_hashes(rows))
    assert groups_of(empty) == [[0, 1, 2, 3, 4]]


def test_rows_that_are_no_table() -> None:
    assert as_table(np.eye(3), None) is None
    assert as_table(np.arange(3), [1, 2, 3]) is None
    assert as_table(np.eye(3), [[1.0]]).shape == (3, 3)
    assert as_table(object(), [[1.0]]) is None
    assert as_table(object(), pd.DataFrame({"a": [1]})).shape == (1, 1)
    assert as_table(None, sparse.coo_matrix(np.eye(2))).format == "csr"
