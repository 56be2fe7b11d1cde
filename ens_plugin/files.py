"""Writing of files, each of which appears whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a reader gets either the old content or the new one.

    Parameters
    ----------
    path : Path
        An existing file is replaced, where the path is a link the file that it leads to.  A device or a pipe, such as
        ``/dev/null``, stays and is written to.
    content : bytes

    Raises
    ------
    OSError
        If the folder does not exist, or the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "curve.csv", b"size,error")
    ...     [file.name for file in Path(folder).iterdir()]
    ['curve.csv']
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
