"""Uploads in worker threads, one for each store, and the wait for them at the end of the program."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ens_plugin.errors import TrackingError

__all__ = ["EXIT_S", "Progress", "Upload", "call_at_exit", "post", "wait_until_sent"]

MAX_WAITING = 20  # in one store's queue
EXIT_S = 30.0  # the end of a program waits this long for its reports,
UNREACHED_S = 5.0  # this long for those to a store that was never reached,
ENDING_S = 60.0  # and this much longer where a run being made would stay RUNNING
POLL_S = 0.02


@dataclass(eq=False)
class Progress:
    """State of an upload, by which the end of the program decides how long to wait.

    Attributes
    ----------
    is_reachable : bool
        Whether the store was reached.
    run_id : str or None
        Run that was made for the upload, once it is not RUNNING any more.
    makes_run : bool
        Whether a run is being made.
    place : tuple of str, or None
        Run and prefix of the report, once it is logged with its files.
    """

    is_reachable: bool = False
    run_id: str | None = None
    makes_run: bool = False
    place: tuple[str, str] | None = None
    _is_given_up: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make_run(self) -> None:
        """Record that a run is being made, which the end of the program must not leave RUNNING.

        Raises
        ------
        TrackingError
            If the program is ending.
        """
        with self._lock:
            if self._is_given_up:
                raise TrackingError(
                    "The program ended before a run was made for the report. To log it, analyse the model again."
                )
            self.makes_run = True

    def run_made(self, run_id: str) -> None:
        """Record the run that was made, once it is not RUNNING any more."""
        with self._lock:
            self.run_id, self.makes_run = run_id, False

    def give_up(self) -> bool:
        """Forbid making a run from now on, and return True; return False where one is being made at this moment."""
        with self._lock:
            self._is_given_up = not self.makes_run
            return self._is_given_up


@dataclass(frozen=True, eq=False)
class Upload:
    """One upload to a store, and its state.

    Attributes
    ----------
    store : str
        Tracking URI.
    send : callable
        Sends it; must not raise.
    lose : callable
        Called at the end of the program if the upload is given up.
    progress : Progress
    sent : threading.Event
    """

    store: str
    send: Callable[[], object]
    lose: Callable[[], object] = lambda: None
    progress: Progress = field(default_factory=Progress)
    sent: threading.Event = field(default_factory=threading.Event)


# By store. Each queue has one worker thread, which is sending its first upload; none is empty.
_queues: dict[str, deque[Upload]] = {}
_lock = threading.Lock()
_is_waited_for = False
_first_at_exit: dict[Callable[[], object], None] = {}


def post(upload: Upload, seconds: float) -> bool:
    """Queue an upload behind earlier ones to the same store, and wait at most `seconds` for it.

    Parameters
    ----------
    upload : Upload
    seconds : float

    Returns
    -------
    bool
        True if it was sent; if not, it continues in the background.

    Raises
    ------
    TrackingError
        If 20 others are waiting for the same store already, or no thread can be started.
    """
    _wait_at_exit()
    with _lock:
        waiting = _queues.setdefault(upload.store, deque())
        if len(waiting) > MAX_WAITING:
            raise TrackingError(
                f"{MAX_WAITING} reports are waiting for the tracking server already, so this one is dropped. Check the "
                "server, or log to another store."
            )
        waiting.append(upload)
        if len(waiting) == 1:
            _start_worker(upload.store)
    return upload.sent.wait(seconds)


def call_at_exit(work: Callable[[], object]) -> None:
    """Register `work` to be called when the program ends, before the wait for uploads.

    Parameters
    ----------
    work : callable
        Must not raise.  It is called once, however often it is passed.
    """
    _wait_at_exit()
    _first_at_exit[work] = None


def wait_until_sent(seconds: float) -> bool:
    """Wait at most `seconds` for all uploads to all stores, and return whether they were sent.

    Parameters
    ----------
    seconds : float
    """
    deadline = time.monotonic() + seconds
    return all(upload.sent.wait(max(deadline - time.monotonic(), 0.0)) for upload in _unsent())


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
            with _lock:
                waiting.popleft()
                # An upload that is posted after this has a queue and a worker of its own.
                if not waiting:
                    del _queues[store]
            upload.sent.set()


def _unsent() -> list[Upload]:
    with _lock:
        return [upload for waiting in _queues.values() for upload in waiting]


def _wait_at_exit() -> None:
    global _is_waited_for
    with _lock:
        if _is_waited_for:
            return
        _is_waited_for = True
    # MLflow sends files by thread pools; functions registered by this one run while the pools still accept work.
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(_end)
    except RuntimeError:
        # The program is ending already.
        atexit.register(_end)


def _end() -> None:
    pending: list[Upload] = []
    try:
        for work in _first_at_exit:
            work()
        start, pending = time.monotonic(), _unsent()
        while pending := [upload for upload in pending if not _is_over(upload, time.monotonic() - start)]:
            pending[0].sent.wait(POLL_S)
    except KeyboardInterrupt:
        # Ctrl-C: the user does not want to wait.
        for upload in pending:
            upload.progress.give_up()
            upload.lose()


def _is_over(upload: Upload, waited: float) -> bool:
    if upload.sent.is_set():
        return True
    patience = EXIT_S if upload.progress.is_reachable else UNREACHED_S
    if waited < patience or (not upload.progress.give_up() and waited < patience + ENDING_S):
        return False
    upload.lose()
    return True


def _begin_again() -> None:
    """Forget the uploads of the parent process: a forked child does not have the threads that send them."""
    global _lock
    _lock = threading.Lock()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
