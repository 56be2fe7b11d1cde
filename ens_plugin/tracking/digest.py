"""The digest of training data, and analyses of registered models on rows that have it, or must not have it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ens_plugin.analysis.options import Metric
from ens_plugin.core.validation import EXACT, counted
from ens_plugin.errors import DataMismatchError, InputError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.tracking.models import RegisteredVersion, load_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from ens_plugin.analysis.judged import JudgedMetric
    from ens_plugin.core.judged_rows import JudgedRows

DIGEST_TAG = "ens.data_digest"  # set by autolog on the run of a fit and on its model
SCHEME = "v1"
BLOCK_ROWS = 8192  # part of the scheme: each block of a column is digested as numbers or as text
NUMBER_TYPES = (int, float, np.integer, np.floating, np.bool_)
NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "empty"}  # as pandas names them; empty: all missing


def data_digest(X: Any, y: Any, seconds: float = math.inf) -> str:
    """Return a digest of training rows and their target, in their order: ``"v1:"`` and the digits of a SHA-256 sum."""
    # The digest is of the values, not of their container: arrays, lists and data frames of the same values have the
    # same digest, whatever the names of columns and rows, and numbers have the same digest whatever their type (`1`,
    # `1.0` and `True`, but not `"1"`). All missing values are alike. Sparse matrices of any format have the same digest
    # as each other, but not as dense ones: their digest takes time in proportion to the stored values. TimeoutError is
    # raised where it takes longer than so many seconds.
    end = time.perf_counter() + seconds
    tables = _table(X, "X"), _table(y, "y")
    if tables[0].shape[0] != tables[1].shape[0]:
        raise InputError(
            f"X has {counted(tables[0].shape[0], 'row')} and y has {tables[1].shape[0]}; pass the rows and targets of "
            "one fit."
        )
    digest = hashlib.sha256(SCHEME.encode())
    for table in tables:
        for piece in _pieces(table):
            digest.update(piece)
            if time.perf_counter() > end:
                raise TimeoutError
    return f"{SCHEME}:{digest.hexdigest()}"


def _table(values: Any, name: str) -> Any:
    """Return `values` as a sparse matrix, a data frame or an array of two dimensions."""
    if sparse.issparse(values) or isinstance(values, pd.DataFrame):
        return values
    if isinstance(values, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        return pd.DataFrame({0: values})
    try:
        table = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} is not a table ({error}); pass rows of equal length.") from error
    if table.ndim not in (1, 2):
        raise InputError(
            f"{name} has {counted(table.ndim, 'dimension')}; pass a table of rows, or one value for each row."
        )
    return table.reshape(len(table), -1) if table.size else table.reshape(len(table), 0)


def _pieces(table: Any) -> Iterator[bytes]:
    if sparse.issparse(table):
        yield from _sparse_pieces(table)
        return
    yield f"dense {table.shape};".encode()
    for start in range(0, table.shape[0], BLOCK_ROWS):
        yield from map(_column_bytes, _columns(table, slice(start, start + BLOCK_ROWS)))


def _sparse_pieces(matrix: Any) -> Iterator[bytes]:
    rows = sparse.csr_matrix(matrix, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    yield f"sparse {rows.shape};".encode()
    yield rows.indptr.astype("<i8").tobytes()
    yield rows.indices.astype("<i8").tobytes()
    yield _column_bytes(rows.data)


def _columns(table: Any, rows: slice) -> Iterator[NDArray[Any]]:
    if isinstance(table, pd.DataFrame):
        block = table.iloc[rows]
        return (_plain(block.iloc[:, column]) for column in range(block.shape[1]))
    return iter(np.ascontiguousarray(table[rows].T))


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    """Return one column as an array of NumPy's numbers, or of objects."""
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.to_numpy(dtype=object)


def _column_bytes(column: NDArray[Any]) -> bytes:
    numbers = _as_numbers(column)
    if numbers is None:
        # NumPy would turn times into bare integers here.
        values = _inferred(column).astype(object)
        return b"t" + "".join(map(_encoded, values)).encode("utf-8", "surrogatepass")
    # Adding 0 turns -0 into 0; a missing value can be any of many patterns of bits.
    return b"n" + np.where(np.isnan(numbers), np.nan, numbers + 0.0).astype("<f8").tobytes()


