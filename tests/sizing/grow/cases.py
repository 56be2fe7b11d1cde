"""Forests that the tests of growing share."""

from __future__ import annotations

from functools import cache
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import Growth, grow

X, Y = load_breast_cancer(return_X_y=True)
# An error and a Brier score that take more than a probe of 20 on these rows, and less than 200.
TIGHT: dict[str, Any] = {"tolerance": 0.05, "probe_size": 20}


def forest(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(random_state=0, **options)


@cache
def grown() -> Growth:
    """Return the growth of a forest on these rows, which tests must not change."""
    return grow(forest(), X, Y, **TIGHT)
