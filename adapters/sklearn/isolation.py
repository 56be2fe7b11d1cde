"""The adapter of scikit-learn's IsolationForest, judged by labels that it was not trained with."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import IsolationForest

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, draw_bags, outputs_by_member
from ens_plugin.adapters.capabilities import Truncatable
from ens_plugin.adapters.shared.member_parameters import unequal_member_doubts
from ens_plugin.adapters.sklearn.data import (
    DISTRIBUTIONS,
    check_fitted,
    check_learner,
    check_row_count,
    prepare_rows,
    redrawable,
)
from ens_plugin.adapters.sklearn.drawn_numbers import drawn_numbers
from ens_plugin.adapters.sklearn.growth import BagCounts, check_first_splits, check_growth
from ens_plugin.adapters.sklearn.trees.outputs import checked_members, growth_is_known
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError

__all__ = ["IsolationForestAdapter"]

# The sum 1 + 1/2 + ... + 1/n is the logarithm of n plus this constant, for large n.
EULER = float(np.euler_gamma)


class IsolationForestAdapter(EnsembleAdapter, Truncatable):
    """Adapter of IsolationForest; y has 1 for inliers and -1 for outliers, as ``predict`` returns them.

    A tree's score of a row is the number of splits above its leaf, plus the expected number of further splits that
    would isolate each row of the leaf, minus the threshold of the forest's ``predict``.  The forest predicts an inlier
    where the mean score is positive, and ranks rows as the mean does (Liu et al. 2008, eq. 2).

    References
    ----------
    F. T. Liu, K. M. Ting and Z.-H. Zhou (2008), Isolation Forest, IEEE International Conference on Data Mining.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import IsolationForest
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> forest = IsolationForest(n_estimators=10, random_state=0, max_samples=20).fit(X)
    >>> adapter = IsolationForestAdapter(forest)
    >>> mean = adapter.outputs(adapter.prepare(X)).mean(axis=0)
    >>> bool(((mean >= 0) == (forest.predict(X) == 1)).all())
    True
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is an IsolationForest, or of a subclass."""
        return isinstance(model, IsolationForest)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of inliers by a mean score."""
        check_fitted(self.model)
        check_learner(self.model, (IsolationForest,))
        return EnsembleInfo(
            task="classification",
            classes=np.array([-1, 1]),
            n_members=len(self.model.estimators_),
            aggregation="mean_score",
            output_kind="scores",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=DISTRIBUTIONS,
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return prepare_rows(self.model, X, np.float32)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the trees' scores of inliers, shape (n_members, n_rows)."""
        return outputs_by_member(self._scores, members or range(self.n_members), features, wanted)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the stored seeds, after checking all trees, three of them by all leaves."""
        n_rows = features.shape[0]
        check_row_count(self.model, n_rows)
        if not self.model.bootstrap and self.model.max_samples_ >= n_rows:
            raise BagError(
                f"Every tree of this IsolationForest was trained on all {n_rows} rows, so no row is out of bag. Pass "
                '{data="holdout"} with rows the model was not trained on, or refit with a smaller max_samples.'
            )
        if len(self._samples) != self.n_members:
            raise BagError(
                f"This IsolationForest has {counted(self.n_members, 'tree')}, but scikit-learn kept the seeds of the "
                f"last {len(self._samples)} only, because trees were added with warm_start. Refit all trees in one "
                'call of fit, or pass {data="holdout"} with rows the model was not trained on.'
            )
        for member in checked_members(self.n_members):
            drawn = self._samples[member]
            check_growth(self.model.estimators_[member], self._columns(features, member), drawn, None, member)
        bags = draw_bags(self._samples.__getitem__, self.n_members, n_rows)
        if growth_is_known(features, self.model):
            columns = self.model.estimators_features_
            check_first_splits(self.model.estimators_, features, BagCounts(bags), columns)
        # The forest was trained without labels: there is no training target that y could differ from.
        return bags.with_proof(BagProof(target=True))

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added trees with other parameters."""
        trees, columns = self.model.estimators_, list(map(len, self.model.estimators_features_))
        return unequal_member_doubts(trees, rows=drawn_numbers(self.model), columns=columns)

    def cautions(self, data: str) -> tuple[str, ...]:
        """Return a warning that the threshold between labels is the forest's own."""
        return (
            "The 0-1 error is that of the forest's own threshold (contamination), which was set from the scores of all "
            "its trees. For the order of the scores pass metric='roc_auc'.",
        )

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees, with the same threshold."""
        kept = {name: getattr(self.model, name)[:size] for name in ("estimators_", "estimators_features_", "_seeds")}
        for name in ("_decision_path_lengths", "_average_path_length_per_tree"):
            if hasattr(self.model, name):
                kept[name] = getattr(self.model, name)[:size]
        return truncated_ensemble(self.model, size, kept)

    @cached_property
    def _samples(self) -> list[NDArray[np.integer[Any]]]:
        return list(redrawable(self.model).estimators_samples_)

    @cached_property
    def _node_scores(self) -> list[NDArray[np.float64]]:
        # predict: an outlier where -2 ** (-mean / expected) is below the offset.
        threshold = -float(_expected_splits(np.array([self.model.max_samples_]))[0]) * np.log2(-self.model.offset_)
        return [_splits(tree.tree_) - threshold for tree in self.model.estimators_]

    def _scores(self, member: int, rows: Any) -> NDArray[np.float64]:
        leaves = self.model.estimators_[member].apply(self._columns(rows, member), check_input=False)
        return np.asarray(self._node_scores[member].take(leaves))

    def _columns(self, features: Any, member: int) -> Any:
        columns = self.model.estimators_features_[member]
        is_all = len(columns) == features.shape[1] and bool((columns == np.arange(len(columns))).all())
        return features if is_all else features[:, columns]


def _splits(tree: Any) -> NDArray[np.float64]:
    """Return for each node of a tree its depth, and the expected further splits that would isolate its rows."""
    depth = np.zeros(tree.node_count)
    # Nodes have larger numbers than their parents.
    for node in np.flatnonzero(tree.children_left != -1):
        depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1.0
    return depth + _expected_splits(tree.n_node_samples)


def _expected_splits(n_rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean depth of a random binary search tree over some numbers of rows (Liu et al. 2008, eq. 1)."""
    rows = np.asarray(n_rows, dtype=np.float64)
    large = np.maximum(rows, 3.0)
    value = 2.0 * (np.log(large - 1.0) + EULER) - 2.0 * (large - 1.0) / large
    return np.where(rows <= 1, 0.0, np.where(rows == 2, 1.0, value))
