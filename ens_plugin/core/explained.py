"""How much of a target columns tell that may have been made from it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ens_plugin.core.validation import FloatArray

# Groups of rows with like values in a column: few for a trend with bends, many for jumps, and one for each value.
GROUPS = (8, 64, sys.maxsize)


class Explained(NamedTuple):
    """How much of a target is explained: the share of its variance, and in standard errors of chance."""

    share: float
    standard_errors: float


def explained(columns: Sequence[FloatArray], target: FloatArray) -> list[Explained]:
    """Return how much columns explain of a target of mean 0, shape (n_rows, n_parts), beyond chance, in four ways."""
    # The target is predicted by the sum over columns of a straight line through their ranks, or of the means of 8, of
    # 64 or of all groups of rows with like values. The squared correlation with the target, less what each row's own
    # target adds to it, has mean 0 for columns that have not seen the target, however many they are. See
    # `docs/methods/copies.md`.
    n_ways = len(GROUPS) + 1
    predicted, leverage = np.zeros((n_ways, *target.shape)), np.zeros((n_ways, len(target), 1))
    for column in columns:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        middle = (np.cumsum(count) - count / 2) / place.size
        rank = (middle - 0.5)[place][:, None]
        squares = max(float((rank**2).sum()), sys.float_info.min)
        predicted[0] += rank * (rank.T @ target) / squares
        leverage[0] += rank**2 / squares
        for way, n_groups in enumerate(GROUPS, 1):
            of_value = np.arange(count.size) if count.size <= n_groups else (middle * n_groups).astype(np.intp)
            group = of_value[place]
            size = np.bincount(group)[group]
            leverage[way] += 1.0 / size[:, None] - 1.0 / size.size
            for part, values in enumerate(target.T):
                predicted[way, :, part] += np.bincount(group, weights=values)[group] / size
    # In a target of mean 0, rows are related by -1 / (n - 1).
    leverage *= len(target) / (len(target) - 1)
    return [_beyond_chance(*way, target) for way in zip(predicted, leverage, strict=True)]


def _beyond_chance(predicted: FloatArray, leverage: FloatArray, target: FloatArray) -> Explained:
    by_others = predicted - leverage * target
    agreement, squares = float((by_others * target).sum()), float((target**2).sum())
    spread, whole = float((by_others**2).sum()), float((predicted**2).sum())
    if min(spread, whole) <= 0.0 or squares <= 0.0:
        return Explained(0.0, 0.0)
    share = agreement * float((predicted * target).sum()) / (whole * squares)
    return Explained(share, agreement * math.sqrt(len(target) / (spread * squares)))
