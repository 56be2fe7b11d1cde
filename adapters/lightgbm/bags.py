"""The bags of LightGBM's random forests, drawn again from their seed and proved by the leaves' counts.

The bags of a LightGBM forest, drawn again from its seed. LightGBM draws rows in blocks of 1024. Each block has a
linear congruential generator of its own, ``x -> 214013 x + 2531011`` modulo 2**32, which starts at ``bagging_seed +
block`` and is never seeded again. Each row takes one draw, ``(x >> 16) & 0x7fff``, and is in the bag if that is below
the fraction times 32768. As the generator is linear, any round can be drawn without those before it.

The proof of a LightGBM forest's bags: the redrawn bags must fill every leaf as in training. A tree stores how many
rows of its bag reached each leaf. If a mask had nothing to do with the bag (another seed, other rows, another order)
but the right number of rows m out of n, it would fill leaves that hold N_1, N_2, ... of the n rows with exactly the
counts c_1, c_2, ... with chance

    C(N_1, c_1) C(N_2, c_2) ... / C(n, m),

the multivariate hypergeometric law.  Bags are drawn independently, so these chances multiply over
bags; those of trees grown on the same bag do not, and only the smallest is used.  The product, times the
number of masks tried, bounds the chance of a false match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.adapters.lightgbm.document import ModelText
from ens_plugin.adapters.members import in_threads, shortened
from ens_plugin.adapters.trees import count_leaves
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError

__all__ = [
    "BAGGING",
    "MAX_CHANCE",
    "Failure",
    "Grown",
    "Sampling",
    "bag_sizes",
    "count_grown",
    "draw_rounds",
    "draw_rows",
    "explained",
    "fill_every_leaf",
    "grown_trees",
    "judge_counts",
    "log_chance",
    "positive_rows",
    "prove_bags",
    "read_sampling",
]

UIntArray = NDArray[np.uint32]

# Parameters that give each tree a bag of its own, for the messages that recommend them.
BAGGING = (
    "bagging_freq=1 and bagging_fraction=0.632, which LGBMClassifier and LGBMRegressor call subsample_freq and "
    "subsample"
)

BLOCK_ROWS = 1024
RESOLUTION = 32768
MULTIPLIER, INCREMENT = 214013, 2531011
DRAWN_TOGETHER = 8
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
            'save it with save_model of LightGBM 4 or newer; or pass {data="holdout"} with rows the model was not '
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
            '{data="holdout"} with rows the model was not trained on, or refit with '
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
                '{data="holdout"} with rows the model was not trained on, or refit with plain bagging on one machine.'
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


# Returns the rows of its bag, and all rows, in each leaf of each tree that has a split.
Count = Callable[["Grown", Bags], tuple[list[IntArray], list[IntArray]]]

MAX_CHANCE = 1e-9
# Measured share of what chance misplaces: bundled columns mostly below 0.3, permuted rows 0.7 to 1.4.
NEARLY = 0.6
CLEAR_START = 5
# Fewest leaves of all trees together, so that other rows do not agree by chance.
LEAVES_THAT_TELL = 8
_HOLDOUT = 'for rows the model was not trained on pass {data="holdout"}.'


@dataclass(frozen=True, eq=False)
class Grown:
    """Leaf counts at training of the trees that have a split, and their bags.

    Attributes
    ----------
    trees : ndarray of int, shape (n_checked,)
        Positions of these trees in the model.
    rounds : ndarray of int, shape (n_checked,)
        The bag that each was grown on.
    counts : list of ndarray of int
        Rows of the bag in each leaf.
    round_of : ndarray of int, shape (n_members,)
        The bag of each member.
    """

    trees: IntArray
    rounds: IntArray
    counts: list[IntArray]
    round_of: IntArray


def prove_bags(
    model: ModelText, sampling: Sampling, n_rows: int, positive: NDArray[np.bool_] | None, count: Count
) -> Bags:
    """Return the bags of all iterations, proved against the leaf counts of every tree that has a split."""
    grown = grown_trees(model, sampling)
    attempts = sampling.limits()
    failures = []
    for limits in attempts:
        by_row = limits[0] if positive is None else np.where(positive, limits[1], limits[0])
        rounds = draw_rounds(sampling.seed, by_row, int(grown.round_of[-1]) + 1, n_rows)
        found, reached = count(grown, rounds)
        failure = judge_counts(grown, found, reached, n_rows, len(attempts))
        if failure is None:
            return Bags(rounds.bits[grown.round_of], n_rows)
        failures.append(failure)
    raise explained(min(failures, key=lambda failure: len(failure.failed)), sampling)


def fill_every_leaf(model: ModelText, n_rows: int, blocks: Iterable[tuple[slice, NDArray[Any]]]) -> bool:
    """Return whether all rows fill every leaf as at training: training rows of a forest without bagging do."""
    counts = {index: own for index, own in enumerate(model.table.leaf_covers) if own.size > 1}
    if sum(own.size - 1 for own in counts.values()) < LEAVES_THAT_TELL or any(
        own.sum() != n_rows for own in counts.values()
    ):
        return False
    found = {index: np.zeros(own.size, dtype=np.int64) for index, own in counts.items()}
    for _, leaves in blocks:
        for index, own in found.items():
            own += np.bincount(leaves[index], minlength=own.size)
    return all(np.array_equal(own, counts[index]) for index, own in found.items())


def judge_counts(
    grown: Grown, found: list[IntArray], reached: list[IntArray], n_rows: int, n_tried: int
) -> Failure | None:
    """Return the trees whose stored leaf counts differ from those of redrawn bags; None if none does."""
    failed = [index for index, counts in enumerate(found) if not np.array_equal(counts, grown.counts[index])]
    if failed:
        return Failure(grown, failed, found, reached, n_rows)
    _check_chance(grown, reached, n_tried)
    return None


def log_chance(counts: IntArray, reached: IntArray) -> float:
    """Return the logarithm of the chance that a random set of as many rows gives a tree's leaf counts."""
    return float(_log_choose(reached, counts).sum() - _log_choose(reached.sum(), counts.sum()))


