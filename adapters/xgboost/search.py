"""A search for the draw of a tree that is not the one expected from the booster's settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.draws import RowSampler, WordArray, first_outputs, generator_outputs
from ens_plugin.adapters.xgboost.proof import TreeEvidence
from ens_plugin.records import record

__all__ = [
    "NEAR",
    "N_LIKELY_SEEDS",
    "N_PAIRED_SEEDS",
    "N_SEEDS",
    "UNSEEDED",
    "WINDOW",
    "Hit",
    "SearchedDraws",
    "search_generators",
    "search_seeds",
]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

WINDOW = 4096
NEAR = 64
N_SEEDS = 100_000
# If the booster still has its seed, another one is likely only after continued training.
N_LIKELY_SEEDS = 1_000
N_PAIRED_SEEDS = 1_000
# mt19937's default seed, used in a thread other than the one that configured the booster.
UNSEEDED = 5489
SCREENED_ROWS = 96
CELLS_AT_ONCE = 4_000_000
WORDS_AT_ONCE = 4096
CELLS_IN_ALL = 300_000_000
OUTPUTS_IN_ALL = 100_000_000


@record
class Hit:
    """A draw of rows that gives the sums stored in the leaves of a tree.

    Attributes
    ----------
    seed, position : int
        Seed of the generator, and number of its outputs before the draw.
    samplers : tuple of RowSampler
        Samplers with the shares of rows that give the sums.
    """

    seed: int
    position: int
    samplers: tuple[RowSampler, ...]


@record
class SearchedDraws:
    """Result of testing some draws of rows for a tree, each with every share of rows.

    Attributes
    ----------
    tried : int
    hits : list of Hit
        Draws that give the tree's sums; of a small tree, many wrong draws do.
    """

    tried: int
    hits: list[Hit]


def search_generators(
    evidence: TreeEvidence,
    samplers: Sequence[RowSampler],
    seeds: Sequence[int],
    window: int,
    *,
    pairs: bool,
    start: int = 0,
) -> Iterator[SearchedDraws]:
    """Yield results of testing the draws that begin in `window` outputs of each generator, from `start` on."""
    for seed in seeds:
        if pairs:
            outputs = generator_outputs(seed, start, window + 2 * samplers[0].n_rows)
            yield from _search_pairs(evidence, samplers, outputs, window, seed, start)
        else:
            words, positions = generator_outputs(seed, start, window), np.arange(start, start + window)
            yield from _search_words(evidence, samplers, words, np.full(window, seed), positions)


def search_seeds(
    evidence: TreeEvidence, samplers: Sequence[RowSampler], n_seeds: int, *, pairs: bool
) -> Iterator[SearchedDraws]:
    """Yield results of testing the first draw of every seed below `n_seeds`."""
    if pairs:
        n_seeds = min(n_seeds, OUTPUTS_IN_ALL // (2 * samplers[0].n_rows))
        yield from search_generators(evidence, samplers, range(n_seeds), 1, pairs=True)
        return
    seeds = np.arange(n_seeds)
    for position in (1, 0):
        positions = np.full(n_seeds, position)
        yield from _search_words(evidence, samplers, first_outputs(seeds, position), seeds, positions)


def _search_words(
    evidence: TreeEvidence, samplers: Sequence[RowSampler], words: WordArray, seeds: IntArray, positions: IntArray
) -> Iterator[SearchedDraws]:
    screen = _Screen(evidence)
    low, high = _extremes(samplers)
    n_words = min(words.size, max(CELLS_IN_ALL // screen.rows.size, 1))
    for start in range(0, n_words, WORDS_AT_ONCE):
        part = words[start : min(start + WORDS_AT_ONCE, n_words)]
        enclosed = screen.survivors(low.from_words(part, screen.rows), high.from_words(part, screen.rows))
        giving: dict[int, list[RowSampler]] = {}
        for sampler in samplers if enclosed.size else ():
            own = sampler.from_words(part[enclosed], screen.rows)
            for index in enclosed[screen.survivors(own, own)].tolist():
                if evidence.accepts(sampler.from_words(part[index : index + 1])[0]):
                    giving.setdefault(start + index, []).append(sampler)
        hits = [Hit(int(seeds[index]), int(positions[index]), tuple(giving[index])) for index in sorted(giving)]
        yield SearchedDraws(part.size * len(samplers), hits)


def _search_pairs(
    evidence: TreeEvidence,
    samplers: Sequence[RowSampler],
    outputs: WordArray,
    window: int,
    seed: int,
    offset: int,
) -> Iterator[SearchedDraws]:
    screen = _Screen(evidence)
    low, high = _extremes(samplers)
    step = max(CELLS_AT_ONCE // screen.rows.size, 1)
    for start in range(0, window, step):
        positions, hits = np.arange(start, min(start + step, window)), []
        first = positions[:, None] + 2 * screen.rows
        for index in screen.survivors(
            low.from_pairs(outputs[first], outputs[first + 1]), high.from_pairs(outputs[first], outputs[first + 1])
        ):
            own = outputs[positions[index] : positions[index] + 2 * low.n_rows]
            giving = tuple(s for s in samplers if evidence.accepts(s.from_pairs(own[0::2], own[1::2])))
            if giving:
                hits.append(Hit(seed, offset + int(positions[index]), giving))
        yield SearchedDraws(positions.size * len(samplers), hits)


def _extremes(samplers: Sequence[RowSampler]) -> tuple[RowSampler, RowSampler]:
    """Return the samplers of the smallest and largest share: bags of other shares are between theirs."""
    by_share = sorted(samplers, key=lambda sampler: sampler.subsample)
    return by_share[0], by_share[-1]


class _Screen:
    """Fast test of masks on the smallest leaves of a tree, whose few rows exclude most wrong masks."""

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
        """Return the candidates, rows of `low` and `high`, whose bags enclose the sums of the tested leaves."""
        least, most = low.astype(np.float64) @ self.membership, high.astype(np.float64) @ self.membership
        enclosed = (least <= self.covers + self.slack) & (most >= self.covers - self.slack)
        return np.flatnonzero(enclosed.all(axis=1))
