"""Names of a package that are loaded at their first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, home_of: Mapping[str, str]) -> Callable[[str], object]:
    """Return the function ``__getattr__`` of a package whose names stand in modules that are imported when used."""

    def load(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return load
