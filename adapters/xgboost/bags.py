"""The bags of an XGBoost booster: redrawn, searched for where they moved, and proved on the whole forest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.draws import Draws, RowSampler, generator_outputs, likely_draws, tree_words
from ens_plugin.adapters.xgboost.hessians import Hessians
from ens_plugin.adapters.xgboost.proof import Proof, TreeEvidence, prove, tree_evidence
from ens_plugin.adapters.xgboost.refusals import check_settings, no_sampling, not_found, too_few_draws, too_weak
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.adapters.xgboost.search import (
    N_LIKELY_SEEDS,
    N_PAIRED_SEEDS,
    N_SEEDS,
    NEAR,
    UNSEEDED,
    WINDOW,
    Found,
    find_in_generators,
    find_in_seeds,
)
from ens_plugin.adapters.xgboost.target import check_target
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError, InputError

__all__ = [
    "CHANCE",
    "MAX_PROOFS",
    "Guess",
    "Share",
    "are_confirmed",
    "chance_of_false_match",
    "n_draws",
    "packed_bags",
    "proved_bags",
]

FloatArray = NDArray[np.float64]

CHANCE = 1e-9
# Of the first trees together, so that other rows do not agree by chance.
LEAVES_THAT_TELL = 8
PROBE_CELLS = 200_000
MAX_PROOFS = 6
TREES_AT_ONCE = 4
DRAWN_CELLS = 1_000_000
SPREADS = 5.0
MAX_SHARES = 40
FEW_SHARES = 3


@dataclass(frozen=True, eq=False)
class Guess:
    """Draws to prove, the share they are drawn with, and how many other guesses were tried for each stretch.

    A stretch is a run of trees whose positions follow from its first one's.
    """

    draws: Draws
    sampler: RowSampler
    stretch: NDArray[np.int64]
    tried: dict[int, int]


def proved_bags(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> tuple[Bags, bool]:
    """Return which rows each tree was trained on, shape (n_trees, n_rows), once every leaf confirms it.

    Returns
    -------
    bags : Bags
    is_target : bool
        Whether `y` is proved too.

    Raises
    ------
    BagError
        If the booster was trained without sampling, or in a way that cannot be proved.
    DataMismatchError
        If these are not the training rows in training order, or not their target.
    """
    check_settings(forest.settings)
    hessians = Hessians.of(forest, rows, y)
    share = _sampled_share(hessians)
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
        n_trees, drawn = len(forest.trees), n_draws(guess.draws)
        raise (too_weak(chance, CHANCE, n_trees) if drawn == n_trees else too_few_draws(chance, CHANCE, n_trees, drawn))
    return bags, y is not None and check_target(forest, rows, hessians, bags, y)


def are_confirmed(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> bool:
    """Tell whether the first trees were grown on likely draws of these very rows, or on all of them, without a search.

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
    share = _sampled_share(hessians)
    if share.is_whole:
        everything = np.ones(rows.shape[0], dtype=bool)
        return all(probe.accepts(everything) for probe in probes)
    sampler, likely = RowSampler(rows.shape[0], 0.5), likely_draws(forest, rows.shape[0])
    stated = forest.settings.subsample
    shares = [stated] if share.fits(stated) else share.candidates(stated)[:FEW_SHARES]
    return any(
        _confirmed(draws, sampler.with_subsample(value), probes) == len(probes) for value in shares for draws in likely
    )


