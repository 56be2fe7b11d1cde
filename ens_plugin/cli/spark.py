"""``ens-plugin analyze --engine spark``: rows of a parquet table, by path, read and judged by Spark."""

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

from ens_plugin.adapters.unwrap.spark_wrappers import is_spark_model
from ens_plugin.cli.console import only_results_on_stdout
from ens_plugin.cli.request import AnalysisRequest, load_requested
from ens_plugin.cli.table import rows_for_model
from ens_plugin.errors import ClusterError, InputError
from ens_plugin.report.result import EnsembleReport

__all__ = ["SparkEngine", "feature_columns", "spark_options"]

STDERR = 2
EXCEPTION = re.compile(r"^(?:Exception in thread \S+ |Caused by)?:? ?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class SparkEngine:
    """Where the rows are judged.

    Attributes
    ----------
    master : str
        As Spark names it: ``local[2]``, ``spark://host:7077``, ``yarn``.
    row_id : str or None
        Column with each row's position in the training data.
    """

    master: str
    row_id: str | None

    def report(self, request: AnalysisRequest) -> EnsembleReport:
        """Analyse the table at the path of the request.

        Raises
        ------
        EnsPluginError
            Whatever keeps the question from being answered.
        """
        from ens_plugin.spark import analyze

        with only_results_on_stdout(), _quiet_spark() as log:
            session = _session(self.master, log)
            model = load_requested(request)
            df = _read(session, request.data)
            return analyze(
                model,
                df,
                label_col=request.target,
                feature_cols=None
                if is_spark_model(model)
                else feature_columns(df.columns, model, request, self.row_id),
                row_id_col=self.row_id,
                weight_col=request.sample_weight,
                data="holdout" if request.holdout else "oob",
                confidence=request.confidence,
                tolerance=request.tolerance,
                max_size=request.max_size,
                estimator=request.estimator,
                random_state=request.random_state,
            )


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the engine, handed over as `engine`: a SparkEngine, or None."""

    @wraps(command)
    def with_engine(engine: str, master: str | None, row_id: str | None, **values: Any) -> None:
        if engine == "local" and (master or row_id):
            raise click.UsageError("--master and --row-id are for Spark; add --engine spark.")
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
    if request.n_jobs is not None:
        raise click.UsageError("--n-jobs is for --engine local; Spark's cores follow from --master.")
    if request.groups is not None:
        raise click.UsageError("--groups is for --engine local: groups of rows are not yet told apart on Spark.")
    if not request.holdout and row_id is None:
        raise click.UsageError(
            "--engine spark needs --row-id, the column with each row's position in the training data, or --holdout."
        )


def feature_columns(names: list[str], model: Any, request: AnalysisRequest, row_id: str | None) -> list[str]:
    """Columns of a table that are the model's features, in its order.

    Raises
    ------
    InputError, DataMismatchError
        If columns are missing or there are some that the model does not know.
    """
    import pandas as pd

    kept = [name for name in names if name != row_id]
    no_rows = pd.DataFrame({name: np.empty(0) for name in kept})
    rows = rows_for_model(no_rows, model, target=request.target, sample_weight=request.sample_weight)
    if isinstance(rows.X, pd.DataFrame):
        return [str(name) for name in rows.X.columns]
    return [name for name in kept if name not in (request.target, request.sample_weight)]


@contextmanager
def _quiet_spark() -> Iterator[Path]:
    """Keep the hundreds of lines that Spark may print in a file, which stays, and is named, where an analysis fails."""
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
    """Let processes that are started inside the block, and only those, write their errors to a file."""
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
    from ens_plugin.spark.jobs import require_spark

    require_spark()
    # Executors on this machine run what this command runs in, not the first Python on the path.
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
    """What the last exception in a text says, or its first line, as a sentence."""
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
            "parquet file or directory; convert other tables first, or leave out --engine spark for a csv file."
        ) from error
