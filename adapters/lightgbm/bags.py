"""The bags of LightGBM's random forests, drawn again from their seed and proved by the leaves' counts.

LightGBM draws rows in blocks of 1024. Each block has a linear congruential generator of its own, ``x -> 214013 x +
2531011`` modulo 2**32, which starts at ``bagging_seed + block`` and is never seeded again. Each row takes one draw,
``(x >> 16) & 0x7fff``, and is in the bag if that is below the fraction times 32768. As the generator is linear, a row's
draw of one round follows from that of the round before.

A tree stores how many rows of its bag reached each leaf. If a mask had nothing to do with the bag (another seed, other
rows, another order) but the right number of rows m out of n, it would fill leaves that hold N_1, N_2, ... of the n rows
with exactly the counts c_1, c_2, ... with chance

    C(N_1, c_1) C(N_2, c_2) ... / C(n, m),

the multivariate hypergeometric law. The chances of trees with different bags multiply, and the proof asks for 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.adapters.lightgbm.document import ModelText
from ens_plugin.adapters.lightgbm.leaf_values import Objective, check_not_refit, judge_leaf_targets, target_sums
from ens_plugin.adapters.members import shortened
from ens_plugin.adapters.trees import (
    MAX_CHANCE,
    LeafSums,
    chance_of_draws,
    first_middle_last,
    likely_chance,
    members_to_check,
)
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, IntArray, counted
from ens_plugin.errors import BagError, DataMismatchError

# Parameters that give each tree a bag of its own, for the messages that recommend them.
BAGGING = (
    "bagging_freq=1 and bagging_fraction=0.632, which LGBMClassifier and LGBMRegressor call subsample_freq and "
    "subsample"
)
BLOCK_ROWS = 1024
RESOLUTION = 32768
MULTIPLIER, INCREMENT = 214013, 2531011
_HOLDOUT = 'for rows the model was not trained on pass data="holdout".'


@dataclass(frozen=True)
class Sampling:
    """Parameters with which a LightGBM forest drew its bags."""

    # ``bagging_seed``.
    seed: int
    # Iterations that share one bag.
    frequency: int
    # Share of the rows in a bag; with balanced bagging, that of the negative and that of the positive rows.
    fractions: tuple[float, ...]

    def limits(self) -> list[tuple[int, ...]]:
        """Return limits below which a draw may put a row in bag, likeliest first: the stored fraction is rounded."""
        return list(product(*(_limits(fraction) for fraction in self.fractions)))


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
            f'data="holdout" with rows the model was not trained on, or refit with {BAGGING}.'
        )
    return Sampling(int(parameters["bagging_seed"]), frequency, fractions)


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


def _limits(fraction: float) -> list[int]:
    """Return limits of the draws for a fraction, of which LightGBM stores six digits, and first that of these."""
    half = 0.5 * 10.0 ** (np.floor(np.log10(fraction)) - 5) if fraction < 1 else 0.0
    nominal, low, high = (
        max(int(np.ceil(own * RESOLUTION)), 1) for own in (fraction, fraction - half, fraction + half)
    )
    return [nominal, *(limit for limit in range(low, min(high, RESOLUTION) + 1) if limit != nominal)]


def draw_rounds(
    seed: int,
    limit: int | IntArray,
    n_rounds: int,
    n_rows: int,
    rows: IntArray | None = None,
    n_drawn: int | None = None,
) -> Bags:
    """Return the bags of the first bagging rounds, of all rows or of some at any positions."""
    # Draws below `limit` put a row in bag. `rows` are positions among all `n_rows`. `n_drawn` is the number of rounds
    # up to the first bag with every row, after which LightGBM draws no more; by default that which is found.
    block, place = np.divmod(np.arange(n_rows) if rows is None else rows, BLOCK_ROWS)
    last = (n_rows - 1) // BLOCK_ROWS
    factors, terms = _jumps(BLOCK_ROWS)
    drawn = factors[place + 1] * ((seed + block) % 2**32).astype(np.uint32) + terms[place + 1]
    # All blocks take as many draws a round as they have rows.
    step = np.where(block == last, n_rows - BLOCK_ROWS * last, BLOCK_ROWS)
    factor, term = factors[step], terms[step]
    # The lowest 15 of the upper 16 bits, shifted to the top; the bits below are too few to reach the next number.
    highest = ((np.asarray(limit, dtype=np.uint64) << np.uint64(17)) - np.uint64(1)).astype(np.uint32)
    bits = np.tile(np.packbits(np.ones(block.size, dtype=bool)), (n_rounds, 1))
    for index in range(n_rounds if n_drawn is None else n_drawn):
        in_bag = drawn << np.uint32(1) <= highest
        if rows is None and in_bag.all():
            break
        bits[index] = np.packbits(in_bag)
        drawn *= factor
        drawn += term
    return Bags(bits, block.size)


def _jumps(n_steps: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the factors and terms that advance a generator's state by 0, 1, ..., `n_steps` draws at once."""
    factors, terms = [1], [0]
    for _ in range(n_steps):
        factors.append(factors[-1] * MULTIPLIER % 2**32)
        terms.append((terms[-1] * MULTIPLIER + INCREMENT) % 2**32)
    return np.array(factors, dtype=np.uint32), np.array(terms, dtype=np.uint32)


