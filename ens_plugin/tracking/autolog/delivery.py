"""Upload of a report to the MLflow run of its fit, or to a run that is made for the report."""

from __future__ import annotations

import math
import os
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ens_plugin.errors import TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.autolog.report_files import ReportFiles
from ens_plugin.tracking.autolog.upload_queue import Progress
from ens_plugin.tracking.logging.artifacts import artifact_path
from ens_plugin.tracking.logging.report_log import run_content, send
from ens_plugin.tracking.store.connection import check_server, tracking_errors, without_credentials

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["AVOIDED_S", "ReportUpload", "avoid", "deliver", "forget_unreachable", "unreachable"]

INTEGRATION = "ens_plugin"
RUN_VARIABLE = "MLFLOW_RUN_ID"
AVOIDED_S = 60.0  # after a failed connection, no report tries the same server for this long

_avoided: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True, eq=False)
class ReportUpload:
    """A report, and the MLflow run that it is uploaded to.

    Attributes
    ----------
    report : EnsembleReport
    files : ReportFiles or None
    tracking_uri : str
    run_id : str or None
        None where a run is made for the report.
    prefix : str
        Start of all names; a run that has a report of this name gets the next one under
        ``<prefix>_2``, and so on.
    data_digest : str or None
        Digest of the training data, logged as a tag of the run and of the model.
    progress : Progress
    """

    report: EnsembleReport
    files: ReportFiles | None
    tracking_uri: str
    run_id: str | None
    prefix: str
    data_digest: str | None
    progress: Progress = field(default_factory=Progress)


def deliver(upload: ReportUpload) -> str:
    """Upload a report and return the id of its run.

    A run that is made for the report is ended by this call.  It is FAILED until the report is complete, then
    FINISHED: a program that is killed meanwhile leaves no run RUNNING.

    Raises
    ------
    TrackingError
        If the tracking server cannot be reached or refuses a call.
    """
    import mlflow
    from mlflow.utils.mlflow_tags import MLFLOW_AUTOLOGGING

    try:
        check_server(upload.tracking_uri)
    except TrackingError as error:
        avoid(upload.tracking_uri, str(error))
        raise
    upload.progress.is_reachable = True
    with tracking_errors(upload.tracking_uri):
        # MLflow would resume, and end, the run that this variable names.
        run_id = upload.run_id or os.environ.get(RUN_VARIABLE)
        client = mlflow.MlflowClient(tracking_uri=upload.tracking_uri)
        if run_id is not None:
            _log_to_run(client, run_id, upload)
            return run_id
        if mlflow.get_tracking_uri() != upload.tracking_uri:
            raise TrackingError(
                f"The tracking URI was {without_credentials(upload.tracking_uri)} at the fit and changed before the "
                "report was sent. Which of the two stores its run belongs to is not known. "
                "Call ens_plugin.log_report yourself, or set the URI before the fit."
            )
        upload.progress.make_run()
        tags = {MLFLOW_AUTOLOGGING: INTEGRATION}
        with mlflow.start_run(run_name=_run_name(upload.report), tags=tags, log_system_metrics=False) as run:
            run_id = str(run.info.run_id)
            client.update_run(run_id, status="FAILED")
            upload.progress.run_made(run_id)
            _log_to_run(client, run_id, upload)
            return run_id


def _run_name(report: EnsembleReport) -> str:
    """Return a random name for a run; MLflow would draw one from Python's global generator, which the user seeds."""
    return f"{printable(report.model, 60)}-{secrets.token_hex(3)}"


def avoid(store: str, problem: str) -> None:
    """Send no report to a store for a minute from now."""
    _avoided[store] = (time.monotonic() + AVOIDED_S, problem)


def unreachable(uri: str) -> str | None:
    """Return the last error of a server that could not be reached in the last minute; None for other servers."""
    until, message = _avoided.get(uri, (-math.inf, ""))
    return message if time.monotonic() < until else None


def forget_unreachable() -> None:
    """Forget which servers could not be reached, so that each is tried again."""
    _avoided.clear()


def _log_to_run(client: MlflowClient, run_id: str, upload: ReportUpload) -> None:
    directory = None if upload.files is None else upload.files.folder
    prefix = _free_prefix(client.get_run(run_id), upload.prefix)
    if upload.data_digest is not None:
        client.set_tag(run_id, f"{prefix}.data_digest", upload.data_digest)
        if upload.report.model_id is not None:
            from ens_plugin.tracking.store.data_digest import DIGEST_TAG

            client.set_logged_model_tags(upload.report.model_id, {DIGEST_TAG: upload.data_digest})
    send(client, run_id, run_content(upload.report, directory, prefix))
    if upload.files is not None:
        upload.progress.place = (run_id, prefix)
        # Last, because the numbers need not wait for the pictures.
        for file in upload.files.draw():
            client.log_artifact(run_id, str(file), artifact_path(prefix))


def _free_prefix(run: Run, prefix: str) -> str:
    names = [*run.data.metrics, *run.data.tags]
    numbered, count = prefix, 1
    while any(name.startswith((f"{numbered}.", f"{numbered}/")) for name in names):
        count += 1
        numbered = f"{prefix}_{count}"
    return numbered
