"""Spark jobs: executors get the model once, and the sums over partitions are merged in a tree."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.rows.ordinary_rows import MOST_VALUES
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.partition import ROW, Plan, Rows, read_partition, rows_of
from ens_plugin.spark.parts import Part, from_bytes, merge_parts, to_bytes
from ens_plugin.spark.session import collected, collected_table

__all__ = ["all_rows", "gather", "pickled_model"]

# Parts merged into one by a task, and the largest number of parts sent to the driver.
MERGED_INTO_ONE = 16
FEW_ROWS = 4_000_000
LOGGER = logging.getLogger(__name__)
COLUMN = "part"


def pickled_model(model: Any, adapter: EnsembleAdapter) -> bytes:
    """Return a model and the class of its adapter as a pickle that executors load.

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
    """Run the analysis on all partitions of a DataFrame, and return the merged sums.

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


def all_rows(rows: Any, plan: Plan, n_rows: int) -> Rows | None:
    """Return all rows of a DataFrame in the order of their positions; None of more values than a second look takes.

    Parameters
    ----------
    rows : pyspark DataFrame
        As for :func:`gather`.
    plan : Plan
    n_rows : int
    """
    if n_rows > MOST_VALUES:
        return None
    n_columns = rows_of(collected_table(rows.limit(1)), plan).features.shape[1]
    if n_rows * n_columns > MOST_VALUES:
        return None
    # The order of the training rows, in which a look at some of them takes the same ones as on one machine.
    return rows_of(collected_table(rows).sort_by(ROW), plan)


def _batch(part: Part) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({COLUMN: pa.array([to_bytes(part)], type=pa.binary())})


def _widths(parallelism: int, counts: RowCounts) -> list[int]:
    """Return the number of tasks of each level of merging; no level where the driver can merge all parts itself."""
    # After a shuffle the partitions may be others than when they were counted; those of few rows stay small.
    if counts.n_parts <= MERGED_INTO_ONE and counts.all <= FEW_ROWS:
        return []
    widths = [max(parallelism, 1)]
    while widths[-1] > MERGED_INTO_ONE:
        widths.append(-(-widths[-1] // MERGED_INTO_ONE))
    return widths
