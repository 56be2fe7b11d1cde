"""Checks of single-number arguments: each names the argument it refuses."""

from __future__ import annotations

import math
from numbers import Real

from ens_plugin.errors import InputError

__all__ = ["as_chance", "as_confidence", "as_count", "as_positive"]


def as_positive(value: float, name: str) -> float:
    """Return a finite positive number, or raise InputError naming `name`."""
    if not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be a positive finite number, got {value!r}.")
    return float(value)


def as_chance(value: float, name: str) -> float:
    """Return a number strictly between 0 and 1, or raise InputError naming `name`."""
    if not isinstance(value, Real) or not 0.0 < value < 1.0:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return float(value)


def as_confidence(value: float, name: str = "confidence") -> float:
    """Return a number strictly between 1/2 and 1, or raise InputError naming `name`."""
    if not isinstance(value, Real) or not 0.5 < value < 1.0:
        raise InputError(f"{name} must lie strictly between 0.5 and 1, got {value!r}.")
    return float(value)


def as_count(value: float, name: str, smallest: int = 1) -> int:
    """Return a whole number of at least `smallest`, or raise InputError naming `name`."""
    if not isinstance(value, Real) or not math.isfinite(value) or value != int(value) or value < smallest:
        raise InputError(f"{name} must be a whole number of at least {smallest}, got {value!r}.")
    return int(value)
