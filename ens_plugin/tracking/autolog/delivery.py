"""Delivering a report to its run, or to a run that is made for it."""

from __future__ import annotations

import math
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ens_plugin.errors import TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.autolog.upload_queue import Progress
from ens_plugin.tracking.logging.report_log import pack, send
from ens_plugin.tracking.store.connection import check_server, tracking_errors, without_credentials

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["Shipment", "deliver", "forget_unreachable", "unreachable"]

INTEGRATION = "ens_plugin"
RUN_VARIABLE = "MLFLOW_RUN_ID"
AVOIDED_S = 60.0  # so long no other report tries a server that could not be reached

_avoided: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True, eq=False)
class Shipment:
    """A report and where it goes.

    Attributes
    ----------
    report : EnsembleReport
    directory : Path or None
        Of the rendered artifacts.
    tracking_uri : str
    run_id : str or None
        None for a run of its own.
    model_id : str or None
        LoggedModel that the scalars are linked to.
    prefix : str
        Start of all names; a run that has a report of this name gets the next one under
        ``<prefix>_2``, and so on.
    data_digest : str or None
        Of the training data, kept as a tag of the run and of the model.
    progress : Progress
    """

    report: EnsembleReport
    directory: Path | None
    tracking_uri: str
    run_id: str | None
    model_id: str | None
    prefix: str
    data_digest: str | None
    progress: Progress = field(default_factory=Progress)


def deliver(shipment: Shipment) -> str:
    """Send a report and return the id of its run; a run made for it ends here, FINISHED or FAILED.

    Until its report is complete it is FAILED, so that a program that is killed meanwhile leaves no run RUNNING.

    Raises
    ------
    TrackingError
        If the tracking server cannot be reached or refuses a call.
    """
    import mlflow
    from mlflow.utils.mlflow_tags import MLFLOW_AUTOLOGGING

    try:
        check_server(shipment.tracking_uri)
    except TrackingError as error:
        _avoided[shipment.tracking_uri] = (time.monotonic() + AVOIDED_S, str(error))
        raise
    shipment.progress.is_reachable = True
    with tracking_errors(shipment.tracking_uri):
        # MLflow would resume the run that the variable names, and end it.
        run_id = shipment.run_id or os.environ.get(RUN_VARIABLE)
        client = mlflow.MlflowClient(tracking_uri=shipment.tracking_uri)
        if run_id is not None:
            _unload(client, run_id, shipment)
            return run_id
        if mlflow.get_tracking_uri() != shipment.tracking_uri:
            raise TrackingError(
                f"The tracking URI changed from {without_credentials(shipment.tracking_uri)} before the report was "
                "sent, so there is no telling where its run belongs. "
                "Call ens_plugin.log_report yourself, or set the URI before the fit."
            )
        shipment.progress.make_run()
        tags = {MLFLOW_AUTOLOGGING: INTEGRATION}
        with mlflow.start_run(run_name=_run_name(shipment.report), tags=tags, log_system_metrics=False) as run:
            run_id = str(run.info.run_id)
            client.update_run(run_id, status="FAILED")
            shipment.progress.run_made(run_id)
            _unload(client, run_id, shipment)
            return run_id


def _run_name(report: EnsembleReport) -> str:
    """Name a run, because MLflow would draw a name from Python's own generator, which is the user's."""
    return f"{printable(report.model, 60)}-{secrets.token_hex(3)}"


def unreachable(uri: str) -> str | None:
    """Say what was wrong with a server that could not be reached within the last minute, or return None."""
    until, message = _avoided.get(uri, (-math.inf, ""))
    return message if time.monotonic() < until else None


def forget_unreachable() -> None:
    """Try every server again."""
    _avoided.clear()


def _unload(client: MlflowClient, run_id: str, shipment: Shipment) -> None:
    prefix = _free_prefix(client.get_run(run_id), shipment.prefix)
    if shipment.data_digest is not None:
        client.set_tag(run_id, f"{prefix}.data_digest", shipment.data_digest)
        if shipment.model_id is not None:
            from ens_plugin.tracking.store.data_digest import DIGEST_TAG

            client.set_logged_model_tags(shipment.model_id, {DIGEST_TAG: shipment.data_digest})
    send(client, run_id, pack(shipment.report, shipment.directory, shipment.model_id, prefix))


def _free_prefix(run: Run, prefix: str) -> str:
    names = [*run.data.metrics, *run.data.tags]
    numbered, count = prefix, 1
    while any(name.startswith((f"{numbered}.", f"{numbered}/")) for name in names):
        count += 1
        numbered = f"{prefix}_{count}"
    return numbered
