"""Find the draw of a tree whose generator is not where the booster's settings put it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.draws import RowSampler, WordArray, first_outputs, generator_outputs
from ens_plugin.adapters.xgboost.proof import TreeEvidence

__all__ = [
    "NEAR",
    "N_LIKELY_SEEDS",
    "N_PAIRED_SEEDS",
    "N_SEEDS",
    "UNSEEDED",
    "WINDOW",
    "Found",
    "find_in_generators",
    "find_in_seeds",
]

BoolArray = NDArray[np.bool_]

WINDOW = 4096
NEAR = 64
N_SEEDS = 100_000
# Where the booster still knows its seed, another one is only likely from training continued with it.
N_LIKELY_SEEDS = 1_000
N_PAIRED_SEEDS = 1_000
# What mt19937 starts from where nobody seeds it: a thread other than the one that configured the booster.
UNSEEDED = 5489
SCREENED_ROWS = 96
CELLS_AT_ONCE = 4_000_000
CELLS_IN_ALL = 300_000_000
OUTPUTS_IN_ALL = 100_000_000


@dataclass(frozen=True, eq=False)
class Found:
    """A draw that gives a tree's sums, if any.

    Attributes
    ----------
    seed, position : int or None
        Generator, and the outputs it gave before.
    sampler : RowSampler or None
        With the share the rows were drawn with.
    tried : int
        Draws looked at.
    """

    seed: int | None
    position: int
    sampler: RowSampler | None
    tried: int


def find_in_generators(
    evidence: TreeEvidence,
    samplers: Sequence[RowSampler],
    seeds: Sequence[int],
    window: int,
    *,
    pairs: bool,
    start: int = 0,
) -> Found:
    """Look among `window` outputs of some generators, from `start` on."""
    tried = 0
    for seed in seeds:
        if pairs:
            outputs = generator_outputs(seed, start, window + 2 * samplers[0].n_rows)
            position, sampler, count = _find_pairs(evidence, samplers, outputs, window)
        else:
            position, sampler, count = _find_word(evidence, samplers, generator_outputs(seed, start, window))
        tried += count
        if position is not None:
            return Found(seed, start + position, sampler, tried)
    return Found(None, 0, None, tried)


def find_in_seeds(evidence: TreeEvidence, samplers: Sequence[RowSampler], n_seeds: int, *, pairs: bool) -> Found:
    """Look at the first draw of every small seed."""
    if pairs:
        n_seeds = min(n_seeds, OUTPUTS_IN_ALL // (2 * samplers[0].n_rows))
        return find_in_generators(evidence, samplers, range(n_seeds), 1, pairs=True)
    tried = 0
    for position in (1, 0):
        seed, sampler, count = _find_word(evidence, samplers, first_outputs(np.arange(n_seeds), position))
        tried += count
        if seed is not None:
            return Found(seed, position, sampler, tried)
    return Found(None, 0, None, tried)


def _find_word(
    evidence: TreeEvidence, samplers: Sequence[RowSampler], words: WordArray
) -> tuple[int | None, RowSampler | None, int]:
    screen = _Screen(evidence)
    low, high = _extremes(samplers)
    n_words = min(words.size, max(CELLS_IN_ALL // screen.rows.size, 1))
    step = max(CELLS_AT_ONCE // screen.rows.size, 1)
    for start in range(0, n_words, step):
        part = words[start : min(start + step, n_words)]
        for index in screen.survivors(low.from_words(part, screen.rows), high.from_words(part, screen.rows)):
            for sampler in samplers:
                if evidence.accepts(sampler.from_words(part[index : index + 1])[0]):
                    return start + int(index), sampler, n_words * len(samplers)
    return None, None, n_words * len(samplers)


def _find_pairs(
    evidence: TreeEvidence, samplers: Sequence[RowSampler], outputs: WordArray, window: int
) -> tuple[int | None, RowSampler | None, int]:
    screen = _Screen(evidence)
    low, high = _extremes(samplers)
    step = max(CELLS_AT_ONCE // screen.rows.size, 1)
    for start in range(0, window, step):
        positions = np.arange(start, min(start + step, window))
        first = positions[:, None] + 2 * screen.rows
        for index in screen.survivors(
            low.from_pairs(outputs[first], outputs[first + 1]), high.from_pairs(outputs[first], outputs[first + 1])
        ):
            own = outputs[positions[index] : positions[index] + 2 * low.n_rows]
            for sampler in samplers:
                if evidence.accepts(sampler.from_pairs(own[0::2], own[1::2])):
                    return int(positions[index]), sampler, window * len(samplers)
    return None, None, window * len(samplers)


def _extremes(samplers: Sequence[RowSampler]) -> tuple[RowSampler, RowSampler]:
    """Smallest and largest share: bags of the same draw contain one another."""
    by_share = sorted(samplers, key=lambda sampler: sampler.subsample)
    return by_share[0], by_share[-1]


class _Screen:
    """The smallest leaves of a tree: they tell most masks from the right one by their fewest rows."""

    def __init__(self, evidence: TreeEvidence) -> None:
        by_size = np.argsort(np.where(evidence.sizes > 0, evidence.sizes, np.iinfo(np.int64).max), kind="stable")
        filled = np.cumsum(evidence.sizes[by_size])
        leaves = by_size[: int(np.searchsorted(filled, SCREENED_ROWS)) + 1]
        leaves = leaves[evidence.sizes[leaves] > 0]
        self.rows: NDArray[np.intp] = np.flatnonzero(np.isin(evidence.leaf, leaves))
        self.membership = (evidence.leaf[self.rows, None] == leaves) * evidence.hessian[self.rows, None]
        self.covers = evidence.covers[leaves]
        self.slack = evidence.tolerance * self.covers * 2 + 1e-12

    def survivors(self, low: BoolArray, high: BoolArray) -> NDArray[np.intp]:
        """Candidates, one per row, whose smallest and largest bags enclose the sums of these leaves."""
        least, most = low.astype(np.float64) @ self.membership, high.astype(np.float64) @ self.membership
        enclosed = (least <= self.covers + self.slack) & (most >= self.covers - self.slack)
        return np.flatnonzero(enclosed.all(axis=1))
