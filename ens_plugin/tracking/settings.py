"""The options of autologging, its messages, and what its threads share."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ens_plugin.analysis.options import AnalysisOptions

Result = TypeVar("Result")

LEAST_SECONDS = 2.0  # a report may always take this long, however short the fit was

_logger = logging.getLogger("ens_plugin.autolog")


class SharedLocks:
    """The locks of a process, which a forked child has anew: the threads that held them do not exist there."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Make all locks anew."""
        self.switch = threading.RLock()  # held while autologging is switched
        # All threads of a process share matplotlib's defaults and the number of BLAS threads.
        self.analysis = threading.Lock()
        self.queues = threading.Lock()


LOCKS = SharedLocks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOCKS.renew)


@dataclass(frozen=True, eq=False)
class AutologOptions:
    """The arguments of one call of :func:`ens_plugin.autolog`."""

    silent: bool
    exclusive: bool
    max_overhead: float
    prefix: str
    log_artifacts: bool
    analysis: AnalysisOptions
    process: int = field(default_factory=os.getpid)
    warned: dict[str, object] = field(default_factory=dict)

    def seconds_for(self, fit_seconds: float) -> float:
        """Return the seconds that the report of a fit of `fit_seconds` seconds may take."""
        return max(self.max_overhead * fit_seconds, LEAST_SECONDS)


def warn_once(settings: AutologOptions, kind: str, message: str) -> None:
    """Log a warning, or at the debug level if one of the same kind was logged before."""
    if settings.silent:
        return
    token = object()
    # setdefault is atomic: of several threads, exactly one stores its own token.
    if settings.warned.setdefault(kind, token) is token:
        _logger.warning("%s Further messages of this kind are logged at level DEBUG.", message)
    else:
        _logger.debug(message)


def inform(settings: AutologOptions, level: int, message: str) -> None:
    """Log a message at `level`, unless autologging is silent."""
    if not settings.silent:
        _logger.log(level, message)


def attempt(settings: AutologOptions, work: Callable[[], Result]) -> Result | None:
    """Return what `work` returns; where it raises, log a warning and return None, so that the user's fit goes on."""
    try:
        return work()
    except Exception as error:  # whatever goes wrong in a report must not reach the user's fit
        warn_once(settings, type(error).__name__, f"This fit gets no report; the fit itself is not affected. {error}")
        return None
