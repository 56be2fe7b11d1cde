"""From a finished fit to a report in its MLflow run."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble, is_learner, layers, refuse_resampled
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import (
    BagError,
    EnsPluginError,
    InputError,
    NotFittedError,
    TrackingError,
    UnsupportedModelError,
)
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.autolog.delivery import AVOIDED_S, Shipment, deliver, unreachable
from ens_plugin.tracking.autolog.row_budget import affordable_rows, pass_seconds
from ens_plugin.tracking.autolog.settings import AutologOptions, inform, warn_once
from ens_plugin.tracking.autolog.training_data import TrainingData
from ens_plugin.tracking.autolog.upload_queue import Upload, post
from ens_plugin.tracking.logging.artifacts import RENDERING_S, render_artifacts, write_data
from ens_plugin.tracking.store.data_digest import data_digest

__all__ = ["FinishedFit", "report_fit"]

TRIFLE_S = 0.1  # a fit shorter than this is reported without page and figures
SENDING_S = 0.3
LEAST_WAIT_S = 1.0
SLOW_S = 4.0  # a server that is down is noticed before; less than the end of a program waits
RANDOM_STATE = 0

# matplotlib's defaults and the number of BLAS threads are the whole process's.
_one_at_a_time = threading.Lock()


def _renew_lock() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    # The thread that analyzes while the process is forked is not in the child.
    os.register_at_fork(after_in_child=_renew_lock)


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A fit that has ended well.

    Attributes
    ----------
    model : object
        What the user fitted.
    data : TrainingData
        What the user gave it.
    ensemble : object or None
        The ensemble that was last fitted inside `model`, if any.
    ensemble_data : TrainingData or None
        What reached it.
    seconds : float
    run_id : str or None
        The MLflow run it belongs to.
    digest : str or None
        Of the data at the time of the fit, where the report comes later.
    """

    model: Any
    data: TrainingData
    ensemble: Any
    ensemble_data: TrainingData | None
    seconds: float
    run_id: str | None
    digest: str | None = None


def report_fit(fit: FinishedFit, model_id: str | None, settings: AutologOptions) -> None:
    """Analyze a finished fit and send the report to its run.

    Models that have no out-of-bag rows are left alone.

    Parameters
    ----------
    fit : FinishedFit
    model_id : str or None
        LoggedModel of this fit.
    settings : AutologOptions

    Raises
    ------
    EnsPluginError
        If the model is one that should have a report.
    """
    deadline = time.perf_counter() + settings.seconds_for(fit.seconds)
    tracking_uri = _tracking_uri()
    problem = unreachable(tracking_uri)
    if problem is not None:
        inform(settings, logging.DEBUG, _not_logged(type(fit.model).__name__, problem))
        return
    if fit.digest is not None and fit.digest != _digest(fit.data, settings):
        raise InputError(
            f"the training data of the {type(fit.model).__name__} that grew have changed since its last fit. Call "
            "ens_plugin.log_report(ens_plugin.analyze(model, X, y)) before you change them."
        )
    try:
        ensemble = inner_ensemble(fit.model)
        with _turn(deadline, settings):
            report = _analyze(ensemble, fit, deadline, settings)
            digest = _digest(fit.data, settings)
            folder = _render(report, fit, deadline, settings) if settings.log_artifacts else None
    except EnsPluginError as error:
        if not _is_no_request(error, fit):
            raise
        inform(settings, logging.DEBUG, f"No report: {error}")
        return
    shipment = Shipment(
        report=report,
        directory=None if folder is None else Path(folder.name),
        tracking_uri=tracking_uri,
        run_id=fit.run_id,
        model_id=model_id,
        prefix=settings.prefix,
        data_digest=digest,
    )
    _send(shipment, folder, deadline, settings)


@contextmanager
def _turn(deadline: float, settings: AutologOptions) -> Iterator[None]:
    """Wait for the reports of other threads, which may have more time than this one's fit."""
    lock = _one_at_a_time
    if not lock.acquire(timeout=min(max(deadline - time.perf_counter(), 0.0), threading.TIMEOUT_MAX)):
        raise InputError(
            "reports of other threads took all the time that autologging may take for this fit "
            f"(max_overhead={settings.max_overhead:g}). Raise max_overhead, or call ens_plugin.analyze when you have "
            "the time."
        )
    try:
        yield
    finally:
        lock.release()


