"""Autologging: each fit of an ensemble is watched, analyzed within its allowance, and its report sent."""

from __future__ import annotations

import inspect
import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from ens_plugin.adapters.library import FitSite, Library, Reader, TrainingData, fit_methods
from ens_plugin.adapters.registry import (
    BUILT_IN_LIBRARIES,
    find_adapter,
    libraries,
    offered_adapters,
    offered_libraries,
    on_registration,
)
from ens_plugin.adapters.unwrap import inner_ensemble, is_learner, layers, refuse_resampled
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.arguments import NO_METRIC, check_options, metric_of_label
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.proof import prove_model
from ens_plugin.analysis.steps import step_findings
from ens_plugin.errors import BagError, EnsPluginError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import with_findings
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import (
    FitEvents,
    MlflowState,
    autologging_is_suspended,
    require_mlflow,
    state_of_thread,
)
from ens_plugin.tracking.digest import data_digest
from ens_plugin.tracking.log import DEFAULT_PREFIX, check_prefix
from ens_plugin.tracking.settings import LOCKS, AutologOptions, attempt, inform, warn_once
from ens_plugin.tracking.uploads import (
    ReportUpload,
    forget_report,
    forget_unreachable,
    link_logged,
    not_logged,
    remember_report,
    send_report,
    start_linking,
    stop_linking,
    unreachable,
)

Result = TypeVar("Result")
FEWEST_READ = 200  # rows; a report on fewer says little
RAISE_LIMIT = "Raise max_overhead, or call ens_plugin.analyze later."


