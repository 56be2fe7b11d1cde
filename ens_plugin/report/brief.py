"""Short representations of the parts of a report, for a prompt and for the cells of a notebook."""

from __future__ import annotations

from ens_plugin.core.validation import printable

__all__ = ["brief"]

LONGEST_TEXT = 40


def brief(part: object, *names: str, always: str = "") -> str:
    """Return the class name of a part of a report with some of its attributes, floats to four digits.

    Attributes that are None are left out, except the one named `always`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> brief(SimpleNamespace(size=673, interval=(638.4999, None), tolerance=None), "size", "interval", "tolerance")
    'SimpleNamespace(size=673, interval=(638.5, None))'
    """
    found = {name: getattr(part, name) for name in names}
    shown = ", ".join(f"{name}={_short(value)}" for name, value in found.items() if value is not None or name == always)
    return f"{type(part).__name__}({shown})"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return repr(printable(value, LONGEST_TEXT) if isinstance(value, str) else value)
