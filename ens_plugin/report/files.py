"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(target: Path, content: bytes) -> None:
    """Write a file, or replace it, so that a reader finds all of it or what was there before.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind.
    """
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