class AnalysisTime:
    """The time that the analysis of a fit may take, and what is found where it is not enough for all rows."""

    # Nothing is foretold: members read rows, and a metric is evaluated, until the time is over.

    def __init__(self, settings: AutologOptions, fit_seconds: float, n_outputs: int = 1) -> None:
        self.findings: list[Finding] = []
        self._limit, self._n_outputs = f"max_overhead={settings.max_overhead:g}", n_outputs
        self._seconds = settings.seconds_for(fit_seconds)
        self.end = time.perf_counter() + self._seconds
        self._reading_end = self._metric_end = math.inf
        self._answers = {0: True}  # by the number of rows read

    @property
    def left(self) -> float:
        """Return the seconds left: half of all at least, so that a slow start of the program costs no report."""
        return max(self.end - time.perf_counter(), self._seconds / 2.0)

    def goes_on(self, n_read: int, n_rows: int) -> bool:
        """Return whether members may predict as many rows as they have, which takes half of the time left at most."""
        if n_read not in self._answers:
            if math.isinf(self._reading_end):
                # The first call of some members takes longer.
                self._reading_end = time.perf_counter() + self.left / 4.0 / self._n_outputs
            self._answers[n_read] = time.perf_counter() < self._reading_end
            if not self._answers[n_read]:
                self._note_end(n_read, n_rows)
        return self._answers[n_read]

    def _note_end(self, n_read: int, n_rows: int) -> None:
        if n_read < FEWEST_READ:
            raise InputError(
                f"The members take so long that {n_read} rows were predicted in the time that autologging may take "
                f"({self._limit}), too few for a report. {RAISE_LIMIT}"
            )
        sentence = (
            f"Only {n_read} of the {n_rows} training rows were analysed, drawn at random, to keep within the time that "
            f"autologging may take ({self._limit})."
        )
        self.findings.append(finding("part-of-rows", sentence, n_rows=n_read))

    def check(self) -> None:
        """Raise InputError where the evaluations of a metric have taken all the time that was left."""
        now = time.perf_counter()
        if math.isinf(self._metric_end):
            self._metric_end = now + self.left
        if now > self._metric_end:
            raise InputError(f"The metric takes longer than autologging may take ({self._limit}). {RAISE_LIMIT}")


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A fit that ended without an exception."""

    settings: AutologOptions
    model: Any
    data: TrainingData
    ensemble: Any
    ensemble_data: TrainingData | None
    seconds: float
    run_id: str | None
    problem: Exception | None = None
    step_seconds: float = 0.0


def report_fit(fit: FinishedFit) -> None:
    """Analyze the model of a finished fit, and log the report to the MLflow run of the fit."""
    settings, tracking_uri = fit.settings, _tracking_uri()
    limit = AnalysisTime(settings, fit.seconds, _column_count(fit.data.y))
    problem = unreachable(tracking_uri)
    if problem is not None:
        inform(settings, logging.DEBUG, not_logged(type(fit.model).__name__, problem))
        return
    try:
        ensemble = inner_ensemble(fit.model)
        with _turn(limit.end, settings):
            report = _analyze(ensemble, fit, limit)
            digest = _digest(fit, limit.left / 2.0)
    except EnsPluginError as error:
        if not _has_no_report(error, fit):
            raise
        inform(settings, logging.DEBUG, f"No report: {error}")
        return
    upload = ReportUpload(report, tracking_uri, fit.run_id, digest, settings)
    remember_report(upload, *layers(fit.model))
    send_report(upload, limit.end)
    link_logged(settings, *layers(fit.model))


@contextmanager
def _turn(deadline: float, settings: AutologOptions) -> Iterator[None]:
    """Hold the lock on analyses inside the block; raise InputError if it is not free by the deadline."""
    lock = LOCKS.analysis
    if not lock.acquire(timeout=min(max(deadline - time.perf_counter(), 0.0), threading.TIMEOUT_MAX)):
        raise InputError(
            "Reports of other threads used up the time that autologging may take for this fit "
            f"(max_overhead={settings.max_overhead:g}). {RAISE_LIMIT}"
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


def _analyze(ensemble: Any, fit: FinishedFit, limit: AnalysisTime) -> EnsembleReport:
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
    # As many threads as the fit was allowed to use.
    n_jobs = getattr(ensemble, "n_jobs", None)
    n_jobs = n_jobs if isinstance(n_jobs, int) and n_jobs != 0 else None
    options = replace(fit.settings.analysis, sample_weight=data.sample_weight, n_jobs=n_jobs)
    about_steps = findings_on_steps(fit, limit.left)
    with warnings.catch_warnings():
        # The report has its own warnings; those of other libraries concern an analysis that the user did not start.
        warnings.simplefilter("ignore")
        report = run_analysis(
            ensemble,
            data.rows_for(ensemble),
            data.y,
            options,
            limit=None if math.isinf(limit.end) else limit,
        )
    if report.proof is not None and fit.data.X is not None:
        # Of the whole model that was fitted, such as a pipeline, by rows as it got them.
        proof = prove_model(fit.model, fit.data.X, np.array(report.proof.positions))
        report = replace(report, proof=proof)
    return with_findings(report, (*limit.findings, *about_steps))


def _column_count(y: Any) -> int:
    shape = np.shape(y)
    return shape[1] if len(shape) > 1 else 1


def findings_on_steps(fit: FinishedFit, left: float) -> tuple[Finding, ...]:
    """Return what is found about the steps before the ensemble, fitted again unless their fits took too long."""
    reason = ""
    # Each is fitted, and transforms the rows, in half of the time at most: the other half is for the members.
    if fit.step_seconds > left / 4.0:
        reason = (
            f"its fit took {fit.step_seconds:.2g} s, too long to repeat in the time that autologging may take, "
            f"max_overhead={fit.settings.max_overhead:g}; raise max_overhead, or call ens_plugin.analyze later"
        )
    elif fit.data.X is None:
        reason = "the rows that were passed to its fit are no longer available"
    return step_findings(fit.model, fit.data.X, fit.data.y, as_trained=True, not_judged=reason)


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


def _tracking_uri() -> str:
    import mlflow

    return str(mlflow.get_tracking_uri())


def _digest(fit: FinishedFit, seconds: float) -> str | None:
    try:
        return data_digest(fit.data.table(), fit.data.y, seconds)
    except TimeoutError:
        warn_once(
            fit.settings,
            "digest",
            "The training data have no digest, because it takes longer than autologging may take "
            f"(max_overhead={fit.settings.max_overhead:g}).",
        )
    except InputError as error:
        inform(fit.settings, logging.DEBUG, f"The training data have no digest: {error}")
    return None


@dataclass(eq=False)
class _Scope:
    """An outermost fit while it runs, and the ensemble that was last fitted inside it."""

    ensemble: Any = None
    data: TrainingData | None = None
    step_seconds: float = 0.0
    ended: float = field(default_factory=time.perf_counter)


class _Watch(NamedTuple):
    """Autologging while it is on: its settings, and MLflow's events around fits."""

    settings: AutologOptions
    events: FitEvents