def _is_no_request(error: EnsPluginError, fit: FinishedFit) -> bool:
    """Whether a report was refused of a fit that nobody expects one of."""
    if isinstance(error, (BagError, NotFittedError, UnsupportedModelError)):
        return True
    y = np.asarray(fit.data.y)
    has_several_outputs = y.ndim > 1 and y.shape[1] > 1
    has_one_label = y.size > 0 and bool(np.all(y == y.flat[0]))
    return has_several_outputs or has_one_label or find_adapter(inner_ensemble(fit.model)).n_members < 2


def _analyze(ensemble: Any, fit: FinishedFit, deadline: float, settings: AutologOptions) -> EnsembleReport:
    _refuse_resampled_layers(fit.model)
    data = _data_of(ensemble, fit)
    if data is None or data.X is None:
        # A model that has no report anyway is left alone.
        find_adapter(ensemble)
        raise InputError(
            f"the rows that this {type(ensemble).__name__} was trained on are out of reach. Pass lightgbm.train a "
            "Dataset that has not been constructed yet, or free_raw_data=False; let a search refit in this process."
        )
    if not math.isinf(deadline):
        deadline -= _seconds_for_digest(data, deadline - time.perf_counter(), settings)
    deadline -= SENDING_S + (RENDERING_S if settings.log_artifacts else 0.0)
    allowance = settings.seconds_for(fit.seconds)
    cautions: list[str] = []

    def choose_rows(adapter: EnsembleAdapter, features: Any, bags: Bags) -> NDArray[np.intp] | None:
        left = deadline - time.perf_counter()
        rows = affordable_rows(adapter, features, bags, left, allowance, RANDOM_STATE)
        if rows is not None:
            cautions.append(
                f"Judged by {rows.size} of the {features.shape[0]} training rows, drawn at random, to keep to the time "
                f"that autologging may take (max_overhead={settings.max_overhead:g})."
            )
        return rows

    with warnings.catch_warnings():
        # The report has its own cautions, and nobody has asked for the arithmetic that others warn of.
        warnings.simplefilter("ignore")
        report = run_analysis(
            ensemble,
            data.rows_for(ensemble),
            data.y,
            sample_weight=data.sample_weight,
            n_jobs=_n_jobs(ensemble),
            random_state=RANDOM_STATE,
            choose_rows=None if math.isinf(allowance) else choose_rows,
        )
    return replace(report, warnings=(*cautions, *report.warnings))


def _seconds_for_digest(data: TrainingData, left: float, settings: AutologOptions) -> float:
    """Estimate the digest's time; refuse rows that take longer to go through than there is time for."""
    passes = pass_seconds(data.X, data.y)
    if sum(passes) > max(left, 0.0):
        raise InputError(
            f"to go through its {data.X.shape[0]} rows takes about {sum(passes):.2g} s, more than autologging may take "
            f"(max_overhead={settings.max_overhead:g}). Raise max_overhead, or call ens_plugin.analyze when you have "
            "the time."
        )
    return passes.digest


def _refuse_resampled_layers(model: Any) -> None:
    """Refuse a pipeline that resamples, in an exception that the user is warned with."""
    try:
        for layer in layers(model):
            refuse_resampled(layer)
    except UnsupportedModelError as error:
        raise InputError(str(error)) from error


def _data_of(ensemble: Any, fit: FinishedFit) -> TrainingData | None:
    if ensemble is fit.model:
        return fit.data
    # A learner that leaves members out keeps a smaller copy of what it trained.
    is_cut = any(map(is_learner, layers(fit.model))) and type(ensemble) is type(fit.ensemble)
    return fit.ensemble_data if ensemble is fit.ensemble or is_cut else None


def _n_jobs(ensemble: Any) -> int | None:
    """As many threads as the fit was allowed."""
    n_jobs = getattr(ensemble, "n_jobs", None)
    return n_jobs if isinstance(n_jobs, int) and n_jobs != 0 else None


