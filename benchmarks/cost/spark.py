"""Rows beyond one machine: time, memory and traffic of an analysis on Spark, and of the same one on one machine.

100 trees of depth 10 with soft votes, 20 features in float32, held-out rows in parquet, `local[2]`; both roads read
the file. Peaks of Python's processes; the Java process keeps to its own limit. On both roads a first analysis loads
the libraries in every worker, whatever the rows; the times after it are medians of three analyses in the same
session, in which Java warms up.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.report.ensemble_report import EnsembleReport

N_FEATURES, N_TREES, MAX_DEPTH = 20, 100, 10
SIZES = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
N_TRAINED = 20_000
CHUNK_ROWS = 250_000
N_CORES = 2
COLUMNS = [f"x{index}" for index in range(N_FEATURES)]
MEGABYTE = 1e6

TRIED = (
    "one pass over the rows after one over the labels; blocks of 65 536 rows; groups merged where they are made; no "
    "second stage for few parts. What is left does not grow with the rows: planning two jobs, carrying the sample, and "
    "the conclusion, some 1.3 s"
)


def rows_of(seed: int, n_rows: int) -> pd.DataFrame:
    """Draw rows whose label depends on three features, with noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32), columns=COLUMNS)
    frame["y"] = (frame["x0"] + frame["x1"] * frame["x2"] + rng.standard_normal(n_rows) > 0).astype(np.int64)
    return frame


def write_rows(directory: Path, n_rows: int, seed: int) -> None:
    """Write a parquet table in files of 250 000 rows."""
    directory.mkdir()
    for start in range(0, n_rows, CHUNK_ROWS):
        chunk = rows_of(seed + 1 + start, min(CHUNK_ROWS, n_rows - start))
        pq.write_table(pa.Table.from_pandas(chunk, preserve_index=False), directory / f"{start:09d}.parquet")


class _Traffic(logging.Handler):
    """Keeps the number of bytes that reached the driver in the last analysis, from its log."""

    n_bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple)
        self.n_bytes = int(str(record.args[0]))


