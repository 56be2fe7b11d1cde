"""The proof of a LightGBM forest's bags: the rows drawn again must fill every leaf as it was filled at training.

A tree keeps how many rows of its bag came into each leaf.  If a mask had nothing to do with the bag
(another seed, other rows, another order) but the right number of rows m out of n, it would fill
leaves that hold N_1, N_2, ... of the n rows with exactly the counts c_1, c_2, ... with chance

    C(N_1, c_1) C(N_2, c_2) ... / C(n, m),

the multivariate hypergeometric law.  Bags are drawn independently, so these chances multiply over
bags; trees grown on the same bag do not, and the strongest of them counts.  The product, times the
number of masks tried, bounds the chance of a false match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.adapters.labels import shortened
from ens_plugin.adapters.lightgbm_bags import Sampling, bag_sizes, draw_rounds
from ens_plugin.adapters.lightgbm_text import ModelText
from ens_plugin.core.bags import Bags
from ens_plugin.errors import BagError, DataMismatchError

__all__ = ["MAX_CHANCE", "log_chance", "prove_bags"]

IntArray = NDArray[np.int64]
LeafBlocks = Callable[[], Iterable[tuple[slice, NDArray[Any]]]]

MAX_CHANCE = 1e-9
FEW_MISPLACED = 0.01
CLEAR_START = 5
_HOLDOUT = 'for rows the model never saw pass data="holdout".'


@dataclass(frozen=True, eq=False)
class _Grown:
    """What the trees that have a split counted at training.

    Attributes
    ----------
    trees : ndarray of int, shape (n_checked,)
        Positions of these trees in the model.
    members : ndarray of int, shape (n_checked,)
        The iteration that each was grown in.
    counts : list of ndarray of int
        Rows in each leaf.
    """

    trees: IntArray
    members: IntArray
    counts: list[IntArray]


def prove_bags(
    model: ModelText, sampling: Sampling, n_rows: int, positive: NDArray[np.bool_] | None, leaf_blocks: LeafBlocks
) -> Bags:
    """Return the bags of all iterations, proved against the leaf counts of every tree that has a split.

    Parameters
    ----------
    model : ModelText
    sampling : Sampling
    n_rows : int
    positive : ndarray of bool, shape (n_rows,), or None
        Rows of the positive label, where bagging was balanced.
    leaf_blocks : callable
        Yields slices that cover all rows, each with the leaf of every tree that its rows reach, shape
        (n_trees, rows of the slice).

    Raises
    ------
    BagError
        If the bags were drawn otherwise than the model says, or the trees prove too little.
    DataMismatchError
        If these are not the training rows.
    """
    grown = _grown_trees(model)
    n_members = len(model.trees) // model.trees_per_iteration
    drawn_for = np.arange(n_members) // sampling.frequency
    n_rounds = int(drawn_for[-1]) + 1
    attempts = sampling.limits()
    failures = []
    for limits in attempts:
        by_row = limits[0] if positive is None else np.where(positive, limits[1], limits[0])
        bags = Bags(draw_rounds(sampling.seed, by_row, n_rounds, n_rows).bits[drawn_for], n_rows)
        failure = _failure(grown, bags, sampling, leaf_blocks, drawn_for, len(attempts))
        if failure is None:
            return bags
        failures.append(failure)
    raise min(failures, key=lambda failure: failure[0])[1]


def _failure(
    grown: _Grown, bags: Bags, sampling: Sampling, leaf_blocks: LeafBlocks, drawn_for: IntArray, n_tried: int
) -> tuple[int, BagError | DataMismatchError] | None:
    """How far the trees are from fitting the bags, and the error that says so; None where all fit."""
    other_size = _trees_of_other_size(grown, bags)
    if other_size.size:
        return grown.trees.size + other_size.size, _other_sizes(grown, other_size, bags.n_rows, sampling)
    found, reached = _count(grown, bags, leaf_blocks())
    failed = [index for index, counts in enumerate(found) if not np.array_equal(counts, grown.counts[index])]
    if failed:
        return len(failed), _other_leaves(grown, failed, found)
    _check_chance(grown, reached, drawn_for, n_tried)
    return None


def log_chance(counts: IntArray, reached: IntArray) -> float:
    """Logarithm of the chance that an unrelated mask with as many rows gives a tree's leaf counts.

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


