"""What all adapters of scikit-survival's forests share: the rows, the bags and their proof."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import RowOrigin, VerifiesRows
from ens_plugin.adapters.shared.member_parameters import unequal_member_doubts
from ens_plugin.adapters.sklearn.data import check_row_count, prepare_rows, redrawable
from ens_plugin.adapters.sklearn.growth import BagCounts, check_first_splits
from ens_plugin.adapters.sklearn.seeded_bags import seeded_bags
from ens_plugin.adapters.sklearn.trees.outputs import are_recognised, checked_members, growth_is_known, tree_splits
from ens_plugin.adapters.sksurv.at_time import events_and_times
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError, DataMismatchError

__all__ = ["SurvivalTreesAdapter"]

CLOSE = 1e-9


class SurvivalTreesAdapter(EnsembleAdapter, VerifiesRows):
    """Base class of adapters of a RandomSurvivalForest or ExtraSurvivalTrees.

    Bags are redrawn from the trees' seeds and proved on three trees: the rows must fill the leaves as in training, and
    their events and times must give the leaves' cumulative hazards (Nelson and Aalen's estimator).
    """

    @property
    @abstractmethod
    def forest(self) -> Any:
        """Return the fitted forest."""

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.forest, X, np.float32)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the trees' seeds, after checking three trees against the rows."""
        forest = self.forest
        if not forest.bootstrap:
            raise BagError(
                f"This {type(forest).__name__} was trained without bootstrap, each tree on every row, so no row is "
                "out of "
                'bag. Pass {data="holdout"} with rows the model was not trained on, or refit with bootstrap=True.'
            )
        if not hasattr(forest, "_n_samples"):
            raise BagError(
                f"This {type(forest).__name__} does not keep how many rows it was trained on, as those of "
                "scikit-survival before 0.24, so its bags cannot be drawn again. Train it with a newer release, or "
                'pass {data="holdout"} with rows the model was not trained on.'
            )
        check_row_count(forest, features.shape[0])
        is_proved = self._check_rows(features, y) and growth_is_known(features)
        seeds = [tree.random_state for tree in forest.estimators_]
        bags = seeded_bags(self._draw, seeds, features.shape[0], checked_members(self.n_members))
        if growth_is_known(features, forest):
            check_first_splits(forest.estimators_, features, BagCounts(bags))
        return bags.with_proof(BagProof(target=is_proved))

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        return unequal_member_doubts(self.forest.estimators_)

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, in training order, by the growth of three trees."""
        forest = self.forest
        if features.shape[0] != getattr(forest, "_n_samples", None) or not growth_is_known(features):
            return "unknown"
        trees = [forest.estimators_[member] for member in checked_members(self.n_members)]
        return "training" if are_recognised(trees, lambda: self._check_rows(features, y)) else "unknown"

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.forest.estimators_)

    def _draw(self, member: int) -> NDArray[np.integer[Any]]:
        one_tree = copy(redrawable(self.forest))
        one_tree.estimators_ = [self.forest.estimators_[member]]
        return np.asarray(one_tree.estimators_samples_[0])

    def _check_rows(self, features: Any, y: ArrayLike | None) -> bool:
        """Raise DataMismatchError unless three trees can be grown on these rows; return whether y is proved."""
        target = None if y is None else events_and_times(np.asarray(y))
        for member in checked_members(self.n_members):
            self._check_tree(member, features, target)
        # With low_memory=True, leaves keep a risk score in place of the hazards.
        return target is not None and not self.forest.low_memory

    def _check_tree(self, member: int, features: Any, target: tuple[NDArray[Any], NDArray[Any]] | None) -> None:
        tree = self.forest.estimators_[member].tree_
        draws = np.bincount(self._draw(member), minlength=features.shape[0])
        rows = np.flatnonzero(draws)
        leaves = tree.apply(features[rows])
        is_leaf = tree.children_left == -1
        other = np.count_nonzero((np.bincount(leaves, minlength=tree.node_count) != tree.n_node_samples)[is_leaf])
        if other:
            raise DataMismatchError(
                f"These are not the rows the model was trained on: in {other} of {tree.n_leaves} leaves of tree "
                f"{member}, "
                "X has another number of rows than the tree counted at training. X and y must be the exact training "
                'rows in training order; for rows the model was not trained on pass {data="holdout"}.'
            )
        if target is None or self.forest.low_memory:
            return
        hazards = _last_hazards(leaves, target[0][rows], target[1][rows], draws[rows], tree.node_count)
        gap = np.abs(hazards - tree.value[:, -1, 0]) > CLOSE * np.maximum(hazards, 1.0)
        if (gap & is_leaf).any():
            raise DataMismatchError(
                f"y is not the target the model was trained on: {np.count_nonzero(gap & is_leaf)} of {tree.n_leaves} "
                f"leaves of tree {member} hold a cumulative hazard that y of the rows in them cannot give. X and y "
                "must be the exact training rows in training order; for rows the model was not trained on pass "
                '{data="holdout"}.'
            )


def _last_hazards(
    leaves: NDArray[np.intp],
    event: NDArray[np.bool_],
    time: NDArray[np.float64],
    draws: NDArray[np.integer[Any]],
    n_nodes: int,
) -> NDArray[np.float64]:
    """Return the sum of events over rows at risk, over the times of each leaf, shape (n_nodes,)."""
    order = np.lexsort((time, leaves))
    leaves, event, time, draws = leaves[order], event[order], time[order], draws[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(leaves) != 0) | (np.diff(time) != 0)])
    total, events = np.add.reduceat(draws, starts), np.add.reduceat(draws * event, starts)
    leaf, before = leaves[starts], np.cumsum(total) - total
    in_leaf = np.bincount(leaves, draws, n_nodes)
    first = np.r_[True, np.diff(leaf) != 0]
    earlier = before - np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), leaf.size]))
    return np.asarray(np.bincount(leaf, events / (in_leaf[leaf] - earlier), n_nodes), dtype=np.float64)
