"""The model leaves the cluster's memory when its job ends, not before; no Spark is needed."""

from __future__ import annotations

from typing import Any

import pytest

from ens_plugin.errors import ClusterError
from ens_plugin.spark import jobs
from ens_plugin.spark.parts import Part, to_bytes
from tests.spark.test_partition import plan_of

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ens-plugin[spark]'")


class Frame:
    """Stands for session, context, broadcast and DataFrame, and remembers in which order it was asked."""

    defaultParallelism = 20

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, list[str]()
        self.sparkSession = self.sparkContext = self

    def broadcast(self, content: bytes) -> Frame:
        return self

    def mapInArrow(self, function: Any, schema: str) -> Frame:
        return self

    def repartition(self, width: int) -> Frame:
        self.asked.append(f"repartition {width}")
        return self

    def collect(self) -> list[dict[str, bytes]]:
        self.asked.append("collect")
        if self.error is not None:
            raise self.error
        return [{"part": to_bytes(Part())}] * 2

    def destroy(self) -> None:
        self.asked.append("destroy")


def test_model_is_destroyed_after_the_job() -> None:
    frame = Frame()
    jobs.gather(frame, b"", plan_of("votes"))
    assert frame.asked == ["repartition 20", "repartition 2", "collect", "destroy"]


def test_model_is_destroyed_when_the_job_fails() -> None:
    from pyspark.errors import PySparkException

    frame = Frame(PySparkException("Job aborted"))
    with pytest.raises(ClusterError, match="Job aborted"):
        jobs.gather(frame, b"", plan_of("votes"))
    assert frame.asked[-1] == "destroy"
