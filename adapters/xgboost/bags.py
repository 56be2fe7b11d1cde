r"""The bags of XGBoost's trees, found again by their seeds and proved by the leaves' sums.

Redrawing of the rows that a tree was trained on, from the outputs of XGBoost's generator. Training draws from one
mt19937 generator. For `hist` and `approx` a single 32-bit output s seeds a congruential sequence :math:`x_i =
16807^{i+1} s \bmod 2^{63}`, and row i is in the bag if :math:`(x_i - 1) / 2^{63}` is below `subsample`; `exact` takes
two outputs a, b for every row, in the bag if :math:`(a + 2^{32} b) / 2^{64}` is. Weights, labels and thread counts
have no effect.

The chance that wrong bags pass the proof of :mod:`ens_plugin.adapters.tree_table`. Every leaf stores the summed second
derivative of its in-bag rows. A wrong mask, coin tosses independent of the right one, gives that sum in every leaf of a
tree with a chance of at most the product over leaves of the largest probability of a binomial count of the leaf's rows:
masks that agree in a leaf's sum never contain one another, and no such family of sets is likelier than the likeliest
size (Lubell, Yamamoto, Meshalkin).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from heapq import nlargest
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.adapters.members import in_threads
from ens_plugin.adapters.tree_table import (
    LEAVES_THAT_TELL,
    MAX_CHANCE,
    FlatTree,
    chance_of_draws,
    count_leaves,
    gives_cover,
    proved_trees,
)
from ens_plugin.adapters.xgboost.forest import Forest, LeafReader, Rows, TrainingParameters, read_leaves
from ens_plugin.adapters.xgboost.target import Hessians, check_target
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.validation import CELLS_AT_ONCE, STANDARD_ERRORS, BoolArray, FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError

HOLDOUT = 'pass data="holdout" with rows the model was not trained on'
GIVE_BACK = (
    "state how the booster was trained with booster.set_param({'seed': ..., 'subsample': ..., 'tree_method': ...}), or "
    "pickle boosters instead"
)


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


def not_found(
    forest: Forest, share: float, failed: NDArray[np.integer], settings_fit: bool, n_seeds: int
) -> DataMismatchError | BagError:
    """Return the error for trees whose leaf sums none of the tried draws gives."""
    settings = forest.settings
    which = _named(forest, failed)
    weights = (
        "Training weights and base margins count too: pass the weights as sample_weight, or the training "
        "xgboost.DMatrix, or xgboost.DMatrix(X, y, weight=...), as X."
    )
    if not 0 < share < 1:
        return DataMismatchError(
            "These are not the rows the model was trained on, as far as its trees show: they counted "
            f"{100 * share:.1f} % of the rows of X. Pass the exact training rows in training order. {weights} If these "
            "are the training rows, training reweighted them (sampling_method='gradient_based', which save_model "
            f"does not store), or the trees were refreshed on other rows: {HOLDOUT}."
        )
    if settings_fit:
        return DataMismatchError(
            f"These are not the rows the model was trained on, as far as its trees show: with seed={settings.seed} and "
            f"subsample={settings.subsample:g}, the rows of X drawn for {which} do not give the sums in its leaves. "
            f"Pass the exact training rows in training order. {weights} If other training ran in the same process, "
            "train the booster in a process of its own and pickle it. If it was trained with device='cuda', whatever "
            f"its device is now, its rows cannot be drawn again. For these and other rows, {HOLDOUT}."
        )
    return BagError(
        f"The rows drawn for {which} are not known. The trees hold {100 * share:.1f} % of the rows, but the booster "
        f"states subsample={settings.subsample:g}, seed={settings.seed}. Either X is not the training rows in training "
        f"order, or the booster lost its settings, as after save_model and load_model. None of the first {n_seeds} "
        "seeds (fewer with tree_method='exact', and where many agree with one shallow tree) gives these trees. Pass "
        f"the exact training rows, and {GIVE_BACK}. {weights} A booster trained on a GPU, on several machines or with "
        f"gradient_based sampling cannot be redrawn: {HOLDOUT}."
    )


def not_likely(
    forest: Forest, share: float, n_rows: int, failed: NDArray[np.integer], settings_fit: bool
) -> DataMismatchError | BagError:
    """Return the error for rows on a cluster, where only the likely draws are tried."""
    settings, which = forest.settings, _named(forest, failed)
    if not 0 < share < 1:
        found = f"its trees counted {100 * share:.1f} % of {counted(n_rows, 'row')} of weight 1"
    else:
        found = (
            f"with seed={settings.seed} and subsample={settings.subsample:g}, the rows drawn for {which} do not give "
            "the sums in its leaves"
        )
    remedy = (
        "Each row must have its own position in training order. Training weights and base margins are not known on a "
        f"cluster: analyze such a booster on one machine with ens_plugin.analyze, or {HOLDOUT}."
    )
    if settings_fit or not 0 < share < 1:
        return DataMismatchError(
            f"These are not the rows the model was trained on, as far as it shows: {found}. {remedy}"
        )
    return BagError(
        f"The rows drawn for {which} are not known: {found}. The trees hold {100 * share:.1f} % of the rows, so the "
        "booster lost its settings, as after save_model and load_model. Only ens_plugin.analyze, on one machine, "
        "searches for its seed. On a cluster, state how it was trained with booster.set_param({'seed': ..., "
        f"'subsample': ..., 'tree_method': ..., 'reg_lambda': ...}}), or pickle boosters instead. {remedy}"
    )


def several_rounds(n_rounds: int, n_parallel: int) -> UnsupportedModelError:
    """Return the error for a booster of several rounds, with the number of parallel trees in each."""
    last = (
        "Out-of-bag rows do not show how many of its trees the last round needs either: a row that is out of "
        "bag for a tree of the last round trained the rounds before. "
        if n_parallel > 1
        else ""
    )
    of_each = f" of {n_parallel} parallel trees" if n_parallel > 1 else ""
    return UnsupportedModelError(
        f"This booster was trained in {n_rounds} rounds{of_each}: the trees of each round correct those of the rounds "
        f"before, so no error curve over sizes describes them and none can be left out. {last}Train one round "
        "(num_boost_round=1, or n_estimators=1) with num_parallel_tree=100 or more, subsample below 1 and "
        "learning_rate=1. ens_plugin.in_bag returns the bags of any number of rounds."
    )


def _named(forest: Forest, failed: NDArray[np.integer]) -> str:
    return f"tree {failed[0]}" + (f" and {failed.size - 1} more of {forest.n_trees}" if failed.size > 1 else "")


def too_weak(chance: float, n_trees: int, n_drawn: int) -> BagError:
    """Return the error for trees too small, or on too few draws, to distinguish a right bag from a wrong one."""
    if n_drawn < n_trees:
        return BagError(
            f"Parallel trees of tree_method='approx' share one draw of rows, so the {n_trees} trees of this booster "
            f"were grown on {counted(n_drawn, 'draw')}. Rows were found that agree with all of them, but trees so "
            f"small would agree with wrong ones with a chance of up to {chance:.2g} ({MAX_CHANCE:g} is allowed). Train "
            f"with tree_method='hist', which draws rows for every tree, or deeper trees, or {HOLDOUT}."
        )
    return BagError(
        f"Bags were found that agree with {'the only tree' if n_trees == 1 else f'all {n_trees} trees'}, but so few "
        f"and small trees would agree with wrong ones with a chance of up to {chance:.2g} ({MAX_CHANCE:g} is allowed). "
        f"Train more or deeper trees, or {HOLDOUT}."
    )


def lost_and_weak(chance: float, settings: TrainingParameters) -> BagError:
    """Return the error for trees too small to find again the seed that a booster has lost."""
    return BagError(
        f"The rows drawn for the trees are not known. The booster states subsample={settings.subsample:g}, "
        f"seed={settings.seed}, which its trees contradict, as after save_model and load_model. Trees so few and small "
        f"agree with the draws of many seeds (with a chance of up to {min(chance, 1.0):.2g}; {MAX_CHANCE:g} is "
        f"allowed). Either {GIVE_BACK}, or train more or deeper trees, or {HOLDOUT}."
    )


WordArray = NDArray[np.uint64]

MULTIPLIER = 16807
ONE_BIT = np.uint64(1)
SHIFTED_WORD = 397
ROUND_FACTOR = 127
RECENT = (3, 3)
FEW_OUTPUTS = 10_000
# Rows, in whole bytes of bits, whose draws of some trees stay in a processor's cache.
PACKED_ROWS = 8192
_OF_THREAD = threading.local()

_METHODS = ("grow_quantile_histmaker", "grow_histmaker", "grow_colmaker")


@dataclass(frozen=True, eq=False)
class Draws:
    """Seed of the generator, and position in its outputs, from which the rows of each tree are drawn.

    Attributes
    ----------
    pairs : bool
        Whether every row takes two outputs (`exact`), or a tree takes one.
    seed : ndarray of uint32, shape (n_trees,)
        Seed of the generator.
    position : ndarray of int, shape (n_trees,)
        Number of the generator's outputs before those of the tree.
    """

    pairs: bool
    seed: NDArray[np.uint32]
    position: IntArray


class RowSampler:
    """Sampler that redraws bags of `n_rows` rows with one value of `subsample`."""

    def __init__(self, n_rows: int, subsample: float, powers: WordArray | None = None) -> None:
        self.n_rows = n_rows
        self.subsample = float(np.float32(subsample))
        self.powers = _powers(n_rows) if powers is None else powers
        self.highest = _highest_in_bag(self.subsample)

    def from_words(self, words: WordArray, rows: NDArray[np.intp] | slice | None = None) -> NDArray[np.bool_]:
        """Return which rows are in the bag for each output of the generator, shape (n_words, n_rows or len(rows))."""
        powers = self.powers if rows is None else self.powers[rows]
        # Twice the draws modulo 2^64 are compared with twice the highest, so that the last bit is lost by itself.
        with np.errstate(over="ignore"):
            doubled = powers * (words[:, None].astype(np.uint64) << ONE_BIT)
        return np.asarray(doubled <= self.highest << ONE_BIT)

    def packed_words(self, words: WordArray) -> NDArray[np.uint8]:
        """Return :meth:`from_words` as ``np.packbits`` packs them, shape (n_words, ceil(n_rows / 8))."""
        bits = np.empty((words.size, -(-self.n_rows // 8)), dtype=np.uint8)
        for start in range(0, self.n_rows, PACKED_ROWS):
            part = np.packbits(self.from_words(words, slice(start, start + PACKED_ROWS)), axis=1)
            bits[:, start // 8 : start // 8 + part.shape[1]] = part
        return bits

    def from_pairs(self, low: WordArray, high: WordArray) -> NDArray[np.bool_]:
        """Return which rows are in bag, each drawn from two outputs of the generator, in the shape of `low`."""
        u = low.astype(np.float64) + high.astype(np.float64) * 2.0**32
        return np.asarray(u / 2.0**64 < self.subsample)

    def with_subsample(self, subsample: float) -> RowSampler:
        """Return a sampler of as many rows with another value of `subsample`."""
        return RowSampler(self.n_rows, subsample, self.powers)


def generator_outputs(seed: int, start: int, count: int) -> WordArray:
    """Return the outputs start, ..., start + count - 1 of mt19937 with a 32-bit seed."""
    if start + count > FEW_OUTPUTS:
        bits: Any = np.random.MT19937(0)
        bits.state = np.random.RandomState(seed).get_state(legacy=False)
        bits.random_raw(start, output=False)
        return np.asarray(bits.random_raw(count), dtype=np.uint64)
    # For few outputs, a new generator costs thirty times as much as one that is seeded again.
    if not hasattr(_OF_THREAD, "generator"):
        _OF_THREAD.generator = np.random.RandomState(np.random.MT19937(0))
    _OF_THREAD.generator.seed(seed)
    return np.frombuffer(_OF_THREAD.generator.bytes(4 * (start + count)), dtype="<u4")[start:].astype(np.uint64)


def first_outputs(seeds: NDArray[np.integer], position: int) -> WordArray:
    """Return output number `position` (below 227) of mt19937 for many 32-bit seeds at once."""
    word = seeds.astype(np.uint32)
    kept = {0: word}
    with np.errstate(over="ignore"):
        for index in range(1, position + SHIFTED_WORD + 1):
            word = np.uint32(1812433253) * (word ^ (word >> np.uint32(30))) + np.uint32(index)
            kept[index] = word
            if index > position + 1 and index < position + SHIFTED_WORD:
                del kept[index]
        joined = (kept[position] & np.uint32(0x80000000)) | (kept[position + 1] & np.uint32(0x7FFFFFFF))
        y = kept[position + SHIFTED_WORD] ^ (joined >> np.uint32(1))
        y ^= np.where(joined & np.uint32(1), np.uint32(0x9908B0DF), np.uint32(0))
        y ^= y >> np.uint32(11)
        y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
        y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
        y ^= y >> np.uint32(18)
    return y.astype(np.uint64)


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
    deepest = max(int(depth.max()) for depth in forest.depths)
    ways: tuple[dict[str, Any], ...] = ({"bytree": 0.5}, {"bylevel": 0.5}, {"bynode": 0.5})
    return [forest, *(replace(forest, settings=replace(settings, max_depth=deepest, **way)) for way in ways)]


def _draws(forest: Forest, n_rows: int, method: str, recent: bool, by_level: IntArray, by_node: IntArray) -> Draws:
    """Return the draws of all trees, for which outputs are taken tree by tree: first for rows, then for columns.

    `by_level` and `by_node` are those of :func:`_column_draws`.

    Before 3.3 columns take one output in all.  `approx` draws columns by tree, rows, and then columns by level, for
    all parallel trees of a group at once.
    """
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
    settings = forest.settings
    by_level, by_node = np.zeros((2, forest.n_trees), dtype=np.int64)
    if settings.bylevel == 1 and settings.bynode == 1:
        return by_level, by_node
    trees = zip(forest.table.trees, forest.depths, strict=True)
    for member, (tree, depth) in enumerate(trees):
        if settings.bylevel < 1:
            levels = int(depth.max()) + 1
            by_level[member] = min(levels, settings.max_depth) if settings.max_depth else levels
        if settings.bynode < 1:
            by_node[member] = 1 + 2 * int(np.count_nonzero(_evaluated_splits(tree, depth, settings)))
    return by_level, by_node


def _once(forest: Forest, by_level: IntArray) -> IntArray:
    """Return numbers of outputs by level of trees of one round and group that share them: the first takes all."""
    _, first, update = np.unique(forest.round * forest.n_groups + forest.group, return_index=True, return_inverse=True)
    most, found = np.zeros(first.size, dtype=np.int64), np.zeros_like(by_level)
    np.maximum.at(most, update, by_level)
    found[first] = most
    return found


def _evaluated_splits(tree: FlatTree, depth: IntArray, settings: TrainingParameters) -> NDArray[np.bool_]:
    """Return which nodes are splits whose children were evaluated as candidates for further splits."""
    is_leaf = tree.left < 0
    splits = ~is_leaf
    full = settings.max_leaves and np.count_nonzero(is_leaf) == settings.max_leaves
    if full and settings.by_loss:
        splits[np.argmax(tree.left)] = False
    elif full and splits.any():
        splits &= depth < depth[splits].max()
    if settings.max_depth:
        splits &= depth + 1 < settings.max_depth
    return splits


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


def tree_words(draws: Draws) -> WordArray:
    """Return the generator's output that each tree's rows are drawn from, if a tree takes one, shape (n_trees,)."""
    words = np.zeros(draws.seed.size, dtype=np.uint64)
    for seed in np.unique(draws.seed):
        own = draws.seed == seed
        outputs = generator_outputs(int(seed), 0, int(draws.position[own].max()) + 1)
        words[own] = outputs[draws.position[own]]
    return words


def _powers(n_rows: int) -> WordArray:
    powers = np.empty(max(n_rows, 1), dtype=np.uint64)
    powers[0] = MULTIPLIER
    filled = 1
    with np.errstate(over="ignore"):
        while filled < n_rows:
            step = min(filled, n_rows - filled)
            powers[filled : filled + step] = powers[:step] * powers[filled - 1]
            filled += step
    return powers[:n_rows]


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
class Proof:
    """Result of the proof of the bags, for each tree.

    Attributes
    ----------
    passed : ndarray of bool, shape (n_trees,)
    log_chance : ndarray, shape (n_trees,)
        Logarithm of a bound on the chance that a wrong mask passes.
    """

    passed: NDArray[np.bool_]
    log_chance: FloatArray


@dataclass(frozen=True, eq=False)
class TreeEvidence:
    """Data of one tree to test bags with: sums stored in its leaves, and each row's leaf and second derivative.

    Attributes
    ----------
    leaf : ndarray of unsigned int, shape (n_rows,)
        Leaf each row ends in.
    covers : ndarray of float64, shape (n_leaves,)
        Sums of second derivatives that the leaves store.
    hessian : ndarray, shape (n_rows,)
    tolerance : float
    """

    leaf: NDArray[Any]
    covers: FloatArray
    hessian: FloatArray
    tolerance: float

    @cached_property
    def sizes(self) -> IntArray:
        """Return the number of rows in each leaf, shape (n_leaves,)."""
        return np.bincount(self.leaf, minlength=self.covers.size)

    def accepts(self, in_bag: NDArray[np.bool_]) -> bool:
        """Return whether the rows of a bag give the sum stored in every leaf."""
        sums = np.bincount(self.leaf[in_bag], weights=self.hessian[in_bag], minlength=self.covers.size)
        return bool(gives_cover(sums, self.covers, self.tolerance).all())

    def log_chance(self, subsample: float) -> float:
        """Return the logarithm of a bound on the chance that a wrong bag is accepted."""
        hidden = 2.0 * self.tolerance * self.covers
        visible = np.bincount(self.leaf[self.hessian > hidden[self.leaf]], minlength=self.covers.size)
        return float(_log_chances(visible, subsample).sum())


def prove(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, subsample: float) -> Proof:
    """Return the result, for each tree, of comparing the sums of its leaves with those that `bags` give."""
    n_rows = rows.shape[0]
    n_spans = max(min(effective_n_jobs(None), n_rows // 1024), 1)
    edges = np.linspace(0, n_rows, n_spans + 1).astype(int) // 8 * 8
    edges[-1] = n_rows
    counter = _Counter.of(forest, rows, hessians, bags)
    if rows.kept is not None:
        rows.kept.begin(bags)

    def count(span: int) -> tuple[FloatArray, IntArray]:
        return counter.count(slice(int(edges[span]), int(edges[span + 1])))

    sums, sizes = np.zeros(counter.hidden.size), np.zeros(counter.hidden.size, dtype=np.int64)
    for part_sums, part_sizes in in_threads(count, range(n_spans)):
        sums += part_sums
        sizes += part_sizes
    return judge_leaf_sums(forest, hessians, sums, sizes, subsample)


def leaf_sums(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags) -> tuple[FloatArray, IntArray]:
    """Return sums over some rows by leaf, the leaves of all trees in one array."""
    return _Counter.of(forest, rows, hessians, bags).count(slice(0, rows.shape[0]))


def judge_leaf_sums(forest: Forest, hessians: Hessians, sums: FloatArray, sizes: IntArray, subsample: float) -> Proof:
    """Return the result, for each tree, of comparing the sums over all rows with those that its leaves store."""
    log_chance = forest.table.sums_by_tree(_log_chances(sizes, subsample))
    return Proof(proved_trees(forest.table, sums, hessians.tolerance()), log_chance)


def tree_evidence(forest: Forest, rows: Rows, hessians: Hessians, chosen: list[int]) -> list[TreeEvidence]:
    """Return the evidence of some trees: the leaves of all rows, and their derivatives in the trees' rounds."""
    leaves = read_leaves(forest, rows, chosen)
    tolerance = hessians.tolerance()
    n_rows = rows.shape[0]
    margin = np.array(hessians.first(slice(0, n_rows)))
    by_group = np.asarray(hessians.at(slice(0, n_rows), margin), dtype=np.float64)
    found, known_round = [], 0
    for member, leaf in zip(chosen, leaves, strict=True):
        if hessians.depend_on_margin and forest.round[member] > known_round:
            earlier = np.flatnonzero((forest.round >= known_round) & (forest.round < forest.round[member])).tolist()
            for start in range(0, len(earlier), 16):
                part = earlier[start : start + 16]
                for before, reached in zip(part, read_leaves(forest, rows, part), strict=True):
                    margin[:, forest.group[before]] += forest.table.leaf_values[before][reached]
            known_round = int(forest.round[member])
            by_group = np.asarray(hessians.at(slice(0, n_rows), margin), dtype=np.float64)
        own = by_group[:, forest.group[member]]
        found.append(TreeEvidence(leaf, forest.table.leaf_covers[member], own, float(tolerance[member])))
    return found


