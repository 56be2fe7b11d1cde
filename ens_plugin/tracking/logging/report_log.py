"""The function log_report, which logs a report to an MLflow run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.errors import InputError, TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import markdown_summary, printable
from ens_plugin.tracking.logging.artifacts import DEFAULT_PREFIX, artifact_path, render_artifacts
from ens_plugin.tracking.logging.curve_points import Point, curve_points, scalar_points
from ens_plugin.tracking.store.connection import check_server, tracking_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

__all__ = ["RunContent", "check_prefix", "log_report", "merge_description", "run_content", "send"]

DESCRIPTION_TAG = "mlflow.note.content"
BLOCK_LIMIT = 4000
DESCRIPTION_LIMIT = 8000  # of MLflow's tag values: longer ones are cut, end marker included
ANY_BLOCK = re.compile(r"<!-- ens_plugin:(?P<prefix>\S+) begin -->.*?<!-- ens_plugin:(?P=prefix) end -->", re.DOTALL)


def log_report(
    report: EnsembleReport, *, run_id: str | None = None, model_id: str | None = None, prefix: str = DEFAULT_PREFIX
) -> str:
    """Log a report to an MLflow run: scalars, the error curve, artifacts and a short description.

    Logging the same report again changes nothing: all points carry the time of the analysis, the
    artifacts are overwritten and the description has one block per prefix.

    Parameters
    ----------
    report : EnsembleReport
        From :func:`ens_plugin.analyze`.
    run_id : str, optional
        Run to log to; one that has ended keeps its status.  By default the active run, or else a
        new one, which is then ended: FINISHED, or FAILED if logging fails.
    model_id : str, optional
        LoggedModel that the scalars (not the curve) are linked to: ``"m-..."``, as
        ``mlflow.sklearn.log_model(...).model_id`` returns it.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.  Several reports in one run need one prefix each.

    Returns
    -------
    str
        The run's id.

    Raises
    ------
    TrackingError
        If the tracking server cannot be reached or refuses a call.  A server that is down is noticed
        within seconds, before anything is sent.  One that fails midway is retried by MLflow for
        minutes.  ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` shortens that; where it is set, the first quick
        check is left out.
    InputError
        If `report` is not an EnsembleReport, `prefix` has characters other than letters, digits, ``_``, ``-`` and
        ``.``, or ``report.created`` is not an ISO 8601 time.

    Notes
    -----
    Scalars are called ``ens.error``, ``ens.recommended_size`` and so on
    (:meth:`EnsembleReport.metrics`); curves ``ens/error``, ``ens/error_lower`` and
    ``ens/error_upper``, whose step is the ensemble size; artifacts are in ``ensemble/``, or
    ``ensemble/<prefix>/`` for another prefix.  The run's description is written only if it is empty
    or from an earlier report, and only as far as MLflow's limit of 8000 characters allows.
    Without configuration, MLflow decides where runs go: ``sqlite:///mlflow.db`` in its current
    versions.

    Examples
    --------
    >>> import ens_plugin, mlflow  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     forest.fit(X, y)
    ...     ens_plugin.log_report(ens_plugin.analyze(forest, X, y))
    """
    import mlflow

    if not isinstance(report, EnsembleReport):
        raise InputError(
            f"{printable(repr(report), 120)} is not a report. Pass the report that ens_plugin.analyze returns: "
            "log_report(analyze(model, X, y))."
        )
    check_prefix(prefix)
    with TemporaryDirectory(prefix="ens_plugin-") as directory:
        render_artifacts(report, Path(directory))
        content = run_content(report, Path(directory), model_id, prefix)
        uri = mlflow.get_tracking_uri()
        check_server(uri)
        with tracking_errors(uri):
            client = mlflow.MlflowClient()
            if model_id is not None:
                client.get_logged_model(model_id)
            target = run_id or _active_run_id()
            if target is not None:
                send(client, target, content)
                return target
            with mlflow.start_run() as run:
                send(client, run.info.run_id, content)
                return str(run.info.run_id)


class RunContent(NamedTuple):
    """The parts of a report that are logged to a run, complete before the first call to the server."""

    directory: Path | None
    curve: list[Point]
    scalars: list[Point]
    summary: str
    created: int | None
    model_id: str | None
    prefix: str


def run_content(report: EnsembleReport, directory: Path | None, model_id: str | None, prefix: str) -> RunContent:
    """Return the parts of a report that are logged to a run; its artifacts, if any, are in `directory` already."""
    return RunContent(
        directory=directory,
        curve=curve_points(report, prefix),
        scalars=scalar_points(report, prefix),
        summary=markdown_summary(report),
        created=_created_ms(report),
        model_id=model_id,
        prefix=prefix,
    )


def send(client: MlflowClient, run_id: str, content: RunContent) -> None:
    """Log the content of a report to a run, which may have ended.

    Raises
    ------
    TrackingError
        If the run is deleted.  Other failures raise MLflow's own exceptions.
    """
    run = client.get_run(run_id)
    if run.info.lifecycle_stage == "deleted":
        raise TrackingError(
            f"The run {run_id} is deleted. Restore it with `mlflow runs restore`, or log to another one."
        )
    timestamp = int(run.info.start_time) if content.created is None else content.created
    if content.directory is not None:
        client.log_artifacts(run_id, str(content.directory), artifact_path(content.prefix))
    curve = _not_yet_logged(client, run, content.curve, timestamp)
    # A scalar is linked to a model only by logging it, again if need be.
    scalars = content.scalars if content.model_id else _not_yet_logged(client, run, content.scalars, timestamp)
    client.log_batch(run_id, metrics=_metrics(curve, timestamp, None))
    client.log_batch(run_id, metrics=_metrics(scalars, timestamp, content.model_id))
    _describe(client, run, content)


def _not_yet_logged(client: MlflowClient, run: Run, points: Sequence[Point], timestamp: int) -> list[Point]:
    """Return the points that a run lacks: older database stores refuse a point twice, the file store doubles it."""
    known = {
        (key, metric.step)
        for key in {point.key for point in points} & set(run.data.metrics)
        for metric in client.get_metric_history(run.info.run_id, key)
        if metric.timestamp == timestamp
    }
    return [point for point in points if (point.key, point.step) not in known]


def _metrics(points: Sequence[Point], timestamp: int, model_id: str | None) -> list[Metric]:
    from mlflow.entities import Metric

    return [Metric(point.key, point.value, timestamp, point.step, model_id=model_id) for point in points]


def _describe(client: MlflowClient, run: Run, content: RunContent) -> None:
    current = run.data.tags.get(DESCRIPTION_TAG, "")
    merged = merge_description(current, content.summary, content.prefix)
    if merged != current:
        client.set_tag(run.info.run_id, DESCRIPTION_TAG, merged)


def merge_description(current: str, summary: str, prefix: str) -> str:
    """Return a run's description with `summary` added; text that a person wrote stays unchanged.

    Parameters
    ----------
    current : str
        The present description; may be empty.
    summary : str
        Markdown; cut at 4000 characters.
    prefix : str
        The report's prefix; each prefix owns one block.

    Returns
    -------
    str
        `current` with this prefix's block replaced, or added if `current` consists of such blocks only;
        otherwise `current` itself.

    Examples
    --------
    >>> print(merge_description("", "12 members", "ens"))
    <!-- ens_plugin:ens begin -->
    12 members
    <!-- ens_plugin:ens end -->
    >>> merge_description("My own note", "12 members", "ens")
    'My own note'
    """
    block = _block(summary, prefix)
    own = next((found for found in ANY_BLOCK.finditer(current) if found["prefix"] == prefix), None)
    if own is not None:
        merged = current[: own.start()] + block + current[own.end() :]
    elif not ANY_BLOCK.sub("", current).strip():
        merged = f"{current.rstrip()}\n\n{block}".lstrip()
    else:
        return current
    return merged if len(merged) <= DESCRIPTION_LIMIT else current


def _block(summary: str, prefix: str) -> str:
    # A marker inside the summary would end the block early when it is next replaced.
    text = summary.replace("<!--", "<! --").strip()
    if len(text) > BLOCK_LIMIT:
        text = text[: BLOCK_LIMIT - 4] + " ..."
    return f"<!-- ens_plugin:{prefix} begin -->\n{text}\n<!-- ens_plugin:{prefix} end -->"


def _active_run_id() -> str | None:
    import mlflow

    run = mlflow.active_run()
    # start_run would resume the run that this variable names, and end it.
    return (os.environ.get("MLFLOW_RUN_ID") or None) if run is None else str(run.info.run_id)


def _created_ms(report: EnsembleReport) -> int | None:
    """Return the time of a report in ms since 1970; None where it has none, for which the run's start is used."""
    if not report.created:
        return None
    try:
        created = datetime.fromisoformat(report.created.replace("Z", "+00:00"))
    except ValueError as error:
        raise InputError(
            f"report.created is {report.created[:60]!r}, which is not an ISO 8601 time. "
            "analyze() sets it; do not edit it."
        ) from error
    if created.tzinfo is None:
        created = created.replace(tzinfo=timezone.utc)
    return round(created.timestamp() * 1000)


def check_prefix(prefix: str) -> None:
    """Raise InputError unless names of metrics and artifacts can start with `prefix`."""
    if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", prefix):
        raise InputError(
            f"prefix={prefix!r} cannot start the names of metrics and artifacts. "
            "Use letters, digits, '_', '-' and inner dots, 'forest_a' for example."
        )
