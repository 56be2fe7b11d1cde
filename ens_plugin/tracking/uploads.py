"""The upload of reports after a fit, in the background: a queue for each store, delivery and links."""

from __future__ import annotations

import atexit
import logging
import math
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ens_plugin.errors import TrackingError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import check_server, tracking_errors, without_credentials
from ens_plugin.tracking.digest import DIGEST_TAG
from ens_plugin.tracking.links import find_stored, prove_stored
from ens_plugin.tracking.log import (
    LoggedReport,
    link_report,
    log_model_scalars,
    render_artifacts,
    run_content,
    send,
)
from ens_plugin.tracking.settings import LOCKS, AutologOptions, attempt, inform, warn_once

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import Model


MAX_WAITING = 20  # in one store's queue
EXIT_S = 30.0  # the end of a program waits this long for all its reports,
UNREACHED_S = 5.0  # this long for those to a store that was never reached,
ENDING_S = 60.0  # and this much longer where a run being made would stay RUNNING
LEAST_WAIT_S = 1.0  # of a fit, for its report
LINKING_S = 2.0  # of a fit, for the link of its report to its model
AVOIDED_S = 60.0  # after a failed connection, no report tries the same server for this long


@dataclass(eq=False)
class Progress:
    """State of an upload, by which the end of the program decides how long to wait."""

    is_reachable: bool = False
    makes_run: bool = False  # one that would stay RUNNING
    run_id: str | None = None  # of the run that was made
    logged: LoggedReport | None = None
    prefix: str = ""


@dataclass(frozen=True, eq=False)
class Upload:
    """One upload to a store, a tracking URI, and its state."""

    store: str
    send: Callable[[], object]
    lose: Callable[[], object] = lambda: None
    progress: Progress = field(default_factory=Progress)
    sent: threading.Event = field(default_factory=threading.Event)


# By store. Each queue has one worker thread, which is sending its first upload; none is empty.
_queues: dict[str, deque[Upload]] = {}
if hasattr(os, "register_at_fork"):
    # Their workers do not exist in a forked child.
    os.register_at_fork(after_in_child=_queues.clear)
_is_waited_for = False
# By store, until when it is avoided, and why.
_avoided: dict[str, tuple[float, str]] = {}


def post(upload: Upload, seconds: float) -> bool:
    """Queue an upload behind earlier ones to the same store, and wait at most `seconds` for it."""
    _wait_at_exit()
    with LOCKS.queues:
        waiting = _queues.setdefault(upload.store, deque())
        if len(waiting) > MAX_WAITING:
            raise TrackingError(
                f"{MAX_WAITING} reports are waiting for the tracking server already, so this one is dropped. Check "
                "the server, or log to another store."
            )
        waiting.append(upload)
        if len(waiting) == 1:
            _start_worker(upload.store)
    return upload.sent.wait(seconds)


def wait_until_sent(seconds: float, store: str | None = None) -> bool:
    """Wait at most `seconds` for all uploads to a store, by default to all, and return whether they were sent."""
    deadline = time.monotonic() + seconds
    wanted = [upload for upload in _unsent() if store in (None, upload.store)]
    return all(upload.sent.wait(max(deadline - time.monotonic(), 0.0)) for upload in wanted)


def _start_worker(store: str) -> None:
    try:
        # A daemon, because MLflow's own retries would hold up the end of the program for minutes.
        threading.Thread(target=_work, args=(store,), name="ens_plugin.autolog", daemon=True).start()
    except RuntimeError as error:
        del _queues[store]
        raise TrackingError(f"No thread can be started to send the report: {error}. Log it later.") from error


def _work(store: str) -> None:
    waiting = _queues[store]
    while waiting:
        upload = waiting[0]
        try:
            upload.send()
        finally:
            with LOCKS.queues:
                waiting.popleft()
                # An upload that is posted after this has a queue and a worker of its own.
                if not waiting:
                    del _queues[store]
            upload.sent.set()


def _unsent() -> list[Upload]:
    with LOCKS.queues:
        return [upload for waiting in _queues.values() for upload in waiting]


def _wait_at_exit() -> None:
    global _is_waited_for
    with LOCKS.queues:
        if _is_waited_for:
            return
        _is_waited_for = True
    # MLflow sends files by thread pools, which accept no work any more when functions of atexit run, nor while a thread
    # that is no daemon is waited for. Only functions that are registered by this private one run before the pools end.
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(_end)
    except RuntimeError:
        # The program is ending already.
        atexit.register(_end)


def _end() -> None:
    pending = _unsent()
    start, reached = time.monotonic(), set[str]()
    try:
        while pending:
            # One that waits behind another has not reached their store itself.
            reached |= {upload.store for upload in pending if upload.progress.is_reachable}
            waited = time.monotonic() - start
            pending = [upload for upload in pending if not _is_over(upload, waited, upload.store in reached)]
            if pending:
                pending[0].sent.wait(0.02)
    except KeyboardInterrupt:
        # Ctrl-C: the user does not want to wait.
        for upload in pending:
            upload.lose()


