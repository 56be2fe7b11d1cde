"""The bags of LightGBM's random forests, drawn again from their seed and proved by the leaves' counts.

The bags of a LightGBM forest, drawn again from its seed. LightGBM draws rows in blocks of 1024. Each block has a
linear congruential generator of its own, ``x -> 214013 x + 2531011`` modulo 2**32, which starts at ``bagging_seed +
block`` and is never seeded again. Each row takes one draw, ``(x >> 16) & 0x7fff``, and is in the bag if that is below
the fraction times 32768. As the generator is linear, any round can be drawn without those before it.

The chance that wrong bags pass the proof of :mod:`ens_plugin.adapters.tree_table`. A tree stores how many rows of its
bag reached each leaf. If a mask had nothing to do with the bag (another seed, other rows, another order) but the right
number of rows m out of n, it would fill leaves that hold N_1, N_2, ... of the n rows with exactly the counts c_1, c_2,
... with chance

    C(N_1, c_1) C(N_2, c_2) ... / C(n, m),

the multivariate hypergeometric law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.adapters.contract import DRAWN_TOGETHER
from ens_plugin.adapters.lightgbm.document import ModelText
from ens_plugin.adapters.members import in_threads, shortened
from ens_plugin.adapters.tree_table import LEAVES_THAT_TELL, MAX_CHANCE, TreeTable, chance_of_draws, proved_trees
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError

UIntArray = NDArray[np.uint32]

# Parameters that give each tree a bag of its own, for the messages that recommend them.
BAGGING = (
    "bagging_freq=1 and bagging_fraction=0.632, which LGBMClassifier and LGBMRegressor call subsample_freq and "
    "subsample"
)

BLOCK_ROWS = 1024
RESOLUTION = 32768
MULTIPLIER, INCREMENT = 214013, 2531011
_BITS_SET = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


@dataclass(frozen=True)
class Sampling:
    """Parameters with which a LightGBM forest drew its bags.

    Attributes
    ----------
    seed : int
        ``bagging_seed``.
    frequency : int
        Iterations that share one bag.
    fractions : tuple of float
        Share of the rows in a bag; with balanced bagging, that of the negative and that of the positive rows.
    """

    seed: int
    frequency: int
    fractions: tuple[float, ...]

    @property
    def is_balanced(self) -> bool:
        """Return whether positive and negative rows are drawn with different fractions."""
        return len(self.fractions) == 2

    def limits(self) -> list[tuple[int, ...]]:
        """Return limits below which a draw may put a row in bag, likeliest first: the stored fraction is rounded."""
        first, *others = (_limits(fraction) for fraction in self.fractions)
        combined: list[tuple[int, ...]] = [(limit,) for limit in first]
        for choices in others:
            combined = [(*chosen, limit) for chosen in combined for limit in choices]
        return combined


def read_sampling(parameters: dict[str, str] | None) -> Sampling:
    """Return how a model drew its bags, as read from its training parameters."""
    if parameters is None:
        raise BagError(
            "The model text has no parameters section, so the seed of its bags is lost. Keep the Booster pickled, or "
            'save it with save_model of LightGBM 4 or newer; or pass data="holdout" with rows the model was not '
            "trained on."
        )
    _refuse_other_sampling(parameters)
    frequency = int(parameters["bagging_freq"])
    fractions: tuple[float, ...] = (float(parameters["bagging_fraction"]),)
    if parameters["objective"] == "binary":
        by_label = tuple(float(parameters.get(f"{sign}_bagging_fraction", "1")) for sign in ("neg", "pos"))
        fractions = by_label if min(by_label) < 1 else fractions
    if frequency <= 0 or min(fractions) >= 1:
        raise BagError(
            f"This forest was trained without bagging (bagging_freq={frequency}, bagging_fraction="
            f"{parameters['bagging_fraction']}): every tree was trained on every row, so no row is out of bag. Pass "
            'data="holdout" with rows the model was not trained on, or refit with '
            f"{BAGGING}."
        )
    return Sampling(int(parameters["bagging_seed"]), frequency, fractions)


def positive_rows(sampling: Sampling, target: NDArray[Any] | None) -> NDArray[np.bool_] | None:
    """Return which rows have the positive label, if bagging was balanced; else None."""
    if not sampling.is_balanced:
        return None
    if target is None:
        raise BagError(
            "This forest drew positive and negative rows with fractions of their own (pos_bagging_fraction, "
            "neg_bagging_fraction), so its bags depend on y; pass y."
        )
    return np.asarray(target > 0)


def _refuse_other_sampling(parameters: dict[str, str]) -> None:
    reasons = {
        "it was trained with data_sample_strategy='goss', which chooses rows by their gradients": (
            parameters.get("data_sample_strategy") == "goss"
        ),
        "it was trained with bagging_by_query=True, and the sizes of the queries are not in the model": (
            parameters.get("bagging_by_query", "0") != "0"
        ),
        f"it was trained on {parameters.get('num_machines')} machines, each of which drew from its own rows": (
            parameters.get("num_machines", "1") != "1"
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise BagError(
                f"Which rows the trees of this forest were trained on cannot be recomputed: {reason}. Pass "
                'data="holdout" with rows the model was not trained on, or refit with plain bagging on one machine.'
            )


def draw_rounds(seed: int, limit: int | NDArray[np.integer], n_rounds: int, n_rows: int) -> Bags:
    """Return the bags of the first bagging rounds, drawn in as many threads as joblib's context allows."""
    draw = _drawer(seed, limit, n_rounds, n_rows)
    chunks = [range(start, min(start + DRAWN_TOGETHER, n_rounds)) for start in range(0, n_rounds, DRAWN_TOGETHER)]
    parts = in_threads(lambda chunk: np.stack([draw(index) for index in chunk]), chunks)
    bits = np.concatenate(list(parts))
    # After a bag with every row, LightGBM draws no more.
    complete = bag_sizes(Bags(bits, n_rows)) == n_rows
    if complete.any():
        bits[complete.argmax() :] = np.packbits(np.ones(n_rows, dtype=bool))
    return Bags(bits, n_rows)


