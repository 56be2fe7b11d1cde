"""The option ``--engine spark`` of ``ens-plugin analyze``: Spark reads and analyses a parquet table."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import click
import numpy as np

from ens_plugin.adapters.unwrap import is_spark_model
from ens_plugin.cli.console import only_results_on_stdout, paragraph
from ens_plugin.cli.inputs import AnalysisRequest, left_out_note, load_named, rows_for_model
from ens_plugin.errors import ClusterError, InputError
from ens_plugin.report.ensemble_report import EnsembleReport

STDERR = 2
EXCEPTION = re.compile(r"^(?:Exception in thread \S+ |Caused by)?:? ?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class SparkEngine:
    """Spark as the engine of an analysis: the URL of its master, and the column with each row's training position."""

    master: str
    row_id: str | None

    def report(self, request: AnalysisRequest) -> EnsembleReport:
        """Analyse the rows of a request in a new Spark session, and return the report."""
        from ens_plugin.spark.analysis import NamedColumns, analyze_frame

        with only_results_on_stdout(), _quiet_spark() as log:
            session = _session(self.master, log)
            model = load_named(request.model, request.tracking_uri)
            df = _read(session, request.data)
            features = None if is_spark_model(model) else feature_columns(df.columns, model, request, self.row_id)
            named = NamedColumns(request.target, features, self.row_id, request.sample_weight)
            return analyze_frame(model, df, named, request.options)


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of the engine, passed to `command` as `engine`: a SparkEngine, or None."""

    @wraps(command)
    def with_engine(engine: str, master: str | None, row_id: str | None, **values: Any) -> None:
        if engine == "local" and (master or row_id):
            raise click.UsageError("--master and --row-id are for Spark. Add --engine spark.")
        if engine == "spark":
            _check_request(values["request"], row_id)
        command(engine=SparkEngine(master or "local[*]", row_id) if engine == "spark" else None, **values)

    decorated: Callable[..., None] = with_engine
    for option in (
        click.option("--row-id", metavar="COL", help="With --engine spark: position of each row in the training data."),
        click.option("--master", metavar="URL", help="With --engine spark: its master; local[*] by default."),
        click.option(
            "--engine",
            type=click.Choice(["local", "spark"]),
            default="local",
            show_default=True,
            help="What reads FILE: this process, or Spark, a parquet table of any size.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def _check_request(request: AnalysisRequest, row_id: str | None) -> None:
    if request.options.n_jobs is not None:
        raise click.UsageError("--n-jobs is for --engine local. Set the number of Spark's cores by --master.")
    if request.groups is not None:
        raise click.UsageError(
            "--groups is for --engine local; Spark does not support groups of rows yet. Leave it out."
        )
    if request.unlabelled is not None:
        raise click.UsageError("--unlabelled is for --engine local. Leave it out.")
    if request.options.data == "oob" and row_id is None:
        raise click.UsageError(
            "--engine spark needs --row-id, the column with each row's position in the training data, or --holdout."
        )


def feature_columns(names: list[str], model: Any, request: AnalysisRequest, row_id: str | None) -> list[str]:
    """Return the columns of a table that are the model's features, in the model's order."""
    import pandas as pd

    no_rows = pd.DataFrame({name: np.empty(0) for name in names if name != row_id})
    rows = rows_for_model(no_rows, model, **request.columns)
    if rows.left_out:
        paragraph(left_out_note(rows.left_out))
    return list(rows.names)


@contextmanager
def _quiet_spark() -> Iterator[Path]:
    """Redirect Spark's output to a file inside the block; after a failure the file is kept and named in the error."""
    descriptor, name = mkstemp(prefix="ens-plugin-spark-", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
            yield log
    except ClusterError as error:
        if log.stat().st_size:
            raise ClusterError(f"{error} Spark's own log is in {log}.") from error
        log.unlink()
        raise
    except BaseException:
        log.unlink()
        raise
    log.unlink()


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect the stderr of processes that are started inside the block to a file."""
    sys.stderr.flush()
    terminal = os.dup(STDERR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), STDERR)
            yield
    finally:
        os.dup2(terminal, STDERR)
        os.close(terminal)


def _session(master: str, log: Path) -> Any:
    from ens_plugin.spark.columns import require_spark

    require_spark()
    # Executors on this machine must use the Python of this command, not the first one on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("ens-plugin").config("spark.ui.showConsoleProgress", "false")
    try:
        with _stderr_to(log):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        reason = _reason(f"{error}\n{log.read_text(errors='replace')}")
        raise ClusterError(f"Spark cannot be started with --master {master}: {reason}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _reason(text: str) -> str:
    """Return the message of the last exception in Spark's output, else the first line, as a sentence."""
    found = EXCEPTION.findall(text)
    return f"{(found[-1] if found else text.splitlines()[0]).rstrip('. ')}."


def _read(session: Any, path: str) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return session.read.parquet(path)
    except (PySparkException, Py4JError) as error:
        raise InputError(
            f"{path!r} cannot be read as parquet by Spark: {_reason(str(error))} Pass the path of a "
            "parquet file or directory. Convert other tables first, or leave out --engine spark for a csv file."
        ) from error