class _ThreadState(threading.local):
    scope: _Scope | None = None
    before: MlflowState | None = None
    pending: FinishedFit | None = None  # until MLflow has logged its model


_thread = _ThreadState()
_watch: _Watch | None = None


def watched(original: Callable[..., Any], read: Reader, *, returns_model: bool) -> Callable[..., Any]:
    """Return a function that calls `original`, a ``fit`` or ``train`` function, and reports each outermost call."""
    signature = inspect.signature(original)

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        watch, scope = _watch, _thread.scope
        # A name for the frame itself would keep the rows of the fit alive.
        caller = getattr(inspect.currentframe(), "f_back", None)
        if watch is None or watch.settings.process != os.getpid():
            return original(*args, **kwargs)
        model = None if returns_model or not args else args[0]
        forget_report(model)
        if scope is None and not _is_outermost(model, caller):
            return original(*args, **kwargs)
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            # `original` raises the same error.
            return original(*args, **kwargs)
        data, problem = _read(read, arguments)
        if scope is None:
            in_mlflow = _module(caller).startswith("mlflow.")
            return _report_after(lambda: original(*args, **kwargs), model, data, problem, watch, in_mlflow)
        begun = time.perf_counter()
        result = original(*args, **kwargs)
        if problem is None:
            attempt(watch.settings, lambda: _remember(scope, model, data, begun))
        return result

    return call


def _read(read: Reader, arguments: Mapping[str, Any]) -> tuple[TrainingData, Exception | None]:
    """Return the training data among the arguments of a fit; without data, the problem, which the fit may have too."""
    try:
        return read(arguments), None
    except Exception as error:  # of another library, and told after the fit, where the fit itself succeeds
        return TrainingData(None, None), error


def note_start() -> None:
    """Record this thread's MLflow state before MLflow starts a run and a model for a fit."""
    watch = _watch
    if watch is not None and _thread.scope is None:
        _thread.before = attempt(watch.settings, state_of_thread)


def forget_start() -> None:
    """Discard the state that :func:`note_start` recorded: its fit raised, or is not watched."""
    if _thread.scope is None:
        _thread.before = None


def report_pending() -> None:
    """Report the fit of this thread that waited for MLflow to log its model, if any."""
    forget_start()
    pending, _thread.pending = _thread.pending, None
    if pending is not None:
        attempt(pending.settings, lambda: report_fit(pending))


def _report_after(
    fit: Callable[[], Result],
    model: Any,
    data: TrainingData,
    problem: Exception | None,
    watch: _Watch,
    in_mlflow: bool,
) -> Result:
    # Without a recorded state, MLflow's autologging ignores this fit, or another logger receives its events.
    noted = in_mlflow and _thread.before is not None and watch.events.is_current()
    before = _thread.before if noted else attempt(watch.settings, state_of_thread)
    if before is None or (watch.settings.exclusive and before.is_users):
        return fit()
    _thread.scope = scope = _Scope()
    start = time.perf_counter()
    try:
        result = fit()
    finally:
        _thread.scope = None
    seconds = time.perf_counter() - start

    def finish() -> None:
        after = state_of_thread()
        finished = FinishedFit(
            settings=watch.settings,
            model=result if model is None else model,
            data=data,
            ensemble=scope.ensemble,
            ensemble_data=scope.data,
            seconds=seconds,
            run_id=after.active_run or (after.last_run if after.last_run != before.last_run else None),
            problem=problem,
            step_seconds=scope.step_seconds,
        )
        if noted:
            _thread.pending = finished
        else:
            report_fit(finished)

    attempt(watch.settings, finish)
    return result


def _remember(scope: _Scope, model: Any, data: TrainingData, begun: float) -> None:
    if inner_ensemble(model) is model:
        scope.ensemble, scope.data = model, data
        scope.step_seconds, scope.ended = begun - scope.ended, time.perf_counter()


