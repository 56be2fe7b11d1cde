"""A DataFrame of Spark: whether Spark can be used, its columns, labels, weights and positions, and its rows."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.custom import CustomEnsemble
from ens_plugin.adapters.members import shortened
from ens_plugin.adapters.unwrap import java_reason
from ens_plugin.core.validation import counted
from ens_plugin.errors import ClusterError, InputError, UnsupportedModelError
from ens_plugin.spark.partition import ROW, TARGET, WEIGHT

NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
VECTOR = "vector"
NO_CONNECT = (
    "Spark Connect has no broadcasts, which send the model to the executors. Use a classic session on the machine of "
    "the driver: SparkSession.builder.master(...), without remote(...) and SPARK_REMOTE."
)


def require_spark() -> None:
    """Raise ClusterError unless PySpark and Java are installed and Spark Connect is not in use."""
    try:
        import pyspark  # noqa: F401  (whether it is there)
    except ImportError as error:
        raise ClusterError(
            "PySpark is not installed. Install it with: pip install 'ens-plugin[spark]' (it needs Java 17 or newer)."
        ) from error
    from pyspark import SparkContext
    from pyspark.sql.utils import is_remote

    if SparkContext._active_spark_context is not None:
        return
    if is_remote():
        raise ClusterError(NO_CONNECT)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ClusterError(
            "Java is not installed, and Spark needs it. Install Java 17 or newer (on Debian or Ubuntu: "
            "apt install default-jre-headless) or set JAVA_HOME."
        )


def collected(df: Any) -> list[Any]:
    """Return the rows of a small DataFrame; raise ClusterError for every failure of Spark."""
    with _spark_errors():
        return list(df.collect())


def collected_table(df: Any) -> pa.Table:
    """Return a small DataFrame as a table of Arrow; raise ClusterError for every failure of Spark."""
    with _spark_errors():
        return df.toArrow()


@contextmanager
def _spark_errors() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise ClusterError(_explained(str(error))) from None


def _explained(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if any("No module named 'ens_plugin'" in line for line in lines):
        return (
            "Spark's executors have no ens_plugin. Install it there as on the driver (pip install ens-plugin), or send "
            "an environment along (spark.archives)."
        )
    if "Python worker exited unexpectedly" in message:
        return (
            "The Spark job failed: a Python worker died each time it was started. It may need more memory "
            "(spark.executor.memoryOverhead, spark.executor.pyspark.memory). The log of the executors has details."
        )
    causes = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)] or [java_reason(message)]
    return f"The Spark job failed: {causes[-1].rstrip('.')}. The log of the executors has details."


@dataclass(frozen=True)
class Columns:
    """Names of the columns in use."""

    label: str
    features: tuple[str, ...]
    row: str | None
    weight: str | None

    @property
    def names(self) -> list[str]:
        """Names of all columns in use, each once."""
        others = [name for name in (self.label, self.row, self.weight) if name is not None]
        return list(dict.fromkeys([*self.features, *others]))


@dataclass(frozen=True)
class RowCounts:
    """Numbers of rows of the DataFrame, in all and with a positive weight, and other aggregates of its columns."""

    all: int
    weighted: int
    found: dict[str, Any]

    @property
    def n_parts(self) -> int:
        """Number of partitions up to the last one that has rows."""
        return int(self.found["last_part"]) + 1


def check_columns(df: Any, columns: Columns, adapter: EnsembleAdapter, *, is_wrapped: bool) -> None:
    """Raise InputError unless every column exists and has a type that can be used."""
    _check_rows_make_outputs(adapter.model)
    if not columns.features:
        raise InputError("feature_cols is empty. Name the columns that the model was trained on, in the same order.")
    missing = [name for name in columns.names if name not in df.columns]
    if missing:
        raise InputError(
            f"The DataFrame has no column {shortened(missing)}. It has {shortened(list(df.columns), 10)}. Name columns "
            "that exist."
        )
    known = [_folded(df, name) for name in df.columns]
    repeated = sorted({name for name in columns.names if known.count(_folded(df, name)) > 1})
    if repeated:
        raise InputError(f"The DataFrame has several columns named {shortened(repeated)}. Rename all but one.")
    for name in (columns.label, columns.row, columns.weight):
        if name is not None and name in columns.features:
            raise InputError(
                f"Column {name!r} holds labels, weights or row numbers, and is among feature_cols. Remove it from them."
            )
    kinds = dict(df.dtypes)
    if len(columns.features) > 1 and VECTOR in (kinds[name] for name in columns.features):
        raise InputError(
            "feature_cols has vectors beside other columns. Put all features into one column of vectors, for "
            "example with pyspark.ml.feature.VectorAssembler, and name that alone."
        )
    if not is_wrapped:
        _check_features(columns, kinds)
    _check_label(columns.label, kinds[columns.label], adapter)
    if columns.weight is not None and not _is_number(kinds[columns.weight]):
        raise InputError(
            f"Column {columns.weight!r} is of type {kinds[columns.weight]}, but weights must be numbers. "
            "Cast it to double."
        )
    if columns.row is not None and kinds[columns.row] not in NUMERIC[:4]:
        raise InputError(
            f"Column {columns.row!r} is of type {kinds[columns.row]}, but row_id_col must hold whole numbers. "
            "Cast it to bigint."
        )


def check_frame(df: Any) -> None:
    """Raise an error unless `df` is a finite DataFrame of a classic Spark session."""
    from pyspark.sql import DataFrame

    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise ClusterError(NO_CONNECT)
    if not isinstance(df, DataFrame):
        raise InputError(
            f"df must be a DataFrame of pyspark.sql, got {type(df).__module__.partition('.')[0]}.{type(df).__name__}. "
            "Analyse rows on this machine with ens_plugin.analyze. "
            "Convert a DataFrame of pyspark.pandas with to_spark()."
        )
    if df.isStreaming:
        raise InputError(
            "df is a stream, which has no end. Pass a table, for example one that the stream was written to."
        )


def _check_rows_make_outputs(model: Any) -> None:
    if isinstance(model, CustomEnsemble) and hasattr(model, "outputs"):
        raise UnsupportedModelError(
            "This CustomEnsemble holds outputs for rows in a fixed order, but the rows of a DataFrame have no order. "
            "Make it of the members themselves, CustomEnsemble.from_estimators(models, None), or analyse the outputs "
            "on one machine with ens_plugin.analyze."
        )


def _folded(df: Any, name: str) -> str:
    """Return a column's name in the form in which the Spark session compares names."""
    return name if df.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else name.lower()