@dataclass(frozen=True)
class Share:
    """Share of the rows that the first round's roots count, with its standard deviation."""

    mean: float
    sd: float
    is_whole: bool

    @classmethod
    def of_roots(cls, hessians: Hessians, total: NDArray[np.float64], n_effective: float) -> Share:
        """Share that the roots give.

        Parameters
        ----------
        hessians : Hessians
        total : ndarray, shape (n_groups,)
            Sums of the second derivatives over all training rows.
        n_effective : float
            Rows that would scatter as much, were their derivatives alike (Kish).
        """
        forest = hessians.forest
        first = np.flatnonzero(forest.round == 0)
        roots = np.array([forest.trees[tree].covers[0] for tree in first], dtype=np.float64)
        shares = roots / total[forest.group[first]]
        mean = float(shares.mean())
        spread = np.sqrt(max(mean * (1 - mean), 0.0) / n_effective)
        whole = np.abs(shares - 1.0) <= hessians.tolerance()[first]
        return cls(mean, float(spread / np.sqrt(np.unique(roots).size)), bool(whole.all()))

    def fits(self, subsample: float) -> bool:
        """Whether a value of `subsample` below 1 may have given this share."""
        return 0 < subsample < 1 and abs(self.mean - subsample) <= SPREADS * self.sd + 1e-6

    def candidates(self, subsample: float) -> list[float]:
        """Values that may have given this share: the booster's own, then those of few digits."""
        found = [subsample] if self.fits(subsample) else []
        for digits in (1, 2, 3, 4):
            unit = 10.0**-digits
            low, high = (round((self.mean + side * SPREADS * self.sd) / unit) for side in (-1, 1))
            near = sorted((k * unit for k in range(low, high + 1)), key=lambda value: abs(value - self.mean))
            found += [round(value, digits) for value in near if self.fits(value)]
            if len(found) >= MAX_SHARES:
                break
        return list(dict.fromkeys(found))[:MAX_SHARES]


def _sampled_share(hessians: Hessians) -> Share:
    rows = slice(0, hessians.weight.size)
    hessian = np.asarray(hessians.at(rows, hessians.first(rows)), dtype=np.float64)
    total, squares = hessian.sum(axis=0), (hessian**2).sum(axis=0)
    return Share.of_roots(hessians, total, 1.0 / float((squares / total**2).mean()))


