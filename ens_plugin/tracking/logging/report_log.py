"""The function log_report, which logs a report to a run of MLflow or to another tracker."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.errors import InputError, TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.logging.artifacts import DEFAULT_PREFIX, REPORT_FILE, artifact_path, render_artifacts
from ens_plugin.tracking.logging.mlflow_run import MlflowRun
from ens_plugin.tracking.logging.report_content import report_parts
from ens_plugin.tracking.logging.report_record import ReportRecord, link_model, record_in_run, subject_of
from ens_plugin.tracking.logging.run_comparison import log_comparison
from ens_plugin.tracking.store.connection import check_server, tracking_errors
from ens_plugin.tracking.store.model_files import hold_members, is_of_scikit_learn
from ens_plugin.tracking.trackers import MLFLOW, ReportParts, check_tracker, kind_of, log_parts, log_to

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

__all__ = ["RunContent", "check_prefix", "link_report", "log_report", "run_content", "send"]


def log_report(
    report: EnsembleReport,
    *,
    run_id: str | None = None,
    model_id: str | None = None,
    prefix: str = DEFAULT_PREFIX,
    tracker: object = MLFLOW,
) -> str:
    """Log a report to an experiment tracker: scalars, the error curve, figures, files and a short description.

    To MLflow, logging the same report again changes nothing: all points carry the time of the analysis, the
    artifacts are overwritten and the description has one block per prefix.

    Parameters
    ----------
    report : EnsembleReport
        From :func:`ens_plugin.analyze`.
    run_id : str, optional
        MLflow run to log to; one that has ended keeps its status.  By default the active run, or else a
        new one, which is then ended: FINISHED, or FAILED if logging fails.
    model_id : str, optional
        LoggedModel of MLflow that the scalars (not the curve) are linked to: ``"m-..."``, as
        ``mlflow.sklearn.log_model(...).model_id`` returns it.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.  Several reports in one run need one prefix each.
    tracker : str or object, default="mlflow"
        ``"mlflow"``, ``"wandb"``, ``"tensorboard"`` or ``"dvclive"``; a ``wandb.Run``, a ``SummaryWriter`` of
        tensorboardX or PyTorch, or a ``dvclive.Live``, which stays open; or any object with the methods of
        :class:`ens_plugin.tracking.Tracker`.  The name ``"wandb"`` stands for the active run, or else a new one,
        which is then finished; ``"tensorboard"`` for a new directory in ``runs/``; ``"dvclive"`` for the directory
        ``dvclive-<prefix>``.

    Returns
    -------
    str
        The run's id; of TensorBoard and DVCLive the directory, of your own tracker the name of its class.

    Raises
    ------
    TrackingError
        If the tracking server cannot be reached or refuses a call, or a tracker's library fails.  An MLflow server
        that is down is noticed within seconds, before anything is sent.  One that fails midway is retried by MLflow
        for minutes.  ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` shortens that; where it is set, the first quick
        check is left out.
    InputError
        If `report` is not an EnsembleReport, `prefix` has characters other than letters, digits, ``_``, ``-`` and
        ``.``, ``report.created`` is not an ISO 8601 time, the files of the model show that the report is about another
        one, `tracker` is no tracker, its library is not installed, or a
        run of Weights & Biases or a writer of TensorBoard has a report of this prefix already.

    Notes
    -----
    In MLflow, scalars are called ``ens.error``, ``ens.recommended_size`` and so on
    (:meth:`EnsembleReport.metrics`); curves ``ens/error``, ``ens/error_lower`` and
    ``ens/error_upper``, whose step is the ensemble size and whose last value is the scalar; artifacts are in
    ``ensemble/``, or ``ensemble/<prefix>/`` for another prefix.  Where the experiment has other runs with a report on
    as many rows, ``comparison.png`` there draws the newest of them with their intervals on the same axes.
    The run's description is written only if it is empty
    or from an earlier report, and only as far as MLflow's limit of 8000 characters allows.
    Without configuration, MLflow decides where runs go: ``sqlite:///mlflow.db`` in its current
    versions.  ``docs/how-to/trackers.md`` has the names in other trackers.

    Examples
    --------
    >>> import ens_plugin, mlflow
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0)
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     report = ens_plugin.analyze(forest.fit(X, y), X, y)
    ...     ens_plugin.log_report(report)
    >>> ens_plugin.log_report(report, tracker="wandb")  # doctest: +SKIP

    A tracker of your own, which prints:

    >>> class Printer:
    ...     def log_figure(self, name, path): pass
    ...     def log_file(self, name, path): print(name)
    ...     def log_curve(self, curve): print(*curve)
    ...     def log_scalars(self, scalars): print(scalars["ens.n_members"])
    >>> report = ens_plugin.analyze(forest.fit(X, y), X, y)
    >>> ens_plugin.log_report(report, tracker=Printer())
    ens/curve.csv
    ens/labels.csv
    ens/report.html
    ens/report.json
    ens/error ens/error_lower ens/error_upper
    40.0
    'Printer'
    """
    if not isinstance(report, EnsembleReport):
        raise InputError(
            f"{printable(repr(report), 120)} is not a report. Pass the report that ens_plugin.analyze returns: "
            "log_report(analyze(model, X, y))."
        )
    check_prefix(prefix)
    check_tracker(tracker)
    if kind_of(tracker) != MLFLOW and (run_id is not None or model_id is not None):
        raise InputError(
            "run_id and model_id are of MLflow. For another tracker, pass the run itself, as in "
            "log_report(report, tracker=wandb.run), or leave them out."
        )
    report = replace(report, model_id=model_id)
    with TemporaryDirectory(prefix="ens_plugin-") as directory:
        render_artifacts(report, Path(directory))
        if kind_of(tracker) == MLFLOW:
            return _log_to_mlflow(report, Path(directory), run_id, prefix)
        return log_to(tracker, report_parts(report, Path(directory), prefix))


def _log_to_mlflow(report: EnsembleReport, directory: Path, run_id: str | None, prefix: str) -> str:
    import mlflow

    content = run_content(report, directory, prefix)
    uri = mlflow.get_tracking_uri()
    check_server(uri)
    with tracking_errors(uri):
        client = mlflow.MlflowClient()
        if report.model_id is not None:
            _check_model(client.get_logged_model(report.model_id), report)
        target = run_id or _active_run_id()
        if target is not None:
            _send_all(client, target, content, report)
            return target
        with mlflow.start_run() as run:
            _send_all(client, run.info.run_id, content, report)
            return str(run.info.run_id)


def _check_model(model: LoggedModel, report: EnsembleReport) -> None:
    """Raise InputError if the files of a LoggedModel show that a report is about another model."""
    place = str(model.artifact_location)
    if hold_members(place, [report]) == [False] and is_of_scikit_learn(place):
        raise InputError(
            f"The files of {model.model_id} do not hold the members that this report is about, so it is about another "
            "model. Pass the id of the model that was analysed, or leave out model_id."
        )


def _send_all(client: MlflowClient, run_id: str, content: RunContent, report: EnsembleReport) -> None:
    send(client, run_id, content)
    log_comparison(client, run_id, report, content.parts.prefix)


class RunContent(NamedTuple):
    """What is logged to a run of MLflow, complete before the first call to the server."""

    parts: ReportParts
    report: EnsembleReport
    created: int | None


def run_content(report: EnsembleReport, directory: Path | None, prefix: str) -> RunContent:
    """Return what is logged to a run of MLflow; the report's artifacts, if any, are in `directory` already."""
    return RunContent(report_parts(report, directory, prefix), report, _created_ms(report))


def send(client: MlflowClient, run_id: str, content: RunContent) -> None:
    """Log the content of a report to a run, which may have ended, and link the LoggedModel that the report names.

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
    prefix, model_id = content.parts.prefix, content.report.model_id
    record = _record(content, run_id)
    record_in_run(client, run, record)
    tracker = MlflowRun(client, run, artifact_path(prefix), timestamp, model_id)
    log_parts(tracker, content.parts)
    tracker.describe(content.parts.summary, prefix)
    if model_id is not None and content.parts.directory is not None:
        link_model(client, record)


def link_report(client: MlflowClient, run_id: str, report: EnsembleReport, directory: Path, prefix: str) -> None:
    """Link a report that a run has already to the LoggedModel that it names, which was logged later.

    The report itself was logged for no model and stays as it is.  A copy that names the model is logged beside it.

    Parameters
    ----------
    client : MlflowClient
    run_id : str
    report : EnsembleReport
        Names the model.
    directory : Path
        Holds the copy, as report.json.
    prefix : str

    Raises
    ------
    MlflowException
        If the server refuses.
    """
    run = client.get_run(run_id)
    content = run_content(report, directory, prefix)
    folder = f"{artifact_path(prefix)}/{report.model_id}"
    record = replace(_record(content, run_id), path=f"{folder}/{REPORT_FILE}")
    record_in_run(client, run, record)
    client.log_artifacts(run_id, str(directory), folder)
    timestamp = int(run.info.start_time) if content.created is None else content.created
    MlflowRun(client, run, folder, timestamp, report.model_id).log_scalars(content.parts.scalars)
    link_model(client, record)


def _record(content: RunContent, run_id: str) -> ReportRecord:
    """Return the record of a report in a run; its sum is that of the file, or without one of what it would hold."""
    directory, prefix = content.parts.directory, content.parts.prefix
    has_file = directory is not None and (directory / REPORT_FILE).is_file()
    text = (directory / REPORT_FILE).read_bytes() if directory and has_file else content.report.to_json().encode()
    return ReportRecord(
        prefix=prefix,
        run_id=run_id,
        path=f"{artifact_path(prefix)}/{REPORT_FILE}",
        sha256=hashlib.sha256(text).hexdigest(),
        subject=subject_of(content.report),
        model_id=content.report.model_id,
    )


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