def _is_over(upload: Upload, waited: float, is_reached: bool) -> bool:
    if upload.sent.is_set():
        return True
    if waited < (EXIT_S if is_reached else UNREACHED_S) + ENDING_S * upload.progress.makes_run:
        return False
    upload.lose()
    return True


@dataclass(frozen=True, eq=False)
class ReportUpload:
    """A report, and the MLflow run that it is uploaded to; a run is made for the report where `run_id` is None."""

    report: EnsembleReport
    tracking_uri: str
    run_id: str | None
    data_digest: str | None
    settings: AutologOptions
    progress: Progress = field(default_factory=Progress)


def send_report(upload: ReportUpload, deadline: float) -> None:
    """Queue a report, and wait for its delivery until the deadline."""
    model, settings = upload.report.model, upload.settings

    def work() -> None:
        try:
            inform(settings, logging.INFO, f"Logged the report of {model} to run {deliver(upload)}.")
        except Exception as error:
            # This runs in a worker thread, where a raised exception would be lost.
            problem = not_logged(model, str(error))
            if unreachable(upload.tracking_uri) is not None:
                problem += (
                    f" Fits of the next {AVOIDED_S:.0f} seconds get no report. Call autolog() again to retry at once."
                )
            warn_once(settings, type(error).__name__, problem)

    def lose() -> None:
        inform(settings, logging.WARNING, _lost(upload))

    left = max(deadline - time.perf_counter(), LEAST_WAIT_S)
    try:
        post(Upload(upload.tracking_uri, work, lose, upload.progress), min(left, threading.TIMEOUT_MAX))
    except TrackingError as error:
        inform(settings, logging.WARNING, not_logged(model, str(error)))


def deliver(upload: ReportUpload) -> str:
    """Upload a report and return the id of its run."""
    import mlflow

    try:
        check_server(upload.tracking_uri)
    except TrackingError as error:
        avoid(upload.tracking_uri, str(error))
        raise
    upload.progress.is_reachable = True
    with TemporaryDirectory(prefix="ens_plugin-") as folder:
        directory = Path(folder) if upload.settings.log_artifacts else None
        if directory is not None:
            # Before a run is made for them.
            render_artifacts(upload.report, directory)
        with tracking_errors(upload.tracking_uri):
            # MLflow would resume, and end, the run that this variable names.
            run_id = upload.run_id or os.environ.get("MLFLOW_RUN_ID")
            client = mlflow.MlflowClient(tracking_uri=upload.tracking_uri)
            if run_id is None:
                return _log_to_new_run(client, upload, directory)
            _log_to_run(client, run_id, upload, directory)
            return run_id


def _log_to_new_run(client: MlflowClient, upload: ReportUpload, directory: Path | None) -> str:
    import mlflow
    from mlflow.utils.mlflow_tags import MLFLOW_AUTOLOGGING

    if mlflow.get_tracking_uri() != upload.tracking_uri:
        raise TrackingError(
            f"The tracking URI was {without_credentials(upload.tracking_uri)} at the fit and changed before the "
            "report was sent. Which of the two stores its run belongs to is not known. "
            "Call ens_plugin.log_report yourself, or set the URI before the fit."
        )
    upload.progress.makes_run = True
    # MLflow would draw a name from Python's global generator, which the user seeds.
    name = f"{printable(upload.report.model, 60)}-{secrets.token_hex(3)}"
    with mlflow.start_run(run_name=name, tags={MLFLOW_AUTOLOGGING: "ens_plugin"}, log_system_metrics=False) as run:
        run_id = str(run.info.run_id)
        client.update_run(run_id, status="FAILED")
        upload.progress.run_id, upload.progress.makes_run = run_id, False
        _log_to_run(client, run_id, upload, directory)
    return run_id


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


def _log_to_run(client: MlflowClient, run_id: str, upload: ReportUpload, directory: Path | None) -> None:
    logged = client.get_run(run_id).data
    names = (*logged.metrics, *logged.tags)
    used = {name[: end.start()] for name in names for end in re.finditer("[./]", name)}
    prefix = _free_prefix(used, upload.settings.prefix)
    if upload.data_digest is not None:
        client.set_tag(run_id, f"{prefix}.data_digest", upload.data_digest)
    upload.progress.logged = send(client, run_id, run_content(upload.report, directory, prefix))
    upload.progress.prefix = prefix


def _free_prefix(used: set[str], prefix: str) -> str:
    numbered, count = prefix, 1
    while numbered in used:
        count += 1
        numbered = f"{prefix}_{count}"
    return numbered


def not_logged(model: str, problem: str) -> str:
    """Return the message that a report was not logged."""
    return f"The report of {model} was not logged: {problem}"


