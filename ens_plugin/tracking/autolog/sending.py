"""The sending of a finished report to each of its destinations, within the time that autologging may take."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ens_plugin.errors import TrackingError
from ens_plugin.tracking.autolog.delivery import AVOIDED_S, unreachable
from ens_plugin.tracking.autolog.report_files import ReportFiles
from ens_plugin.tracking.autolog.settings import AutologOptions, inform, warn_once
from ens_plugin.tracking.autolog.upload_queue import Progress, Upload, post

__all__ = ["Delivery", "not_logged", "send_all"]

LEAST_WAIT_S = 1.0
SLOW_S = 4.0  # longer than it takes to find a server down, shorter than the wait at the end of a program


@dataclass(frozen=True, eq=False)
class Delivery:
    """The delivery of one report to one destination.

    Attributes
    ----------
    model : str
        Name of the model in messages.
    store : str
        Deliveries to one store are made one after the other.
    place : str
        Name of the destination in messages, such as ``"tracking server"``.
    deliver : callable
        Returns where the report was logged, such as ``"run 0a1b"``.
    is_awaited : bool
        Whether the fit waits until the delivery is over, whatever time is left.
    is_only_one : bool
        Whether the report has no other destination.
    progress : Progress
    """

    model: str
    store: str
    place: str
    deliver: Callable[[], str]
    is_awaited: bool = False
    is_only_one: bool = True
    progress: Progress = field(default_factory=Progress)


def send_all(
    deliveries: Collection[Delivery],
    files: ReportFiles | None,
    deadline: float,
    settings: AutologOptions,
) -> None:
    """Queue all deliveries of a report, and wait for them until the deadline.

    Parameters
    ----------
    deliveries : collection of Delivery
    files : ReportFiles or None
        Removed in the end.
    deadline : float
        Time on the clock ``time.perf_counter()``.
    settings : AutologOptions

    Raises
    ------
    TrackingError
        If too many reports wait for a store already.  The other deliveries are made nevertheless.
    """
    problems = []
    for delivery in deliveries:
        try:
            _send(delivery, files, deadline, settings)
        except TrackingError as error:
            problems.append(error)
    if problems:
        raise problems[0]


def _send(delivery: Delivery, files: ReportFiles | None, deadline: float, settings: AutologOptions) -> None:
    is_done = threading.Event()
    is_over = threading.Lock()

    def clean_up() -> None:
        # Of a delivery that is given up and ends after all, only the first end counts.
        if is_over.acquire(blocking=False) and files is not None:
            files.release()

    def work() -> None:
        try:
            inform(settings, logging.INFO, f"Logged the report of {delivery.model} to {delivery.deliver()}.")
        except Exception as error:
            # This runs in a worker thread, where a raised exception would be lost.
            kind = type(error).__name__ + ("" if delivery.is_only_one else f" of {delivery.place}")
            warn_once(settings, kind, _failure(delivery, error))
        finally:
            is_done.set()
            clean_up()

    def lose() -> None:
        warn_once(settings, "lost", _lost(delivery))
        clean_up()

    seconds = min(max(deadline - time.perf_counter(), LEAST_WAIT_S), threading.TIMEOUT_MAX)
    if delivery.is_awaited:
        seconds = threading.TIMEOUT_MAX
    try:
        is_sent = post(Upload(delivery.store, work, lose, delivery.progress), seconds)
    except TrackingError:
        clean_up()
        raise
    if not is_sent:
        # The upload may succeed or fail within seconds; then its own message is enough.
        watch = threading.Timer(SLOW_S, _warn_unless, (is_done, settings, _still_sending(delivery)))
        watch.daemon = True
        watch.start()


def not_logged(model: str, problem: str) -> str:
    """Return the message that a report was not logged."""
    return f"The report of {model} was not logged: {problem}"


def _failure(delivery: Delivery, error: Exception) -> str:
    message = not_logged(delivery.model, str(error))
    if unreachable(delivery.store) is None:
        return message
    there = "" if delivery.is_only_one else " there"
    return (
        f"{message} Fits of the next {AVOIDED_S:.0f} seconds get no report{there}. "
        "Call autolog() again to retry at once."
    )


def _warn_unless(is_done: threading.Event, settings: AutologOptions, message: str) -> None:
    if not is_done.is_set():
        warn_once(settings, "slow", message)


def _still_sending(delivery: Delivery) -> str:
    return f"The report of {delivery.model} is still being sent, because the {delivery.place} is slow."


def _lost(delivery: Delivery) -> str:
    lost = (
        f"The report of {delivery.model} was not sent completely before the program ended, because the "
        f"{delivery.place} was too slow. To log it, analyse the model again."
    )
    if delivery.progress.makes_run:
        return f"{lost} A run was being made for it and may stay RUNNING."
    run = delivery.progress.run_id
    return lost if run is None else f"{lost} Its run {run} is marked FAILED."