def draw_rows(
    seed: int,
    limit: int | NDArray[np.integer],
    n_rounds: int,
    n_rows: int,
    rows: NDArray[np.int64],
    n_drawn: int | None = None,
) -> NDArray[np.bool_]:
    """Return the bags of the first bagging rounds for some of the rows alone, at any positions."""
    block, place = rows // BLOCK_ROWS, rows % BLOCK_ROWS
    factors, terms = _jumps(BLOCK_ROWS)
    # All blocks take as many draws a round as they have rows.
    last = -(-n_rows // BLOCK_ROWS) - 1
    step = np.where(block == last, n_rows - BLOCK_ROWS * last, BLOCK_ROWS)
    highest = ((np.asarray(limit, dtype=np.uint64) << np.uint64(17)) - np.uint64(1)).astype(np.uint32)
    state = ((seed + block) % 2**32).astype(np.uint32)
    in_bag = np.ones((n_rounds, rows.size), dtype=bool)
    for index in range(n_rounds if n_drawn is None else n_drawn):
        drawn = state * factors[place + 1] + terms[place + 1]
        drawn <<= np.uint32(1)
        np.less_equal(drawn, highest, out=in_bag[index])
        state = state * factors[step] + terms[step]
    return in_bag


def bag_sizes(bags: Bags) -> NDArray[np.int64]:
    """Return the number of rows in each member's bag, shape (n_members,)."""
    return np.array([_BITS_SET.take(bits).sum(dtype=np.int64) for bits in bags.bits])


def _drawer(
    seed: int, limit: int | NDArray[np.integer], n_rounds: int, n_rows: int
) -> Callable[[int], NDArray[np.uint8]]:
    n_blocks = -(-n_rows // BLOCK_ROWS)
    states = _states(seed, n_rounds, n_blocks, n_rows - BLOCK_ROWS * (n_blocks - 1))
    factors, terms = (table[1:] for table in _jumps(BLOCK_ROWS))
    # The lowest 15 of the upper 16 bits, shifted to the top; the bits below are too few to reach the next number.
    highest = (np.asarray(limit, dtype=np.uint64) << np.uint64(17)) - np.uint64(1)
    highest = highest.astype(np.uint32)

    def draw(index: int) -> NDArray[np.uint8]:
        drawn = (states[index][:, None] * factors + terms).reshape(-1)[:n_rows]
        drawn <<= np.uint32(1)
        return np.packbits(drawn <= highest)

    return draw


def _states(seed: int, n_rounds: int, n_blocks: int, last_rows: int) -> UIntArray:
    """Return the state of every block's generator before each round, shape (n_rounds, n_blocks)."""
    factors, terms = _jumps(BLOCK_ROWS)
    step = np.full(n_blocks, BLOCK_ROWS)
    step[-1] = last_rows
    states = np.empty((n_rounds, n_blocks), dtype=np.uint32)
    state = ((seed + np.arange(n_blocks, dtype=np.int64)) % 2**32).astype(np.uint32)
    for index in range(n_rounds):
        states[index] = state
        state = state * factors[step] + terms[step]
    return states


def _jumps(n_steps: int) -> tuple[UIntArray, UIntArray]:
    """Return the factors and terms that advance a generator's state by 0, 1, ..., `n_steps` draws at once."""
    factors, terms = [1], [0]
    for _ in range(n_steps):
        factors.append(factors[-1] * MULTIPLIER % 2**32)
        terms.append((terms[-1] * MULTIPLIER + INCREMENT) % 2**32)
    return np.array(factors, dtype=np.uint32), np.array(terms, dtype=np.uint32)


def _limits(fraction: float) -> list[int]:
    nominal = _limit(fraction)
    if fraction >= 1:
        return [nominal]
    half = 0.5 * 10.0 ** (np.floor(np.log10(fraction)) - 5)
    others = range(_limit(fraction - half), min(_limit(fraction + half), RESOLUTION) + 1)
    return [nominal, *(limit for limit in others if limit != nominal)]


def _limit(fraction: float) -> int:
    return max(int(np.ceil(fraction * RESOLUTION)), 1)


# Returns how many rows reach each leaf, of those in the tree's bag and of all: `count_rows` of bags and each tree's.
Count = Callable[[Bags, IntArray], tuple[IntArray, IntArray]]

# Measured share of what chance misplaces: bundled columns mostly below 0.3, permuted rows 0.7 to 1.4.
NEARLY = 0.6
CLEAR_START = 5
_HOLDOUT = 'for rows the model was not trained on pass data="holdout".'


def prove_bags(
    model: ModelText, sampling: Sampling, n_rows: int, positive: NDArray[np.bool_] | None, count: Count
) -> Bags:
    """Return the bags of all iterations, proved against the leaf counts of every tree that has a split."""
    bag_of = bags_of_trees(model, sampling)
    attempts = sampling.limits()
    failures = []
    for limits in attempts:
        by_row = limits[0] if positive is None else np.where(positive, limits[1], limits[0])
        rounds = draw_rounds(sampling.seed, by_row, int(bag_of[-1]) + 1, n_rows)
        failure = judge_counts(model.table, bag_of, *count(rounds, bag_of), len(attempts))
        if failure is None:
            return Bags(rounds.bits[bag_of[:: model.trees_per_iteration]], n_rows)
        failures.append(failure)
    raise explained(min(failures, key=lambda failure: failure.failed.size), sampling)


def fill_every_leaf(table: TreeTable, n_rows: int, count: Count) -> bool:
    """Return whether all rows fill every leaf as at training: training rows of a forest without bagging do."""
    is_split = table.n_leaves > 1
    n_trained = table.sums_by_tree(table.every_cover)
    if (table.n_leaves - 1).sum() < LEAVES_THAT_TELL or (n_trained[is_split] != n_rows).any():
        return False
    every = Bags.from_mask(np.ones((1, n_rows), dtype=bool))
    found, _ = count(every, np.zeros(is_split.size, dtype=np.int64))
    return bool(proved_trees(table, found)[is_split].all())


def judge_counts(
    table: TreeTable, bag_of: IntArray, found: IntArray, reached: IntArray, n_tried: int
) -> Failure | None:
    """Return the trees whose stored leaf counts differ from those of redrawn bags; None if none does."""
    is_split = table.n_leaves > 1
    failed = np.flatnonzero(~proved_trees(table, found) & is_split)
    if failed.size:
        return Failure(table, bag_of, failed, found, reached)
    chance = chance_of_draws(log_chances(table, reached), bag_of, n_tried)
    if chance > MAX_CHANCE:
        raise BagError(
            f"The bags drawn again fit the leaf counts of every tree that has a split ({np.count_nonzero(is_split)} in "
            f"all), but wrong bags would fit too with a chance of {chance:.2g}: that is no proof. Train more trees or "
            'larger ones, or pass data="holdout" with rows the model was not trained on.'
        )
    return None


def log_chances(table: TreeTable, reached: IntArray) -> FloatArray:
    """Return the logarithm of the chance that a random set of as many rows gives each tree's leaf counts."""
    n_trained, n_rows = (table.sums_by_tree(own) for own in (table.every_cover, reached))
    return np.asarray(table.sums_by_tree(_log_choose(reached, table.every_cover)) - _log_choose(n_rows, n_trained))


def _log_choose(n: NDArray[Any], k: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def bags_of_trees(model: ModelText, sampling: Sampling) -> IntArray:
    """Return the position of each tree's bag, shape (n_trees,), if the trees have leaf counts to prove bags by."""
    if not (model.table.n_leaves > 1).any():
        raise BagError(
            "No tree of this forest has a split, so there are no leaf counts to prove its bags by. Train with more "
            'rows or a smaller min_child_samples, or pass data="holdout" with rows the model was not trained on.'
        )
    return np.arange(len(model.trees)) // model.trees_per_iteration // sampling.frequency


@dataclass(frozen=True, eq=False)
class Failure:
    """Trees whose stored leaf counts differ from those of redrawn bags, and the counts of all trees by leaf."""

    table: TreeTable
    bag_of: IntArray
    failed: IntArray
    found: IntArray
    reached: IntArray

    @property
    def trees(self) -> str:
        """Return the positions of the first failed trees, as text."""
        return shortened(self.failed.tolist())

    @property
    def n_split(self) -> int:
        """Return the number of trees that have a split."""
        return int(np.count_nonzero(self.table.n_leaves > 1))

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.table.sums_by_tree(self.reached)[0])

    @property
    def n_trained(self) -> int:
        """Return the number of in-bag rows at training, summed over trees."""
        return int(self.table.every_cover.sum())

    @property
    def has_other_sizes(self) -> bool:
        """Return whether redrawn bags hold other numbers of rows than at training."""
        return bool(self.table.sums_by_tree(self.found - self.table.every_cover)[self.failed].any())

    @property
    def misplaced(self) -> int:
        """Return the number of in-bag rows, summed over trees, that reach another leaf than at training."""
        return int(self.table.sums_by_tree(np.abs(self.found - self.table.every_cover))[self.failed].sum()) // 2

    @property
    def misplaced_by_chance(self) -> float:
        """Return the expected number of in-bag rows in other leaves, if bags were random sets of the same sizes."""
        share = (self.table.sums_by_tree(self.table.every_cover) / self.n_rows)[self.table.tree_of_leaf]
        spread = np.sqrt(self.reached * share * (1 - share) * (1 - self.reached / self.n_rows))
        return float(spread.sum() / np.sqrt(np.pi))


def explained(failure: Failure, sampling: Sampling) -> BagError | DataMismatchError:
    """Return the error that names the likely reason why redrawn bags do not fit: the rows, or the training."""
    n_fitting = failure.bag_of[failure.failed[0]]
    if n_fitting >= CLEAR_START:
        return _other_schedule(failure)
    if failure.has_other_sizes:
        return _other_sizes(failure, sampling)
    return _other_leaves(failure)


def _other_schedule(failure: Failure) -> BagError:
    first = failure.failed[0]
    return BagError(
        f"{'The first tree was' if first == 1 else f'The first {first} trees were'} grown on the bags that the model's "
        f"seed gives for these rows, but {counted(failure.failed.size, 'of the others was', 'of the others were')} not "
        f"(trees {failure.trees}): a callback changed bagging_fraction, or trees were removed, added or re-ordered "
        "(rollback_one_iter, shuffle_models). Pass "
        'data="holdout" with rows the model was not trained on, or train anew in one go.'
    )


def _other_sizes(failure: Failure, sampling: Sampling) -> DataMismatchError:
    target = ", or this is not the target the model was trained on" if sampling.is_balanced else ""
    return DataMismatchError(
        f"These are not the rows the model was trained on{target}. With seed {sampling.seed} and fraction "
        f"{' and '.join(f'{fraction:g}' for fraction in sampling.fractions)}, bags of {counted(failure.n_rows, 'row')} "
        f"have other sizes or leaf counts than {failure.failed.size} of "
        f"{counted(failure.n_split, 'tree that has', 'trees that have')} a split (trees {failure.trees}) "
        f"counted at training. Pass the exact training rows, in training order; {_HOLDOUT} If they are the training "
        "rows, trees were re-ordered or cut out (shuffle_models, start_iteration), a callback changed "
        "bagging_fraction, or LightGBM before 3.0 drew the bags, which then depended on its number of threads: train "
        "anew in one go."
    )


def _other_leaves(failure: Failure) -> DataMismatchError:
    where = (
        f"{counted(failure.misplaced, 'reaches', 'reach', of=f'{failure.n_trained} in-bag rows, counted over trees,')} "
        f"another leaf than at training (trees {failure.trees})"
    )
    if failure.misplaced < NEARLY * failure.misplaced_by_chance:
        return DataMismatchError(
            f"Nearly, but not all, rows are the rows the model was trained on: {where}. Either a few rows of X were "
            "changed, or LightGBM itself routes some rows otherwise than in training, because it bundled columns that "
            "exclude each other only in the rows it sampled (enable_bundle) or trained on a GPU. Pass the exact "
            f"training rows, or train anew with enable_bundle=False on the CPU; {_HOLDOUT}"
        )
    return DataMismatchError(
        f"These are not the rows the model was trained on: {where}. X must hold the exact training rows in training "
        f"order; {_HOLDOUT}"
    )