def _lost(upload: ReportUpload) -> str:
    place = "tracking server" if upload.tracking_uri.startswith(("http://", "https://")) else "store"
    lost = (
        f"The report of {upload.report.model} was not sent completely before the program ended, because the {place} "
        "was too slow. To log it, analyse the model again."
    )
    if upload.progress.makes_run:
        return f"{lost} A run was being made for it and may stay RUNNING."
    run = upload.progress.run_id
    return lost if run is None else f"{lost} Its run {run} is marked FAILED."


@dataclass(eq=False)
class _Fitted:
    """What is known of a fitted object: the upload of the report on its last fit, and the models logged of it since."""

    upload: ReportUpload | None = None
    model_ids: list[str] = field(default_factory=list)


_fitted: WeakKeyDictionary[Any, _Fitted] = WeakKeyDictionary()
_original: Callable[..., Any] | None = None


def _known(model: object) -> _Fitted:
    try:
        return _fitted.setdefault(model, _Fitted())
    except TypeError:
        # Without weak references or a hash, a model would be kept alive or not be found.
        return _Fitted()


def remember_report(upload: ReportUpload, *models: object) -> None:
    """Link a report to every model that the program logs of some objects: the fitted model, and what is inside it."""
    for model in models:
        _known(model).upload = upload


def link_logged(settings: AutologOptions, *models: object) -> None:
    """Link reports to the models that were logged of some objects already, as MLflow's autologging does in a fit."""
    posted = set[str]()
    for found in map(_known, models):
        for model_id in found.model_ids:
            if found.upload is not None and model_id not in posted:
                posted.add(model_id)
                # The object may have grown since, as where a search for its size logs each one.
                _post(found.upload, model_id, lambda problem: inform(settings, logging.INFO, problem))


def forget_report(model: object) -> None:
    """Forget the report on a model that is fitted again."""
    found = _known(model)
    found.upload, found.model_ids = None, []


def start_linking(settings: AutologOptions) -> None:
    """Link models from now on, whichever function of MLflow logs them."""
    global _original
    from mlflow.models import Model

    if _original is None:
        _original = Model.log.__func__
        Model.log = classmethod(_linking(_original, settings))  # type: ignore[method-assign]


def stop_linking() -> None:
    """Restore MLflow's function, and forget all reports."""
    global _original
    from mlflow.models import Model

    if _original is not None:
        Model.log = classmethod(_original)  # type: ignore[method-assign]
        _original = None
    _fitted.clear()


def _linking(original: Callable[..., Any], settings: AutologOptions) -> Callable[..., Any]:
    def log(cls: type[Model], *args: Any, **options: Any) -> Any:
        logged = original(cls, *args, **options)
        if settings.process == os.getpid():
            attempt(settings, lambda: _link(logged.model_id, options, settings))
        return logged

    return log


def _link(model_id: str | None, options: dict[str, Any], settings: AutologOptions) -> None:
    import mlflow

    for value in [] if model_id is None else options.values():
        found = _known(value)
        if found.upload is None:
            if hasattr(value, "predict"):
                found.model_ids.append(str(model_id))
        elif found.upload.tracking_uri == mlflow.get_tracking_uri():
            _post(found.upload, str(model_id), lambda problem: warn_once(settings, "link", problem))


def _post(upload: ReportUpload, model_id: str, tell: Callable[[str], object]) -> None:
    """Queue the link behind the upload of the report itself, and tell where it could not be made."""

    def work() -> None:
        try:
            if upload.progress.logged is not None:
                _link_in_store(upload, upload.progress.logged, model_id)
                done = f"Linked the report of {upload.report.model} to the model {model_id}."
                inform(upload.settings, logging.INFO, done)
        except Exception as error:
            # This runs in a worker thread, where a raised exception would be lost.
            tell(_not_linked(upload, model_id, error))

    def lose() -> None:
        tell(_not_linked(upload, model_id, "the program ended before"))

    post(Upload(upload.tracking_uri, work, lose), LINKING_S)


def _not_linked(upload: ReportUpload, model_id: str, problem: object) -> str:
    return (
        f"The report of {upload.report.model} was not linked to the model {model_id}, which the gate gives no verdict "
        f"on: {str(problem).rstrip('.')}. To link one, call "
        f"ens_plugin.log_report(ens_plugin.analyze(model, X, y), model_id={model_id!r})."
    )


def _link_in_store(upload: ReportUpload, logged: LoggedReport, model_id: str) -> None:
    import mlflow

    with tracking_errors(upload.tracking_uri):
        client = mlflow.MlflowClient(tracking_uri=upload.tracking_uri)
        stored = find_stored(client, model_id)
        files = prove_stored(client, stored, upload.report)
        if upload.data_digest is not None:
            client.set_logged_model_tags(model_id, {DIGEST_TAG: upload.data_digest})
        content = run_content(upload.report, None, upload.progress.prefix)
        if upload.settings.log_artifacts:
            link_report(client, stored, content, logged, files)
        else:
            # Without its JSON, there is no report that the gate could read.
            log_model_scalars(client, stored, content, logged.run_id)
