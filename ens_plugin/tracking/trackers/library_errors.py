"""Import of a tracking library, and its errors as TrackingError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ens_plugin.errors import EnsPluginError, TrackingError
from ens_plugin.report.text import printable
from ens_plugin.tracking.store.connection import without_secrets

__all__ = ["imported", "library_errors"]


def imported(module: str, extra: str) -> Any:
    """Import and return a module of a tracking library.

    Raises
    ------
    TrackingError
        If it cannot be imported; the message names the extra that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise TrackingError(
            f"{module} cannot be imported: {_first_line(error)}. Install it, or install it again, with: "
            f"pip install 'ens-plugin[{extra}]'."
        ) from error


@contextmanager
def library_errors(title: str, advice: str, *types: type[Exception]) -> Iterator[None]:
    """Raise TrackingError in place of a library's errors, and of the operating system's, inside the block.

    Parameters
    ----------
    title : str
        Name of the tracker in the message.
    advice : str
        What to do, a sentence.
    *types : type of Exception
        The library's own.
    """
    caught: tuple[type[Exception], ...] = (OSError, *types)
    try:
        yield
    except EnsPluginError:
        raise
    except caught as error:
        raise TrackingError(f"{title} did not take the report: {_first_line(error)}. {advice}") from error


def _first_line(error: Exception) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return printable(without_secrets(lines[0].rstrip(".")), 300)
