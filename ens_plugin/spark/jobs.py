"""Spark jobs: the model sent once, parts merged in a tree, and one error in place of a Java stack."""

from __future__ import annotations

import logging
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.unwrap.spark_wrappers import java_reason
from ens_plugin.errors import ClusterError, UnsupportedModelError
from ens_plugin.spark.partition import Plan, read_partition
from ens_plugin.spark.parts import Part, from_bytes, merge_parts, to_bytes

if TYPE_CHECKING:
    from ens_plugin.spark.columns import RowCounts

__all__ = ["NO_CONNECT", "collected", "gather", "pickled_model", "require_spark"]

# Parts merged into one by a task, and the largest number of parts sent to the driver.
MERGED_INTO_ONE = 16
FEW_ROWS = 4_000_000
LOGGER = logging.getLogger(__name__)
ERROR_LINE = re.compile(r"[\w.]*(Error|Exception)\b")
COLUMN = "part"
NO_CONNECT = (
    "Spark Connect has no broadcasts, which send the model to the executors. Use a classic session on the machine of "
    "the driver: SparkSession.builder.master(...), without remote(...) and SPARK_REMOTE."
)


def require_spark() -> None:
    """Raise ClusterError with what to install unless PySpark and Java are installed."""
    try:
        import pyspark  # noqa: F401
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


def pickled_model(model: Any, adapter: EnsembleAdapter) -> bytes:
    """Return the pickled model and the class of its adapter, for the executors.

    Raises
    ------
    UnsupportedModelError
        If the model cannot be pickled.
    """
    from pyspark import cloudpickle

    try:
        dumps: Callable[..., bytes] = cloudpickle.dumps
        return dumps((model, type(adapter)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickling runs the model's own code, which may raise anything
        raise UnsupportedModelError(
            f"This {type(model).__name__} cannot be pickled, so it cannot be sent to Spark's executors ({error}). Pass "
            "a model without open files, locks or database connections, or analyse the rows with ens_plugin.analyze."
        ) from error


def gather(rows: Any, content: bytes, plan: Plan, counts: RowCounts) -> Part:
    """Return the merged sums over all partitions of a DataFrame.

    Parameters
    ----------
    rows : pyspark DataFrame
        As returned by :func:`ens_plugin.spark.columns.selected`.
    content : bytes
        Pickled model.
    plan : Plan
    counts : RowCounts

    Returns
    -------
    Part
        Sums over all rows; the logger of this module gets the number of bytes that reached the driver.

    Raises
    ------
    ClusterError
        If the job fails.
    """
    context = rows.sparkSession.sparkContext
    model = context.broadcast(content)
    limit = plan.sample_limit

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        yield _batch(read_partition(batches, model.value, plan))

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        merged = Part()
        for batch in batches:
            for content in batch.column(0):
                merged = merge_parts([merged, from_bytes(content.as_py())], limit)
        yield _batch(merged)

    parts = rows.mapInArrow(read, f"{COLUMN} binary")
    for width in _widths(context.defaultParallelism, counts):
        parts = parts.repartition(width).mapInArrow(merge, f"{COLUMN} binary")
    try:
        contents = [row[COLUMN] for row in collected(parts)]
    finally:
        model.destroy()
    LOGGER.info("%d bytes reached the driver", sum(map(len, contents)))
    return merge_parts([from_bytes(content) for content in contents], limit)


def _batch(part: Part) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({COLUMN: pa.array([to_bytes(part)], type=pa.binary())})


def _widths(parallelism: int, counts: RowCounts) -> list[int]:
    """Return the numbers of merging tasks, level by level; none where the driver can merge all parts itself."""
    # After a shuffle Spark may cut the rows otherwise than when they were counted; of few rows the parts stay small.
    if counts.n_parts <= MERGED_INTO_ONE and counts.all <= FEW_ROWS:
        return []
    widths = [max(parallelism, 1)]
    while widths[-1] > MERGED_INTO_ONE:
        widths.append(-(-widths[-1] // MERGED_INTO_ONE))
    return widths


def collected(df: Any) -> list[Any]:
    """Return the rows of a small DataFrame; raise every failure of Spark as one ClusterError."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return list(df.collect())
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
    causes = [line for line in lines if ERROR_LINE.match(line)] or [java_reason(message)]
    return f"The Spark job failed: {causes[-1].rstrip('.')}. The log of the executors has details."
