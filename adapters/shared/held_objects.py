"""The objects that a model holds in its attributes and containers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["held_objects", "parts"]

DEPTH = 40


def held_objects(model: object) -> Iterator[Any]:
    """Yield a model and every object that it holds in attributes, lists, dicts and arrays of objects, once each."""
    seen: dict[int, object] = {}
    waiting: list[tuple[object, int]] = [(model, 0)]
    while waiting:
        held, depth = waiting.pop()
        if held is None or id(held) in seen or isinstance(held, (str, bytes, int, float, type, ModuleType)):
            continue
        seen[id(held)] = held
        yield held
        if depth < DEPTH:
            waiting.extend((part, depth + 1) for part in parts(held))


def parts(held: Any) -> list[Any]:
    """Return the objects that are attributes of an object, or items of a list, a dict or an array of objects."""
    if isinstance(held, np.ndarray):
        return held.ravel().tolist() if held.dtype.kind == "O" else []
    if isinstance(held, (list, tuple, set, frozenset)):
        return list(held)
    if isinstance(held, dict):
        return list(held.values())
    attributes = getattr(held, "__dict__", None)
    return list(attributes.values()) if isinstance(attributes, dict) and not callable(held) else []
