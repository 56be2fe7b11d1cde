"""Watched fits: which call is the outermost, its MLflow run, and the data that the ensemble inside was fitted on."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any, TypeVar

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.registry import libraries
from ens_plugin.adapters.training import Reader, TrainingData
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.tracking.autolog.destinations import destinations_of_fit
from ens_plugin.tracking.autolog.fit_report import FinishedFit, report_fit
from ens_plugin.tracking.autolog.growth import continues_growth, report_grown, report_later
from ens_plugin.tracking.autolog.logged_models import forget_report
from ens_plugin.tracking.autolog.settings import AutologOptions, attempt
from ens_plugin.tracking.store.mlflow_events import FitEvents
from ens_plugin.tracking.store.mlflow_state import MlflowState, autologging_is_suspended, state_of_thread

__all__ = [
    "forget_start",
    "note_start",
    "report_pending",
    "start_watching",
    "stop_watching",
    "watched",
]

Result = TypeVar("Result")

DECORATORS = {"sklearn.base"}  # where the decorator around every scikit-learn fit is


@dataclass(eq=False)
class _Scope:
    """An outermost fit while it runs, and the ensemble that was last fitted inside it."""

    ensemble: Any = None
    data: TrainingData | None = None


@dataclass(frozen=True, eq=False)
class _Pending:
    """A finished fit that is reported when MLflow has logged its model."""

    fit: FinishedFit
    before: MlflowState
    settings: AutologOptions
    is_growth: bool


@dataclass(frozen=True, eq=False)
class _Watch:
    settings: AutologOptions
    events: FitEvents


class _ThreadState(threading.local):
    scope: _Scope | None = None
    before: MlflowState | None = None
    pending: _Pending | None = None


_thread = _ThreadState()
_watch: _Watch | None = None


def start_watching(settings: AutologOptions, events: FitEvents) -> None:
    """Report every fit of a watched function from now on."""
    global _watch
    _watch = _Watch(settings, events)


def stop_watching() -> None:
    """Report the ensembles that have grown, and no fit from now on."""
    global _watch
    _watch = None
    report_grown()


def watched(original: Callable[..., Any], read: Reader, *, returns_model: bool) -> Callable[..., Any]:
    """Return a function that calls `original`, a ``fit`` or ``train`` function, and reports each outermost call.

    Parameters
    ----------
    original : callable
    read : callable
        Returns the training data from the arguments of a call, given by name.
    returns_model : bool
        Whether the trained model is what `original` returns; else it is the first argument.
    """
    signature = inspect.signature(original)

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        watch, scope, caller = _watch, _thread.scope, _caller()
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
        result = original(*args, **kwargs)
        if problem is None:
            attempt(watch.settings, lambda: _remember(scope, model, data))
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
    if pending is None:
        return

    def report() -> None:
        model_id = _new_model(pending.before, state_of_thread())
        _report_or_wait(pending.fit, model_id, pending.settings, pending.is_growth)

    attempt(pending.settings, report)


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
    if before is None or not destinations_of_fit(watch.settings, before.is_users):
        return fit()
    report_grown(threading.get_ident(), model)
    is_growth = bool(attempt(watch.settings, lambda: continues_growth(model)))
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
            model=result if model is None else model,
            data=data,
            ensemble=scope.ensemble,
            ensemble_data=scope.data,
            seconds=seconds,
            run_id=after.active_run or (after.last_run if after.last_run != before.last_run else None),
            destinations=destinations_of_fit(watch.settings, before.is_users),
            problem=problem,
        )
        if noted:
            _thread.pending = _Pending(finished, before, watch.settings, is_growth)
        else:
            _report_or_wait(finished, _new_model(before, after), watch.settings, is_growth)

    attempt(watch.settings, finish)
    return result


def _report_or_wait(fit: FinishedFit, model_id: str | None, settings: AutologOptions, is_growth: bool) -> None:
    if not (is_growth and report_later(fit, model_id, settings)):
        report_fit(fit, model_id, settings)


def _new_model(before: MlflowState, after: MlflowState) -> str | None:
    return after.last_model if after.last_model != before.last_model else None


def _remember(scope: _Scope, model: Any, data: TrainingData) -> None:
    if inner_ensemble(model) is model:
        scope.ensemble, scope.data = model, data


def _is_outermost(model: Any, caller: FrameType | None) -> bool:
    if autologging_is_suspended():
        return False
    # A library that a program defines itself cannot be distinguished from the program, whose fits are outermost.
    homes = {"ens_plugin", *(library.library for library in libraries(Trainable))} - {"__main__"}
    return not any(_fits_parts(frame, model, homes) for frame in _frames(caller))


def _fits_parts(frame: FrameType, model: Any, homes: Collection[str]) -> bool:
    """Return whether a frame runs code of one of the libraries `homes`, other than a method of `model` itself.

    Frames are right in threads, too, and for functions that were imported before they were replaced.
    """
    name = _module(frame)
    if name in DECORATORS or not any(name == home or name.startswith(f"{home}.") for home in homes):
        return False
    return model is None or frame.f_locals.get("self") is not model


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _caller() -> FrameType | None:
    """Return the frame from which a watched function was called."""
    own = inspect.currentframe()
    return None if own is None or own.f_back is None else own.f_back.f_back


def _module(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))