@dataclass(frozen=True, eq=False)
class _Counter:
    """Counter that sums in-bag derivatives and counts the rows with derivatives above the tolerance, by leaf."""

    forest: Forest
    rows: Rows
    hessians: Hessians
    bags: Bags
    reader: LeafReader | None
    # Derivatives up to this size, by leaf, make no difference to a sum.
    hidden: FloatArray

    @classmethod
    def of(cls, forest: Forest, rows: Rows, hessians: Hessians, bags: Bags) -> _Counter:
        """Return the counter of some rows, which reads their leaves unless they are kept."""
        reader = None if rows.leaves is not None else LeafReader(forest)
        hidden = 2.0 * hessians.tolerance()[forest.table.tree_of_leaf] * forest.table.every_cover
        return cls(forest, rows, hessians, bags, reader, hidden)

    def count(self, span: slice) -> tuple[FloatArray, IntArray]:
        """Return each leaf's sum of in-bag derivatives and count of rows above the tolerance, in a range of rows."""
        sums, sizes = np.zeros(self.hidden.size), np.zeros(self.hidden.size, dtype=np.int64)
        step = max(CELLS_AT_ONCE // self.forest.n_trees // 8, 32) * 8
        for start in range(span.start, span.stop, step):
            self._count_block(slice(start, min(start + step, span.stop)), sums, sizes)
        return sums, sizes

    def _count_block(self, block: slice, sums: FloatArray, sizes: IntArray) -> None:
        forest, hessians, edges = self.forest, self.hessians, self.forest.table.edges
        rows, in_bag = self.rows[block], self.bags.in_bag(block)
        leaves = rows.leaves if self.reader is None else self.reader.read(rows)
        assert leaves is not None
        if rows.kept is not None:
            rows.kept.keep(leaves)
        margin = np.array(hessians.first(block))
        for number in range(forest.n_rounds):
            hessian = np.asarray(hessians.at(block, margin), dtype=np.float64)
            alike = bool((hessian == hessian[0]).all())
            for tree in np.flatnonzero(forest.round == number):
                own = slice(int(edges[tree]), int(edges[tree + 1]))
                of_tree = hessian[:, forest.group[tree]]
                counted = (
                    _count_alike(leaves[tree], in_bag[tree], float(of_tree[0]), self.hidden[own])
                    if alike
                    else _count_each(leaves[tree], in_bag[tree], of_tree, self.hidden[own])
                )
                sums[own] += counted[0]
                sizes[own] += counted[1]
            if hessians.depend_on_margin and number + 1 < forest.n_rounds:
                for tree in np.flatnonzero(forest.round == number):
                    margin[:, forest.group[tree]] += forest.table.leaf_values[tree][leaves[tree]]


def _count_alike(
    leaves: NDArray[Any], in_bag: NDArray[np.bool_], hessian: float, hidden: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each leaf's sum of in-bag derivatives and count of rows above the tolerance, for equal derivatives."""
    in_bag_counts, counts = count_leaves(leaves, in_bag, hidden.size)
    return in_bag_counts.astype(np.float64) * hessian, np.where(hessian > hidden, counts, 0)


def _count_each(
    leaves: NDArray[Any], in_bag: NDArray[np.bool_], hessian: FloatArray, hidden: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each leaf's sum of in-bag derivatives, and its count of rows with derivatives above the tolerance."""
    sums = np.bincount(leaves[in_bag], weights=hessian[in_bag], minlength=hidden.size)
    return sums.astype(np.float64), np.bincount(leaves[hessian > hidden[leaves]], minlength=hidden.size)


def _log_chances(sizes: IntArray, subsample: float) -> FloatArray:
    """Return the logarithm of the largest binomial probability for each number of rows: the bound for a leaf."""
    found, position = np.unique(sizes, return_inverse=True)
    mode = np.floor((found + 1) * subsample)
    return np.asarray(binom.logpmf(np.minimum(mode, found), found, subsample))[position]


WINDOW = 4096
NEAR = 64
N_SEEDS = 100_000
# If the booster still has its seed, another one is likely only after continued training.
N_LIKELY_SEEDS = 1_000
# mt19937's default seed, used in a thread other than the one that configured the booster.
UNSEEDED = 5489
SCREENED_ROWS = 96
CELLS_IN_ALL = 300_000_000
OUTPUTS_IN_ALL = 100_000_000


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
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
    for start in range(0, n_words, WINDOW):
        part = words[start : min(start + WINDOW, n_words)]
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


MAX_SHARES = 40
# Usual values of more than two digits, which few rows cannot distinguish from others; 0.632 is a bootstrap's.
USUAL_SHARES = (0.632, 1 / 3, 2 / 3, 0.333, 0.667)


@dataclass(frozen=True)
class Share:
    """Share of rows counted by the roots of the first round's trees, its standard deviation, and whether it is 1."""

    mean: float
    sd: float
    is_whole: bool

    @classmethod
    def of_roots(cls, hessians: Hessians, total: NDArray[np.float64], n_effective: float) -> Share:
        """Return the share of the training rows that the trees' roots count."""
        forest = hessians.forest
        first = np.flatnonzero(forest.round == 0)
        roots = np.array([forest.table.covers[tree][0] for tree in first.tolist()])
        shares = roots / total[forest.group[first]]
        mean = float(shares.mean())
        spread = np.sqrt(max(mean * (1 - mean), 0.0) / n_effective)
        whole = np.abs(shares - 1.0) <= hessians.tolerance()[first]
        return cls(mean, float(spread / np.sqrt(np.unique(roots).size)), bool(whole.all()))

    @classmethod
    def sampled(cls, hessians: Hessians) -> Share:
        """Return the share of rows that the trees were trained on, by the sums in their roots."""
        rows = slice(0, hessians.weight.size)
        hessian = np.asarray(hessians.at(rows, hessians.first(rows)), dtype=np.float64)
        total, squares = hessian.sum(axis=0), (hessian**2).sum(axis=0)
        return cls.of_roots(hessians, total, 1.0 / float((squares / total**2).mean()))

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


PROBE_CELLS = 200_000
MAX_PROOFS = 6
TREES_AT_ONCE = 4
FEW_SHARES = 3
# After so many hits the search ends: too many wrong draws give the sums of so small a tree.
MOST_HITS = 3_000


@dataclass(frozen=True, eq=False)
class Guess:
    """Draws to prove, with their share of the rows, and the number of guesses tried for each stretch of trees.

    A stretch is a run of trees whose positions follow from that of its first tree.
    """

    draws: Draws
    sampler: RowSampler
    stretch: NDArray[np.int64]
    tried: dict[int, int]


def proved_bags(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> Bags:
    """Return the bag of each tree, shape (n_trees, n_rows), proved by the sums stored in every leaf."""
    check_settings(forest.settings)
    hessians = Hessians.of(forest, rows, y)
    share = Share.sampled(hessians)
    if share.is_whole:
        raise no_sampling()
    probes = tree_evidence(forest, rows, hessians, list(range(min(_n_probes(rows), forest.n_trees))))
    guess, bags, proof = _best_guess(forest, rows, hessians, probes, share)
    if not proof.passed.all():
        guess = _repaired(forest, rows, hessians, guess, share, int(np.argmin(proof.passed)))
        bags = packed_bags(guess)
        proof = prove(forest, rows, hessians, bags, guess.sampler.subsample)
    failed = np.flatnonzero(~proof.passed)
    if failed.size:
        raise not_found(forest, share.mean, failed, share.fits(forest.settings.subsample), N_SEEDS)
    chance = chance_of_false_match(guess, proof)
    if chance > MAX_CHANCE:
        if not share.fits(forest.settings.subsample):
            raise lost_and_weak(chance, forest.settings)
        raise too_weak(chance, forest.n_trees, n_draws(guess.draws))
    is_proved = y is not None and check_target(forest, rows, hessians, bags, y)
    return bags.with_proof(BagProof(target=is_proved))


def are_confirmed(forest: Forest, rows: Rows, y: NDArray[np.float64] | None) -> bool:
    """Return whether the first trees were grown on likely draws of the given rows, or on all of them.

    Only draws from the booster's own seed are tested.
    """
    try:
        check_settings(forest.settings)
        hessians = Hessians.of(forest, rows, y)
    except (BagError, InputError):
        return False
    probes = tree_evidence(forest, rows, hessians, list(range(min(_n_probes(rows), forest.n_trees))))
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
    stretch = np.zeros(forest.n_trees, dtype=np.int64)
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
            if log_chances(guess.sampler.subsample)[n_confirmed - 1] + np.log(n_tried[0]) < np.log(MAX_CHANCE):
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
    for pairs, n_seeds in ((False, N_LIKELY_SEEDS if known else N_SEEDS), (True, 0 if known else N_LIKELY_SEEDS)):
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
    n_trees = forest.n_trees
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
    """Search for a tree's draw near its expected position, else further in its generator, else in others."""
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

    at_once = max(min(TREES_AT_ONCE, CELLS_AT_ONCE // sampler.n_rows), 1)
    chunks = [range(start, min(start + at_once, n_trees)) for start in range(0, n_trees, at_once)]
    return Bags.stack(in_threads(pack, chunks), n_trees, sampler.n_rows)


def n_draws(draws: Draws) -> int:
    """Return the number of distinct draws of all trees, some of which may share a draw."""
    return len(set(zip(draws.seed.tolist(), draws.position.tolist(), strict=True)))


def chance_of_false_match(guess: Guess, proof: Proof) -> float:
    """Return a bound on the chance that wrong draws pass the proof, over all guesses for all stretches of trees."""
    seed_and_position = np.stack([guess.draws.seed.astype(np.int64), guess.draws.position])
    chance = 0.0
    for stretch, n_tried in guess.tried.items():
        own = guess.stretch == stretch
        # Trees may share a draw (`approx`).
        _, draw_of = np.unique(seed_and_position[:, own], axis=1, return_inverse=True)
        chance += min(chance_of_draws(proof.log_chance[own], draw_of.reshape(-1), n_tried), 1.0)
    return chance
