"""The bags of an XGBoost booster on a cluster: the draws of each row, computed from its position."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.distributed_bags import DistributedBags, ProofStatistics, merge_sums
from ens_plugin.adapters.xgboost.bags import (
    CHANCE,
    MAX_PROOFS,
    Guess,
    chance_of_false_match,
    n_draws,
    packed_bags,
)
from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.draws import RowSampler, likely_draws, powers_at, tree_words
from ens_plugin.adapters.xgboost.hessians import Hessians
from ens_plugin.adapters.xgboost.proof import judge_leaf_sums, leaf_sums
from ens_plugin.adapters.xgboost.refusals import check_settings, no_sampling, not_likely, too_few_draws, too_weak
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.adapters.xgboost.share import Share
from ens_plugin.adapters.xgboost.target import checkable_trees, judge_target, target_sums
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError, DataMismatchError

__all__ = ["DrawnTrees"]


class DrawnTrees(DistributedBags):
    """Bags of an XGBoost booster, drawn by row position and proved by the sums in all leaves of all trees.

    Only likely draws of the booster's own seed are tried: a search for other draws takes all rows at once.

    Parameters
    ----------
    forest : Forest
    n_rows : int
        Training rows.
    candidate : int
        Index of the likely draw to use.
    keep_leaves : callable
        ``keep_leaves(rows)`` stores in prepared rows the leaves that they reach, for the outputs.
    """

    def __init__(self, forest: Forest, n_rows: int, candidate: int, keep_leaves: Callable[[Rows], None]) -> None:
        check_settings(forest.settings)
        self._forest, self._n_rows, self._keep_leaves = forest, n_rows, keep_leaves
        self._share = _sampled_share(forest, n_rows)
        if self._share.is_whole:
            raise no_sampling()
        guesses = [
            (draws, subsample)
            for subsample in self._share.candidates(forest.settings.subsample)
            for draws in likely_draws(forest, n_rows)
        ]
        self._n_tried = len(guesses)
        if not guesses:
            raise self._not_likely(np.arange(len(forest.trees)))
        if candidate >= min(self._n_tried, MAX_PROOFS):
            raise BagError(
                f"No likely draw of the bags ({candidate} tried) gives the sums that the booster's leaves store. "
                "Pass the training rows, in training order."
            )
        self._draws, self._subsample = guesses[candidate]

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        return tree_words(self._draws)

    @cached_property
    def _packed(self) -> Bags:
        return packed_bags(self._guess(RowSampler(self._n_rows, self._subsample)))

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions, drawn for these alone (for all rows with `exact`)."""
        if self._draws.pairs:
            return Bags.from_mask(self._packed.at(rows))
        return Bags.from_mask(RowSampler(rows.size, self._subsample, powers_at(rows)).from_words(self._words))

    def sums(self, rows: NDArray[np.int64], features: Rows, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return sums of second derivatives by leaf of every tree, and of first derivatives of three trees."""
        self._keep_leaves(features)
        y = target.astype(np.float64)
        hessians = Hessians.of(self._forest, features, y)
        sums, sizes = leaf_sums(self._forest, features, hessians, bags)
        by_tree = target_sums(self._forest, features, hessians, bags, y)
        return merge_sums(
            [ProofStatistics({"sums": sums, "sizes": sizes}), *(own.named(tree) for tree, own in by_tree.items())]
        )

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing the sums with those in the leaves, and checking the target."""
        forest = self._forest
        hessians = _unit_hessians(forest)
        proof = judge_leaf_sums(forest, hessians, sums.added["sums"], sums.added["sizes"], self._subsample)
        failed = np.flatnonzero(~proof.passed)
        if failed.size:
            raise self._not_likely(failed)
        guess = self._guess(RowSampler(1, self._subsample))
        chance = chance_of_false_match(guess, proof)
        if chance > CHANCE:
            n_trees, drawn = len(forest.trees), n_draws(self._draws)
            raise (
                too_weak(chance, CHANCE, n_trees) if drawn == n_trees else too_few_draws(chance, CHANCE, n_trees, drawn)
            )
        by_tree = {tree: sums.of_tree(tree) for tree in checkable_trees(forest)}
        return BagProof(target=judge_target(forest, by_tree))

    def _not_likely(self, failed: NDArray[np.integer[Any]]) -> DataMismatchError | BagError:
        fits = self._share.fits(self._forest.settings.subsample)
        return not_likely(self._forest, self._share.mean, self._n_rows, failed, fits)

    def _guess(self, sampler: RowSampler) -> Guess:
        stretch = np.zeros(len(self._forest.trees), dtype=np.int64)
        return Guess(self._draws, sampler, stretch, {0: self._n_tried})


def _unit_hessians(forest: Forest) -> Hessians:
    """Return the second derivatives of one row of weight 1, before the first round."""
    return Hessians(forest, np.ones(1), forest.base_margin[None, :])


def _sampled_share(forest: Forest, n_rows: int) -> Share:
    """Return the share of the rows that the trees' roots count, computed as if every row had weight 1."""
    hessians = _unit_hessians(forest)
    total = n_rows * np.asarray(hessians.at(slice(0, 1), hessians.first(slice(0, 1))), dtype=np.float64)[0]
    return Share.of_roots(hessians, total, n_rows)
