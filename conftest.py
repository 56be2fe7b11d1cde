"""What tests and doctests share: which doctests are collected, and no figure left open for the next test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

# Files and folders of ens_plugin/adapters that import their library at the top of a file.
_LIBRARIES = ("econml", "imblearn", "lightgbm", "quantile_forest", "sksurv", "xgboost", "ydf")
_MISSING = [name for name in _LIBRARIES if find_spec(name) is None]

collect_ignore_glob = [f"ens_plugin/adapters/{name}*" for name in _MISSING]


def pytest_report_header() -> list[str]:
    """Return the reason why doctests are left out, for the head of the run."""
    return [f"doctests of adapters left out, not installed: {', '.join(_MISSING)}"] if _MISSING else []


@pytest.fixture(autouse=True)
def _figures_closed() -> Iterator[None]:
    """Close the figures of pyplot that a test or an example leaves open; loads pyplot for no test."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