def _n_probes(rows: Rows) -> int:
    """First trees to test guesses on: the fewer the rows, the more trees it takes to tell two shares apart."""
    return int(np.clip(PROBE_CELLS // rows.shape[0], 3, 50))


def _best_guess(
    forest: Forest, rows: Rows, hessians: Hessians, probes: list[TreeEvidence], share: Share
) -> tuple[Guess, Bags, Proof]:
    """The first guess that all trees confirm, or of a few the one that most do.

    Bags of one draw with two shares contain one another, so that both pass only if they are the same.
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
    """Draws that the first trees confirm: the likely ones, else those found in other generators."""
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
    # A booster whose share is still known still knows its seed: only the position is to be found.
    known = share.fits(forest.settings.subsample)
    n_seeds = {False: N_LIKELY_SEEDS if known else N_SEEDS, True: 0 if known else N_PAIRED_SEEDS}
    for pairs in (False, True):
        found = _search(forest, probes[0], samplers[:1] if known else samplers, pairs=pairs, n_seeds=n_seeds[pairs])
        tried += found.tried
        if found.seed is None:
            continue
        shifted = [_shifted(draws, 0, found) for draws in likely if draws.pairs == pairs]
        tried += len(shifted) * len(samplers)
        ranked = sorted(
            ((_confirmed(draws, own, probes), at, draws, own) for at, draws in enumerate(shifted) for own in samplers),
            key=lambda entry: -entry[0],
        )
        yield from (Guess(draws, own, stretch, {0: tried}) for _, _, draws, own in ranked)


def _confirmed(draws: Draws, sampler: RowSampler, probes: list[TreeEvidence]) -> int:
    """Number of the first trees that confirm the draws, up to the first that does not."""
    for tree, probe in enumerate(probes):
        if not probe.accepts(_mask(draws, sampler, tree)):
            return tree
    return len(probes)


def _search(forest: Forest, evidence: TreeEvidence, samplers: list[RowSampler], *, pairs: bool, n_seeds: int) -> Found:
    """One tree's draw: in the booster's generators, in those any thread starts from, then in small seeds'."""
    if not samplers:
        return Found(None, 0, None, 0)
    generators = list(dict.fromkeys([*_own_seeds(forest), 0, UNSEEDED]))
    found = find_in_generators(evidence, samplers, generators, WINDOW, pairs=pairs)
    if found.seed is not None or n_seeds == 0:
        return found
    more = find_in_seeds(evidence, samplers, n_seeds, pairs=pairs)
    return replace(more, tried=found.tried + more.tried)


def _own_seeds(forest: Forest) -> list[int]:
    return [int(seed) for seed in dict.fromkeys(likely_draws(forest, 1)[0].seed.tolist())][:64]


def _shifted(draws: Draws, member: int, found: Found) -> Draws:
    """The draws from `member` on moved to another generator and position; further rounds' own seeds go too."""
    seed, position = draws.seed.copy(), draws.position.copy()
    own = slice(member, None)
    assert found.seed is not None
    if draws.seed[member] != found.seed:
        seed[own] = found.seed
    position[own] += found.position - position[member]
    return replace(draws, seed=seed, position=position)


def _repaired(forest: Forest, rows: Rows, hessians: Hessians, guess: Guess, share: Share, first: int) -> Guess:
    """Follow the trees from the first that fails, looking for each draw that is not where it was expected."""
    draws, stretch, tried = guess.draws, guess.stretch.copy(), dict(guess.tried)
    n_trees = len(forest.trees)
    for start in range(first, n_trees, TREES_AT_ONCE):
        chosen = list(range(start, min(start + TREES_AT_ONCE, n_trees)))
        for member, evidence in zip(chosen, tree_evidence(forest, rows, hessians, chosen), strict=True):
            if evidence.accepts(_mask(draws, guess.sampler, member)):
                continue
            found = _near(forest, evidence, guess.sampler, draws, member)
            if found.seed is None:
                fits = share.fits(forest.settings.subsample)
                raise not_found(forest, share.mean, np.array([member]), fits, N_SEEDS)
            draws = _shifted(draws, member, found)
            stretch[member:] = member
            tried[member] = found.tried
    return Guess(draws, guess.sampler, stretch, tried)


def _near(forest: Forest, evidence: TreeEvidence, sampler: RowSampler, draws: Draws, member: int) -> Found:
    """A tree's draw close to where it was expected, else further in that generator, else in the others."""
    at, own, tried = int(draws.position[member]), [int(draws.seed[member])], 0
    for start, window in ((at, NEAR), (0, at + WINDOW)):
        found = find_in_generators(evidence, [sampler], own, window, pairs=draws.pairs, start=start)
        tried += found.tried
        if found.seed is not None:
            return replace(found, tried=tried)
    more = _search(forest, evidence, [sampler], pairs=draws.pairs, n_seeds=0 if draws.pairs else N_LIKELY_SEEDS)
    return replace(more, tried=tried + more.tried)


def _mask(draws: Draws, sampler: RowSampler, tree: int) -> NDArray[np.bool_]:
    seed, position = int(draws.seed[tree]), int(draws.position[tree])
    if draws.pairs:
        outputs = generator_outputs(seed, position, 2 * sampler.n_rows)
        return sampler.from_pairs(outputs[0::2], outputs[1::2])
    return np.asarray(sampler.from_words(generator_outputs(seed, position, 1))[0])


def packed_bags(guess: Guess) -> Bags:
    """Redraw all bags, packed, in threads."""
    draws, sampler, n_trees = guess.draws, guess.sampler, guess.draws.seed.size
    words = np.zeros(0, dtype=np.uint64) if draws.pairs else tree_words(draws)

    def pack(trees: range) -> Bags:
        if draws.pairs:
            return Bags.from_mask(np.stack([_mask(draws, sampler, tree) for tree in trees]))
        return Bags.from_mask(sampler.from_words(words[trees.start : trees.stop]))

    at_once = max(min(TREES_AT_ONCE, DRAWN_CELLS // sampler.n_rows), 1)
    chunks = [range(start, min(start + at_once, n_trees)) for start in range(0, n_trees, at_once)]
    return Bags.stack(in_threads(pack, chunks), n_trees, sampler.n_rows)


def n_draws(draws: Draws) -> int:
    """Different draws among those of the trees."""
    return len(set(zip(draws.seed.tolist(), draws.position.tolist(), strict=True)))


def chance_of_false_match(guess: Guess, proof: Proof) -> float:
    """Bound on the chance that a wrong stretch of draws passes, times the guesses tried for it, summed.

    Trees that share a draw (`approx`) are no independent witnesses: the strongest speaks for them.
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
