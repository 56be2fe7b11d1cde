"""Adapters of the forests of scikit-learn, of patched ones, and of isolation forests; damage of their trees."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import IsolationForest

# sklearn.ensemble has other classes under these names once scikit-learn-intelex has patched it.
from sklearn.ensemble._forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from ens_plugin.adapters.contract import EnsembleInfo, OutputKind
from ens_plugin.adapters.library import Trainer
from ens_plugin.adapters.members import bag_doubts, call_model, checked_numbers, parts, shortened
from ens_plugin.adapters.sklearn.bags import drawn_numbers, refuse_other_numbers, without_bootstrap
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, SklearnEnsemble
from ens_plugin.adapters.sklearn.training import known_class, prepare_rows, warm_started
from ens_plugin.adapters.trees import LEAF, damage_of_tree
from ens_plugin.adapters.unwrap import JOINT_WEIGHTS
from ens_plugin.core.bags import BagProof
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import BagError, InputError, UnsupportedModelError
from ens_plugin.findings import Finding, finding


class SklearnForestAdapter(SklearnEnsemble):
    """Adapter of scikit-learn's RandomForest* and ExtraTrees*, with one output.

    Members output their leaf's label where every leaf is pure, else its probabilities;
    either way the mean is scikit-learn's own ``oob_decision_function_``, to the bit.
    """

    known: ClassVar[tuple[type, ...]] = (
        RandomForestClassifier,
        RandomForestRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
    )

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomForest* or an ExtraTrees*, or of a subclass."""
        return known_class(model, cls.known) is not None

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes a tree, or an estimator with trees, unsafe to predict with; None if sound."""
        return find_damage(held)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains by warm starts, with the same trees, to the bit, as in one training."""
        if not estimator.bootstrap:
            raise BagError(
                f"This {type(estimator).__name__} has bootstrap=False: every tree would be trained on every row, so "
                "there would be no out-of-bag rows to estimate the size from. Set bootstrap=True."
            )
        return warm_started

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees output labels where every leaf is pure."""
        self.check_learned()
        self.refuse_outputs(self.model.n_outputs_)
        if not isinstance(self.model, ClassifierMixin):
            return self.info_of("mean", "values")
        return self.info_of("mean_proba", "probabilities" if self._labels is None else "labels", self.model.classes_)

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return the label codes, probabilities or values of one tree, called as the forest calls it."""
        if self.are_plain:
            return self.leaf_outputs(member, rows)
        own, shape = self.members[member], (rows.shape[0],)
        if self.classes is None:
            return checked_numbers(call_model(partial(own.predict, check_input=False), rows, member), shape, member)
        found = call_model(partial(own.predict_proba, check_input=False), rows, member)
        return checked_numbers(found, (*shape, len(self.classes)), member)

    @property
    def are_redrawable(self) -> bool:
        """Whether the rows of all members can be drawn again, which is not known of other members than trees."""
        return self.trees is not None

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError or DataMismatchError unless the trees drew rows, and as many as their seeds give now."""
        name = type(self.ensemble).__name__
        if not self.ensemble.bootstrap:
            raise without_bootstrap(self.ensemble)
        if self.trees is None:
            # Of a damaged model, a member that cannot predict at all is the finding.
            predicting = "predict" if self.classes is None else "predict_proba"
            names = sorted({type(tree).__name__ for tree in self.members if getattr(tree, predicting)})
            raise BagError(
                f"The members of this {name} are of the class {', '.join(names)}, which is no tree of scikit-learn or "
                "replaces how it is trained, so it cannot be proved which rows they were trained on. "
                'Pass data="holdout" with rows the model was not trained on.'
            )
        super().check_bags(n_rows)
        refuse_other_numbers(self.ensemble, self.drawn_numbers(), len(self.draw(0)))

    def drawn_numbers(self) -> FloatArray | None:
        """Return how many rows each tree drew, repeats included; None where the trees do not show it."""
        # Weights of several outputs are products, which do not add up to the number of rows.
        has_products = getattr(self.members[0], JOINT_WEIGHTS, False)
        return (
            None if has_products or self.trees is None or not self.ensemble.bootstrap else drawn_numbers(self.ensemble)
        )

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added trees with other parameters, numbers of rows, or weights."""
        if self.trees is None:
            return super().doubts()
        # The root of a tree holds the shares of the labels in its bag, or the mean or median target.
        means = np.array([tree.tree_.value[0].ravel() for tree in self.trees], dtype=np.float64)
        return super().doubts() or bag_doubts(means)


