"""Writing of files, each of which appears whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

# Where Linux and macOS have the standard output, which may be a file that others write to as well.
STREAMS = (Path("/dev"), Path("/proc"))
MOST_LINKS = 40
WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a reader gets either the old content or the new one."""
    # Of Path.resolve, a loop of links would be a RuntimeError.
    target = Path(os.path.realpath(path))
    if _is_stream(path) or (target.exists() and not target.is_file()):
        _append(path, content)
        return
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _append(path: Path, content: bytes) -> None:
    """Append to a device or a pipe, which truncates no file that the standard output goes to."""
    with open(path, "ab", opener=_open_at_once) as stream:
        if WITHOUT_WAITING:
            os.set_blocking(stream.fileno(), True)
        stream.write(content)


def _open_at_once(path: str, flags: int) -> int:
    """Open a device or a pipe; raise OSError for a pipe that no process reads, which would be waited for."""
    try:
        return os.open(path, flags | WITHOUT_WAITING)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe, and no process reads it", path) from error
        raise


def _is_stream(path: Path) -> bool:
    """Return whether a path, or a link that it is, leads into a folder of devices or open files."""
    place = Path(os.path.abspath(path))
    links = [place]
    while place.is_symlink() and len(links) < MOST_LINKS:
        place = Path(os.path.abspath(place.parent / os.readlink(place)))
        links.append(place)
    return any(link.is_relative_to(folder) for link in links for folder in STREAMS)
