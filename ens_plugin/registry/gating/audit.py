"""The audit log of a gate: one line of JSON for each decision, intent to move an alias, promotion and error."""

from __future__ import annotations

import getpass
import json
import logging
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ens_plugin.errors import InputError

__all__ = ["Audit", "audit_line", "audit_to_file", "audit_to_log", "utc_now"]

Audit = Callable[[str], None]
LOGGER = logging.getLogger("ens_plugin.gate")


def audit_line(event: str, store: str, content: Mapping[str, Any]) -> str:
    """Return an audit line: JSON with the event, its time, user and registry, and `content`.

    Parameters
    ----------
    event : str
        ``"decision"``, ``"intent"`` (an alias is about to be moved), ``"promotion"`` or ``"error"``.
    store : str
        URI of the registry, without credentials.
    content : mapping

    Returns
    -------
    str
        ASCII without line breaks, whatever the strings in `content` hold.
    """
    record = {
        "event": event, "at": utc_now(), "by": _user(), "registry": store, "ens_plugin": version("ens-plugin"),
        **content,
    }  # fmt: skip
    return json.dumps(record, allow_nan=False)


def audit_to_file(path: str | Path) -> Audit:
    """Return a function that appends audit lines to a file, each in one write, flushed to the disk.

    Raises
    ------
    InputError
        If the file cannot be opened for appending.  This is tried at once, before anything is decided.
    """
    target = Path(path)

    def append(line: str) -> None:
        try:
            descriptor = os.open(target, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
            try:
                _write(descriptor, line.encode("ascii") + b"\n" if line else b"")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise InputError(
                f"The audit log {str(target)!r} cannot be written: {error.strerror or error}. Choose another file."
            ) from error

    append("")
    return append


def _write(descriptor: int, content: bytes) -> None:
    # One call, so that lines of gates that run at the same time do not mix.
    written = os.write(descriptor, content)
    if written < len(content):
        raise OSError("the disk is full")
    os.fsync(descriptor)


def audit_to_log(line: str) -> None:
    """Log an audit line to the logger ``ens_plugin.gate``, at level INFO."""
    LOGGER.info("%s", line)


def utc_now() -> str:
    """Return the present time as ISO 8601, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container's user need not have a name.
        return None