class OneApiForestAdapter(SklearnForestAdapter):
    """Adapter of a forest that scikit-learn-intelex trained after ``patch_sklearn()``, for held-out rows.

    Its ``estimators_`` are copies of the trees of a model of oneDAL, by which it predicts.  That compares the rows with
    thresholds as float64, where scikit-learn's trees take float32, so the copies are read here as oneDAL reads its own.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest with a model of oneDAL; what scikit-learn itself trained has none."""
        return hasattr(model, "_onedal_estimator") and hasattr(type(model), "estimators_")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose bags are not known."""
        kind: OutputKind = "probabilities" if isinstance(self.model, ClassifierMixin) else "values"
        return replace(super().describe(), output_kind=kind, bag_provenance="unknown")

    def prepare(self, X: Any) -> NDArray[Any]:
        """Return X as an array of float64, or of float32 where it is one: the types that oneDAL takes."""
        rows = prepare_rows(self.model, X, None)
        if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
            raise InputError(
                "X is a sparse matrix, or holds no numbers. scikit-learn-intelex leaves such rows to the copies of its "
                "trees, and these read with another rounding. Pass numbers as an array, such as X.toarray()."
            )
        return rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)

    @property
    def trees(self) -> None:
        """None: copies of trees show no training rows."""
        return None

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError: oneDAL keeps no record of the rows that its trees drew."""
        raise BagError(
            "This forest was trained by scikit-learn-intelex, whose oneDAL keeps no record of the rows that its trees "
            "drew: train it after sklearnex.unpatch_sklearn(), and it is a forest of scikit-learn, whose rows are "
            'known. Pass data="holdout" with rows no member was trained on.'
        )

    def member_outputs(self, member: int, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probabilities or values of one tree, which routes rows as oneDAL does."""
        nodes = self.model.estimators_[member].tree_
        children, feature = np.stack([nodes.children_right, nodes.children_left]), nodes.feature
        # oneDAL compares in the type of the rows where it classifies, and as float64 where it does not.
        threshold = nodes.threshold.astype(rows.dtype if self.classes is not None else np.float64, copy=False)
        reached, moving = np.zeros(len(rows), np.intp), np.arange(len(rows))
        while (moving := moving[children[0, reached[moving]] != LEAF]).size:
            node = reached[moving]
            goes_left = rows[moving, feature[node]] <= threshold[node]
            reached[moving] = children[goes_left.astype(np.intp), node]
        held = np.asarray(nodes.value[reached, 0, :], dtype=np.float64)
        return held if self.output_kind == "probabilities" else held[:, 0]


class IsolationForestAdapter(SeededEnsemble):
    """Adapter of IsolationForest; y has 1 for inliers and -1 for outliers, as ``predict`` returns them.

    A tree's score of a row is the number of splits above its leaf, plus the expected number of further splits that
    would isolate each row of the leaf, minus the threshold of the forest's ``predict``.  The forest predicts an inlier
    where the mean score is positive, and ranks rows as the mean does (Liu et al. 2008, eq. 2).
    """

    known: ClassVar[tuple[type, ...]] = (IsolationForest,)
    # The last two are those of some releases.
    by_member: ClassVar[tuple[str, ...]] = (
        "estimators_",
        "estimators_features_",
        "_decision_path_lengths",
        "_average_path_length_per_tree",
    )

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of inliers by a mean score."""
        self.check_learned()
        return self.info_of("mean_score", "scores", np.array([-1, 1]))

    def encode_target(self, y: NDArray[Any]) -> None:
        """Raise InputError for other labels than 1 and -1, which the forest, trained without labels, does not have."""
        if y.ndim == 1 and not set(np.unique(y.astype(str)).tolist()) <= {"1", "-1", "1.0", "-1.0"}:
            shown = shortened(np.unique(y.astype(str)).tolist())
            raise InputError(
                f"y holds {shown}, and an IsolationForest predicts 1 for inliers and -1 for outliers. Pass such "
                "labels: numpy.where(is_outlier, -1, 1)."
            )

    def target_of(self, y: ArrayLike | None, n_rows: int) -> None:
        """Return None: the forest was trained without labels."""
        return None

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError or DataMismatchError unless trees drew some of so many rows."""
        super().check_bags(n_rows)
        if not self.model.bootstrap and self.model.max_samples_ >= n_rows:
            raise BagError(
                f"Every tree of this IsolationForest was trained on all {n_rows} rows, so no row is out of bag. Pass "
                'data="holdout" with rows the model was not trained on, or refit with a smaller max_samples.'
            )

    def prove(self, features: Any, target: None) -> BagProof:
        """Return that rows are proved, and the target too: there is no training target that y could differ from."""
        super().prove(features, target)
        return BagProof()

    def drawn_numbers(self) -> FloatArray | None:
        """Return how many rows each tree drew, repeats included; None where the trees do not show it."""
        return drawn_numbers(self.model)

    def listed_label(self) -> int:
        """Return the position of the label of anomalies."""
        return 0

    def importances(self) -> NDArray[np.float64]:
        """Refuse: the trees split at random."""
        raise UnsupportedModelError(
            "The trees of an IsolationForest split at random, so no column is important to them."
        )

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning, unless it is about a list, that the threshold between labels is the forest's own."""
        if data == "list":
            return ()
        sentence = (
            "The 0-1 error is that of the forest's own threshold (contamination), which was set from the scores of all "
            "its trees. For the order of the scores pass metric='roc_auc'."
        )
        return (finding("own-threshold", sentence),)

    @cached_property
    def _node_scores(self) -> list[NDArray[np.float64]]:
        # predict: an outlier where -2 ** (-mean / expected) is below the offset.
        threshold = -float(_expected_splits(np.array([self.model.max_samples_]))[0]) * np.log2(-self.model.offset_)
        return [_splits(tree.tree_) - threshold for tree in self.model.estimators_]

    def member_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return one tree's scores of inliers."""
        leaves = self.members[member].apply(self.member_rows(member, rows), check_input=False)
        return np.asarray(self._node_scores[member].take(leaves))


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
    # The sum 1 + 1/2 + ... + 1/n is the logarithm of n plus this constant, for large n.
    value = 2.0 * (np.log(large - 1.0) + np.euler_gamma) - 2.0 * (large - 1.0) / large
    return np.where(rows <= 1, 0.0, np.where(rows == 2, 1.0, value))


def find_damage(held: Any) -> str | None:
    """Return the damage that makes a tree, or an estimator that holds trees, unsafe to predict with."""
    # scikit-learn copies the nodes of a tree from a file without a check.
    return _damage_of_tree(held) if _is_tree(held) else _damage_of_estimator(held)


def _is_tree(held: Any) -> bool:
    return type(held).__module__ == "sklearn.tree._tree" and hasattr(type(held), "children_left")


def _damage_of_tree(tree: Any) -> str | None:
    # The arrays below are views of memory for node_count nodes, which is therefore checked first.
    if not 1 <= tree.node_count <= tree.capacity:
        return f"a tree states {counted(tree.node_count, 'node')}, and holds {tree.capacity}"
    links = tree.children_left, tree.children_right, tree.feature
    damage = damage_of_tree(*links, tree.n_features, tree.threshold, tree.value)
    return None if damage is None else f"a tree {damage}"


def _damage_of_estimator(held: Any) -> str | None:
    """Return what is wrong with the number of features of an estimator: trees inside an ensemble do not check it."""
    attributes = getattr(held, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    n_features: Any = attributes.get("n_features_in_")
    tree: Any = attributes.get("tree_")
    if _is_tree(tree) and tree.n_features != n_features:
        return f"a tree of {counted(tree.n_features, 'feature')} is in an estimator of {n_features!r:.40}"
    members = attributes.get("estimators_")
    if n_features is None or members is None or "estimators_features_" in attributes:
        return None
    for member in parts(members):
        inner: Any = getattr(member, "tree_", None)
        if _is_tree(inner) and inner.n_features != n_features:
            return f"a tree of {counted(inner.n_features, 'feature')} is a member of an ensemble of {n_features!r:.40}"
    return None