def _grown_trees(model: ModelText) -> _Grown:
    trees = np.array([index for index, tree in enumerate(model.trees) if tree.n_leaves > 1], dtype=np.int64)
    if trees.size == 0:
        raise BagError(
            "No tree of this forest has a split, so there are no leaf counts to prove its bags by. Train with more "
            'rows or a smaller min_child_samples, or pass data="holdout" with rows the model never saw.'
        )
    counts = [model.trees[index].integers("leaf_count") for index in trees]
    return _Grown(trees, trees // model.trees_per_iteration, counts)


def _trees_of_other_size(grown: _Grown, bags: Bags) -> IntArray:
    counted = np.array([counts.sum() for counts in grown.counts])
    return np.flatnonzero(counted != bag_sizes(bags)[grown.members])


def _count(
    grown: _Grown, bags: Bags, blocks: Iterable[tuple[slice, NDArray[Any]]]
) -> tuple[list[IntArray], list[IntArray]]:
    """Rows of the bag, and all rows, in each leaf of each tree."""
    both = [np.zeros(2 * counts.size, dtype=np.int64) for counts in grown.counts]
    for rows, leaves in blocks:
        in_bag = bags.in_bag(rows)
        for total, tree, member in zip(both, grown.trees, grown.members, strict=True):
            code = leaves[tree].astype(np.intp)
            code *= 2
            code += in_bag[member]
            total += np.bincount(code, minlength=total.size)
    return [total[1::2] for total in both], [total[::2] + total[1::2] for total in both]


def _check_chance(grown: _Grown, reached: list[IntArray], drawn_for: IntArray, n_tried: int) -> None:
    strongest = np.zeros(int(drawn_for[-1]) + 1)
    for member, counts, everywhere in zip(grown.members, grown.counts, reached, strict=True):
        bag = drawn_for[member]
        strongest[bag] = min(strongest[bag], log_chance(counts, everywhere))
    chance = n_tried * np.exp(strongest.sum())
    if chance > MAX_CHANCE:
        raise BagError(
            f"The bags drawn again fit the leaf counts of all {grown.trees.size} trees that have a split, but with a "
            f"chance of {chance:.2g} any others would fit too: that is no proof. Train more trees or larger ones, or "
            'pass data="holdout" with rows the model never saw.'
        )


def _named(trees: Iterator[Any] | NDArray[Any]) -> str:
    return shortened([int(tree) for tree in trees])


def _other_sizes(grown: _Grown, wrong: IntArray, n_rows: int, sampling: Sampling) -> BagError | DataMismatchError:
    found = f"{wrong.size} of the {grown.trees.size} trees that have a split (trees {_named(grown.trees[wrong])})"
    if wrong[0] >= CLEAR_START:
        return BagError(
            f"The first {wrong[0]} trees were grown on the bags that the model's seed gives for these rows, but "
            f"{found} on bags of other sizes: a callback changed bagging_fraction, or trees were removed, added or "
            're-ordered (rollback_one_iter, shuffle_models). Pass data="holdout" with rows the model never saw, or '
            "train anew in one go."
        )
    target = ", or this is not the target the model was trained on" if sampling.is_balanced else ""
    return DataMismatchError(
        f"These are not the rows the model was trained on{target}: the bags that its seed {sampling.seed} and fraction "
        f"{' and '.join(f'{fraction:g}' for fraction in sampling.fractions)} give for {n_rows} rows have other sizes "
        f"than {found} counted at training. Pass the exact training rows, as many and in training order; {_HOLDOUT} If "
        "they are the training rows, trees were re-ordered or cut out (shuffle_models, start_iteration) or a callback "
        "changed bagging_fraction: train anew in one go."
    )


def _other_leaves(grown: _Grown, failed: list[int], found: list[IntArray]) -> DataMismatchError:
    rows = sum(int(counts.sum()) for counts in grown.counts)
    misplaced = sum(int(np.abs(found[index] - grown.counts[index]).sum()) // 2 for index in failed)
    where = (
        f"{misplaced} of {rows} in-bag rows, counted over trees, come into another leaf than at training (trees "
        f"{_named(grown.trees[failed])})"
    )
    if misplaced < FEW_MISPLACED * rows:
        return DataMismatchError(
            f"Nearly, but not all, rows are the rows the model was trained on: {where}. Either a few rows of X were "
            "changed, or LightGBM itself routes some rows otherwise than in training, because it bundled columns that "
            "exclude each other only in the rows it looked at (enable_bundle) or trained on a GPU. Pass the exact "
            f"training rows, or refit with enable_bundle=False on the CPU; {_HOLDOUT}"
        )
    return DataMismatchError(
        f"These are not the rows the model was trained on: {where}. X must hold the exact training rows in training "
        f"order; {_HOLDOUT}"
    )
