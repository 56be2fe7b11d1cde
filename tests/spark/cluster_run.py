"""Run by test_faults: analyses on executors that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

from ens_plugin import spark
from tests.spark.cases import COLUMNS, fitted, held_out
from tests.spark.conftest import LOOPBACK

N_PARTITIONS = 6
PORT = 17077
# Spark repeats no task on the host it already runs on, so the two executors must be on two.
HOSTS = ("127.0.0.1", "127.0.0.2")
SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms",
}


class Dawdles(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Waits at the first block of an executor, and leaves a file for each block."""

    def __init__(self, directory: str, seconds: float) -> None:
        self.directory, self.seconds, self.driver = directory, seconds, os.getpid()

    def fit(self, X: Any, y: Any = None) -> Dawdles:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        if os.getpid() == self.driver:  # a few rows, for the proof of the model
            return X
        Path(self.directory, f"block-{os.getpid()}-{time.monotonic_ns()}").touch()
        try:
            os.open(f"{self.directory}/first", os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return X
        time.sleep(self.seconds)
        return X


@contextmanager
def standalone_cluster() -> Iterator[str]:
    """Start a master and two workers, and stop them; the master's address."""
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()
    address = f"spark://{HOSTS[0]}:{PORT}"
    deploy = "org.apache.spark.deploy"
    worker = ["--cores", "1", "--memory", "1g", "--webui-port", "0", address]
    commands = [
        (HOSTS[0], [f"{deploy}.master.Master", "--port", str(PORT), "--webui-port", "0"]),
        *((host, [f"{deploy}.worker.Worker", *worker]) for host in HOSTS),
    ]
    running = []
    try:
        for host, command in commands:
            running.append(
                subprocess.Popen(
                    [f"{home}/bin/spark-class", *command, "--host", host],
                    env={**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": host},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def reports(master: str, directory: str, settings: dict[str, str], seconds: float) -> list[str]:
    """Return reports of one model alone, and behind a step that waits for `seconds`."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    quick = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}
    for name, value in {**LOOPBACK, **quick, "spark.sql.shuffle.partitions": "2", **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    df = session.createDataFrame(held_out("votes")).repartition(N_PARTITIONS)
    models = [fitted("votes"), make_pipeline(Dawdles(directory, seconds), fitted("votes"))]
    found = [
        spark.analyze(model, df, label_col="y", feature_cols=COLUMNS, row_id_col="row").to_json() for model in models
    ]
    session.stop()
    return found


def main(master: str, directory: str) -> None:
    if master == "standalone":
        with standalone_cluster() as address:
            found = reports(address, directory, SPECULATION, 20.0)
    else:
        # No task is repeated here, so the first block would only be waited for.
        found = reports(master, directory, {}, 0.0)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
