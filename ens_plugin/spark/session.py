"""Checks that Spark can be used, and one error with a reason in place of a Java stack trace."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ens_plugin.adapters.unwrap import java_reason
from ens_plugin.errors import ClusterError

__all__ = ["NO_CONNECT", "collected", "collected_table", "require_spark"]

ERROR_LINE = re.compile(r"[\w.]*(Error|Exception)\b")
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
    causes = [line for line in lines if ERROR_LINE.match(line)] or [java_reason(message)]
    return f"The Spark job failed: {causes[-1].rstrip('.')}. The log of the executors has details."
