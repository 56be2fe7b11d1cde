r"""The bags of XGBoost's trees, found again by their seeds and proved by the leaves' sums.

Training draws from one mt19937 generator. For `hist` and `approx` a single 32-bit output s seeds a congruential
sequence :math:`x_i = 16807^{i+1} s \bmod 2^{63}`, and row i is in the bag if :math:`(x_i - 1) / 2^{63}` is below
`subsample`; `exact` takes two outputs a, b for every row, in the bag if :math:`(a + 2^{32} b) / 2^{64}` is. Weights,
labels and thread counts have no effect.

Every leaf stores the summed second derivative of its in-bag rows. A wrong mask, coin tosses independent of the right
one, gives that sum in every leaf of a tree with a chance of at most the product over leaves of the largest probability
of a binomial count of the leaf's rows: masks that agree in a leaf's sum never contain one another, and no such family
of sets is likelier than the likeliest size (Lubell, Yamamoto, Meshalkin). The chances of trees with different draws
multiply; times the number of draws that were tried, the product must not exceed 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.adapters.members import in_threads
from ens_plugin.adapters.trees import (
    LEAVES_THAT_TELL,
    MAX_CHANCE,
    LeafSums,
    chance_of_draws,
    first_middle_last,
    likely_chance,
    members_to_check,
)
from ens_plugin.adapters.xgboost.forest import Forest, TrainingParameters
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.adapters.xgboost.target import Hessians, is_checkable, judge_target, target_sums, unit_hessians
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.validation import CELLS_AT_ONCE, STANDARD_ERRORS, BoolArray, FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError

WordArray = NDArray[np.uint64]

MULTIPLIER = 16807
ONE_BIT = np.uint64(1)
ROUND_FACTOR = 127
RECENT = (3, 3)
_METHODS = ("grow_quantile_histmaker", "grow_histmaker", "grow_colmaker")

# Of the search: outputs of a generator and seeds that are tried, of which `exact` takes as many outputs as rows.
WINDOW = 4096
N_SEEDS = 100_000
N_SEEDS_OF_PAIRS = 1_000
# mt19937's default seed, used in a thread other than the one that configured the booster.
UNSEEDED = 5489
SCREENED_ROWS = 96
# Rows by draws that are tried, which takes seconds; and draws that give the sums of a tree, if it is too small to tell.
CELLS_IN_ALL = 600_000_000
MOST_HITS = 3_000
MAX_SHARES = 40
# Shares that are tried for rows that are probably fresh.
FEW_SHARES = 3
# Usual values of more than two digits, which few rows cannot distinguish from others; 0.632 is a bootstrap's.
USUAL_SHARES = (0.632, 1 / 3, 2 / 3, 0.333, 0.667)
MAX_PROOFS = 6
# Trees that a guess must fit before all checked trees are compared.
FEWEST_PROBES, MOST_PROBES = 3, 16

HOLDOUT = 'pass data="holdout" with rows the model was not trained on'
GIVE_BACK = (
    "state how the booster was trained with booster.set_param({'seed': ..., 'subsample': ..., 'tree_method': ..., "
    "'learning_rate': ..., 'reg_lambda': ...}), or pickle boosters instead"
)


@dataclass(frozen=True, eq=False)
class Draws:
    """Seed of the generator, and position in its outputs, from which the rows of each tree are drawn."""

    # Whether every row takes two outputs (`exact`), or a tree takes one.
    pairs: bool
    # Seed of the generator; shape (n_trees,).
    seed: NDArray[np.uint32]
    # Number of the generator's outputs before those of the tree; shape (n_trees,).
    position: IntArray


class RowSampler:
    """Sampler that redraws bags of rows at some positions, or of the first `n_rows`, with one value of `subsample`."""

    def __init__(self, rows: int | IntArray, subsample: float, powers: WordArray | None = None) -> None:
        self.rows = np.arange(rows) if isinstance(rows, int) else rows
        self.subsample = float(np.float32(subsample))
        self.powers = powers_at(self.rows) if powers is None else powers
        self.highest = _highest_in_bag(self.subsample)

    def from_words(self, words: WordArray, rows: IntArray | None = None) -> BoolArray:
        """Return which rows are in the bag for each output of the generator, shape (n_words, n_rows or len(rows))."""
        powers = self.powers if rows is None else self.powers[rows]
        # Twice the draws modulo 2^64 are compared with twice the highest, so that the last bit is lost by itself.
        with np.errstate(over="ignore"):
            doubled = powers * (words[:, None].astype(np.uint64) << ONE_BIT)
        return np.asarray(doubled <= self.highest << ONE_BIT)

    def from_pairs(self, outputs: WordArray, first: IntArray, rows: IntArray | None = None) -> BoolArray:
        """Return which rows are in the bag for two outputs each, from the `first` on, (len(first), n_rows)."""
        at = first[:, None] + 2 * (self.rows if rows is None else rows)
        u = outputs[at].astype(np.float64) + outputs[at + 1].astype(np.float64) * 2.0**32
        return np.asarray(u / 2.0**64 < self.subsample)

    def with_subsample(self, subsample: float) -> RowSampler:
        """Return a sampler of the same rows with another value of `subsample`."""
        return RowSampler(self.rows, subsample, self.powers)


def generator_outputs(seed: int, start: int, count: int) -> WordArray:
    """Return the outputs start, ..., start + count - 1 of mt19937 with a 32-bit seed."""
    bits: Any = np.random.MT19937(0)
    bits.state = np.random.RandomState(seed).get_state(legacy=False)
    bits.random_raw(start, output=False)
    return np.asarray(bits.random_raw(count), dtype=np.uint64)


def first_outputs(seeds: IntArray) -> WordArray:
    """Return the first two outputs of mt19937 for many seeds, shape (n_seeds, 2)."""
    # A new generator for each costs ten times as much as one that is seeded again.
    generator, found = np.random.RandomState(np.random.MT19937(0)), list[bytes]()
    for seed in seeds.tolist():
        generator.seed(seed)
        found.append(generator.bytes(8))
    return np.frombuffer(b"".join(found), dtype="<u4").reshape(-1, 2).astype(np.uint64)


def likely_draws(forest: Forest, n_rows: int) -> list[Draws]:
    """Return the draws that XGBoost's releases would make for the trees from their own seed, likeliest first."""
    settings = forest.settings
    method = next((name for name in _METHODS if name in settings.updater), "grow_quantile_histmaker")
    recent = settings.release >= RECENT
    methods = [method, *(name for name in _METHODS if name != method)]
    forests = _with_likely_columns(forest)
    columns = [_column_draws(known) for known in forests]
    found = []
    for name in methods:
        for era in (recent, not recent):
            pairs = zip(forests, columns, strict=True)
            found += [_draws(known, n_rows, name, era, *own) for known, own in islice(pairs, None if era else 1)]
    return found