def measure_spark(model_path: str, rows_path: str, warm_path: str, n_cores: int) -> dict[str, float]:
    """Analyse a table with Spark; seconds, peak megabytes of driver and workers, bytes that reached the driver."""
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    from ens_plugin.spark import analysis as jobs
    from ens_plugin.spark import analyze

    builder = SparkSession.builder.master(f"local[{n_cores}]").config("spark.driver.memory", "1g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    model, df = joblib.load(model_path), session.read.parquet(rows_path)
    traffic = _Traffic()
    jobs.LOGGER.addHandler(traffic)
    jobs.LOGGER.setLevel(logging.INFO)
    # The first analysis also loads the libraries in every worker and begins to warm up Java, whatever the rows.
    first = _timed(lambda: analyze(model, session.read.parquet(warm_path), label_col="y", feature_cols=COLUMNS))[1]
    report, seconds = _median_time(lambda: analyze(model, df, label_col="y", feature_cols=COLUMNS))
    found = {
        "first": first,
        "seconds": seconds,
        "driver": _peak(os.getpid()),
        "worker": max(map(_peak, _workers(os.getpid()))),
        "bytes": float(traffic.n_bytes),
        "error": report.error_curve.asymptote,
    }
    session.stop()
    return found


def measure_local(model_path: str, rows_path: str, warm_path: str, n_cores: int) -> dict[str, float]:
    """Read and analyse the same table in this process."""
    model = joblib.load(model_path)
    first = _timed(lambda: _locally(model, warm_path, n_cores))[1]
    report, seconds = _median_time(lambda: _locally(model, rows_path, n_cores))
    return {"first": first, "seconds": seconds, "error": report.error_curve.asymptote}


def _locally(model: Any, rows_path: str, n_cores: int) -> EnsembleReport:
    frame = pd.read_parquet(rows_path)
    return ens_plugin.analyze(model, frame[COLUMNS].to_numpy(), frame["y"].to_numpy(), data="holdout", n_jobs=n_cores)


def _timed(work: Callable[[], EnsembleReport]) -> tuple[EnsembleReport, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _median_time(work: Callable[[], EnsembleReport]) -> tuple[EnsembleReport, float]:
    """Return the report, and the median of the seconds of three calls, the first of which finds Java half warm."""
    timed = sorted((_timed(work) for _ in range(3)), key=lambda pair: pair[1])
    return timed[1]


def _peak(process: int) -> float:
    """Peak resident memory of a process (MB)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / MEGABYTE for line in lines if line.startswith("VmHWM"))


def _workers(driver: int) -> list[int]:
    """Python processes below the driver's, whose rows went through them."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)], names[int(entry.name)] = int(rest.split()[1]), name
    below = {driver}
    for _ in range(8):
        below |= {process for process, parent in parents.items() if parent in below}
    return [process for process in below - {driver} if "python" in names.get(process, "")]


def apart(measure: str, model_path: Path, rows_path: Path, warm_path: Path) -> dict[str, float]:
    """Call a measurement in a new process, whose memory nothing else has touched."""
    call = (
        f"import json; from benchmarks.cost.spark import {measure}; "
        f"print(json.dumps({measure}({str(model_path)!r}, {str(rows_path)!r}, {str(warm_path)!r}, {N_CORES})))"
    )
    done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 3, arguments, smoke=1)
    sizes = (4_000, 8_000) if options.smoke else SIZES
    with tempfile.TemporaryDirectory() as directory:
        model_path = Path(directory, "forest.joblib")
        training = rows_of(options.seed, sizes[0] if options.smoke else N_TRAINED)
        forest = RandomForestClassifier(N_TREES, max_depth=MAX_DEPTH, random_state=options.seed, n_jobs=options.n_jobs)
        joblib.dump(forest.fit(training[COLUMNS].to_numpy(), training["y"]).set_params(n_jobs=1), model_path)
        found = []
        for n_rows in sizes:
            rows_path = Path(directory, str(n_rows))
            write_rows(rows_path, n_rows, options.seed)
            if n_rows == sizes[0]:
                pairs = [_both(model_path, rows_path) for _ in range(options.repetitions)]
                found.append(sorted((on_spark for on_spark, _ in pairs), key=_seconds)[len(pairs) // 2])
            else:
                found.append(apart("measure_spark", model_path, rows_path, Path(directory, str(sizes[0]))))
    claims, times = _section(sizes, found, pairs)
    return conclude(__name__, options, claims, [times])


def _both(model_path: Path, rows_path: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Spark, and right after it the analysis on one machine."""
    first, second = (apart(road, model_path, rows_path, rows_path) for road in ("measure_spark", "measure_local"))
    return first, second


def _seconds(measured: dict[str, float]) -> float:
    return measured["seconds"]


def _section(
    sizes: tuple[int, ...], found: list[dict[str, float]], pairs: list[tuple[dict[str, float], dict[str, float]]]
) -> tuple[list[Claim], str]:
    per_row = [one["seconds"] / n_rows * 1e6 for one, n_rows in zip(found, sizes, strict=True)]
    first, last = found[0], found[-1]
    growth = f"{sizes[-1]} rows over {sizes[0]}"
    ratios = np.array([_seconds(on_spark) / _seconds(local) for on_spark, local in pairs])
    difference = max(abs(on_spark["error"] - local["error"]) for on_spark, local in pairs)
    further = (_seconds(last) - _seconds(found[-2])) / (sizes[-1] - sizes[-2])
    doubled = (_seconds(found[1]) - _seconds(first)) / (sizes[1] - sizes[0])
    claims = [
        Claim("time per row: largest over smallest", max(per_row) / min(per_row), high=1.2, tried=TRIED),
        Claim("time of a further row: the last ones' over the second million's", further / doubled, high=1.2),
        Claim(
            f"{sizes[0]} rows: over the local time ({ratios.min():.2f} to {ratios.max():.2f})",
            float(np.median(ratios)),
            high=1.5,
            tried=TRIED,
        ),
        Claim(f"peak of a worker: {growth}", last["worker"] / first["worker"], high=1.2, tried=TRIED),
        Claim(f"peak of the driver: {growth}", last["driver"] / first["driver"], high=1.2, tried=TRIED),
        Claim("asymptotic error: difference from one machine's", difference, high=1e-3, digits=6),
    ]
    rows = [
        [
            f"{n_rows}",
            f"{one['first']:.1f}",
            f"{one['seconds']:.1f}",
            f"{time_per_row:.2f}",
            f"{one['worker']:.0f}",
            f"{one['driver']:.0f}",
            f"{one['bytes'] / n_rows:.2f}",
        ]
        for n_rows, one, time_per_row in zip(sizes, found, per_row, strict=True)
    ]
    header = [
        "rows",
        f"first {sizes[0]} rows (s)",
        "then all rows, median (s)",
        "µs per row",
        "worker (MB)",
        "driver (MB)",
        "bytes to the driver per row",
    ]
    return claims, table(header, rows)
