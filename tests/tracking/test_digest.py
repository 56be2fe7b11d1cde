from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.errors import InputError
from ens_plugin.tracking.digest import BLOCK_ROWS, data_digest

X = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 5.0], [7.0, 0.0, 9.0], [1.5, -2.0, np.nan]])
Y = np.array(["no", "yes", "yes", "no"])


def test_the_digest_of_known_data_never_changes() -> None:
    # Digests are compared with ones recorded long ago: whoever changes this layout changes the scheme's name too.
    columns = b"".join(b"n" + column.astype("<f8").tobytes() for column in X.T)
    layout = b"v1" + b"dense (4, 3);" + columns + b"dense (4, 1);" + b"t" + b"s2:no" + b"s3:yes" * 2 + b"s2:no"
    assert data_digest(X, Y) == f"v1:{hashlib.sha256(layout).hexdigest()}"


@pytest.mark.parametrize(
    "same",
    [
        X.tolist(),
        np.asfortranarray(X),
        X.astype(np.float32),
        X.astype(object),
        pd.DataFrame(X),
        pd.DataFrame(X, columns=["b", "a", "c"], index=[9, 8, 7, 6]),
        pd.DataFrame(X).convert_dtypes(),
        pd.DataFrame(X).astype("Float64"),
        pd.DataFrame({"a": X[:, 0].astype(np.float32), "b": X[:, 1].astype(np.int8), "c": X[:, 2]}),
        np.where(X == 0, -0.0, X),
    ],
    ids=["list", "column order", "float32", "object", "frame", "other names", "nullable", "Float64", "mixed", "-0"],
)
def test_the_container_and_the_type_of_numbers_do_not_count(same: Any) -> None:
    assert data_digest(same, Y) == data_digest(X, Y)


@pytest.mark.parametrize(
    "same",
    [Y.tolist(), Y.astype(object), pd.Series(Y), pd.Categorical(Y), pd.Series(Y, dtype="string"), Y[:, None]],
    ids=["list", "object", "series", "category", "string", "column"],
)
def test_the_container_of_the_target_does_not_count(same: Any) -> None:
    assert data_digest(X, same) == data_digest(X, Y)


def test_numbers_are_alike_and_unlike_text() -> None:
    counts = np.array([0, 1, 1, 0])
    for same in (counts.astype(bool), counts.astype(float), counts.astype(object), pd.array(counts, dtype="Int8")):
        assert data_digest(X, same) == data_digest(X, counts)
    assert data_digest(X, counts.astype(str)) != data_digest(X, counts)


def test_missing_values_are_alike() -> None:
    digests = {data_digest(X, [np.nan, None, pd.NA, None][:k] + [None] * (4 - k)) for k in range(5)}
    assert digests == {data_digest(X, np.full(4, np.nan))}
    texts = {data_digest(X, np.array(["a", missing, "b", "c"], dtype=object)) for missing in (None, np.nan, pd.NA)}
    assert len(texts) == 1


@pytest.mark.parametrize("to", [sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array, sparse.lil_matrix])
def test_sparse_formats_are_alike_and_stored_zeros_do_not_count(to: Callable[[Any], Any]) -> None:
    rows = sparse.csr_matrix(X)
    assert data_digest(to(rows), Y) == data_digest(rows, Y)
    stored = sparse.csr_matrix(np.where(X == 0, 4.0, X))
    stored.data[stored.data == 4.0] = 0.0
    assert stored.nnz > rows.nnz
    assert data_digest(stored, Y) == data_digest(rows, Y)
    assert stored.nnz > rows.nnz, "the input was modified"


@given(data=st.data())
def test_one_changed_value_changes_the_digest(data: st.DataObject) -> None:
    values = data.draw(arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6)))
    row, column = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 2))
    changed = values.copy()
    changed[row, column] = np.nextafter(values[row, column], np.inf)
    digests = {f(values) for f in _digests()} | {f(changed) for f in _digests()}
    assert len(digests) == 4
    assert data_digest(values, np.arange(5)) != data_digest(values, np.where(np.arange(5) == row, -1, np.arange(5)))


def _digests() -> list[Callable[[NDArray[np.float64]], str]]:
    y = np.arange(5)
    return [lambda X: data_digest(X, y), lambda X: data_digest(sparse.csr_matrix(X), y)]


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_matrix])
def test_the_order_of_rows_and_of_columns_counts(kind: Callable[[Any], Any]) -> None:
    order = [1, 0, 2, 3]
    assert data_digest(kind(X[order]), Y[order]) != data_digest(kind(X), Y)
    assert data_digest(kind(X[:, [1, 0, 2]]), Y) != data_digest(kind(X), Y)
    assert data_digest(kind(X), Y[order]) != data_digest(kind(X), Y)


def test_rows_far_down_count() -> None:
    column = np.zeros((3 * BLOCK_ROWS, 1))
    before = data_digest(column, column)
    for row in (BLOCK_ROWS - 1, BLOCK_ROWS, 3 * BLOCK_ROWS - 1):
        changed = column.copy()
        changed[row] = 1
        assert data_digest(changed, column) != before
    assert data_digest(column[:-1], column[:-1]) != before


def test_large_integers_are_kept_apart() -> None:
    large = np.array([2**60, 2**60 + 1])
    assert data_digest([[0], [1]], large) != data_digest([[0], [1]], large[[0, 0]])
    assert data_digest([[0], [1]], large.astype(object)) == data_digest([[0], [1]], large)
    assert data_digest([[0], [1]], [10**400, 1]) != data_digest([[0], [1]], [10**400 + 1, 1])


def test_texts_cannot_run_into_each_other() -> None:
    assert data_digest([["ab", "c"]], [0]) != data_digest([["a", "bc"]], [0])
    assert data_digest(["ab", "c"], [0, 0]) != data_digest(["a", "bc"], [0, 0])


def test_times_have_one_digest_whatever_their_unit() -> None:
    days = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"]))
    assert data_digest(days.astype("datetime64[s]"), [0, 1]) == data_digest(days.astype("datetime64[ns]"), [0, 1])
    assert data_digest(days, [0, 1]) != data_digest(days + pd.Timedelta("1ns"), [0, 1])


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="X has 4 rows and y has 3"):
        data_digest(X, Y[:3])
    with pytest.raises(InputError, match="3 dimensions"):
        data_digest(np.zeros((2, 2, 2)), [0, 1])
    with pytest.raises(InputError, match="rows of equal length"):
        data_digest([[1, 2], [3]], [0, 1])
