r"""Redrawing of the rows that a tree was trained on, from the outputs of XGBoost's generator.

Training draws from one mt19937 generator.  For `hist` and `approx` a single 32-bit output s seeds a
congruential sequence :math:`x_i = 16807^{i+1} s \bmod 2^{63}`, and row i is in the bag if
:math:`(x_i - 1) / 2^{63}` is below `subsample`; `exact` takes two outputs a, b for every row, in the
bag if :math:`(a + 2^{32} b) / 2^{64}` is.  Weights, labels and thread counts have no effect.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.trees.walk_package import compiled_function
from ens_plugin.adapters.xgboost.document.model import Forest, TrainingParameters, Tree
from ens_plugin.records import record

__all__ = ["Draws", "RowSampler", "first_outputs", "generator_outputs", "likely_draws", "powers_at", "tree_words"]

IntArray = NDArray[np.int64]
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


@record
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
    """Sampler that redraws bags of `n_rows` rows with one value of `subsample`.

    Examples
    --------
    >>> sampler = RowSampler(8, 0.5)
    >>> sampler.from_words(np.array([1234567], dtype=np.uint64))[0].astype(int).tolist()
    [1, 1, 0, 1, 0, 1, 1, 0]
    """

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
        compiled = compiled_function("product_bits")
        if compiled is not None:
            found: NDArray[np.uint8] = compiled(words, self.powers, int(self.highest))
            return found
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
    n_trees = len(forest.trees)
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
    seeds = np.full(len(forest.trees), settings.seed % 2**32, dtype=np.uint64)
    if settings.seed_per_iteration:
        seeds = (np.uint64(settings.seed % 2**32) * np.uint64(ROUND_FACTOR) + forest.round.astype(np.uint64)) % 2**32
    return seeds.astype(np.uint32)


def _column_draws(forest: Forest) -> tuple[IntArray, IntArray]:
    """Return how many generator outputs each tree takes for columns: by level, and by node; both shape (n_trees,)."""
    settings = forest.settings
    by_level, by_node = np.zeros((2, len(forest.trees)), dtype=np.int64)
    if settings.bylevel == 1 and settings.bynode == 1:
        return by_level, by_node
    for member, (tree, depth) in enumerate(zip(forest.trees, forest.depths, strict=True)):
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


def _evaluated_splits(tree: Tree, depth: IntArray, settings: TrainingParameters) -> NDArray[np.bool_]:
    """Return which nodes are splits whose children were evaluated as candidates for further splits."""
    splits = ~tree.is_leaf
    full = settings.max_leaves and np.count_nonzero(tree.is_leaf) == settings.max_leaves
    if full and settings.by_loss:
        splits[np.argmax(tree.left)] = False
    elif full and splits.any():
        splits &= depth < depth[splits].max()
    if settings.max_depth:
        splits &= depth + 1 < settings.max_depth
    return splits


def powers_at(rows: IntArray) -> WordArray:
    """Return the powers of the generator's multiplier for rows at any positions, shape (n_rows,), by squaring.

    Examples
    --------
    >>> powers_at(np.array([0, 2])).tolist() == [16807, 16807**3]
    True
    """
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
