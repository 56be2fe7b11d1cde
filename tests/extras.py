"""Libraries that users may have or not: the first use of one that is not here skips the test, with a printed reason."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

__all__ = ["INSTALL", "NEEDS_PYSPARK", "Extra", "lightgbm", "needs_pyspark", "xgboost"]

INSTALL = {
    "lightgbm": "pip install 'ens-plugin[lightgbm]'",
    "pyspark": "pip install 'ens-plugin[spark]'",
    "starlette": "pip install 'ens-plugin[server]'",
    "uvicorn": "pip install 'ens-plugin[server]'",
    "xgboost": "pip install xgboost-cpu",
}


class Extra:
    """Stands for a library in a test file that also has tests without it."""

    def __init__(self, library: str) -> None:
        self.__library = library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks for these in everything that a test file holds
            raise AttributeError(name)
        library = self.__library
        module = pytest.importorskip(library, reason=f"needs {library}: {INSTALL[library]}")
        return getattr(module, name)


lightgbm = Extra("lightgbm")
xgboost = Extra("xgboost")


# For `pytestmark`, and below for single tests: `make slow` runs what imports PySpark, whether or not it starts Spark.
NEEDS_PYSPARK = [
    pytest.mark.spark,
    pytest.mark.skipif(find_spec("pyspark") is None, reason=f"needs PySpark: {INSTALL['pyspark']}"),
]


def needs_pyspark(test: Any) -> Any:
    """Mark a test that imports PySpark."""
    for mark in NEEDS_PYSPARK:
        test = mark(test)
    return test
