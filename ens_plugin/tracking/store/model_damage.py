"""Checks for damaged model files, which could make a library read beyond its memory.

Model libraries follow the indices in a file unchecked: a damaged file can end the process or keep it busy for ever.
Texts and documents are checked before their library reads them, and trees right after.  A pickle is first read by a
separate process, which costs the time and the memory of reading it once more.  On Linux that process is a fork.  It is
a fresh interpreter on other systems, where threads are running, and where the pickle holds a booster, whose library may
not work in a fork.
"""

from __future__ import annotations

import bz2
import faulthandler
import gzip
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ens_plugin.adapters.library import FileReadable, Storable
from ens_plugin.adapters.registry import libraries, load_offered_adapters
from ens_plugin.adapters.shared.held_objects import held_objects
from ens_plugin.errors import ModelLoadError

__all__ = ["damaged", "library_of_file", "probe", "refuse_damaged_file", "refuse_damaged_model"]

# Limits of computing time (a busy machine must not make a sound model look damaged) and of waiting time.
CPU_S = 10
PATIENCE_S = 300
BYTES_PER_S = 10_000_000
CHUNK = 2**20
POLL_S = 0.005
ZLIB_START = b"\x78"
# Of the protocols 2 to 5, which joblib and cloudpickle write too.
PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
ZIP_START = b"PK\x03\x04"
LZ4_START = b"\x04\x22\x4d\x18"
OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZ": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x5d\x00": lzma.open,
}
PROBE = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from ens_plugin.tracking.store.model_damage import probe; probe(sys.argv[1])"
)
FINISHED = (0, 1)


def library_of_file(start: bytes) -> type[FileReadable] | None:
    """Return the library whose model files begin with `start`; None for pickles, archives and unknown files.

    Parameters
    ----------
    start : bytes
        The first 64 bytes of the file.
    """
    library = _reader_among_loaded(start)
    if library is None and not start.startswith((*OPENERS, *PICKLE_STARTS, ZIP_START, ZLIB_START, LZ4_START)):
        load_offered_adapters()
        library = _reader_among_loaded(start)
    return library


def _reader_among_loaded(start: bytes) -> type[FileReadable] | None:
    return next((library for library in libraries(FileReadable) if library.reads(start)), None)


def refuse_damaged_file(path: Path, modules: Sequence[str] = ()) -> None:
    """Raise ModelLoadError for a file that would end the process, or keep it busy for ever, when it is read.

    Parameters
    ----------
    path : Path
    modules : sequence of str
        Directories with modules that a pickle needs.

    Raises
    ------
    ModelLoadError
        If the file is damaged.  A file that is no model at all passes: its reader refuses it.
    """
    with path.open("rb") as file:
        start = file.read(64)
    library = library_of_file(start)
    if library is not None:
        reason = library.find_file_damage(path.read_bytes())
        if reason is not None:
            raise ModelLoadError(damaged(path, library.title, reason))
    elif not zipfile.is_zipfile(path):
        _refuse_deadly_pickle(path, start, modules)


def refuse_damaged_model(model: object, source: str) -> None:
    """Raise ModelLoadError for a model that was read, but has damaged trees.

    Raises
    ------
    ModelLoadError
    """
    reason = _find_damage(model, libraries(Storable))
    if reason is not None:
        raise ModelLoadError(
            f"The model of {source} is damaged: {reason}. Predicting with it could end the process or never finish. "
            "Save or log the model again."
        )


def probe(path: str) -> None:
    """Read a pickle and check the boosters in it, in a process that a damaged file may end.

    Ordinary errors are raised by the process that reads the file afterwards.
    """
    import joblib

    _limit_computing(Path(path))
    try:
        _find_damage(joblib.load(path), _unfit_for_forks())
    except Exception:
        # Unpickling runs code stored in the file, which can raise anything.
        sys.exit(1)


def damaged(path: Path, library: str, reason: str) -> str:
    """Return the error message for a file that begins like a model file of a library, but cannot be read as one."""
    return (
        f"{str(path)!r} begins like a model file of {library}, but cannot be read as one ({reason}). Check that it is "
        f"complete and was not written by a newer {library} than the one installed."
    )


def _may_hold_a_booster(path: Path, start: bytes) -> bool:
    if start.startswith(LZ4_START):
        return True
    names = [library.library.encode() for library in _unfit_for_forks()]
    ending = b""
    try:
        for chunk in _uncompressed(path, start):
            if any(name in ending + chunk for name in names):
                return True
            ending = chunk[-max(map(len, names)) :]
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return False  # reading the model fails at the same byte
    return False


def _uncompressed(path: Path, start: bytes) -> Iterator[bytes]:
    """Yield the content of a file in pieces, as it was before joblib compressed it."""
    opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), None)
    inflate = zlib.decompressobj().decompress if start.startswith(ZLIB_START) else bytes
    with path.open("rb") if opener is None else opener(path) as file:
        while chunk := file.read(CHUNK):
            yield inflate(chunk)


def _refuse_deadly_pickle(path: Path, start: bytes, modules: Sequence[str]) -> None:
    can_fork = sys.platform == "linux" and not _other_threads() and not modules
    status = _fork(path) if can_fork and not _may_hold_a_booster(path, start) else _interpreter(path, modules)
    if status not in FINISHED:
        end = f"did not end in {PATIENCE_S} s" if status is None else f"ended with status {status}"
        raise ModelLoadError(
            f"{str(path)!r} is damaged: the process that was started to try reading it {end}. Save the model again, "
            "with the library versions installed here."
        )


def _other_threads() -> int:
    return threading.active_count() - 1


def _interpreter(path: Path, modules: Sequence[str]) -> int | None:
    # The module path is set first: a fresh interpreter would search the working directory before it.
    command = [sys.executable, "-c", PROBE, str(path.resolve()), *modules, *sys.path]
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, stdin=quiet, stdout=quiet, stderr=quiet, timeout=PATIENCE_S, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def _fork(path: Path) -> int | None:
    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads; those of BLAS, which it counts, are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _probe_and_end(path)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _probe_and_end(path: Path) -> NoReturn:
    """Read a pickle in a forked process, and end that process before it continues its parent's work."""
    try:
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        probe(str(path))
    finally:
        os._exit(0)


def _limit_computing(path: Path) -> None:
    try:
        import resource
    except ImportError:  # Windows, where waiting is limited only
        return
    limit = CPU_S + path.stat().st_size // BYTES_PER_S + int(sum(os.times()[:2]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def _unfit_for_forks() -> list[type[Storable]]:
    return [library for library in libraries(Storable) if not library.works_in_fork]


def _find_damage(model: object, kinds: Iterable[type[Storable]]) -> str | None:
    kinds = tuple(kinds)
    reasons = (kind.find_damage(held) for held in held_objects(model) for kind in kinds)
    return next((reason for reason in reasons if reason is not None), None)
