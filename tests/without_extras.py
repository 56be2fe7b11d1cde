"""A plugin of pytest that hides optional libraries, as if they had never been installed: ``-p tests.without_extras``.

Which ones, by their import names, stands in the environment variable ``ENS_PLUGIN_HIDDEN``, between commas.  Of the
tests collected, those run that are marked ``spark``, and those of the files that match ``ENS_PLUGIN_RUN``.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

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


@cache
def matches(path: Path) -> bool:
    return re.search(os.environ["ENS_PLUGIN_RUN"], path.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not (matches(item.path) or item.get_closest_marker("spark"))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


hide(*HIDDEN)