def _is_number(kind: str) -> bool:
    return kind in NUMERIC or kind.startswith("decimal")


def _is_list(kind: str) -> bool:
    return kind == VECTOR or (kind.startswith("array<") and _is_number(kind[6:-1]))


def _check_features(columns: Columns, kinds: dict[str, str]) -> None:
    if len(columns.features) == 1 and _is_list(kinds[columns.features[0]]):
        return
    others = [name for name in columns.features if not _is_number(kinds[name])]
    if others:
        found = ", ".join(f"{name!r} ({kinds[name]})" for name in others[:5])
        raise InputError(
            f"{len(others)} of feature_cols do not hold numbers: {found}. Convert them, name one column of vectors or "
            "arrays, or pass the Pipeline that encodes them along with the ensemble."
        )


def _check_label(name: str, kind: str, adapter: EnsembleAdapter) -> None:
    if adapter.classes is None:
        if not _is_number(kind):
            raise InputError(
                f"Column {name!r} is of type {kind}, but the target of a regression must be numbers. Cast it to double."
            )
        return
    known = adapter.classes.tolist()
    wanted = "string" if isinstance(known[0], str) else "number"
    if (kind == "string") != (wanted == "string") or not (kind == "string" or _is_number(kind)):
        raise InputError(
            f"Column {name!r} is of type {kind}, but the ensemble's labels are {shortened(known)}. Pass the labels "
            "that the ensemble was trained on."
        )


def count_rows(df: Any, columns: Columns, adapter: EnsembleAdapter) -> RowCounts:
    """Count the rows and check labels and weights, in one pass over the columns that are not features."""
    from pyspark.sql import functions as F

    label, kind = F.col(quoted(columns.label)), dict(df.dtypes)[columns.label]
    # numpy takes False and True as 0 and 1, Spark does not.
    label = label.cast("int") if kind == "boolean" else label
    missing = _is_missing(F, label, kind)
    part = max(df.columns, key=len) + "_"  # no column's name
    sums = {"rows": F.count(F.lit(1)), "missing": _count(F, missing), "last_part": F.max(part)}
    if adapter.classes is not None:
        known = [int(own) if isinstance(own, bool) else own for own in adapter.classes.tolist()]
        sums["unknown"] = _count(F, ~label.isin(known) & ~missing)
        sums["example"] = F.first(F.when(~label.isin(known), label), ignorenulls=True)
        sums["least"], sums["most"] = F.min(label), F.max(label)
    if columns.weight is not None:
        weight = F.col(quoted(columns.weight)).cast("double")
        missing = _is_missing(F, weight, "double")
        sums["no_weight"] = _count(F, missing)
        sums["negative"] = _count(F, (weight < 0) & ~missing)
        sums["weighted"] = _count(F, (weight > 0) & ~missing)
    if columns.row is not None:
        row = F.col(quoted(columns.row))
        sums["no_row"] = F.count(F.lit(1)) - F.count(row)
    found = collected(
        df.withColumn(part, F.spark_partition_id()).agg(*(value.alias(name) for name, value in sums.items()))
    )[0].asDict()
    _check_labels(found, columns.label, adapter)
    _check_weights(found, columns.weight)
    _check_rows(found, columns.row)
    return RowCounts(found["rows"], found.get("weighted", found["rows"]), found)


