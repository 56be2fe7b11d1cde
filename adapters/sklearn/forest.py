"""The adapter of scikit-learn's random forests and extremely randomised trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial
from numbers import Integral
from threading import local
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

# sklearn.ensemble has other classes under these names once scikit-learn-intelex has patched it.
from sklearn.ensemble._forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, OutputKind, outputs_by_member
from ens_plugin.adapters.capabilities import CountsDraws, Distributable, RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.shared.distributed_bags import DistributedBags, refuse_other_candidates
from ens_plugin.adapters.shared.foreign_calls import call_model, checked_numbers
from ens_plugin.adapters.shared.member_parameters import bag_doubts, unequal_member_doubts
from ens_plugin.adapters.shared.refusals import several_outputs
from ens_plugin.adapters.sklearn import recognition
from ens_plugin.adapters.sklearn.data import (
    DISTRIBUTIONS,
    TRAINING,
    check_fitted,
    check_learner,
    check_row_count,
    drawing_weight,
    draws_by_weight,
    known_class,
    left_out_chances,
    prepare_rows,
    redrawable,
    training_target,
)
from ens_plugin.adapters.sklearn.drawn_numbers import drawn_numbers, refuse_other_numbers
from ens_plugin.adapters.sklearn.growth import BagCounts, check_growth, check_growth_of_all, leaf_counts
from ens_plugin.adapters.sklearn.predictions import check_predictions, probe_rows, refuse_other_part
from ens_plugin.adapters.sklearn.row_bags import RecordedBags
from ens_plugin.adapters.sklearn.seeded_bags import seeded_bags
from ens_plugin.adapters.sklearn.trees.fingerprint import root_bytes
from ens_plugin.adapters.sklearn.trees.outputs import (
    are_plain_trees,
    are_recognised,
    checked_members,
    grow_as_trees,
    growth_is_known,
    held_outputs,
    leaf_outputs,
    outputs_by_tree,
    pure_labels,
    reached_labels,
    tree_splits,
    voted_labels,
)
from ens_plugin.adapters.sklearn.trees.tree_walk import TreeWalk
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.adapters.unwrap.outputs import JOINT_WEIGHTS
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import BagError, UnsupportedModelError

if TYPE_CHECKING:
    from ens_plugin.adapters.shared.draws import DrawCounts

__all__ = ["SklearnForestAdapter"]

_OF_THREAD = local()
# From this release on, forests draw rows by their weights.
DRAWS_BY_WEIGHT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)
# Returns the rows that a tree drew.
Draw = Callable[[int], NDArray[np.integer[Any]]]

_FORESTS = (RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor, ExtraTreesRegressor)


class SklearnForestAdapter(EnsembleAdapter, VerifiesRows, CountsDraws, Distributable, Truncatable):
    """Adapter of scikit-learn's RandomForest* and ExtraTrees*, with one output.

    Members output their leaf's label where every leaf is pure, else its probabilities;
    either way the mean is scikit-learn's own ``oob_decision_function_``, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X, y = np.arange(8.0)[:, None], np.arange(8.0)
    >>> adapter = SklearnForestAdapter(RandomForestRegressor(n_estimators=5, random_state=0).fit(X, y))
    >>> features = adapter.prepare(X)
    >>> adapter.outputs(features).shape, adapter.bags(X, features, y).in_bag().shape
    ((5, 8), (5, 8))
    """

    known: ClassVar[tuple[type, ...]] = _FORESTS

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomForest* or an ExtraTrees*, or of a subclass."""
        return known_class(model, cls.known) is not None

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees output labels where every leaf is pure."""
        model = self.model
        check_fitted(model)
        check_learner(model, self.known, TRAINING)
        if model.n_outputs_ > 1:
            raise UnsupportedModelError(several_outputs(type(model).__name__, model.n_outputs_))
        is_classifier = isinstance(model, ClassifierMixin)
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=model.classes_ if is_classifier else None,
            n_members=len(model.estimators_),
            aggregation="mean_proba" if is_classifier else "mean",
            output_kind=self._tree_output_kind() if is_classifier else "values",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=DISTRIBUTIONS,
        )

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        rows = prepare_rows(self.model, X, np.float32)
        if self._are_plain:
            self._walk.compare(rows)
        return rows

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the forest predicts the mean of its trees."""
        check_predictions(self, features, self.known)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the trees for the prepared rows."""
        if not self._are_plain:
            return outputs_by_member(self._own_outputs, members or range(self.n_members), features, wanted)
        walked = self._walk.outputs(features, members, wanted)
        if walked is not None:
            return walked
        if members is None:
            return outputs_by_tree(self.model.estimators_, self._tree_outputs, features, wanted)
        chosen = slice(members.start, members.stop)
        trees = self.model.estimators_[chosen]
        if self._labels is not None:
            return voted_labels(trees, self._labels[chosen], features)
        outputs = held_outputs(trees, features)
        return outputs if self.output_kind == "probabilities" else outputs[:, :, 0]

    @cached_property
    def _are_plain(self) -> bool:
        return are_plain_trees(self.model.estimators_)

    @cached_property
    def _grow_as_trees(self) -> bool:
        return grow_as_trees(self.model.estimators_)

    def _own_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return what a member of an unknown class predicts, called as the forest calls it."""
        own, shape = self.model.estimators_[member], (rows.shape[0],)
        if self.classes is None:
            return checked_numbers(call_model(partial(own.predict, check_input=False), rows, member), shape, member)
        found = call_model(partial(own.predict_proba, check_input=False), rows, member)
        return checked_numbers(found, (*shape, len(self.classes)), member)

    def _tree_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        tree = self.model.estimators_[member]
        if self._labels is not None:
            return reached_labels(tree, self._labels[member], rows)
        outputs = leaf_outputs(tree, rows)
        return outputs if self.output_kind == "probabilities" else outputs[:, 0]

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the trees' seeds, after checking all trees, three of them by all leaves."""
        self._check_bootstrap()
        self._check_trees()
        check_row_count(self.model, features.shape[0])
        target = training_target(y, self.classes, features.shape[0])
        # The rows of the trees that are checked are drawn once, and those of no others are kept.
        draw = lru_cache(len(checked_members(self.n_members)))(self._draw)
        refuse_other_numbers(self.model, self._drawn_numbers(), len(draw(0)))
        if not growth_is_known(features, self.model):
            return self._draw_all(features.shape[0], draw).with_proof(BagProof(target=False))
        proof = BagProof(target=self._check_rows(features, target, draw))
        bags = self._draw_all(features.shape[0], draw)
        check_growth_of_all(
            self.model.estimators_,
            features,
            BagCounts(bags),
            target,
            self._walk.leaves,
            weights_are_known=draws_by_weight(self.model),
        )
        return bags.with_proof(proof)

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each tree drew each row, redrawn from the trees' seeds after the checks of :meth:`bags`."""
        from ens_plugin.adapters.shared.draws import counts_of_rows

        self.bags(X, features, y)
        weight = drawing_weight(self.model)
        drawn = map(self._draw, range(self.n_members))
        return counts_of_rows(drawn, self.n_members, features.shape[0], "with_replacement", weight)

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are redrawn from the trees' seeds, for some rows at a time by position."""
        refuse_other_candidates(candidate)
        self._check_bootstrap()
        self._check_trees()
        check_row_count(self.model, n_rows)
        trees, draw_all = self.model.estimators_, partial(self._draw_all, n_rows, self._draw)
        return RecordedBags(self.model, self._draw, draw_all, n_rows, trees, lambda _, rows: rows, BagProof())

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each row's chance to be out of a bag, where scikit-learn 1.9 or later drew by weight, else None."""
        return left_out_chances(self.model, getattr(self.model, "_n_samples_bootstrap", None))

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added trees with other parameters, numbers of rows, or weights."""
        trees = self.model.estimators_
        if not self._grow_as_trees:
            return unequal_member_doubts(trees)
        return unequal_member_doubts(trees, rows=self._drawn_numbers()) or bag_doubts(_bag_means(trees))

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by the growth of three trees and the errors and leaves of all."""
        from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin

        target = training_target(y, self.classes, features.shape[0])
        assert target is not None
        if not self._grow_as_trees:
            return "unknown"
        trees = self.model.estimators_
        return judge_origin(
            self._grew_on(features, target)
            or recognition.are_shuffled_rows(self, features, target, self._draw, self.model._n_samples)
            or recognition.hold_node_values([(tree, features) for tree in trees]),
            (leaf_counts(tree, features, target) for tree in (trees if growth_is_known(features, self.model) else [])),
            target.size,
            lambda: recognition.show_node_values([(tree, features) for tree in trees]),
        )

    def fingerprint(self) -> tuple[bytes, ...]:
        """Return the roots of three trees."""
        return root_bytes(self.model.estimators_)

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.model.estimators_) if self._grow_as_trees else iter(())

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether trees are wrong on out-of-bag rows only, which shows that the rows are training rows."""
        return recognition.are_outputs_of_known_rows(self, outputs, target, self._draw, self.model._n_samples)

    def stored_oob_outputs(self) -> NDArray[np.float64] | None:
        """Return the mean out-of-bag outputs the forest stored when fitted with ``oob_score``, or None.

        Returns
        -------
        ndarray of shape (n_rows, n_labels) or (n_rows,), or None
        """
        # A refit without oob_score keeps the outputs of the earlier fit.
        if not self.model.oob_score:
            return None
        return getattr(self.model, "oob_prediction_" if self.classes is None else "oob_decision_function_", None)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees, which predicts their mean."""
        rows = probe_rows(self.model.n_features_in_, dict(self.column_splits(None)[1]))
        self.check_members(rows)
        part = truncated_ensemble(self.model, size, {"estimators_": self.model.estimators_[:size]})
        refuse_other_part(self, lambda: type(self)(part).check_members(rows), size)
        return part

    @cached_property
    def _walk(self) -> TreeWalk:
        return TreeWalk(self.model.estimators_, self.model.n_features_in_, self._labels)

    def _tree_output_kind(self) -> OutputKind:
        return "probabilities" if self._labels is None else "labels"

    @cached_property
    def _labels(self) -> list[NDArray[np.unsignedinteger[Any]]] | None:
        """Return the label code of every node of each tree; None where a leaf is mixed, and for regression."""
        model = self.model
        if not isinstance(model, ClassifierMixin) or not self._are_plain:
            return None
        return pure_labels(model.estimators_, len(model.classes_))

    def _drawn_numbers(self) -> NDArray[np.float64] | None:
        # Weights of several outputs are products, which do not add up to the number of rows.
        has_products = getattr(self.model.estimators_[0], JOINT_WEIGHTS, False)
        return None if has_products or not self.model.bootstrap else drawn_numbers(self.model)

    def _check_bootstrap(self) -> None:
        if not self.model.bootstrap:
            raise BagError(
                f"This {type(self.model).__name__} was trained without bootstrap, each tree on every row, so no "
                'row is out of bag. Pass {data="holdout"} with rows the model was not trained on, or refit with '
                "bootstrap=True."
            )

    def _check_trees(self) -> None:
        if not self._grow_as_trees:
            # Of a damaged model, a member that cannot predict at all is the finding.
            predicting = "predict" if self.classes is None else "predict_proba"
            names = sorted({type(tree).__name__ for tree in self.model.estimators_ if getattr(tree, predicting)})
            raise BagError(
                f"The members of this {type(self.model).__name__} are of the class {', '.join(names)}, which is no "
                "tree of scikit-learn or replaces how it is trained, so it cannot be proved which rows they were "
                "trained on. "
                'Pass {data="holdout"} with rows the model was not trained on.'
            )

    def _grew_on(self, features: Any, target: NDArray[Any]) -> bool:
        if features.shape[0] != self.model._n_samples or not growth_is_known(features, self.model):
            return False
        trees = [self.model.estimators_[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self._check_rows(features, target, self._draw))

    def _check_rows(self, features: Any, target: NDArray[Any] | None, draw: Draw) -> bool:
        return all(
            [
                check_growth(
                    self.model.estimators_[member],
                    features,
                    draw(member),
                    target,
                    member,
                    weights_are_known=draws_by_weight(self.model),
                    find_leaves=self._walk.leaves_of(member, features),
                )
                for member in checked_members(self.n_members)
            ]
        )

    def _draw_all(self, n_rows: int, draw: Draw) -> Bags:
        seeds = [tree.random_state for tree in self.model.estimators_]
        return seeded_bags(draw, seeds, n_rows, checked_members(self.n_members))

    def _draw(self, member: int) -> NDArray[np.integer[Any]]:
        """Return the rows that one tree drew; for all trees at once they would take 4 bytes per row and tree."""
        one_tree, tree = copy(redrawable(self.model)), copy(self.model.estimators_[member])
        if isinstance(tree.random_state, Integral):
            tree.random_state = _seeded(int(tree.random_state))
        weight = one_tree._sample_weight
        if weight is not None and not DRAWS_BY_WEIGHT:
            # As the later release that trained the forest draws.
            share = weight / np.sum(weight)
            return np.asarray(tree.random_state.choice(weight.size, one_tree._n_samples_bootstrap, p=share))
        one_tree.estimators_ = [tree]
        return np.asarray(one_tree.estimators_samples_[0])


def _seeded(seed: int) -> np.random.RandomState:
    """Return this thread's generator, set to the state of a new one with the seed: fifty times as fast as a new one."""
    if not hasattr(_OF_THREAD, "generator"):
        _OF_THREAD.generator = np.random.RandomState()
    generator: np.random.RandomState = _OF_THREAD.generator
    generator.seed(seed)
    return generator


def _bag_means(trees: Sequence[Any]) -> FloatArray:
    """Return what the root of each tree holds: the shares of the labels in its bag, or the mean or median target."""
    return np.array([tree.tree_.value[0].ravel() for tree in trees], dtype=np.float64)
