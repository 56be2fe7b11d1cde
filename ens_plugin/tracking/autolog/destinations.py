"""The destinations of a fit's report: MLflow, and the trackers that autologging was given."""

from __future__ import annotations

from ens_plugin.errors import EnsPluginError, TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.autolog.delivery import ReportUpload, avoid, deliver
from ens_plugin.tracking.autolog.report_files import ReportFiles
from ens_plugin.tracking.autolog.sending import Delivery
from ens_plugin.tracking.autolog.settings import AutologOptions
from ens_plugin.tracking.logging.report_content import report_parts
from ens_plugin.tracking.trackers import MLFLOW, kind_of, log_to
from ens_plugin.tracking.trackers.used_prefixes import free_prefix, used_prefixes
from ens_plugin.tracking.trackers.wandb_run import active_run, prefixes_of

__all__ = ["destinations_of_fit", "mlflow_delivery", "store_of", "tracker_delivery"]


class _Directories:
    """Stands for the directories of DVCLive that are made for reports."""


_directories = _Directories()


def destinations_of_fit(settings: AutologOptions, is_in_users_run: bool) -> tuple[object, ...]:
    """Return what the report of a fit that runs now is logged to.

    Parameters
    ----------
    settings : AutologOptions
    is_in_users_run : bool
        Whether a run of MLflow's is open that the user opened.

    Returns
    -------
    tuple of object
        The trackers, the open run of Weights & Biases in place of its name; without runs that the user has opened
        where autologging is exclusive.
    """
    found: list[object] = []
    for tracker in settings.trackers:
        name = tracker if isinstance(tracker, str) else None
        run = active_run() if name == "wandb" else None
        is_users = run is not None or (name == MLFLOW and is_in_users_run)
        if not (settings.exclusive and is_users):
            found.append(tracker if run is None else run)
    return tuple(found)


def store_of(destination: object, tracking_uri: str) -> str:
    """Return the name of a destination's queue, under which the destination is avoided after a failure."""
    kind = kind_of(destination)
    if kind is None:
        return f"tracker {id(destination)}"
    return tracking_uri if kind == MLFLOW else kind


def mlflow_delivery(upload: ReportUpload, is_only_one: bool) -> Delivery:
    """Return the delivery of a report to MLflow."""
    is_server = upload.tracking_uri.startswith(("http://", "https://"))
    return Delivery(
        model=upload.report.model,
        store=upload.tracking_uri,
        place="tracking server" if is_server else "store",
        deliver=lambda: f"run {deliver(upload)}",
        is_only_one=is_only_one,
        progress=upload.progress,
    )


def tracker_delivery(
    report: EnsembleReport,
    files: ReportFiles | None,
    tracker: object,
    prefix: str,
    data_digest: str | None,
    is_only_one: bool,
) -> Delivery:
    """Return the delivery of a report to a tracker other than MLflow.

    A run that is opened for the report is closed before the fit returns: a later ``wandb.init`` of the user's would
    otherwise return this run.
    """
    store, name = store_of(tracker, ""), kind_of(tracker) or printable(type(tracker).__name__, 60)

    def deliver() -> str:
        delivery.progress.is_reachable = True
        directory = None
        if files is not None:
            directory = files.folder
            files.draw()
        parts = report_parts(report, directory, _next_prefix(tracker, prefix), data_digest)
        try:
            return f"{name}: {log_to(tracker, parts)}"
        except EnsPluginError as error:
            if isinstance(tracker, str):
                avoid(store, str(error))
            raise
        except Exception as error:  # a tracker of the user may raise anything
            problem = f"{type(error).__name__}: {printable(str(error), 300)}"
            raise TrackingError(f"the tracker {name} raised {problem.rstrip('.')}.") from error

    delivery = Delivery(report.model, store, f"tracker {name}", deliver, isinstance(tracker, str), is_only_one)
    return delivery


def _next_prefix(tracker: object, prefix: str) -> str:
    """Return the prefix of the next report in a run, a writer or a tracker, and record it as used."""
    kind = kind_of(tracker)
    if kind == "wandb":
        run = active_run() if isinstance(tracker, str) else tracker
        return free_prefix(() if run is None else prefixes_of(run), prefix)
    is_name = isinstance(tracker, str)
    if kind == "tensorboard":
        # A writer takes the prefix as used itself; a name stands for a new directory.
        return prefix if is_name else free_prefix(used_prefixes(tracker), prefix)
    used = used_prefixes(_directories if is_name else tracker)
    used.add(numbered := free_prefix(used, prefix))
    return numbered
