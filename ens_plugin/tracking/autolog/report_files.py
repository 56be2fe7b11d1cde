"""The files of a report that autologging sends; page and figures are drawn in a process of their own.

Matplotlib's settings belong to a process.  Drawn in that of the fit while its code goes on, a report could change the
style of the user's own figures.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from ens_plugin.errors import TrackingError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.autolog.settings import AutologOptions, warn
from ens_plugin.tracking.logging.artifacts import draw_files, write_data

__all__ = ["ReportFiles", "draw", "end_drawing", "prepare_drawing", "serve"]

DRAWN = (".html", ".png")
DRAWING_S = 30.0  # as long as the end of a program waits for its reports
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from ens_plugin.tracking.autolog.report_files import serve; serve()"

# By the process that started them: a forked child has none.
_drawing: dict[int, subprocess.Popen[str]] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class ReportFiles:
    """The files of a report in a folder, which is removed when the last of its deliveries is over.

    Parameters
    ----------
    report : EnsembleReport
        Its data are written at once.
    n_deliveries : int
    settings : AutologOptions
    """

    def __init__(self, report: EnsembleReport, n_deliveries: int, settings: AutologOptions) -> None:
        self._model, self._settings = report.model, settings
        self._left, self._is_drawn, self._lock = n_deliveries, False, threading.Lock()
        self._folder = TemporaryDirectory(prefix="ens_plugin-")
        try:
            write_data(report, Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def folder(self) -> Path:
        """The folder, which holds the data from the beginning."""
        return Path(self._folder.name)

    def draw(self) -> list[Path]:
        """Draw page and figures, once, and return them; where they cannot be drawn, log a warning, each time."""
        with self._lock:
            if not self._is_drawn:
                self._is_drawn = True
                try:
                    draw(self.folder)
                except TrackingError as error:
                    warn(
                        self._settings,
                        f"The report of {self._model} has no page and not all figures: {error} To draw them, load "
                        "report.json with EnsembleReport.from_json(...) and call its to_html(path).",
                    )
            return sorted(file for file in self.folder.iterdir() if file.suffix in DRAWN)

    def release(self) -> None:
        """Count one delivery as over; after the last one, remove the folder."""
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._folder.cleanup()


def prepare_drawing() -> None:
    """Start the process that draws, which takes a second or two to begin, unless it runs already."""
    # Where another thread has the lock, the process runs.
    if _lock.acquire(blocking=False):
        try:
            # A problem is told with the report that it concerns.
            with suppress(TrackingError):
                _process()
        finally:
            _lock.release()


def end_drawing() -> None:
    """End the process that draws, if this process started one."""
    process = _drawing.pop(os.getpid(), None)
    if process is not None:
        process.kill()
        process.communicate()


# Called after the wait for uploads, for which the process may still draw.
atexit.register(end_drawing)


def draw(folder: Path) -> None:
    """Draw the page and the figures of the report whose data are in a folder.

    Raises
    ------
    TrackingError
        If they could not be drawn, or not within half a minute.
    """
    with _lock:
        process = _process()
        limit = threading.Timer(DRAWING_S, process.kill)
        limit.daemon = True
        limit.start()
        try:
            answer = _answer(process, folder)
        except OSError:
            answer = ""
        finally:
            limit.cancel()
    if not answer:
        raise TrackingError(f"the process that draws them ended, or had not drawn them after {DRAWING_S:g} seconds.")
    if problem := json.loads(answer):
        raise TrackingError(f"they could not be drawn ({problem}).")


def _answer(process: subprocess.Popen[str], folder: Path) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(str(folder)) + "\n")
    process.stdin.flush()
    return process.stdout.readline()


def _process() -> subprocess.Popen[str]:
    running = _drawing.get(os.getpid())
    if running is not None and running.poll() is None:
        return running
    end_drawing()
    # The executable of a frozen program is the program itself, which would run again.
    if not sys.executable or getattr(sys, "frozen", False):
        raise TrackingError("no Python interpreter is known that could draw them beside this program.")
    try:
        _drawing[os.getpid()] = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Ctrl-C in the terminal is for the program; this process ends with its standard input.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise TrackingError(f"the process that draws them could not be started ({error}).") from error
    return _drawing[os.getpid()]


def serve() -> None:
    """Draw the reports whose folders come by the standard input, one a line, and answer each with its problem or ""."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            folder = Path(json.loads(line))
            draw_files(EnsembleReport.from_json((folder / "report.json").read_text(encoding="utf-8")), folder)
            problem = ""
        except Exception as error:  # an unexpected error in one report must not leave the next ones undrawn
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps(problem), file=answers, flush=True)