def _with_likely_columns(forest: Forest) -> list[Forest]:
    """Return the forest and, if its settings look lost, copies with columns drawn in each of three ways."""
    settings = forest.settings
    if settings.subsample < 1:
        return [forest]
    deepest = int(forest.depths.max())
    ways: tuple[dict[str, Any], ...] = ({"bytree": 0.5}, {"bylevel": 0.5}, {"bynode": 0.5})
    return [forest, *(forest.with_settings(max_depth=deepest, **way) for way in ways)]


def _draws(forest: Forest, n_rows: int, method: str, recent: bool, by_level: IntArray, by_node: IntArray) -> Draws:
    """Return the draws of all trees, for which outputs are taken tree by tree: first for rows, then for columns."""
    # `by_level` and `by_node` are those of _column_draws. Before 3.3 columns take one output in all. `approx` draws
    # columns by tree, rows, and then columns by level, for all parallel trees of a group at once.
    n_trees = forest.n_trees
    pairs, shared = method == "grow_colmaker", method == "grow_histmaker"
    by_tree = int(recent and forest.settings.bytree < 1)
    of_levels = _once(forest, by_level) if shared else by_level
    columns = of_levels + by_node if recent else np.full(n_trees, int(pairs))
    position = np.zeros(n_trees, dtype=np.int64)
    at = 0 if recent or pairs else 1
    # Of lists, single entries are read ten times as fast.
    own_round, own_group, of_columns = forest.round.tolist(), forest.group.tolist(), columns.tolist()
    for member in range(n_trees):
        new_round = member > 0 and own_round[member] != own_round[member - 1]
        new_group = member == 0 or new_round or own_group[member] != own_group[member - 1]
        if new_round and forest.settings.seed_per_iteration:
            at = 0
        if new_group and member > 0 and own_round[member] == 0 and not shared:
            at += forest.n_left_out * ((2 * n_rows if pairs else 1) + by_tree + int(pairs and not recent))
        if shared and not new_group:
            position[member] = position[member - 1]
        else:
            at += by_tree if shared else 0
            position[member] = at
            at += 2 * n_rows if pairs else 1
        at += of_columns[member] + (0 if shared else by_tree)
    return Draws(pairs, _round_seeds(forest), position)


