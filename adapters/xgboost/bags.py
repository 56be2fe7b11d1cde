"""The bags of an XGBoost booster: redrawn from its seed or searched for, and proved on the whole forest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from heapq import nlargest
from itertools import chain, islice
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.draws import Draws, RowSampler, generator_outputs, likely_draws, tree_words
from ens_plugin.adapters.xgboost.hessians import Hessians
from ens_plugin.adapters.xgboost.proof import Proof, TreeEvidence, prove, tree_evidence
from ens_plugin.adapters.xgboost.refusals import (
    check_settings,
    lost_and_weak,
    no_sampling,
    not_found,
    too_few_draws,
    too_weak,
)
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.adapters.xgboost.search import (
    N_LIKELY_SEEDS,
    N_PAIRED_SEEDS,
    N_SEEDS,
    NEAR,
    UNSEEDED,
    WINDOW,
    Hit,
    SearchedDraws,
    search_generators,
    search_seeds,
)
from ens_plugin.adapters.xgboost.share import Share
from ens_plugin.adapters.xgboost.target import check_target
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError, InputError
from ens_plugin.records import record

__all__ = [
    "CHANCE",
    "MAX_PROOFS",
    "Guess",
    "are_confirmed",
    "chance_of_false_match",
    "n_draws",
    "packed_bags",
    "proved_bags",
]

FloatArray = NDArray[np.float64]

CHANCE = 1e-9
# Fewest leaves of the first trees together, so that other rows do not agree by chance.
LEAVES_THAT_TELL = 8
PROBE_CELLS = 200_000
MAX_PROOFS = 6
TREES_AT_ONCE = 4
DRAWN_CELLS = 1_000_000
FEW_SHARES = 3
# After so many hits the search ends: too many wrong draws give the sums of so small a tree.
MOST_HITS = 3_000


@record
class Guess:
    """Draws to prove, with their share of the rows, and the number of guesses tried for each stretch of trees.

    A stretch is a run of trees whose positions follow from that of its first tree.
    """

    draws: Draws
    sampler: RowSampler
    stretch: NDArray[np.int64]
    tried: dict[int, int]


def proved_bags(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> Bags:
    """Return the bag of each tree, shape (n_trees, n_rows), proved by the sums stored in every leaf.

    Raises
    ------
    BagError
        If the booster was trained without sampling, or in a way that cannot be proved.
    DataMismatchError
        If these are not the training rows in training order, or not their target.
    """
    check_settings(forest.settings)
    hessians = Hessians.of(forest, rows, y)
    share = Share.sampled(hessians)
    if share.is_whole:
        raise no_sampling()
    probes = tree_evidence(forest, rows, hessians, list(range(min(_n_probes(rows), len(forest.trees)))))
    guess, bags, proof = _best_guess(forest, rows, hessians, probes, share)
    if not proof.passed.all():
        guess = _repaired(forest, rows, hessians, guess, share, int(np.argmin(proof.passed)))
        bags = packed_bags(guess)
        proof = prove(forest, rows, hessians, bags, guess.sampler.subsample)
    failed = np.flatnonzero(~proof.passed)
    if failed.size:
        raise not_found(forest, share.mean, failed, share.fits(forest.settings.subsample), N_SEEDS)
    chance = chance_of_false_match(guess, proof)
    if chance > CHANCE:
        if not share.fits(forest.settings.subsample):
            raise lost_and_weak(chance, CHANCE, forest.settings)
        n_trees, drawn = len(forest.trees), n_draws(guess.draws)
        raise (too_weak(chance, CHANCE, n_trees) if drawn == n_trees else too_few_draws(chance, CHANCE, n_trees, drawn))
    is_proved = y is not None and check_target(forest, rows, hessians, bags, y)
    return bags.with_proof(BagProof(target=is_proved))


def are_confirmed(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> bool:
    """Return whether the first trees were grown on likely draws of the given rows, or on all of them.

    Only draws from the booster's own seed are tested.

    Parameters
    ----------
    forest : Forest
    rows : Rows
    y : ndarray of shape (n_rows,) or None
    """
    try:
        check_settings(forest.settings)
        hessians = Hessians.of(forest, rows, y)
    except (BagError, InputError):
        return False
    probes = tree_evidence(forest, rows, hessians, list(range(min(_n_probes(rows), len(forest.trees)))))
    if sum(probe.covers.size - 1 for probe in probes) < LEAVES_THAT_TELL:
        return False
    share = Share.sampled(hessians)
    if share.is_whole:
        everything = np.ones(rows.shape[0], dtype=bool)
        return all(probe.accepts(everything) for probe in probes)
    sampler, likely = RowSampler(rows.shape[0], 0.5), likely_draws(forest, rows.shape[0])
    stated = forest.settings.subsample
    shares = [stated] if share.fits(stated) else share.candidates(stated)[:FEW_SHARES]
    return any(
        _confirmed(draws, sampler.with_subsample(value), probes) == len(probes) for value in shares for draws in likely
    )


def _n_probes(rows: Rows) -> int:
    """Return how many of the first trees to test guesses on: more where few rows distinguish shares less well."""
    return int(np.clip(PROBE_CELLS // rows.shape[0], 3, 50))


def _best_guess(
    forest: Forest, rows: Rows, hessians: Hessians, probes: list[TreeEvidence], share: Share
) -> tuple[Guess, Bags, Proof]:
    """Return the first guess that all trees confirm, else that which most trees confirm, with bags and proof.

    Of one draw, the bag with the larger share of rows contains the other, so that both pass only if they are equal.
    """
    best: tuple[Guess, Bags, Proof] | None = None
    for guess in islice(_guesses(forest, rows, probes, share), MAX_PROOFS):
        bags = packed_bags(guess)
        proof = prove(forest, rows, hessians, bags, guess.sampler.subsample)
        if best is None or proof.passed.sum() > best[2].passed.sum():
            best = guess, bags, proof
        if proof.passed.all():
            break
    if best is None:
        raise not_found(forest, share.mean, np.array([0]), share.fits(forest.settings.subsample), N_SEEDS)
    return best


def _guesses(forest: Forest, rows: Rows, probes: list[TreeEvidence], share: Share) -> Iterator[Guess]:
    """Yield guesses of row draws that fit the first trees: likely draws, else draws that a search finds."""
    likely = likely_draws(forest, rows.shape[0])
    stretch = np.zeros(len(forest.trees), dtype=np.int64)
    shares = share.candidates(forest.settings.subsample)
    sampler = RowSampler(rows.shape[0], 0.5)
    samplers = [sampler.with_subsample(value) for value in shares]
    tried, found_any = 0, False
    for own in samplers:
        tried += len(likely)
        for draws in likely:
            if _confirmed(draws, own, probes) == len(probes):
                found_any = True
                yield Guess(draws, own, stretch, {0: tried})
    if found_any or not samplers:
        return
    # A booster that still has its share still has its seed: only the position is to be found.
    known = share.fits(forest.settings.subsample)
    layouts, best = _distinct(likely), list[tuple[int, Guess]]()

    @cache
    def log_chances(subsample: float) -> FloatArray:
        return np.cumsum([probe.log_chance(subsample) for probe in probes])

    for pairs, searched in _search(forest, probes[0], samplers[:1] if known else samplers, known=known):
        tried += searched.tried
        # Each draw is tried with every layout of the draws of the trees after it.
        own_layouts = [draws for draws in layouts if draws.pairs == pairs]
        n_tried = {0: tried * len(layouts)}
        for hit in searched.hits:
            ranked = _ranked(hit, own_layouts, probes, stretch, n_tried)
            best = nlargest(MAX_PROOFS, [*best, *ranked], key=itemgetter(0))
            n_confirmed, guess = ranked[0]
            if log_chances(guess.sampler.subsample)[n_confirmed - 1] + np.log(n_tried[0]) < np.log(CHANCE):
                yield from (guess for _, guess in ranked)
                return
    yield from (guess for _, guess in best)


def _distinct(likely: list[Draws]) -> list[Draws]:
    """Return the draws without those that differ from another only by a shift of all positions."""
    found = {
        (draws.pairs, draws.seed.tobytes(), (draws.position - draws.position[0]).tobytes()): draws
        for draws in reversed(likely)
    }
    return list(found.values())[::-1]


def _ranked(
    hit: Hit, layouts: list[Draws], probes: list[TreeEvidence], stretch: NDArray[np.int64], tried: dict[int, int]
) -> list[tuple[int, Guess]]:
    """Return guesses that begin with a found draw, with the numbers of trees that confirm them, in descending order."""
    known: dict[tuple[int, int, int, float], bool] = {}
    ranked = [
        (_confirmed(draws, sampler, probes, known), Guess(draws, sampler, stretch, tried))
        for draws in (_shifted(draws, 0, hit) for draws in layouts)
        for sampler in hit.samplers
    ]
    return sorted(ranked, key=lambda entry: -entry[0])


def _confirmed(
    draws: Draws,
    sampler: RowSampler,
    probes: list[TreeEvidence],
    known: dict[tuple[int, int, int, float], bool] | None = None,
) -> int:
    """Return how many of the first trees have leaf sums that fit the draws, counted up to the first misfit.

    ``known`` stores results by tree, seed, position and share, which several layouts may have in common.
    """
    known = {} if known is None else known
    for tree, probe in enumerate(probes):
        key = (tree, int(draws.seed[tree]), int(draws.position[tree]), sampler.subsample)
        if key not in known:
            known[key] = probe.accepts(_mask(draws, sampler, tree))
        if not known[key]:
            return tree
    return len(probes)


def _search(
    forest: Forest, evidence: TreeEvidence, samplers: list[RowSampler], *, known: bool
) -> Iterator[tuple[bool, SearchedDraws]]:
    """Yield results of the search for a tree's draw: made by one output for each row, then by two outputs.

    If a draw of another tree is `known`, fewer seeds are tried.
    """
    for pairs, n_seeds in ((False, N_LIKELY_SEEDS if known else N_SEEDS), (True, 0 if known else N_PAIRED_SEEDS)):
        n_hits = 0
        for searched in _search_everywhere(forest, evidence, samplers, n_seeds, pairs=pairs):
            yield pairs, searched
            n_hits += sum(len(hit.samplers) for hit in searched.hits)
            if n_hits >= MOST_HITS:
                break


def _search_everywhere(
    forest: Forest, evidence: TreeEvidence, samplers: list[RowSampler], n_seeds: int, *, pairs: bool
) -> Iterator[SearchedDraws]:
    """Yield results of the search for a tree's draw with the booster's seeds, without a seed, then with small seeds."""
    generators = list(dict.fromkeys([*_own_seeds(forest), 0, UNSEEDED]))
    yield from search_generators(evidence, samplers, generators, WINDOW, pairs=pairs)
    yield from search_seeds(evidence, samplers, n_seeds, pairs=pairs)


def _own_seeds(forest: Forest) -> list[int]:
    return [int(seed) for seed in dict.fromkeys(likely_draws(forest, 1)[0].seed.tolist())][:64]


def _shifted(draws: Draws, member: int, found: Hit) -> Draws:
    """Return the draws, from tree `member` on shifted to the seed and position that a search found."""
    seed, position = draws.seed.copy(), draws.position.copy()
    own = slice(member, None)
    if draws.seed[member] != found.seed:
        seed[own] = found.seed
    position[own] += found.position - position[member]
    return replace(draws, seed=seed, position=position)


def _repaired(forest: Forest, rows: Rows, hessians: Hessians, guess: Guess, share: Share, first: int) -> Guess:
    """Return the guess with each draw that fails, from tree `first` on, replaced by one that a search finds."""
    draws, stretch, tried = guess.draws, guess.stretch.copy(), dict(guess.tried)
    n_trees = len(forest.trees)
    for start in range(first, n_trees, TREES_AT_ONCE):
        chosen = list(range(start, min(start + TREES_AT_ONCE, n_trees)))
        for member, evidence in zip(chosen, tree_evidence(forest, rows, hessians, chosen), strict=True):
            if evidence.accepts(_mask(draws, guess.sampler, member)):
                continue
            found, n_tried = _near(forest, evidence, guess.sampler, draws, member)
            if found is None:
                fits = share.fits(forest.settings.subsample)
                raise not_found(forest, share.mean, np.array([member]), fits, N_SEEDS)
            draws = _shifted(draws, member, found)
            stretch[member:] = member
            tried[member] = n_tried
    return Guess(draws, guess.sampler, stretch, tried)


def _near(
    forest: Forest, evidence: TreeEvidence, sampler: RowSampler, draws: Draws, member: int
) -> tuple[Hit | None, int]:
    """Search for a tree's draw near its expected position, else further in its generator, else in others.

    Returns
    -------
    hit : Hit or None
    tried : int
        Draws searched.
    """
    at, own, pairs = int(draws.position[member]), [int(draws.seed[member])], draws.pairs
    n_seeds, tried = 0 if pairs else N_LIKELY_SEEDS, 0
    for searched in chain(
        search_generators(evidence, [sampler], own, NEAR, pairs=pairs, start=at),
        search_generators(evidence, [sampler], own, at + WINDOW, pairs=pairs),
        _search_everywhere(forest, evidence, [sampler], n_seeds, pairs=pairs),
    ):
        tried += searched.tried
        if searched.hits:
            return searched.hits[0], tried
    return None, tried


def _mask(draws: Draws, sampler: RowSampler, tree: int) -> NDArray[np.bool_]:
    seed, position = int(draws.seed[tree]), int(draws.position[tree])
    if draws.pairs:
        outputs = generator_outputs(seed, position, 2 * sampler.n_rows)
        return sampler.from_pairs(outputs[0::2], outputs[1::2])
    return np.asarray(sampler.from_words(generator_outputs(seed, position, 1))[0])


def packed_bags(guess: Guess) -> Bags:
    """Return the bags of all trees that follow from a guess, redrawn in threads and packed as bits."""
    draws, sampler, n_trees = guess.draws, guess.sampler, guess.draws.seed.size
    words = np.zeros(0, dtype=np.uint64) if draws.pairs else tree_words(draws)

    def pack(trees: range) -> Bags:
        if draws.pairs:
            return Bags.from_mask(np.stack([_mask(draws, sampler, tree) for tree in trees]))
        return Bags(sampler.packed_words(words[trees.start : trees.stop]), sampler.n_rows)

    at_once = max(min(TREES_AT_ONCE, DRAWN_CELLS // sampler.n_rows), 1)
    chunks = [range(start, min(start + at_once, n_trees)) for start in range(0, n_trees, at_once)]
    return Bags.stack(in_threads(pack, chunks), n_trees, sampler.n_rows)


def n_draws(draws: Draws) -> int:
    """Return the number of distinct draws of all trees, some of which may share a draw."""
    return len(set(zip(draws.seed.tolist(), draws.position.tolist(), strict=True)))


def chance_of_false_match(guess: Guess, proof: Proof) -> float:
    """Return a bound on the chance that wrong draws pass the proof, over all guesses for all stretches of trees.

    Trees that share a draw (`approx`) are not independent evidence: only the strongest of them counts.
    """
    draws = guess.draws
    log_chance = dict.fromkeys(guess.tried, 0.0)
    strongest: dict[tuple[int, int, int], float] = {}
    for tree, own in enumerate(proof.log_chance.tolist()):
        key = (int(guess.stretch[tree]), int(draws.seed[tree]), int(draws.position[tree]))
        strongest[key] = min(strongest.get(key, 0.0), own)
    for (stretch, _, _), own in strongest.items():
        log_chance[stretch] += own
    return float(sum(min(np.exp(value) * guess.tried[stretch], 1.0) for stretch, value in log_chance.items()))
