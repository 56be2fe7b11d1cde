"""The end of a command that waits too long for a server: one watchdog around the whole command.

The timeout of a connection is for each single byte, so a server that sends a byte now and then would hold a command
for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_lock = threading.Lock()
_n_steps = _n_held = 0


def note_progress() -> None:
    """Tell the watchdog that a step of the command is done."""
    global _n_steps
    with _lock:
        _n_steps += 1


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep the watchdog from ending the command inside the block, as between a write and reading it back."""
    global _n_held
    with _lock:
        _n_held += 1
    try:
        yield
    finally:
        note_progress()
        with _lock:
            _n_held -= 1


@contextmanager
def watched(seconds: float, folder: Path, give_up: Callable[[], None]) -> Iterator[None]:
    """Call `give_up`, which ends the process, after so many seconds without progress inside the block."""
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(seconds, folder, give_up, is_over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_over.set()
        watch.join()


def _watch(seconds: float, folder: Path, give_up: Callable[[], None], is_over: threading.Event) -> None:
    state, since = _state(folder), time.monotonic()
    # The watchdog looks so often whether there was progress.
    while not is_over.wait(min(0.25, seconds)):
        now = _state(folder)
        if now != state:
            state, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            with _lock:
                # Held from now on, no block can begin in which it must not end.
                if not _n_held:
                    give_up()
            since = time.monotonic()


def _state(folder: Path) -> tuple[int, int]:
    return _n_steps, sum(_size(path) for path in folder.rglob("*"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        # Removed meanwhile.
        return 0
