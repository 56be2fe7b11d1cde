"""Links between reports and the models that a program, or MLflow's autologging, logs of the fitted objects."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.errors import EnsPluginError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.autolog.delivery import ReportUpload
from ens_plugin.tracking.autolog.settings import AutologOptions, attempt, inform, warn_once
from ens_plugin.tracking.autolog.upload_queue import Upload, post
from ens_plugin.tracking.logging.artifacts import REPORT_FILE
from ens_plugin.tracking.logging.report_log import link_report
from ens_plugin.tracking.store.connection import tracking_errors
from ens_plugin.tracking.store.data_digest import DIGEST_TAG

if TYPE_CHECKING:
    from mlflow.models import Model

__all__ = ["forget_report", "link_logged", "remember_report", "start_linking", "stop_linking"]

LINKING_S = 2.0

# By fitted object, while it exists: the upload of the report on its last fit, and the models logged of it since.
_uploads: WeakKeyDictionary[Any, ReportUpload] = WeakKeyDictionary()
_logged: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()
_original: Callable[..., Any] | None = None


def remember_report(upload: ReportUpload, *models: object) -> None:
    """Link a report to every model that the program logs of some objects: the fitted model, and what is inside it."""
    for model in models:
        try:
            _uploads[model] = upload
        except TypeError:
            # Without weak references or a hash, a model would be kept alive or not be found.
            continue


def link_logged(settings: AutologOptions, *models: object) -> None:
    """Link reports to the models that were logged of some objects already, as MLflow's autologging does of a search."""
    for model in models:
        upload = _upload_of(model)
        for model_id in [] if upload is None else _logged.get(model, []):
            if upload is not None and model_id != upload.report.model_id:
                _post(upload, model_id, settings)


def forget_report(model: object) -> None:
    """Forget the report on a model that is fitted again."""
    try:
        _uploads.pop(model, None)
        _logged.pop(model, None)
    except TypeError:
        return


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
    _uploads.clear()
    _logged.clear()


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
        upload = _upload_of(value)
        if upload is None:
            _note(value, str(model_id))
        elif upload.tracking_uri == mlflow.get_tracking_uri() and _is_unchanged(value, upload.report):
            _post(upload, str(model_id), settings)


def _note(model: object, model_id: str) -> None:
    if not hasattr(model, "predict"):
        return
    try:
        _logged.setdefault(model, []).append(model_id)
    except TypeError:
        return


def _upload_of(value: object) -> ReportUpload | None:
    try:
        return _uploads.get(value)
    except TypeError:
        return None


def _is_unchanged(model: object, report: EnsembleReport) -> bool:
    """Return whether a model still has the members that its report is about."""
    try:
        parts = find_adapter(inner_ensemble(model)).fingerprint()
    except EnsPluginError:
        return False
    return tuple(part.hex() for part in parts) == report.fingerprint


def _post(upload: ReportUpload, model_id: str, settings: AutologOptions) -> None:
    """Queue the link behind the upload of the report itself."""

    def work() -> None:
        try:
            if upload.progress.place is not None:
                _link_in_store(upload, *upload.progress.place, model_id)
                inform(settings, logging.INFO, f"Linked the report of {upload.report.model} to the model {model_id}.")
        except Exception as error:
            # This runs in a worker thread, where a raised exception would be lost.
            warn_once(settings, "link", _not_linked(upload, model_id, error))

    def lose() -> None:
        warn_once(settings, "link", _not_linked(upload, model_id, "the program ended before"))

    post(Upload(upload.tracking_uri, work, lose), LINKING_S)


def _not_linked(upload: ReportUpload, model_id: str, problem: object) -> str:
    return (
        f"The report of {upload.report.model} was not linked to the model {model_id}: {problem}. To link them, analyse "
        f"the model again and call ens_plugin.log_report(report, model_id={model_id!r})."
    )


def _link_in_store(upload: ReportUpload, run_id: str, prefix: str, model_id: str) -> None:
    import mlflow

    with tracking_errors(upload.tracking_uri), TemporaryDirectory(prefix="ens_plugin-") as directory:
        client = mlflow.MlflowClient(tracking_uri=upload.tracking_uri)
        if upload.data_digest is not None:
            client.set_logged_model_tags(model_id, {DIGEST_TAG: upload.data_digest})
        report = replace(upload.report, model_id=model_id)
        (Path(directory) / REPORT_FILE).write_text(report.to_json(), encoding="utf-8")
        link_report(client, run_id, report, Path(directory), prefix)