def _is_outermost(model: Any, caller: FrameType | None) -> bool:
    if autologging_is_suspended():
        return False
    # A library that a program defines itself cannot be distinguished from the program, whose fits are outermost.
    homes = {"ens_plugin", *(library.library for library in libraries())} - {"__main__"}
    frame = caller
    while frame is not None and not _fits_parts(frame, model, homes):
        frame = frame.f_back
    return frame is None


def _fits_parts(frame: FrameType, model: Any, homes: Collection[str]) -> bool:
    """Return whether a frame runs code of one of the libraries `homes`, other than a method of `model` itself."""
    name = _module(frame)
    # The decorator around every scikit-learn fit is in sklearn.base.
    if name == "sklearn.base" or not any(name == home or name.startswith(f"{home}.") for home in homes):
        return False
    return model is None or frame.f_locals.get("self") is not model


def _module(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


# By replacement. An attribute of the replacement would be wrong: MLflow copies attributes to its own patch.
_originals: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()
_replacements: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()  # by original


# All sites that were ever patched: MLflow moves our functions between their attributes.
_sites: dict[FitSite, None] = {}


def patch(sites: Iterable[FitSite]) -> None:
    """Replace training functions by functions that report each fit; those already replaced stay."""
    for site in sites:
        _sites[site] = None
        for attribute in _attributes(site):
            function = vars(site.owner)[attribute]
            if function not in _originals:
                replacement = _replacement(site, attribute, function)
                _originals[replacement] = function
                setattr(site.owner, attribute, replacement)


def _replacement(site: FitSite, attribute: str, function: Callable[..., Any]) -> Callable[..., Any]:
    is_module = isinstance(site.owner, ModuleType)
    # A program may keep a reference to a module's function, so each call returns the same replacement.
    if is_module and function in _replacements:
        return _replacements[function]
    replacement: Any = watched(function, site.read, returns_model=is_module)
    # pickle finds a function by these names; the defining module still has the library's own function.
    replacement.__module__ = site.owner.__name__ if is_module else site.owner.__module__
    replacement.__qualname__ = attribute if is_module else f"{site.owner.__qualname__}.{attribute}"
    if is_module:
        _replacements[function] = replacement
    return cast("Callable[..., Any]", replacement)


def unpatch() -> None:
    """Restore the training functions that :func:`patch` has replaced."""
    for site in _sites:
        for attribute in _attributes(site):
            function = vars(site.owner)[attribute]
            if function in _originals:
                setattr(site.owner, attribute, _originals[function])


def _attributes(site: FitSite) -> Iterator[str]:
    # The second one has the function that MLflow restores when its own autologging is enabled again or disabled.
    for attribute in (site.name, f"_gorilla_original_{site.name}"):
        if attribute in vars(site.owner):
            yield attribute


def autolog(
    disable: bool = False,
    silent: bool = False,
    exclusive: bool = False,
    *,
    max_overhead: float = 0.1,
    prefix: str = DEFAULT_PREFIX,
    log_artifacts: bool = True,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    tolerance: float | None = AnalysisOptions.tolerance,
) -> None:
    """Log a report to MLflow after every fit of a bagged ensemble.

    From now on, the report of every successful ``fit`` that :func:`ens_plugin.analyze` can judge by its
    out-of-bag rows is logged to the MLflow run of that fit: the one that MLflow's own autologging uses,
    whichever of the two was enabled first, else the active run, else a new one.  Covered are
    scikit-learn's ``RandomForest*``, ``ExtraTrees*`` and ``Bagging*``, XGBoost's parallel trees and
    LightGBM in ``rf`` mode (``train`` and the scikit-learn classes), alone or at the end of a
    ``Pipeline``, a ``RightSized*`` or a search, which reports its best estimator.  Other models get
    no report, nor do fits that belong to something larger (a search's candidates,
    cross-validation, the members of a bagging ensemble) or run in worker processes.

    It never raises an exception in your code, never changes what ``fit`` returns and never waits long for a
    server.  Each kind of problem is logged once as a warning by the logger ``ens_plugin.autolog``.

    Parameters
    ----------
    disable : bool, default=False
        Restore the libraries' own functions: no fit is reported any more.
    silent : bool, default=False
        Log nothing to the logger ``ens_plugin.autolog``: neither warnings nor which run got a report.
    exclusive : bool, default=False
        Do not log to runs that you have opened yourself.
    max_overhead : float, default=0.1
        Share of a fit's time that its report may take; 2 seconds are always allowed.  Where that is not
        enough for all rows, the ensemble is judged by those that it has predicted in half of the time, drawn
        at random, and the report warns of it.  ``math.inf`` removes the limit.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.  A run's second report is called ``<prefix>_2``, and so on.
    log_artifacts : bool, default=True
        Whether the report's files are logged too.
    metric : str, scorer or callable, optional
        As for :func:`ens_plugin.analyze`; curve and recommended size are of it.  Fits of the other task get no report,
        and the first one a warning.  It is computed on 5000 random rows at most, and where up to about 900
        evaluations of it take longer than `max_overhead` allows, there is a warning and no report.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.
    criterion, tolerance : optional
        What the recommended size has to be enough for, as for :func:`ens_plugin.analyze`.  A criterion of labels is for
        classifiers; other fits get no report, and the first one a warning.

    Raises
    ------
    InputError
        If a switch is neither True nor False, no scorer of scikit-learn has the name `metric`, `criterion`
        or `tolerance` is out of range, `max_overhead` is not a share, or no name can start with `prefix`.
    TrackingError
        If MLflow, whose hooks tell when a fit has ended, is not installed.

    Notes
    -----
    A run also gets the tag ``ens.data_digest``, a digest of X and y as they were passed to ``fit``, by which the
    training data can be recognised later.  If MLflow's autologging logs the model, the scalars and
    the tag are linked to it.  ``docs/how-to/autolog.md`` has the details.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ens_plugin.autolog()
    >>> RandomForestClassifier(200).fit(X, y)  # doctest: +SKIP
    >>> ens_plugin.autolog(disable=True)
    """
    switches = {"disable": disable, "silent": silent, "exclusive": exclusive, "log_artifacts": log_artifacts}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name}={printable(repr(value), 80)} is neither True nor False. Pass one of them.")
    if not (isinstance(max_overhead, (int, float)) and max_overhead >= 0):
        raise InputError(
            f"max_overhead={max_overhead!r} is not a share of the fit's time. Pass 0.1 for a tenth of it, or math.inf "
            "for no limit."
        )
    check_prefix(prefix)
    analysis = AnalysisOptions(metric=metric_of_label(metric, positive_label), criterion=criterion, tolerance=tolerance)
    check_options(analysis)
    if criterion == "metric" and metric is None:
        raise InputError(NO_METRIC)
    if not disable:
        require_mlflow()
    with LOCKS.switch:
        _disable()
        if not disable:
            _enable(AutologOptions(silent, exclusive, float(max_overhead), prefix, log_artifacts, analysis))


