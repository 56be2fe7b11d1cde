"""LightGBM's bags by brute force, one draw after the other, from the description of its generator alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024


def drawn_bags(n_rows: int, seed: int, limit: int | Sequence[int], n_rounds: int) -> NDArray[np.bool_]:
    """In-bag indicators of the first rounds, shape (n_rounds, n_rows)."""
    limits = np.broadcast_to(limit, n_rows).tolist()
    in_bag = np.zeros((n_rounds, n_rows), dtype=bool)
    for block, first in enumerate(range(0, n_rows, BLOCK)):
        state = (seed + block) % 2**32
        for index in range(n_rounds):
            for row in range(first, min(first + BLOCK, n_rows)):
                state = (214013 * state + 2531011) % 2**32
                in_bag[index, row] = ((state >> 16) & 0x7FFF) < limits[row]
    complete = in_bag.all(axis=1)
    if complete.any():
        in_bag[complete.argmax() :] = True
    return in_bag


def stated_seed(booster: Any) -> int:
    """The bagging seed in a booster's text."""
    found = re.search(r"^\[bagging_seed: (\d+)\]$", booster.model_to_string(), re.MULTILINE)
    assert found is not None
    return int(found.group(1))
