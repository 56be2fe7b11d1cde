"""A temporary folder that the next process removes where this one is killed."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

__all__ = ["scratch_folder"]

PREFIX = "ens_plugin-gate-"
LOCK = "lock"
# A younger folder without a lock file may belong to a process that is about to write it.
GRACE_S = 60.0
# Where files cannot be locked, a folder older than this is taken to have no owner.
LONGEST_S = 24 * 3600.0


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder that exists for the length of the block, after removing those of processes that have ended.

    Yields
    ------
    Path

    Examples
    --------
    >>> with scratch_folder() as folder:
    ...     _ = (folder / "report.json").write_text("{}")
    >>> folder.exists()
    False
    """
    _sweep(Path(gettempdir()))
    folder = Path(mkdtemp(prefix=PREFIX))
    try:
        # Locked before it gets its name, so that no other process finds it unlocked.
        unlocked = folder / f"{LOCK}-to-be"
        with unlocked.open("wb") as lock:
            _try_lock(lock.fileno())
            if sys.platform != "win32":
                unlocked.rename(folder / LOCK)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(directory: Path) -> None:
    for folder in directory.glob(f"{PREFIX}*"):
        try:
            if _is_mine(folder) and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # Another process removed it first.
            continue


def _is_mine(folder: Path) -> bool:
    found = folder.lstat()
    return folder.is_dir() and not folder.is_symlink() and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())


def _is_abandoned(folder: Path) -> bool:
    lock, age = folder / LOCK, time.time() - folder.stat().st_mtime
    if sys.platform == "win32":
        return age > LONGEST_S
    if lock.is_symlink() or not lock.is_file():
        return age > GRACE_S
    with lock.open("rb") as file:
        return _try_lock(file.fileno())


def _try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False where another process has locked it or locks do not work."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