def _round_seeds(forest: Forest) -> NDArray[np.uint32]:
    """Return the generator's seed for each tree: one for the training, or one for each round."""
    settings = forest.settings
    seeds = np.full(forest.n_trees, settings.seed % 2**32, dtype=np.uint64)
    if settings.seed_per_iteration:
        seeds = (np.uint64(settings.seed % 2**32) * np.uint64(ROUND_FACTOR) + forest.round.astype(np.uint64)) % 2**32
    return seeds.astype(np.uint32)


def _column_draws(forest: Forest) -> tuple[IntArray, IntArray]:
    """Return how many generator outputs each tree takes for columns: by level, and by node; both shape (n_trees,)."""
    settings, firsts = forest.settings, forest.starts[:-1]
    by_level, by_node = np.zeros((2, forest.n_trees), dtype=np.int64)
    if settings.bylevel < 1:
        levels = np.maximum.reduceat(forest.depths, firsts) + 1
        by_level = np.minimum(levels, settings.max_depth) if settings.max_depth else levels
    if settings.bynode < 1:
        by_node = 1 + 2 * np.add.reduceat(_evaluated_splits(forest), firsts, dtype=np.int64)
    return by_level, by_node


def _once(forest: Forest, by_level: IntArray) -> IntArray:
    """Return numbers of outputs by level of trees of one round and group that share them: the first takes all."""
    _, first, update = np.unique(forest.round * forest.n_groups + forest.group, return_index=True, return_inverse=True)
    most, found = np.zeros(first.size, dtype=np.int64), np.zeros_like(by_level)
    np.maximum.at(most, update, by_level)
    found[first] = most
    return found


def _evaluated_splits(forest: Forest) -> BoolArray:
    """Return which nodes are splits whose children were evaluated as candidates for further splits."""
    settings, splits = forest.settings, ~forest.is_leaf
    if settings.max_leaves:
        for tree in range(forest.n_trees):
            own, depth = (forest.of_tree(values, tree) for values in (splits, forest.depths))
            if np.count_nonzero(~own) == settings.max_leaves and own.any():
                # The last split, or those of the last level, were not followed by others.
                own &= (
                    np.arange(own.size) != np.argmax(forest.of_tree(forest.nodes["left_children"], tree))
                    if (settings.by_loss)
                    else depth < depth[own].max()
                )
    return splits & (forest.depths + 1 < settings.max_depth) if settings.max_depth else splits


def powers_at(rows: IntArray) -> WordArray:
    """Return the powers of the generator's multiplier for rows at any positions, shape (n_rows,), by squaring."""
    exponent = rows.astype(np.uint64) + np.uint64(1)
    powers = np.ones(rows.size, dtype=np.uint64)
    square = MULTIPLIER
    for bit in range(int(exponent.max(initial=0)).bit_length()):
        is_set = (exponent >> np.uint64(bit)) & np.uint64(1) == 1
        powers[is_set] *= np.uint64(square)
        square = square**2 % 2**64
    return powers


def _highest_in_bag(subsample: float) -> np.uint64:
    """Return the largest draw x of a row in bag: (x - 1) / 2^63, computed in float64, is below `subsample`."""
    low, high = 0, 2**63 - 1
    while low < high:
        middle = (low + high + 1) // 2
        if float(middle - 1) / 2.0**63 < subsample:
            low = middle
        else:
            high = middle - 1
    return np.uint64(low)


@dataclass(frozen=True, eq=False)
class TreeEvidence:
    """Data of one tree to test bags with: sums stored in its leaves, and each row's leaf and second derivative."""

    tree: int
    # Leaf each row ends in; shape (n_rows,).
    leaf: NDArray[Any]
    # Sums of second derivatives that the leaves store; shape (n_leaves,).
    covers: FloatArray
    # Shape (n_rows,).
    hessian: FloatArray
    # Relative error to allow in the sums.
    tolerance: float

    @cached_property
    def sizes(self) -> IntArray:
        """Return the number of rows in each leaf, shape (n_leaves,)."""
        return np.bincount(self.leaf, minlength=self.covers.size)

    @property
    def visible(self) -> IntArray:
        """Return the number of rows in each leaf without which its sum would be another."""
        hidden = 2.0 * self.tolerance * self.covers
        return np.bincount(self.leaf[self.hessian > hidden[self.leaf]], minlength=self.covers.size)

    def sums(self, in_bag: BoolArray) -> FloatArray:
        """Return the sum of the derivatives over the rows of a bag, by leaf."""
        return np.asarray(np.bincount(self.leaf[in_bag], self.hessian[in_bag], self.covers.size), dtype=np.float64)

    def accepts(self, in_bag: BoolArray) -> bool:
        """Return whether the rows of a bag give the sum stored in every leaf."""
        return gives_covers(self.sums(in_bag), self.covers, self.tolerance)


