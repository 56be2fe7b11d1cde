"""The one door to the compiled part."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = [
    "REPORT",
    "Fault",
    "compiled_function",
    "find_fault",
    "is_installed",
]

REPORT = "Please report this with the versions of both."


class Fault(NamedTuple):
    """Why the package is not used, in words.

    Attributes
    ----------
    found : str
        What it finds.
    remedy : str
        What to do, as sentences; empty if `found` says it.
    """

    found: str
    remedy: str


def is_installed() -> bool:
    """Return whether ens-plugin-walk, which ``pip install 'ens-plugin[fast]'`` installs, is there."""
    return find_spec("ens_plugin_walk") is not None


def compiled_function(name: str) -> Any | None:
    """Return a function of ens-plugin-walk; None where it is not installed, or is broken or too old to have it.

    The search for leaves warns of a broken or old one.
    """
    if not is_installed():
        return None
    try:
        import ens_plugin_walk
    except ImportError:
        return None
    return getattr(ens_plugin_walk, name, None)


def find_fault() -> Fault | None:
    """Return why the package that is installed cannot be used: it is not to be imported, or too old; None if it can."""
    try:
        import ens_plugin_walk
    except ImportError as error:
        again = "Install it again: pip install --force-reinstall --no-deps --no-cache-dir ens-plugin-walk."
        return Fault(f"no leaves ({error})", f"{again} If that does not help, {REPORT[0].lower()}{REPORT[1:]}")
    has_labels, has_sums = hasattr(ens_plugin_walk, "pure_labels"), hasattr(ens_plugin_walk.Forest, "count_and_sum")
    if has_labels and has_sums:
        return None
    return Fault("no leaves (it is older than 0.7; pip install --upgrade 'ens-plugin[fast]')", "")