def _as_numbers(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return a column as float64 if different values stay different, else None."""
    if column.dtype == object:
        if pd.api.types.infer_dtype(column, skipna=True) not in NUMBERS:
            return None
        column = _inferred(column).to_numpy()
        if column.dtype == object:
            return _objects_as_numbers(column)
    if column.dtype.kind in "iu" and column.size and max(abs(int(column.min())), abs(int(column.max()))) > EXACT:
        return None
    if column.dtype.kind in "biu" or (column.dtype.kind == "f" and column.dtype.itemsize <= 8):
        return column.astype(np.float64)
    return None


def _inferred(column: NDArray[Any]) -> pd.Series[Any]:
    """Return a column with the type that pandas gives its values, if there is one."""
    try:
        return pd.Series(column).infer_objects()
    except OverflowError:
        # pandas before 2.2, of integers beyond any float
        return pd.Series(column, dtype=object)


def _objects_as_numbers(column: NDArray[Any]) -> NDArray[np.float64] | None:
    missing = pd.isna(column)
    known = column[~missing]
    if not all(isinstance(value, float) or abs(value) <= EXACT for value in known):
        return None
    numbers = np.full(column.size, np.nan)
    numbers[~missing] = known.astype(np.float64)
    return numbers


def _encoded(value: Any) -> str:
    """Return one value as text after its kind and its length, so that different columns give different texts."""
    if isinstance(value, str):
        kind, text = "s", value
    elif value is None or value is pd.NA or value is pd.NaT or (isinstance(value, NUMBER_TYPES) and value != value):
        kind, text = "m", ""
    elif isinstance(value, NUMBER_TYPES) and -EXACT <= value <= EXACT:
        kind, text = "r", repr(float(value) + 0.0)
    else:
        kind, text = "o", str(value)
    return f"{kind}{len(text)}:{text}"


RowSource = Callable[[Any], tuple[Any, ArrayLike]]


class Rows(NamedTuple):
    """The user's rows to judge models by, in the form that each model takes."""

    source: RowSource
    data: Literal["oob", "holdout"]
    other_source: RowSource | None = None


class Measurement(NamedTuple):
    """The report of an analysis, the loss of each row or what a metric is computed on, and the digest of the rows."""

    report: EnsembleReport
    judged: JudgedRows | JudgedMetric
    digest: str


def measure(
    client: MlflowClient, version: RegisteredVersion, rows: Rows, metric: Metric | None, *, costs: bool = False
) -> Measurement:
    """Analyse a registered version on `rows`, by a metric if one is named; loading it runs code stored with it."""
    from ens_plugin.analysis.analyze import analyze_rows

    model = load_model(version.uri)
    recorded = recorded_digest(client, version.model_id, version.run_id)
    X, y, digest = _rows_as_trained(rows, model, recorded)
    check_digest(digest, recorded, rows.data, version.uri)
    report, judged = analyze_rows(model, X, y, data=rows.data, metric=metric)
    if costs:
        from ens_plugin.sizing.budget import measure_costs

        report = report.with_costs(measure_costs(model, X))
    return Measurement(report, judged, digest)


def _rows_as_trained(rows: Rows, model: Any, recorded: str | None) -> tuple[Any, ArrayLike, str]:
    """Return X, y and their digest: of the other source where that digest is the recorded one, else of the first."""
    X, y = rows.source(model)
    digest = data_digest(X, y)
    if rows.other_source is not None and recorded not in (None, digest):
        other_X, other_y = rows.other_source(model)
        if data_digest(other_X, other_y) == recorded:
            return other_X, other_y, recorded
    return X, y, digest


def check_digest(digest: str, recorded: str | None, data: str, model: str) -> None:
    """Raise DataMismatchError unless training rows have the recorded digest, and held-out rows another one."""
    if recorded is None or (recorded == digest) == (data == "oob"):
        return
    if data == "oob":
        raise DataMismatchError(
            f"These are not the rows that {model} was trained on, or not in that order: their digest is {digest}, "
            f"and {recorded[:100]} was recorded at training. Pass the training rows in their order, or pass "
            "data='holdout' for rows that were not used for training."
        )
    raise DataMismatchError(
        f"These are the rows that {model} was trained on (digest {digest}). As held-out rows they would make the error "
        'far too low. Leave out data="holdout", or pass rows that were not used for training.'
    )


def recorded_digest(client: MlflowClient, model_id: str | None, run_id: str | None) -> str | None:
    """Return the digest of training rows that autolog recorded for a model, or for its run; None if for neither."""
    found = None if model_id is None else client.get_logged_model(model_id).tags.get(DIGEST_TAG)
    if found is None and run_id is not None:
        found = client.get_run(run_id).data.tags.get(DIGEST_TAG)
    return None if found is None else str(found)