def _enable(settings: AutologOptions) -> None:
    global _watch
    from ens_plugin.sizing.right_sized import RightSizedClassifier, RightSizedRegressor

    forget_unreachable()
    _watch = _Watch(settings, FitEvents(note_start, report_pending, forget_start))
    start_linking(settings)
    patch(fit_methods(RightSizedClassifier, RightSizedRegressor))
    on_registration(_watch_when_imported)
    for library in libraries():
        _watch_when_imported(library)
    for name in (*BUILT_IN_LIBRARIES, *offered_libraries()):
        _register_hook(name)


def _disable() -> None:
    global _watch
    if _watch is None:
        return
    events, _watch = _watch.events, None
    stop_linking()
    unpatch()
    events.stop()


def _watch_when_imported(library: type[object]) -> None:
    if _watch is not None and issubclass(library, Library):
        _register_hook(library.library)


def _register_hook(library: str) -> None:
    from mlflow.utils.import_hooks import register_post_import_hook

    # At once if it is imported already; a hook of the same name is replaced.
    register_post_import_hook(_watch_imported, library, overwrite=True)


def _watch_imported(module: ModuleType) -> None:
    with LOCKS.switch:
        if _watch is None:
            return
        try:
            for library in libraries(module.__name__):
                patch(library.fit_sites())
            # Raises the error of adapters that cannot be loaded, which are not among the libraries.
            offered_adapters(module.__name__)
        except Exception as error:
            # The user's import must not fail because of this.
            warn_once(_watch.settings, "patch", f"Fits of {module.__name__} get no reports: {error}")
