"""A plugin of pytest that hides optional libraries, as if they had never been installed: ``-p tests.without_extras``.

Which ones, by their import names, stands in the environment variable ``ENS_PLUGIN_HIDDEN``, between commas.
"""

from __future__ import annotations

import os
from importlib import metadata
from importlib.machinery import PathFinder
from typing import Any

HIDDEN = tuple(name for name in os.environ.get("ENS_PLUGIN_HIDDEN", "").split(",") if name)


def hide(*libraries: str) -> None:
    """Let imports of these fail, find_spec return None and importlib.metadata know no distribution of theirs."""
    find_spec = PathFinder.find_spec.__func__  # type: ignore[attr-defined]
    from_name = metadata.Distribution.from_name.__func__  # type: ignore[attr-defined]

    def found_spec(cls: Any, fullname: str, path: Any = None, target: Any = None) -> Any:
        return None if fullname.partition(".")[0] in libraries else find_spec(cls, fullname, path, target)

    def found_distribution(cls: Any, name: str) -> Any:
        if name.partition("-")[0] in libraries:
            raise metadata.PackageNotFoundError(name)
        return from_name(cls, name)

    PathFinder.find_spec = classmethod(found_spec)  # type: ignore[assignment,method-assign]
    metadata.Distribution.from_name = classmethod(found_distribution)  # type: ignore[assignment,method-assign]


hide(*HIDDEN)
