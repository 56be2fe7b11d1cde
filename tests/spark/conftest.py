"""One Spark session for the tests that need it; without Spark or Java they are skipped with a reason."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.extras import INSTALL

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def reason_to_skip() -> str | None:
    if find_spec("pyspark") is None:
        return f"needs PySpark: {INSTALL['pyspark']}"
    if shutil.which("java") is None:
        return "needs Java 17 or newer: apt install default-jre-headless"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here) and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """Two cores, and a task may fail three times, as on a cluster."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").config("spark.driver.memory", "1g")
    for name, value in {**LOOPBACK, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    running = builder.getOrCreate()
    running.sparkContext.setLogLevel("OFF")
    yield running
    running.stop()