def _count(F: Any, condition: Any) -> Any:
    return F.count(F.when(condition, 1))


def _is_missing(F: Any, column: Any, kind: str) -> Any:
    if kind not in ("float", "double"):
        return column.isNull()
    return column.isNull() | F.isnan(column) | (F.abs(column) == float("inf"))


def _check_labels(found: dict[str, Any], name: str, adapter: EnsembleAdapter) -> None:
    n_rows = found["rows"]
    if n_rows == 0:
        raise InputError("The DataFrame has no rows. Pass the rows to analyse the ensemble on.")
    if found["missing"]:
        raise InputError(
            f"Column {name!r} holds {found['missing']} missing labels or values (null, NaN or infinite) in {n_rows} "
            "rows. Leave these rows out or fill the values in."
        )
    if adapter.classes is None:
        return
    if found["unknown"]:
        raise InputError(
            f"Column {name!r} holds labels that are not the ensemble's in {found['unknown']} of {n_rows} rows, "
            f"{found['example']!r} for example. Its labels are {shortened(adapter.classes.tolist(), 10)}. Pass the "
            "labels that the ensemble was trained on (of a booster the codes)."
        )
    if found["least"] == found["most"]:
        raise InputError(
            f"Column {name!r} holds a single label, {found['least']!r}, and the error rate of one label is no estimate "
            "for the others. Pass rows of at least two labels."
        )


def _check_weights(found: dict[str, Any], name: str | None) -> None:
    if name is None:
        return
    for count, what in ((found["no_weight"], "missing or infinite"), (found["negative"], "negative")):
        if count:
            raise InputError(
                f"Column {name!r} holds {count} {what} weights in {found['rows']} rows, but weights must be numbers of "
                "at least 0. Leave these rows out or correct the weights."
            )
    if not found["weighted"]:
        raise InputError(f"The weights in column {name!r} are 0 in every row. Give some rows a positive weight.")


def _check_rows(found: dict[str, Any], name: str | None) -> None:
    if name is not None and found["no_row"]:
        raise InputError(
            f"Column {name!r} holds {counted(found['no_row'], 'missing position')} (null) in "
            f"{counted(found['rows'], 'row')}. Give every row its position."
        )


def selected(df: Any, columns: Columns) -> Any:
    """Return the DataFrame with the columns that executors read, in this order: features, target, weight, row."""
    from pyspark.sql import functions as F

    kinds = dict(df.dtypes)
    # Renamed, because the user's names could equal those of the columns below, or have characters Spark rejects.
    chosen = [
        _feature(F.col(quoted(name)), kinds[name]).alias(f"__{index}") for index, name in enumerate(columns.features)
    ]
    chosen.append(F.col(quoted(columns.label)).alias(TARGET))
    if columns.weight is not None:
        chosen.append(F.col(quoted(columns.weight)).cast("double").alias(WEIGHT))
    # Equal rows have equal hashes, wherever they are.
    row = F.xxhash64(*(F.col(quoted(name)) for name in columns.names))
    chosen.append((row if columns.row is None else F.col(quoted(columns.row)).cast("bigint")).alias(ROW))
    return df.select(*chosen)


def _feature(column: Any, kind: str) -> Any:
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions as F

    # vector_to_array raises an error in Java for a null; a null that is kept is counted as missing.
    return F.when(column.isNotNull(), vector_to_array(column)) if kind == VECTOR else column


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark's functions, so that it may have any characters."""
    return "`" + name.replace("`", "``") + "`"


def target_labels(codes: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[Any]:
    """Return the labels of an array of label codes; for a regression, whose `classes` are None, the values given."""
    return codes if classes is None else np.asarray(classes)[codes.astype(np.intp)]


def as_names(names: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """Return column names as a tuple, also where a single name is given as a string."""
    found = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in found):
        raise InputError(f"{argument} must hold column names, got {names!r}.")
    return found
