"""The model leaves the cluster's memory when its job ends, not before; PySpark is needed, but Spark is not started."""

from __future__ import annotations

from typing import Any

import pytest

from ens_plugin.errors import ClusterError
from ens_plugin.spark import analysis as jobs
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.partition import Part, to_bytes
from tests.extras import NEEDS_PYSPARK
from tests.spark.partitions.parts import plan_of

pytestmark = NEEDS_PYSPARK
MANY = RowCounts(10_000_000, 10_000_000, {"last_part": 63})


class Frame:
    """Stands for session, context, broadcast and DataFrame, and keeps the order of the calls."""

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


@pytest.mark.parametrize(("n_rows", "n_parts", "merges"), [(4_000_000, 16, 0), (4_000_001, 16, 2), (4_000_000, 17, 2)])
def test_driver_takes_few_parts_of_few_rows_as_they_are(n_rows: int, n_parts: int, merges: int) -> None:
    frame = Frame()
    jobs.gather(frame, b"", plan_of("votes"), RowCounts(n_rows, n_rows, {"last_part": n_parts - 1}))
    assert len(frame.asked) == merges + 2


def test_model_is_destroyed_after_the_job() -> None:
    frame = Frame()
    jobs.gather(frame, b"", plan_of("votes"), MANY)
    assert frame.asked == ["repartition 20", "repartition 2", "collect", "destroy"]


def test_model_is_destroyed_when_the_job_fails() -> None:
    from pyspark.errors import PySparkException

    frame = Frame(PySparkException("Job aborted"))
    with pytest.raises(ClusterError, match="Job aborted"):
        jobs.gather(frame, b"", plan_of("votes"), MANY)
    assert frame.asked[-1] == "destroy"