def gives_covers(sums: FloatArray, covers: FloatArray, tolerance: float) -> bool:
    """Return whether the sums over the rows of a bag are those that leaves store, within a relative error."""
    return bool((np.abs(sums - covers) <= tolerance * np.maximum(sums, covers)).all())


def log_chance(visible: IntArray, subsample: float) -> float:
    """Return the logarithm of the bound on the chance that a wrong bag gives the sums of a tree."""
    mode = np.minimum(np.floor((visible + 1) * subsample), visible)
    return float(np.sum(binom.logpmf(mode, visible, subsample)))


def evidence_of(forest: Forest, rows: Rows, hessians: Hessians, trees: list[int]) -> Iterator[TreeEvidence]:
    """Yield the evidence of some trees in ascending order, with the derivatives in the round of each."""
    tolerance, margin, known_round = hessians.tolerance(), hessians.start, 0
    at_once = max(CELLS_AT_ONCE // rows.shape[0], 1)
    for start in range(0, len(trees), at_once):
        part = trees[start : start + at_once]
        for tree, leaf in zip(part, forest.reader.leaves(rows, part), strict=True):
            if hessians.depend_on_margin and forest.round[tree] > known_round:
                margin = np.array(np.broadcast_to(margin, (rows.shape[0], forest.n_groups)))
                earlier = np.flatnonzero((forest.round >= known_round) & (forest.round < forest.round[tree])).tolist()
                for before, values in zip(earlier, forest.reader.values(rows, earlier), strict=True):
                    margin[:, forest.group[before]] += values
                known_round = int(forest.round[tree])
            hessian = hessians.of_group(margin, int(forest.group[tree]))
            yield TreeEvidence(tree, leaf, forest.leaf_covers(tree), hessian, float(tolerance[tree]))


@dataclass(frozen=True)
class Share:
    """Share of rows counted by the roots of the first round's trees, its standard deviation, and whether it is 1."""

    mean: float
    sd: float
    is_whole: bool

    @classmethod
    def of_roots(cls, forest: Forest, hessians: Hessians, total: FloatArray, n_effective: float) -> Share:
        """Return the share that the trees' roots count of all rows, whose derivatives sum to `total` by group."""
        first = np.flatnonzero(forest.round == 0)
        roots = forest.root_covers[first]
        shares = roots / total[forest.group[first]]
        mean = float(shares.mean())
        spread = np.sqrt(max(mean * (1 - mean), 0.0) / n_effective)
        whole = np.abs(shares - 1.0) <= hessians.tolerance()[first]
        return cls(mean, float(spread / np.sqrt(np.unique(roots).size)), bool(whole.all()))

    def fits(self, subsample: float) -> bool:
        """Return whether a value of `subsample` below 1 may have given the counted share of rows."""
        return 0 < subsample < 1 and abs(self.mean - subsample) <= STANDARD_ERRORS * self.sd + 1e-6

    def candidates(self, subsample: float) -> list[float]:
        """Return values of `subsample` that may have given the counted share: the booster's, usual and round ones."""
        found = [value for value in (subsample, *USUAL_SHARES) if self.fits(value)]
        for digits in (1, 2, 3, 4):
            unit = 10.0**-digits
            low, high = (round((self.mean + side * STANDARD_ERRORS * self.sd) / unit) for side in (-1, 1))
            near = sorted((k * unit for k in range(low, high + 1)), key=lambda value: abs(value - self.mean))
            found += [round(value, digits) for value in near if self.fits(value)]
            if len(found) >= MAX_SHARES:
                break
        return list(dict.fromkeys(found))[:MAX_SHARES]


@dataclass(frozen=True, eq=False)
class Guess:
    """Draws to prove, with the share of the rows, and the number of guesses tried."""

    draws: Draws
    subsample: float
    n_tried: int

    def in_bag(self, sampler: RowSampler, tree: int) -> BoolArray:
        """Return which rows are in the bag of a tree."""
        seed, position = int(self.draws.seed[tree]), int(self.draws.position[tree])
        if self.draws.pairs:
            outputs = generator_outputs(seed, position, 2 * (int(sampler.rows.max()) + 1))
            return np.asarray(sampler.from_pairs(outputs, np.zeros(1, dtype=np.int64))[0])
        return np.asarray(sampler.from_words(generator_outputs(seed, position, 1))[0])

    def bags(self, sampler: RowSampler) -> Bags:
        """Return the bags of all trees, redrawn in threads."""
        words = None if self.draws.pairs else self._words()

        def pack(tree: int) -> NDArray[np.uint8]:
            if words is None:
                return np.packbits(self.in_bag(sampler, tree))
            return np.packbits(sampler.from_words(words[tree : tree + 1])[0])

        return Bags(np.stack(list(in_threads(pack, range(self.draws.seed.size)))), sampler.rows.size)

    def _words(self) -> WordArray:
        """Return the output that each tree's rows are drawn from, of one generator for each seed."""
        words = np.zeros(self.draws.seed.size, dtype=np.uint64)
        for seed in np.unique(self.draws.seed):
            own = self.draws.position[self.draws.seed == seed]
            words[self.draws.seed == seed] = generator_outputs(int(seed), 0, int(own.max()) + 1)[own]
        return words

    def chance(self, trees: list[int], log_chances: list[float]) -> float:
        """Return a bound on the chance that wrong draws pass for the checked trees, over all that were tried."""
        # Trees may share a draw (`approx`).
        draws = np.stack([self.draws.seed[trees].astype(np.int64), self.draws.position[trees]])
        draw_of = np.unique(draws, axis=1, return_inverse=True)[1].reshape(-1)
        return chance_of_draws(np.array(log_chances), draw_of, self.n_tried)


def checked_trees(forest: Forest, n_rows: int, share: Share) -> list[int]:
    """Return the trees that prove the bags: of one round some drawn at random, of several all."""
    if forest.n_rounds > 1:
        return list(range(forest.n_trees))
    hessian, mean = unit_hessians(forest), min(share.mean, 1.0)
    unit = np.concatenate([hessian.of_group(hessian.start, group) for group in range(forest.n_groups)])
    # Parallel trees of `approx` share one draw.
    draw_of = forest.group if "grow_histmaker" in forest.settings.updater else np.arange(forest.n_trees)

    def log_chance(tree: int) -> float:
        return likely_chance(forest.leaf_covers(tree) / unit[forest.group[tree]], mean)

    return [int(tree) for tree in members_to_check(forest.n_trees, n_rows, log_chance, draw_of)]


def bags_by_position(forest: Forest, n_rows: int) -> Callable[[IntArray, NDArray[Any]], Bags]:
    """Return a function of positions that returns the bags of rows by the likeliest draws of the booster's own seed."""
    check_settings(forest.settings)
    hessians = unit_hessians(forest)
    unit, _ = hessians.totals()
    share = Share.of_roots(forest, hessians, n_rows * unit, n_rows)
    if share.is_whole:
        raise no_sampling()
    shares, likely = share.candidates(forest.settings.subsample), likely_draws(forest, n_rows)
    if not shares or not likely:
        raise not_found(forest, share, list(range(forest.n_trees)), forest.n_trees)
    guess = Guess(likely[0], shares[0], 1)
    return lambda rows, target: guess.bags(RowSampler(rows, guess.subsample))


def proved_bags(forest: Forest, rows: Rows, y: FloatArray | None) -> Bags:
    """Return the bag of each tree, shape (n_trees, n_rows), proved by the sums stored in leaves."""
    check_settings(forest.settings)
    hessians, n_rows = Hessians.of(forest, rows, y), rows.shape[0]
    share = Share.of_roots(forest, hessians, *hessians.totals())
    if share.is_whole:
        raise no_sampling()
    first_error: BagError | DataMismatchError | None = None
    probes = _probes(forest, rows, hessians, share)
    for guess in islice(find_draws(forest, probes, share, n_rows), MAX_PROOFS):
        try:
            bags = guess.bags(RowSampler(n_rows, guess.subsample))
            return bags.with_proof(_proof(guess, share, hessians, rows, y, bags))
        except (BagError, DataMismatchError) as error:
            first_error = first_error or error
    raise first_error or not_found(forest, share, [probe.tree for probe in probes], forest.n_trees)


def _proof(guess: Guess, share: Share, hessians: Hessians, rows: Rows, y: FloatArray | None, bags: Bags) -> BagProof:
    """Return a BagProof after comparing the sums of trees drawn at random, and the target of three of these.

    Wrong draws, other rows or another order pass with a chance of at most 1e-9, by the bound of the module's notes.  Of
    trees of one round that were grown otherwise, a share s of all, none is among the 16 or more that are checked with a
    chance of (1 - s)^16.  Of several rounds, which other training may have interrupted, all trees are checked.
    """
    forest = hessians.forest
    checked = checked_trees(forest, rows.shape[0], share)
    with_target = first_middle_last(checked) if y is not None and is_checkable(forest) else []
    failed, chances, sums = list[int](), list[float](), dict[int, LeafSums]()
    for own in evidence_of(forest, rows, hessians, checked):
        in_bag = bags.member(own.tree)
        if not own.accepts(in_bag):
            failed.append(own.tree)
        chances.append(log_chance(own.visible, guess.subsample))
        if y is not None and own.tree in with_target:
            sums[own.tree] = target_sums(forest, hessians, own.tree, own.leaf, in_bag, y)
    if failed:
        raise not_found(forest, share, failed, len(checked))
    chance = guess.chance(checked, chances)
    if chance > MAX_CHANCE:
        raise too_weak(chance, forest, share, guess.draws)
    return BagProof(target=judge_target(forest, sums))


def are_confirmed(forest: Forest, rows: Rows, y: FloatArray | None) -> bool:
    """Return whether trees were grown on likely draws of the given rows from the booster's own seed, or on all."""
    try:
        check_settings(forest.settings)
        hessians = Hessians.of(forest, rows, y)
    except (BagError, InputError):
        return False
    share = Share.of_roots(forest, hessians, *hessians.totals())
    probes = _probes(forest, rows, hessians, share)
    if sum(probe.covers.size - 1 for probe in probes) < LEAVES_THAT_TELL:
        return False
    if share.is_whole:
        return all(probe.accepts(np.ones(rows.shape[0], dtype=bool)) for probe in probes)
    stated = forest.settings.subsample
    shares = [stated] if share.fits(stated) else share.candidates(stated)[:FEW_SHARES]
    return next(_likely_guesses(forest, probes, shares, rows.shape[0]), None) is not None


def _probes(forest: Forest, rows: Rows, hessians: Hessians, share: Share) -> list[TreeEvidence]:
    """Return the evidence of the first checked trees of the first round."""
    checked = checked_trees(forest, rows.shape[0], share)
    most = min(max(CELLS_AT_ONCE // rows.shape[0], FEWEST_PROBES), MOST_PROBES)
    first = [tree for tree in checked if forest.round[tree] == 0][:most]
    return list(evidence_of(forest, rows, hessians, first))


def _likely_guesses(forest: Forest, probes: list[TreeEvidence], shares: list[float], n_rows: int) -> Iterator[Guess]:
    """Yield guesses of likely draws from the booster's own seed that fit some trees."""
    likely, sampler = likely_draws(forest, n_rows), RowSampler(n_rows, 0.5)
    for n_shares, subsample in enumerate(shares, 1):
        own = sampler.with_subsample(subsample)
        guesses = (Guess(draws, subsample, n_shares * len(likely)) for draws in likely)
        yield from (guess for guess in guesses if _fits(guess, own, probes))


def _fits(guess: Guess, sampler: RowSampler, probes: list[TreeEvidence]) -> bool:
    return all(probe.accepts(guess.in_bag(sampler, probe.tree)) for probe in probes)


def find_draws(forest: Forest, probes: list[TreeEvidence], share: Share, n_rows: int) -> Iterator[Guess]:
    """Yield guesses of row draws that fit some trees: likely draws, else those that a search for a lost seed finds."""
    shares, found_any = share.candidates(forest.settings.subsample), False
    for guess in _likely_guesses(forest, probes, shares, n_rows):
        found_any = True
        yield guess
    if shares and not found_any:
        # A booster that still has its share still has its seed: only the position is to be found.
        yield from _searched(forest, probes, share, shares[:1] if share.fits(forest.settings.subsample) else shares)


def _searched(forest: Forest, probes: list[TreeEvidence], share: Share, shares: list[float]) -> Iterator[Guess]:
    """Yield guesses from the first tree's draw, looked for among the outputs of many generators, that fit some trees.

    Each draw that gives the tree's sums is tried with every layout of the draws of the trees after it.
    """
    first, n_rows = probes[0], probes[0].leaf.size
    likely, sampler = likely_draws(forest, n_rows), RowSampler(n_rows, 0.5)
    samplers = {value: sampler.with_subsample(value) for value in shares}
    is_small, n_tried = False, len(likely) * MAX_SHARES
    for pairs in (False, True):
        layouts, n_hits = _distinct([draws for draws in likely if draws.pairs == pairs]), 0
        for tried, hits in search(first, samplers, _everywhere(forest, n_rows, pairs=pairs)):
            n_tried, n_hits = n_tried + tried * len(layouts), n_hits + len(hits)
            for (seed, position, subsample), draws in product(hits, layouts):
                begun = Draws(
                    pairs,
                    draws.seed if draws.seed[first.tree] == seed else np.full_like(draws.seed, seed),
                    draws.position + (position - draws.position[first.tree]),
                )
                guess = Guess(begun, subsample, n_tried)
                if _fits(guess, samplers[subsample], probes):
                    yield guess
            if n_hits >= MOST_HITS:
                is_small = True
                break
    if is_small and not share.fits(forest.settings.subsample):
        raise too_weak(1.0, forest, share, likely[0])


def _distinct(likely: list[Draws]) -> list[Draws]:
    """Return the draws without those that differ from another only by a shift of all positions."""
    found = {(draws.seed.tobytes(), np.diff(draws.position).tobytes()): draws for draws in reversed(likely)}
    return list(found.values())[::-1]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Draws that a tree's rows may come from: seeds, positions, and the outputs there.

    `first` is where the outputs of each begin if every row takes two of them; else each draw is one output.
    """

    seed: IntArray
    position: IntArray
    outputs: WordArray
    first: IntArray | None = None

    def in_bag(self, sampler: RowSampler, chosen: IntArray, rows: IntArray | None = None) -> BoolArray:
        """Return which rows are in the bag of each of some draws."""
        if self.first is None:
            return sampler.from_words(self.outputs[chosen], rows)
        return sampler.from_pairs(self.outputs, self.first[chosen], rows)


def _everywhere(forest: Forest, n_rows: int, *, pairs: bool) -> Iterator[Candidates]:
    """Yield draws from the booster's generators, from one without a seed, then the first ones of small seeds."""
    own = [int(seed) for seed in dict.fromkeys(likely_draws(forest, 1)[0].seed.tolist())][:64]
    windows = [(seed, WINDOW) for seed in dict.fromkeys([*own, 0, UNSEEDED])]
    for seed, window in windows + [(seed, 1) for seed in range(N_SEEDS_OF_PAIRS if pairs else 0)]:
        outputs, position = generator_outputs(seed, 0, window + (2 * n_rows if pairs else 0)), np.arange(window)
        yield Candidates(np.full(window, seed), position, outputs, position if pairs else None)
    for start in range(0, 0 if pairs else N_SEEDS, WINDOW):
        seeds = np.arange(start, min(start + WINDOW, N_SEEDS))
        outputs = first_outputs(seeds)
        yield from (Candidates(seeds, np.full(seeds.size, place), outputs[:, place]) for place in (1, 0))


def search(
    evidence: TreeEvidence, samplers: dict[float, RowSampler], candidates: Iterable[Candidates]
) -> Iterator[tuple[int, list[tuple[int, int, float]]]]:
    """Yield how many draws were tried for a tree, and seed, position and share of those that give its sums."""
    # Of a small tree, many wrong draws do.
    screen, cells = _Screen(evidence), 0
    # Bags of other shares are between those of the smallest and the largest.
    low, high = samplers[min(samplers)], samplers[max(samplers)]
    step = max(min(WINDOW, CELLS_AT_ONCE // screen.rows.size), 1)
    for own in candidates:
        for start in range(0, own.seed.size, step):
            chosen = np.arange(start, min(start + step, own.seed.size))
            cells += chosen.size * screen.rows.size
            if cells > CELLS_IN_ALL:
                return
            bounds = (own.in_bag(sampler, chosen, screen.rows) for sampler in (low, high))
            enclosed = chosen[screen.survivors(*bounds)]
            hits = []
            for share, sampler in samplers.items() if enclosed.size else ():
                screened = own.in_bag(sampler, enclosed, screen.rows)
                for place in enclosed[screen.survivors(screened, screened)].tolist():
                    if evidence.accepts(own.in_bag(sampler, np.array([place]))[0]):
                        hits.append((int(own.seed[place]), int(own.position[place]), share))
            yield chosen.size * len(samplers), sorted(hits, key=lambda hit: hit[:2])


class _Screen:
    """Fast test of masks on the smallest leaves of a tree, whose few rows exclude most wrong masks."""

    def __init__(self, evidence: TreeEvidence) -> None:
        by_size = np.argsort(np.where(evidence.sizes > 0, evidence.sizes, np.iinfo(np.int64).max), kind="stable")
        filled = np.cumsum(evidence.sizes[by_size])
        leaves = by_size[: int(np.searchsorted(filled, SCREENED_ROWS)) + 1]
        leaves = leaves[evidence.sizes[leaves] > 0]
        self.rows: IntArray = np.flatnonzero(np.isin(evidence.leaf, leaves))
        self.membership = (evidence.leaf[self.rows, None] == leaves) * evidence.hessian[self.rows, None]
        self.covers = evidence.covers[leaves]
        self.slack = evidence.tolerance * self.covers * 2 + 1e-12

    def survivors(self, low: BoolArray, high: BoolArray) -> IntArray:
        """Return the candidates, rows of `low` and `high`, whose bags enclose the sums of the tested leaves."""
        least, most = low.astype(np.float64) @ self.membership, high.astype(np.float64) @ self.membership
        enclosed = (least <= self.covers + self.slack) & (most >= self.covers - self.slack)
        return np.flatnonzero(enclosed.all(axis=1))


def check_settings(settings: TrainingParameters) -> None:
    """Raise BagError for settings with which the bags do not follow from the seed."""
    if settings.sampling_method != "uniform":
        raise BagError(
            f"This booster was trained with sampling_method={settings.sampling_method!r}: rows are drawn by their "
            f"gradients, so out-of-bag rows are not like the others. Train with sampling_method='uniform', or "
            f"{HOLDOUT}."
        )
    if not settings.device.startswith("cpu") or "gpu" in settings.updater:
        raise BagError(
            f"This booster was trained on device {settings.device!r}, whose row sampler differs and cannot be "
            f"repeated here. Train with device='cpu', or {HOLDOUT}."
        )
    if settings.process_type != "default":
        raise BagError(
            f"This booster was trained with process_type={settings.process_type!r}: its trees were refreshed, and "
            f"store the sums of other rows than those they grew on. Use the booster before the update, or {HOLDOUT}."
        )


def no_sampling() -> BagError:
    """Return the error for trees that were trained on every row."""
    return BagError(
        "This booster was trained with subsample=1: every tree was trained on every row, so no row is out of bag. "
        f"Train with subsample below 1 (0.632 is close to a bootstrap), or {HOLDOUT}."
    )


def not_found(forest: Forest, share: Share, failed: list[int], n_checked: int) -> DataMismatchError | BagError:
    """Return the error for trees whose leaf sums none of the tried draws gives."""
    settings = forest.settings
    which = f"tree {failed[0]}" + (f" and {len(failed) - 1} more of {n_checked}" if len(failed) > 1 else "")
    remedy = (
        "Pass the exact training rows in training order. Training weights and base margins count too: pass the weights "
        "as sample_weight, or the training xgboost.DMatrix, or xgboost.DMatrix(X, y, weight=...), as X."
    )
    found = f"the trees hold {100 * share.mean:.1f} % of the rows of X, and the booster states "
    found += f"subsample={settings.subsample:g} and seed={settings.seed}, which do not give the sums in {which}."
    if not 0 < share.mean < 1 or share.fits(settings.subsample):
        return DataMismatchError(
            f"These are not the rows the model was trained on, as far as its trees show: {found} {remedy} If these are "
            "the training rows, training reweighted them (sampling_method='gradient_based', which save_model does not "
            "store), ran on a GPU or beside other training in one process, was continued or interrupted, or the trees "
            f"were refreshed on other rows: {HOLDOUT}."
        )
    return BagError(
        f"The bags of this booster are not known: {found} Either X is not the training rows in training order, or the "
        f"booster lost its settings, as after save_model and load_model: none of the first {N_SEEDS} seeds (fewer with "
        f"tree_method='exact', and where many agree with one shallow tree) gives these trees. {remedy} And "
        f"{GIVE_BACK}. A booster trained on a GPU, on several machines or with gradient_based sampling cannot be "
        f"redrawn: {HOLDOUT}."
    )


def too_weak(chance: float, forest: Forest, share: Share, draws: Draws) -> BagError:
    """Return the error for trees too small, or on too few draws, to distinguish a right bag from a wrong one."""
    n_draws, settings = len(set(zip(draws.seed.tolist(), draws.position.tolist(), strict=True))), forest.settings
    trees = (
        f"The {counted(forest.n_trees, 'tree')} of this booster, grown on {counted(n_draws, 'draw')} of rows, would "
    )
    found = f"{trees}agree with wrong ones with a chance of up to {min(chance, 1.0):.2g} ({MAX_CHANCE:g} is allowed)."
    remedy = "Train more or deeper trees"
    if not share.fits(settings.subsample):
        found += f" It states subsample={settings.subsample:g}, seed={settings.seed}, which its trees contradict, as "
        remedy = f"after save_model and load_model: {GIVE_BACK}. Or train more or deeper trees"
    elif n_draws < forest.n_trees:
        remedy += ", or with tree_method='hist', which draws rows for every tree"
    return BagError(f"{found}{'' if found.endswith(' ') else ' '}{remedy}, or {HOLDOUT}.")
