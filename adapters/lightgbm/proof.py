"""The proof of a LightGBM forest's bags: the redrawn bags must fill every leaf as in training.

A tree stores how many rows of its bag reached each leaf.  If a mask had nothing to do with the bag
(another seed, other rows, another order) but the right number of rows m out of n, it would fill
leaves that hold N_1, N_2, ... of the n rows with exactly the counts c_1, c_2, ... with chance

    C(N_1, c_1) C(N_2, c_2) ... / C(n, m),

the multivariate hypergeometric law.  Bags are drawn independently, so these chances multiply over
bags; those of trees grown on the same bag do not, and only the smallest is used.  The product, times the
number of masks tried, bounds the chance of a false match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.adapters.lightgbm.bags import Sampling, draw_rounds
from ens_plugin.adapters.lightgbm.document.text import ModelText
from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.adapters.shared.trees.leaf_counts import count_leaves
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError, DataMismatchError
from ens_plugin.records import record

__all__ = [
    "MAX_CHANCE",
    "Failure",
    "Grown",
    "count_grown",
    "explained",
    "fill_every_leaf",
    "grown_trees",
    "judge_counts",
    "log_chance",
    "prove_bags",
]

IntArray = NDArray[np.int64]
# Returns the rows of its bag, and all rows, in each leaf of each tree that has a split.
Count = Callable[["Grown", Bags], tuple[list[IntArray], list[IntArray]]]

MAX_CHANCE = 1e-9
# Measured share of what chance misplaces: bundled columns mostly below 0.3, permuted rows 0.7 to 1.4.
NEARLY = 0.6
CLEAR_START = 5
# Fewest leaves of all trees together, so that other rows do not agree by chance.
LEAVES_THAT_TELL = 8
_HOLDOUT = 'for rows the model was not trained on pass {data="holdout"}.'


@record
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
    """Return the bags of all iterations, proved against the leaf counts of every tree that has a split.

    Parameters
    ----------
    model : ModelText
    sampling : Sampling
    n_rows : int
    positive : ndarray of bool, shape (n_rows,), or None
        Rows of the positive label, where bagging was balanced.
    count : callable
        As :func:`count_grown`, for the training rows.

    Raises
    ------
    BagError
        If the bags were drawn otherwise than the model states, or the trees prove too little.
    DataMismatchError
        If these are not the training rows.
    """
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
    """Return whether all rows fill every leaf as at training: training rows of a forest without bagging do.

    Parameters
    ----------
    model : ModelText
    n_rows : int
    blocks : iterable of (slice, ndarray)
        As of :func:`count_grown`.
    """
    counts = {index: tree.integers("leaf_count") for index, tree in enumerate(model.trees) if tree.n_leaves > 1}
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
    """Return the trees whose stored leaf counts differ from those of redrawn bags; None if none does.

    Parameters
    ----------
    grown : Grown
    found, reached : list of ndarray of int
        Rows of the drawn bag, and all rows, in each leaf of each tree.
    n_rows : int
    n_tried : int
        Draws that may be tried.

    Returns
    -------
    Failure or None
        None if every leaf fits.

    Raises
    ------
    BagError
        If every leaf fits, but wrong bags might also fit by chance.
    """
    failed = [index for index, counts in enumerate(found) if not np.array_equal(counts, grown.counts[index])]
    if failed:
        return Failure(grown, failed, found, reached, n_rows)
    _check_chance(grown, reached, n_tried)
    return None


def log_chance(counts: IntArray, reached: IntArray) -> float:
    """Return the logarithm of the chance that a random set of as many rows gives a tree's leaf counts.

    Parameters
    ----------
    counts : ndarray of int, shape (n_leaves,)
        Rows of the bag in each leaf.
    reached : ndarray of int, shape (n_leaves,)
        Rows of the training data in each leaf.

    Examples
    --------
    >>> float(np.exp(log_chance(np.array([1, 1]), np.array([2, 2]))).round(12))  # 2 * 2 of 6 masks
    0.666666666667
    """
    return float(_log_choose(reached, counts).sum() - _log_choose(reached.sum(), counts.sum()))


def _log_choose(n: NDArray[Any], k: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def grown_trees(model: ModelText, sampling: Sampling) -> Grown:
    """Return the leaf counts at training of the trees that have a split.

    Raises
    ------
    BagError
        If no tree has a split.
    """
    round_of = np.arange(len(model.trees) // model.trees_per_iteration) // sampling.frequency
    trees = np.array([index for index, tree in enumerate(model.trees) if tree.n_leaves > 1], dtype=np.int64)
    if trees.size == 0:
        raise BagError(
            "No tree of this forest has a split, so there are no leaf counts to prove its bags by. Train with more "
            'rows or a smaller min_child_samples, or pass {data="holdout"} with rows the model was not trained on.'
        )
    counts = [model.trees[index].integers("leaf_count") for index in trees]
    return Grown(trees, round_of[trees // model.trees_per_iteration], counts, round_of)


def count_grown(
    grown: Grown, rounds: Bags, blocks: Iterable[tuple[slice, NDArray[Any]]]
) -> tuple[list[IntArray], list[IntArray]]:
    """Return the numbers of rows of the bag, and of all rows, in each leaf of each tree.

    Parameters
    ----------
    grown : Grown
    rounds : Bags
        One bag for each round.
    blocks : iterable of (slice, ndarray)
        Slices of the rows of `rounds`, each with the leaf of every tree that they reach.
    """
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


@record
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
