"""The adapter of imbalanced-learn's BalancedRandomForestClassifier."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import sklearn
from imblearn.ensemble import BalancedRandomForestClassifier
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, draw_bags, outputs_by_member
from ens_plugin.adapters.capabilities import RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.imblearn.samplers import check_sample, sampled_rows
from ens_plugin.adapters.shared.member_parameters import unequal_member_doubts
from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin
from ens_plugin.adapters.sklearn.data import check_fitted, check_learner, prepare_rows, training_target
from ens_plugin.adapters.sklearn.growth import BagCounts, check_growth, check_growth_of_all
from ens_plugin.adapters.sklearn.recognition.known_rows import hold_node_values, show_node_values
from ens_plugin.adapters.sklearn.trees.fingerprint import root_bytes
from ens_plugin.adapters.sklearn.trees.outputs import (
    are_recognised,
    checked_members,
    growth_is_known,
    leaf_outputs,
    pure_labels,
    reached_labels,
    tree_splits,
)
from ens_plugin.adapters.sklearn.trees.tree_walk import TreeWalk
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError, UnsupportedModelError

__all__ = ["BalancedForestAdapter"]

IntArray = NDArray[np.integer[Any]]

# From this release on, weights decide which rows a bootstrap draws, and a fraction of rows is rounded down.
_DRAWS_BY_WEIGHT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


class BalancedForestAdapter(EnsembleAdapter, VerifiesRows, Truncatable):
    """Adapter of BalancedRandomForestClassifier, with one output.

    A row is in a tree's bag if the tree's sampler kept it and, with ``bootstrap=True``, the bootstrap then drew at
    least one of the copies that the sampler made of it.  The library's own ``oob_score_`` counts a copy that was not
    drawn as out of bag although another copy of the same row was drawn, so it is not used.

    Examples
    --------
    >>> import numpy as np
    >>> from imblearn.ensemble import BalancedRandomForestClassifier
    >>> X, y = np.arange(12.0)[:, None], np.array([0] * 8 + [1] * 4)
    >>> adapter = BalancedForestAdapter(BalancedRandomForestClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> features = adapter.prepare(X)
    >>> adapter.outputs(features).shape, adapter.bags(X, features, y).in_bag().shape
    ((5, 12), (5, 12))
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a BalancedRandomForestClassifier, or of a subclass."""
        return isinstance(model, BalancedRandomForestClassifier)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees output labels where every leaf is pure."""
        model = self.model
        check_fitted(model)
        check_learner(model, (BalancedRandomForestClassifier,))
        if any(tree.tree_.value.shape[2] != len(model.classes_) for tree in model.estimators_):
            raise UnsupportedModelError(
                f"Some trees of this {type(model).__name__} were trained without rows of some label. Refit with a "
                "sampling_strategy that keeps rows of every label."
            )
        return EnsembleInfo(
            task="classification",
            classes=model.classes_,
            n_members=len(model.estimators_),
            aggregation="mean_proba",
            output_kind="probabilities" if self._labels is None else "labels",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=("imbalanced-learn", "scikit-learn"),
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.model, X, np.float32)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes or probabilities of the trees for the prepared rows."""
        return outputs_by_member(self._tree_outputs, members or range(self.n_members), features, wanted)

    def _tree_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        tree = self.model.estimators_[member]
        return leaf_outputs(tree, rows) if self._labels is None else reached_labels(tree, self._labels[member], rows)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, from the rows that the samplers kept, after checking three trees and samplers."""
        n_rows = features.shape[0]
        self._check_weights()
        for sampler in self.model.samplers_:
            sampled_rows(sampler, n_rows)
        target = training_target(y, self.classes, n_rows)
        is_known = growth_is_known(features)
        proof = BagProof(target=is_known and self._check_rows(features, target))
        bags = draw_bags(lambda member: self._drawn(member, n_rows), self.n_members, n_rows)
        if is_known:
            check_growth_of_all(
                self.model.estimators_,
                features,
                BagCounts(bags, lambda member: self._counted(member, n_rows)),
                target,
                TreeWalk(self.model.estimators_, features.shape[1], None).leaves,
                weights_are_known=_DRAWS_BY_WEIGHT and self.model.bootstrap,
            )
        return bags.with_proof(proof)

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by the growth of three trees and the values that trees split at."""
        target = training_target(y, self.classes, features.shape[0])
        trees = [(tree, features) for tree in self.model.estimators_]
        is_training = self._grew_on(features, target) or hold_node_values(trees)
        return judge_origin(is_training, (), features.shape[0], lambda: show_node_values(trees))

    def fingerprint(self) -> tuple[bytes, ...]:
        """Return the roots of three trees."""
        return root_bytes(self.model.estimators_)

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.model.estimators_)

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        return unequal_member_doubts(self.model.estimators_)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees, with their samplers."""
        kept = {name: getattr(self.model, name)[:size] for name in ("estimators_", "samplers_", "pipelines_")}
        return truncated_ensemble(self.model, size, kept)

    @cached_property
    def _labels(self) -> list[NDArray[np.unsignedinteger[Any]]] | None:
        """Return the label code of every node of each tree; None where a leaf is mixed."""
        return pure_labels(self.model.estimators_, len(self.model.classes_))

    def _check_weights(self) -> None:
        if self.model.bootstrap and _DRAWS_BY_WEIGHT and self.model.class_weight not in (None, "balanced_subsample"):
            raise BagError(
                f"This {type(self.model).__name__} has class_weight and bootstrap=True: scikit-learn 1.9 and later "
                "draw bootstrap samples by the weights, which imbalanced-learn does not keep. "
                'Pass {data="holdout"} with rows the model was not trained on, or refit without class_weight.'
            )

    def _check_rows(self, features: Any, target: NDArray[Any] | None) -> bool:
        members = checked_members(self.n_members)
        are_proved = [self._check_tree(features, target, member) for member in members]
        if target is not None:
            for member in members:
                check_sample(self.model.samplers_[member], target, member)
        return all(are_proved)

    def _check_tree(self, features: Any, target: NDArray[Any] | None, member: int) -> bool:
        kept = sampled_rows(self.model.samplers_[member], features.shape[0])
        return check_growth(
            self.model.estimators_[member],
            features[kept],
            self._positions(member, features.shape[0], kept.size),
            None if target is None else target[kept],
            member,
            # Without a bootstrap, the weights of a fit act inside the trees.
            weights_are_known=_DRAWS_BY_WEIGHT and self.model.bootstrap,
        )

    def _grew_on(self, features: Any, target: NDArray[Any] | None) -> bool:
        if not growth_is_known(features):
            return False
        trees = [self.model.estimators_[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self._check_rows(features, target))

    def _drawn(self, member: int, n_rows: int) -> IntArray:
        """Return the training rows that a tree was grown on."""
        kept = sampled_rows(self.model.samplers_[member], n_rows)
        return kept[self._positions(member, n_rows, kept.size)]

    def _counted(self, member: int, n_rows: int) -> IntArray:
        """Return the training rows that a tree was grown on, each as often as the sampler's copies of it were drawn."""
        kept = sampled_rows(self.model.samplers_[member], n_rows)
        return kept[np.unique(self._positions(member, n_rows, kept.size))]

    def _positions(self, member: int, n_rows: int, n_kept: int) -> IntArray:
        """Return the positions, among the rows that a tree's sampler kept, of those that the tree was grown on."""
        if not self.model.bootstrap:
            return np.arange(n_kept)
        # The public estimators_samples_ of a forest that is trained on n_kept rows draws again from a tree's seed.
        forest = copy(self.model)
        forest.estimators_ = [self.model.estimators_[member]]
        forest._n_samples, forest._sample_weight = n_kept, None
        forest._n_samples_bootstrap = min(self._n_draws(n_rows), n_kept)
        return np.asarray(forest.estimators_samples_[0])

    def _n_draws(self, n_rows: int) -> int:
        wanted = self.model.max_samples
        if wanted is None or isinstance(wanted, Integral):
            return n_rows if wanted is None else int(wanted)
        return max(int(wanted * n_rows) if _DRAWS_BY_WEIGHT else round(wanted * n_rows), 1)
