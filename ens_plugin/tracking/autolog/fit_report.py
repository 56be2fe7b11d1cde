"""Analysis of a finished fit, and the upload of its report."""

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.training import TrainingData
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble, is_learner, layers, refuse_resampled
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.checks.supervised_steps import doubts_about_training, with_supervised_steps
from ens_plugin.analysis.metrics.resolution import resolve_metric
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError, EnsPluginError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.autolog.delivery import ReportUpload, unreachable
from ens_plugin.tracking.autolog.destinations import mlflow_delivery, store_of, tracker_delivery
from ens_plugin.tracking.autolog.logged_models import link_logged, remember_report
from ens_plugin.tracking.autolog.metric_cost import metric_seconds_per_row
from ens_plugin.tracking.autolog.report_files import ReportFiles, prepare_drawing
from ens_plugin.tracking.autolog.row_budget import PILOT_SHARE, affordable_rows, pass_seconds
from ens_plugin.tracking.autolog.sending import Delivery, not_logged, send_all
from ens_plugin.tracking.autolog.settings import AutologOptions, inform
from ens_plugin.tracking.store.data_digest import data_digest
from ens_plugin.tracking.trackers import MLFLOW, kind_of

__all__ = ["FinishedFit", "report_fit"]

SENDING_S = 0.3

# All threads of a process share matplotlib's defaults and the number of BLAS threads.
_one_at_a_time = threading.Lock()


