"""The adapter of scikit-survival's forests, by their probabilities of survival beyond one time."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, draw_bags, outputs_by_member
from ens_plugin.adapters.capabilities import RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.sklearn.data import check_fitted, check_learner, check_row_count, prepare_rows
from ens_plugin.adapters.sklearn.trees import are_recognised, checked_members, growth_is_known
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.adapters.sksurv.at_time import SurvivalAt, event_labels, events_and_times
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError

__all__ = ["SurvivalAtAdapter"]

CLOSE = 1e-9


class SurvivalAtAdapter(EnsembleAdapter, VerifiesRows, Truncatable):
    """Adapter of a survival forest at one time, as :func:`ens_plugin.adapters.sksurv.survival_at` makes it.

    The trees' probabilities of survival beyond the time are averaged, as in the library.  Bags are redrawn from the
    trees' seeds and proved on three trees: the rows must fill the leaves as in training, and their events and times
    must give the leaves' cumulative hazards (Nelson and Aalen's estimator).
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a survival forest at one time."""
        return isinstance(model, SurvivalAt)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of events up to the time."""
        from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest

        forest, known = self.model.forest, (RandomSurvivalForest, ExtraSurvivalTrees)
        if not isinstance(forest, known):
            raise UnsupportedModelError(
                f"survival_at takes a RandomSurvivalForest or ExtraSurvivalTrees of scikit-survival, not a "
                f"{type(forest).__name__}."
            )
        check_fitted(forest)
        check_learner(forest, known)
        if forest.low_memory:
            raise UnsupportedModelError(
                f"This {type(forest).__name__} was trained with low_memory=True, which keeps one risk score for each "
                "leaf and no probability of survival. Refit with low_memory=False."
            )
        return EnsembleInfo(
            task="classification",
            classes=self.model.classes_,
            n_members=len(forest.estimators_),
            aggregation="mean_proba",
            output_kind="probabilities",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=("scikit-survival", "scikit-learn"),
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.model.forest, X, np.float32)

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return 1 for rows with an event up to the time, 0 for the others."""
        return event_labels(y, self.model.time)[0]

    def target_weights(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return inverse probabilities of not being censored, 0 for rows that were censored before the time."""
        return event_labels(y, self.model.time)[1]

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the trees' probabilities of survival beyond the time, and of an event up to it."""
        return outputs_by_member(self._tree_outputs, members or range(self.n_members), features, wanted)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the trees' seeds, after checking three trees against the rows."""
        forest = self.model.forest
        if not forest.bootstrap:
            raise BagError(
                f"This {type(forest).__name__} was trained without bootstrap, each tree on every row, so no row is "
                "out of "
                'bag. Pass {data="holdout"} with rows the model was not trained on, or refit with bootstrap=True.'
            )
        check_row_count(forest, features.shape[0])
        is_proved = self._check_rows(features, y) and growth_is_known(features)
        return draw_bags(self._draw, self.n_members, features.shape[0]).with_proof(BagProof(target=is_proved))

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, in training order, by the growth of three trees."""
        forest = self.model.forest
        if not forest.bootstrap or features.shape[0] != forest._n_samples or not growth_is_known(features):
            return "unknown"
        trees = [forest.estimators_[member] for member in checked_members(self.n_members)]
        return "training" if are_recognised(trees, lambda: self._check_rows(features, y)) else "unknown"

    def truncated(self, size: int) -> SurvivalAt:
        """Return a forest of copies of the first `size` trees, at the same time."""
        forest = self.model.forest
        part = truncated_ensemble(forest, size, {"estimators_": forest.estimators_[:size]})
        return SurvivalAt(part, self.model.time)

    @cached_property
    def _place(self) -> int:
        """Return the position of the last time of the trees' steps up to the time; -1 before the first."""
        return int(np.searchsorted(self.model.forest.unique_times_, self.model.time, side="right")) - 1

    def _tree_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        tree = self.model.forest.estimators_[member].tree_
        # Nodes hold cumulative hazards and probabilities of survival, by time.
        beyond = tree.value[:, self._place, 1].take(tree.apply(rows)) if self._place >= 0 else np.ones(rows.shape[0])
        return np.stack([beyond, 1.0 - beyond], axis=1)

    def _draw(self, member: int) -> NDArray[np.integer[Any]]:
        one_tree = copy(self.model.forest)
        one_tree.estimators_ = [self.model.forest.estimators_[member]]
        return np.asarray(one_tree.estimators_samples_[0])

    def _check_rows(self, features: Any, y: ArrayLike | None) -> bool:
        """Raise DataMismatchError unless three trees can have been trained on these rows; return if y is proved."""
        target = None if y is None else events_and_times(np.asarray(y))
        for member in checked_members(self.n_members):
            self._check_tree(member, features, target)
        return target is not None

    def _check_tree(self, member: int, features: Any, target: tuple[NDArray[Any], NDArray[Any]] | None) -> None:
        tree = self.model.forest.estimators_[member].tree_
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
        if target is None:
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