def _render(
    report: EnsembleReport, fit: FinishedFit, deadline: float, settings: AutologOptions
) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="ens_plugin-")
    try:
        if time.perf_counter() < deadline and _is_trifle(fit, settings):
            write_data(report, Path(folder.name))
            inform(settings, logging.DEBUG, f"The report of {report.model} has no page and no figures: the fit took "
                   f"less than {TRIFLE_S:g} seconds.")  # fmt: skip
        elif not render_artifacts(report, Path(folder.name), deadline):
            warn_once(settings, "late", _without_figures(report.model, settings))
    except BaseException:
        folder.cleanup()
        raise
    return folder


def _is_trifle(fit: FinishedFit, settings: AutologOptions) -> bool:
    """Whether a fit was so short that figures would be most of its cost, and nobody asked for that."""
    return fit.seconds < TRIFLE_S and settings.max_overhead * fit.seconds < RENDERING_S


def _without_figures(model: str, settings: AutologOptions) -> str:
    return (
        f"The report of {model} has no page and no figures: its analysis left too little of the time that autologging "
        f"may take (max_overhead={settings.max_overhead:g}). Raise max_overhead, or draw them with "
        "EnsembleReport.from_json(...).to_html(path) from its report.json."
    )


def _send(
    shipment: Shipment, folder: TemporaryDirectory[str] | None, deadline: float, settings: AutologOptions
) -> None:
    name = shipment.report.model
    is_done = threading.Event()

    def work() -> None:
        try:
            run_id = deliver(shipment)
            inform(settings, logging.INFO, f"Logged the report of {name} to run {run_id}.")
        except Exception as error:
            # Nobody waits for an answer here: whatever happened is logged.
            message = _not_logged(name, str(error))
            if unreachable(shipment.tracking_uri) is not None:
                message += f" Fits of the next {AVOIDED_S:.0f} seconds get no report; autolog() tries again at once."
            warn_once(settings, type(error).__name__, message)
        finally:
            is_done.set()
            clean_up()

    def clean_up() -> None:
        if folder is not None:
            folder.cleanup()

    def lose() -> None:
        warn_once(settings, "lost", _lost(shipment))
        clean_up()

    seconds = min(max(deadline - time.perf_counter(), LEAST_WAIT_S), threading.TIMEOUT_MAX)
    try:
        is_sent = post(Upload(shipment.tracking_uri, work, lose, shipment.progress), seconds)
    except TrackingError:
        clean_up()
        raise
    if not is_sent:
        # What comes of it may be known in a moment, and one message is enough.
        watch = threading.Timer(SLOW_S, _say_unless, (is_done, settings, _still_sending(shipment)))
        watch.daemon = True
        watch.start()


def _say_unless(is_done: threading.Event, settings: AutologOptions, message: str) -> None:
    if not is_done.is_set():
        warn_once(settings, "slow", message)


def _still_sending(shipment: Shipment) -> str:
    return f"The report of {shipment.report.model} is still being sent: the {_place(shipment)} is slow."


def _lost(shipment: Shipment) -> str:
    lost = (
        f"The report of {shipment.report.model} was not sent completely before the program ended: the "
        f"{_place(shipment)} was too slow."
    )
    if shipment.progress.makes_run:
        return f"{lost} The run that was being made for it may be left RUNNING."
    run = shipment.progress.run_id
    return lost if run is None else f"{lost} The run {run}, made for it, is FAILED."


def _place(shipment: Shipment) -> str:
    return "tracking server" if shipment.tracking_uri.startswith(("http://", "https://")) else "store"


def _not_logged(model: str, problem: str) -> str:
    return f"The report of {model} was not logged: {problem}"


def _tracking_uri() -> str:
    import mlflow

    return str(mlflow.get_tracking_uri())


def _digest(data: TrainingData, settings: AutologOptions) -> str | None:
    try:
        return data_digest(data.table(), data.y)
    except InputError as error:
        inform(settings, logging.DEBUG, f"The training data have no digest: {error}")
        return None