def _renew_lock() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A thread that analyzes while the process is forked does not exist in the child.
    os.register_at_fork(after_in_child=_renew_lock)


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A fit that ended without an exception.

    Attributes
    ----------
    model : object
        Model that the user fitted.
    data : TrainingData
        The data passed to `model`.
    ensemble : object or None
        The ensemble that was last fitted inside `model`, if any.
    ensemble_data : TrainingData or None
        The data passed to `ensemble`.
    seconds : float
    run_id : str or None
        MLflow run of the fit.
    digest : str or None
        Digest of the data at the time of the fit, where the report is made later.
    destinations : tuple of object
        ``"mlflow"`` and trackers that the report is logged to.
    problem : Exception or None
        What the training data could not be read for.
    """

    model: Any
    data: TrainingData
    ensemble: Any
    ensemble_data: TrainingData | None
    seconds: float
    run_id: str | None
    digest: str | None = None
    destinations: tuple[object, ...] = (MLFLOW,)
    problem: Exception | None = None


def report_fit(fit: FinishedFit, model_id: str | None, settings: AutologOptions) -> None:
    """Analyze the model of a finished fit, and log the report to the MLflow run of the fit and to other trackers.

    A model without out-of-bag rows gets no report.

    Parameters
    ----------
    fit : FinishedFit
    model_id : str or None
        LoggedModel of this fit.
    settings : AutologOptions

    Raises
    ------
    EnsPluginError
        If the model has out-of-bag rows, but no report can be made of them or sent.
    """
    deadline = time.perf_counter() + settings.seconds_for(fit.seconds)
    tracking_uri = _tracking_uri() if MLFLOW in map(kind_of, fit.destinations) else ""
    destinations = [place for place in fit.destinations if _is_reachable(fit, store_of(place, tracking_uri), settings)]
    if not destinations:
        return
    if fit.digest is not None and fit.digest != _digest(fit.data, settings):
        raise InputError(
            f"The training data of the growing {type(fit.model).__name__} have changed since its last fit, so they no "
            "longer show which rows are out of bag. Call ens_plugin.log_report(ens_plugin.analyze(model, X, y)) before "
            "you change them."
        )
    try:
        ensemble = inner_ensemble(fit.model)
        with _turn(deadline, settings):
            report = replace(_analyze(ensemble, fit, deadline, settings), model_id=model_id)
            digest = _digest(fit.data, settings)
            files = ReportFiles(report, len(destinations), settings) if settings.log_artifacts else None
    except EnsPluginError as error:
        if not _has_no_report(error, fit):
            raise
        inform(settings, logging.DEBUG, f"No report: {error}")
        return
    is_only_one = len(destinations) == 1

    def delivery_to(destination: object) -> Delivery:
        if kind_of(destination) != MLFLOW:
            return tracker_delivery(report, files, destination, settings.prefix, digest, is_only_one)
        upload = ReportUpload(
            report=report,
            files=files,
            tracking_uri=tracking_uri,
            run_id=fit.run_id,
            prefix=settings.prefix,
            data_digest=digest,
        )
        remember_report(upload, *layers(fit.model))
        return mlflow_delivery(upload, is_only_one)

    send_all([delivery_to(destination) for destination in destinations], files, deadline, settings)
    link_logged(settings, *layers(fit.model))


def _is_reachable(fit: FinishedFit, store: str, settings: AutologOptions) -> bool:
    problem = unreachable(store)
    if problem is not None:
        inform(settings, logging.DEBUG, not_logged(type(fit.model).__name__, problem))
    return problem is None


@contextmanager
def _turn(deadline: float, settings: AutologOptions) -> Iterator[None]:
    """Hold the lock on analyses inside the block; raise InputError if it is not free by the deadline."""
    lock = _one_at_a_time
    if not lock.acquire(timeout=min(max(deadline - time.perf_counter(), 0.0), threading.TIMEOUT_MAX)):
        raise InputError(
            "Reports of other threads used up the time that autologging may take for this fit "
            f"(max_overhead={settings.max_overhead:g}). Raise max_overhead, or call ens_plugin.analyze later."
        )
    try:
        yield
    finally:
        lock.release()


def _has_no_report(error: EnsPluginError, fit: FinishedFit) -> bool:
    """Return whether `error` is expected for this kind of fit, which then has no report and needs no warning."""
    if isinstance(error, (BagError, NotFittedError, UnsupportedModelError)):
        return True
    if fit.data.y is not None:
        y = np.asarray(fit.data.y)
        if (y.ndim > 1 and y.shape[1] > 1) or (y.size > 0 and bool(np.all(y == y.flat[0]))):
            return True
    try:
        adapter = find_adapter(inner_ensemble(fit.model))
        adapter.check_form()
    except UnsupportedModelError:
        return True
    return adapter.n_members < 2


def _analyze(ensemble: Any, fit: FinishedFit, deadline: float, settings: AutologOptions) -> EnsembleReport:
    if fit.problem is not None:
        raise InputError(f"The arguments of the fit could not be read: {fit.problem}.") from fit.problem
    _refuse_resampled_layers(fit.model)
    data = _data_of(ensemble, fit)
    if data is None or data.X is None:
        raise InputError(
            f"The training rows of this {type(ensemble).__name__} are no longer available. With lightgbm.train, pass a "
            "Dataset that has not been constructed yet, or one made with free_raw_data=False. With a search, let it "
            "refit in this process."
        )
    if not math.isinf(deadline):
        deadline -= _seconds_for_digest(data, deadline - time.perf_counter(), settings)
    deadline -= SENDING_S
    allowance = settings.seconds_for(fit.seconds)
    options = replace(settings.analysis, sample_weight=data.sample_weight, n_jobs=_n_jobs(ensemble))
    cautions: list[str] = []

    def choose_rows(adapter: EnsembleAdapter, features: Any, bags: Bags) -> NDArray[np.intp] | None:
        rng, metric = np.random.default_rng(options.random_state), resolve_metric(options.metric, adapter, data.y)
        enough = PILOT_SHARE * (deadline - time.perf_counter())
        metric_pace = (
            0.0
            if metric is None
            else metric_seconds_per_row(adapter, features, bags, data.y, metric, enough=enough, rng=rng)
        )
        left = deadline - time.perf_counter()
        rows = affordable_rows(adapter, features, bags, left, allowance, options.random_state, metric_pace=metric_pace)
        if rows is not None:
            cautions.append(
                f"Only {rows.size} of the {features.shape[0]} training rows were analysed, drawn at random, to keep "
                f"within the time that autologging may take (max_overhead={settings.max_overhead:g})."
            )
        return rows

    if settings.log_artifacts:
        prepare_drawing()
    with warnings.catch_warnings():
        # The report has its own warnings; those of other libraries concern an analysis that the user did not start.
        warnings.simplefilter("ignore")
        report = run_analysis(
            ensemble,
            data.rows_for(ensemble),
            data.y,
            options,
            choose_rows=None if math.isinf(allowance) else choose_rows,
        )
    report = with_supervised_steps(report, doubts_about_training(fit.model, len(data.y)))
    return replace(report, warnings=(*cautions, *report.warnings))


def _seconds_for_digest(data: TrainingData, left: float, settings: AutologOptions) -> float:
    """Return the estimated seconds of a digest; raise InputError if it and the comparison of rows take too long."""
    passes = pass_seconds(data.X, data.y)
    if sum(passes) > max(left, 0.0):
        raise InputError(
            f"Comparing and digesting the {data.X.shape[0]} training rows takes about {sum(passes):.2g} s, more than "
            f"autologging may take (max_overhead={settings.max_overhead:g}). Raise max_overhead, or call "
            "ens_plugin.analyze later."
        )
    return passes.digest


def _refuse_resampled_layers(model: Any) -> None:
    """Raise InputError for a pipeline that resamples rows, so that autologging logs a warning."""
    try:
        for layer in layers(model):
            refuse_resampled(layer)
    except UnsupportedModelError as error:
        raise InputError(str(error)) from error


def _data_of(ensemble: Any, fit: FinishedFit) -> TrainingData | None:
    if ensemble is fit.model:
        return fit.data
    # A learner that drops members keeps a smaller copy of the ensemble that it trained.
    is_cut = any(map(is_learner, layers(fit.model))) and type(ensemble) is type(fit.ensemble)
    return fit.ensemble_data if ensemble is fit.ensemble or is_cut else None


def _n_jobs(ensemble: Any) -> int | None:
    """Return the number of threads that the fit was allowed to use."""
    n_jobs = getattr(ensemble, "n_jobs", None)
    return n_jobs if isinstance(n_jobs, int) and n_jobs != 0 else None


def _tracking_uri() -> str:
    import mlflow

    return str(mlflow.get_tracking_uri())


def _digest(data: TrainingData, settings: AutologOptions) -> str | None:
    try:
        return data_digest(data.table(), data.y)
    except InputError as error:
        inform(settings, logging.DEBUG, f"The training data have no digest: {error}")
        return None