class DrawnRows:
    """Bags of a LightGBM forest, drawn by row position and proved by the leaf counts of trees drawn at random.

    A wrong seed or fraction, other rows or another order pass with a chance of at most 1e-9, bounded by
    :func:`log_chance` for the trees that are checked.  Of trees that were grown otherwise, a share s of all, none is
    among the 16 iterations or more that are checked with a chance of (1 - s)^16.

    Parameters
    ----------
    text : ModelText
    objective : Objective
    n_rows, candidate : int
    leaves_of : callable
        ``leaves_of(features, members)`` returns the leaves that rows reach in the trees of a range of iterations,
        shape (n_trees, n_rows).
    """

    def __init__(
        self,
        text: ModelText,
        objective: Objective,
        n_rows: int,
        candidate: int,
        leaves_of: Callable[[Any, range], NDArray[Any]],
    ) -> None:
        self._sampling, self._text, self._objective = read_sampling(text.parameters), text, objective
        self._n_rows, self._leaves_of = n_rows, leaves_of
        limits = self._sampling.limits()
        if candidate >= len(limits):
            raise BagError(
                f"No value of bagging_fraction that the model may have drawn its bags with ({len(limits)} tried) "
                "gives the numbers of rows in its leaves. Pass the training rows, in training order."
            )
        if all(tree.n_leaves == 1 for tree in text.trees):
            raise BagError(
                "No tree of this forest has a split, so there are no leaf counts to prove its bags by. Train with more "
                'rows or a smaller min_child_samples, or pass data="holdout" with rows the model was not trained on.'
            )
        self._limits, self._n_tried = limits[candidate], len(limits)
        self._draw_of = np.arange(text.n_iterations) // self._sampling.frequency
        check_not_refit(text, objective, [tree for own in self._checked for tree in text.trees_of(own)])

    @cached_property
    def _checked(self) -> list[int]:
        """Return the iterations whose trees prove the bags."""
        text = self._text

        def log_chance(member: int) -> float:
            counts = [text.trees[tree].leaf_counts for tree in text.trees_of(member)]
            return min(
                (likely_chance(own, min(own.sum() / self._n_rows, 1.0)) for own in counts if own.size), default=0.0
            )

        n_cells = self._n_rows * text.trees_per_iteration
        return [int(member) for member in members_to_check(text.n_iterations, n_cells, log_chance, self._draw_of)]

    @cached_property
    def _with_target(self) -> list[int]:
        """Return the first, middle and last of these iterations, whose leaf values prove the target."""
        return first_middle_last(self._checked)

    def at(self, rows: IntArray | None, target: NDArray[Any] | None) -> Bags:
        """Return the bags of the rows at some positions, or of all, drawn for these rows alone."""
        if len(self._limits) > 1 and target is None:
            raise BagError(
                "This forest drew positive and negative rows with fractions of their own (pos_bagging_fraction, "
                "neg_bagging_fraction), so its bags depend on y; pass y."
            )
        limit = self._limits[0] if len(self._limits) == 1 else np.where(np.asarray(target) > 0, *self._limits[::-1])
        n_rounds = int(self._draw_of[-1]) + 1
        n_drawn = None if rows is None else self._n_drawn(n_rounds)
        rounds = draw_rounds(self._sampling.seed, limit, n_rounds, self._n_rows, rows, n_drawn)
        return Bags(rounds.bits[self._draw_of], rounds.n_rows)

    def _n_drawn(self, n_rounds: int) -> int:
        """Return the number of rounds up to a bag with every row, which only few rows or a large fraction give."""
        if n_rounds * max(self._sampling.fractions) ** self._n_rows < NEGLIGIBLE:
            return n_rounds
        sizes = [int(tree.leaf_counts.sum()) for tree in self._text.trees]
        is_full = np.array(sizes).reshape(self._draw_of.size, -1).max(axis=1) == self._n_rows
        return int(min([n_rounds, *(self._draw_of[is_full] + 1).tolist()]))

    def proof(self, features: Any, target: NDArray[Any] | None, bags: Bags) -> BagProof:
        """Return what the leaf counts of the checked trees prove, and the leaf values of three iterations.

        Raises BagError or DataMismatchError where they are those of other bags, or of another target.
        """
        counts, sums = list[_Counts](), dict[int, LeafSums]()
        for member, leaves in self._leaves(features):
            in_bag = bags.member(member)
            for tree, reached in zip(self._text.trees_of(member), leaves, strict=True):
                stored = self._text.trees[tree].leaf_counts
                if stored.size:
                    found, every = (np.bincount(own, minlength=stored.size) for own in (reached[in_bag], reached))
                    counts.append(_Counts(tree, stored, found, every))
                if target is not None and member in self._with_target:
                    sums[tree] = target_sums(self._text, self._objective, tree, reached, target, in_bag)
        self._check(counts)
        return BagProof(target=judge_leaf_targets(self._text, self._objective, sums))

    def _leaves(self, features: Any) -> Any:
        """Yield each checked iteration with the leaves of its trees, read at once where all are checked."""
        n_trees = self._text.trees_per_iteration
        if len(self._checked) == self._text.n_iterations:
            yield from enumerate(
                self._leaves_of(features, range(self._text.n_iterations)).reshape(-1, n_trees, features.shape[0])
            )
            return
        for member in self._checked:
            yield member, self._leaves_of(features, range(member, member + 1))

    def _check(self, counts: list[_Counts]) -> None:
        """Raise BagError or DataMismatchError unless the leaf counts are those of the trees, and hardly by chance."""
        if any(own.is_other for own in counts):
            raise self._explained(counts)
        draw_of = self._draw_of[[own.tree // self._text.trees_per_iteration for own in counts]]
        chance = chance_of_draws(
            np.array([log_chance(own.stored, own.reached) for own in counts]), draw_of, self._n_tried
        )
        if chance > MAX_CHANCE:
            raise BagError(
                f"The bags drawn again fit the leaf counts of every tree that has a split ({len(counts)} were "
                f"compared), but wrong bags would fit too with a chance of {chance:.2g}: that is no proof. Train more "
                'trees or larger ones, or pass data="holdout" with rows the model was not trained on.'
            )

    def _explained(self, counts: list[_Counts]) -> BagError | DataMismatchError:
        """Return the error that names the likely reason why redrawn bags do not fit: the rows, or the training."""
        failed = [own for own in counts if own.is_other]
        first, sampling = failed[0].tree, self._sampling
        trees = f"trees {shortened([own.tree for own in failed])}"
        # The chance that two trees fit for wrong bags is small enough for a message.
        if (
            len({int(self._draw_of[own.tree // self._text.trees_per_iteration]) for own in counts if own.tree < first})
            > 1
        ):
            return BagError(
                f"The first {first} trees were grown on the bags that the model's seed gives for these rows, as far as "
                f"they were compared, but {counted(len(failed), 'of the others was', 'of the others were')} not "
                f"({trees}): a callback changed bagging_fraction, or trees were removed, added or re-ordered "
                '(rollback_one_iter, shuffle_models). Pass data="holdout" with rows the model was not trained on, or '
                "train anew in one go."
            )
        if any(own.found.sum() != own.stored.sum() for own in failed):
            target = ", or this is not the target the model was trained on" if len(sampling.fractions) > 1 else ""
            return DataMismatchError(
                f"These are not the rows the model was trained on{target}. With seed {sampling.seed} and fraction "
                f"{' and '.join(f'{own:g}' for own in sampling.fractions)}, bags of {counted(self._n_rows, 'row')} "
                f"have other sizes or leaf counts than {len(failed)} of {counted(len(counts), 'tree')} counted at "
                f"training ({trees}). Pass the exact training rows, in training order; {_HOLDOUT} If they are the "
                "training rows, trees were re-ordered or cut out (shuffle_models, start_iteration), a callback changed "
                "bagging_fraction, or LightGBM before 3.0 drew the bags, which then depended on its number of threads: "
                "train anew in one go."
            )
        return DataMismatchError(
            f"These are not the rows the model was trained on: rows of the bags reach other leaves than at training "
            f"({trees}). Pass the exact training rows, in training order. If they are these, LightGBM itself routes "
            "some rows otherwise than in training, because it bundled columns that exclude each other only in the rows "
            f"it sampled, or trained on a GPU: train anew with enable_bundle=False on the CPU; {_HOLDOUT}"
        )


@dataclass(frozen=True, eq=False)
class _Counts:
    """The rows that a tree counted in its leaves, those of a redrawn bag, and all that reach a leaf."""

    tree: int
    stored: IntArray
    found: IntArray
    reached: IntArray

    @property
    def is_other(self) -> bool:
        return not np.array_equal(self.found, self.stored)


def log_chance(counts: IntArray, reached: IntArray) -> float:
    """Return the logarithm of the chance that a random set of as many rows gives a tree's leaf counts."""
    return float(_log_choose(reached, counts).sum() - _log_choose(reached.sum(), counts.sum()))


def _log_choose(n: Any, k: Any) -> FloatArray:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