def _log_choose(n: NDArray[Any], k: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def grown_trees(model: ModelText, sampling: Sampling) -> Grown:
    """Return the leaf counts at training of the trees that have a split."""
    round_of = np.arange(len(model.trees) // model.trees_per_iteration) // sampling.frequency
    trees = np.array([index for index, tree in enumerate(model.trees) if tree.n_leaves > 1], dtype=np.int64)
    if trees.size == 0:
        raise BagError(
            "No tree of this forest has a split, so there are no leaf counts to prove its bags by. Train with more "
            'rows or a smaller min_child_samples, or pass {data="holdout"} with rows the model was not trained on.'
        )
    counts = [model.table.leaf_covers[index] for index in trees]
    return Grown(trees, round_of[trees // model.trees_per_iteration], counts, round_of)


def count_grown(
    grown: Grown, rounds: Bags, blocks: Iterable[tuple[slice, NDArray[Any]]]
) -> tuple[list[IntArray], list[IntArray]]:
    """Return the numbers of rows of the bag, and of all rows, in each leaf of each tree."""
    found, reached = ([np.zeros(counts.size, dtype=np.int64) for counts in grown.counts] for _ in range(2))
    for rows, leaves in blocks:
        in_bag = rounds.in_bag(rows)
        for position, (tree, index) in enumerate(zip(grown.trees, grown.rounds, strict=True)):
            in_bag_counts, counts = count_leaves(leaves[tree], in_bag[index], found[position].size)
            found[position] += in_bag_counts
            reached[position] += counts
    return found, reached


def _check_chance(grown: Grown, reached: list[IntArray], n_tried: int) -> None:
    strongest = np.zeros(int(grown.rounds[-1]) + 1)
    for index, counts, everywhere in zip(grown.rounds, grown.counts, reached, strict=True):
        strongest[index] = min(strongest[index], log_chance(counts, everywhere))
    chance = n_tried * np.exp(strongest.sum())
    if chance > MAX_CHANCE:
        raise BagError(
            f"The bags drawn again fit the leaf counts of every tree that has a split ({grown.trees.size} in all), but "
            f"wrong bags would fit too with a chance of {chance:.2g}: that is no proof. Train more trees or larger "
            'ones, or pass {data="holdout"} with rows the model was not trained on.'
        )


@dataclass(frozen=True, eq=False)
class Failure:
    """Trees (positions in `grown`) whose stored leaf counts differ from those of redrawn bags, with both counts."""

    grown: Grown
    failed: list[int]
    found: list[IntArray]
    reached: list[IntArray]
    n_rows: int

    @property
    def trees(self) -> str:
        """Return the positions in the model of the first failed trees, as text."""
        return shortened([int(self.grown.trees[index]) for index in self.failed])

    @property
    def has_other_sizes(self) -> bool:
        """Return whether redrawn bags hold other numbers of rows than at training."""
        return any(self.found[index].sum() != self.grown.counts[index].sum() for index in self.failed)

    @property
    def misplaced(self) -> int:
        """Return the number of in-bag rows, summed over trees, that reach another leaf than at training."""
        return sum(int(np.abs(self.found[index] - self.grown.counts[index]).sum()) for index in self.failed) // 2

    @property
    def misplaced_by_chance(self) -> float:
        """Return the expected number of in-bag rows in other leaves, if bags were random sets of the same sizes."""
        expected = 0.0
        for counts, rows in zip(self.grown.counts, self.reached, strict=True):
            n_rows = rows.sum()
            share = counts.sum() / n_rows
            expected += np.sqrt(rows * share * (1 - share) * (1 - rows / n_rows)).sum()
        return float(expected / np.sqrt(np.pi))


def explained(failure: Failure, sampling: Sampling) -> BagError | DataMismatchError:
    """Return the error that names the likely reason why redrawn bags do not fit: the rows, or the training."""
    fitting_rounds = failure.grown.rounds[failure.failed[0]]
    if fitting_rounds >= CLEAR_START:
        return _other_schedule(failure)
    if failure.has_other_sizes:
        return _other_sizes(failure, sampling)
    return _other_leaves(failure)


def _other_schedule(failure: Failure) -> BagError:
    first = failure.grown.trees[failure.failed[0]]
    return BagError(
        f"{'The first tree was' if first == 1 else f'The first {first} trees were'} grown on the bags that the model's "
        f"seed gives for these rows, but {counted(len(failure.failed), 'of the others was', 'of the others were')} not "
        f"(trees {failure.trees}): a callback changed bagging_fraction, or trees were removed, added or re-ordered "
        "(rollback_one_iter, shuffle_models). Pass "
        '{data="holdout"} with rows the model was not trained on, or train anew in one go.'
    )


def _other_sizes(failure: Failure, sampling: Sampling) -> DataMismatchError:
    target = ", or this is not the target the model was trained on" if sampling.is_balanced else ""
    return DataMismatchError(
        f"These are not the rows the model was trained on{target}. With seed {sampling.seed} and fraction "
        f"{' and '.join(f'{fraction:g}' for fraction in sampling.fractions)}, bags of {counted(failure.n_rows, 'row')} "
        f"have other sizes or leaf counts than {len(failure.failed)} of "
        f"{counted(failure.grown.trees.size, 'tree that has', 'trees that have')} a split (trees {failure.trees}) "
        f"counted at training. Pass the exact training rows, in training order; {_HOLDOUT} If they are the training "
        "rows, trees were re-ordered or cut out (shuffle_models, start_iteration), a callback changed "
        "bagging_fraction, or LightGBM before 3.0 drew the bags, which then depended on its number of threads: train "
        "anew in one go."
    )


def _other_leaves(failure: Failure) -> DataMismatchError:
    n_rows = sum(int(counts.sum()) for counts in failure.grown.counts)
    where = (
        f"{counted(failure.misplaced, 'reaches', 'reach', of=f'{n_rows} in-bag rows, counted over trees,')} "
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
