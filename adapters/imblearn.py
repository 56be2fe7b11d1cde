"""Adapters of the forests and bagging ensembles of imbalanced-learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import sklearn
from imblearn.ensemble import BalancedBaggingClassifier, BalancedRandomForestClassifier, EasyEnsembleClassifier
from imblearn.under_sampling import RandomUnderSampler
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, draw_bags, outputs_by_member
from ens_plugin.adapters.members import unequal_member_doubts
from ens_plugin.adapters.sklearn.bagging import SklearnBaggingAdapter
from ens_plugin.adapters.sklearn.bags import BagCounts, check_growth, check_growth_of_all
from ens_plugin.adapters.sklearn.forest import (
    are_recognised,
    checked_members,
    growth_is_known,
    leaf_outputs,
    pure_labels,
    reached_labels,
    tree_splits,
    truncated_ensemble,
)
from ens_plugin.adapters.sklearn.kept_rows import KnownRows, known_rows
from ens_plugin.adapters.sklearn.known_rows import hold_node_values, show_node_values
from ens_plugin.adapters.sklearn.training import (
    check_fitted,
    check_learner,
    check_row_count,
    prepare_rows,
    redrawable,
    training_target,
)
from ens_plugin.adapters.trees import RowOrigin, judge_origin
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.validation import AnyIntArray, counted
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from ens_plugin.findings import Finding


def sampled_rows(sampler: Any, n_rows: int) -> AnyIntArray:
    """Return the positions of the rows that a fitted sampler kept, in its order, repeated or not."""
    kept = np.asarray(sampler.sample_indices_)
    if kept.size and kept.max() >= n_rows:
        raise DataMismatchError(
            f"X has {counted(n_rows, 'row')}, but the model was trained on at least {kept.max() + 1}. Pass the exact "
            'training rows in training order, or data="holdout" for rows the model was not trained on.'
        )
    return kept


def check_sample(sampler: Any, codes: NDArray[Any], member: int) -> None:
    """Raise DataMismatchError unless a random sampler draws from these labels, by its seed, the rows that it kept."""
    again = clone(sampler)
    try:
        again.fit_resample(np.arange(codes.size)[:, None], codes)
        is_same = np.array_equal(again.sample_indices_, sampler.sample_indices_)
    except ValueError:  # fewer rows of a label than were drawn, for example
        is_same = False
    if not is_same:
        raise DataMismatchError(
            f"y is not the target the model was trained on: from these {codes.size} labels, the sampler of member "
            f"{member} draws other rows than at training. X and y must be the exact training rows in training order; "
            'for rows the model was not trained on pass data="holdout".'
        )


class _ResampledMembers(EnsembleAdapter):
    """Adapter of a bagging ensemble whose members are pipelines of a sampler and a classifier."""

    known: ClassVar[type]

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is of the class that this adapter reads, or of a subclass."""
        return isinstance(model, cls.known)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble; members that have no ``predict_proba`` vote."""
        check_fitted(self.model)
        check_learner(self.model, (self.known,))
        return replace(self.bagging.info, distributions=("imbalanced-learn", "scikit-learn"))

    @cached_property
    def bagging(self) -> SklearnBaggingAdapter:
        """The adapter of the same classifiers without their samplers, which predictions skip."""
        plain = BaggingClassifier()
        vars(plain).update(vars(self.model))
        plain.estimators_ = [member[-1] for member in self.model.estimators_]
        return SklearnBaggingAdapter(plain)

    def prepare(self, X: Any) -> Any:
        """Return X as an array or CSR matrix; float32 where every member is a tree."""
        return self.bagging.prepare(X)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes or probabilities of the members for the prepared rows."""
        return self.bagging.outputs(features, members, wanted)

    def mean_of_sum(self, total: NDArray[np.float64], n_members: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return mean probabilities divided by their sum, as scikit-learn does out of bag."""
        return self.bagging.mean_of_sum(total, n_members)

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        columns = list(map(len, self.model.estimators_features_))
        return unequal_member_doubts(self.model.estimators_, columns=columns)

    def truncated(self, size: int) -> Any:
        """Return an ensemble of copies of the first `size` members."""
        # The public estimators_samples_ of the copy draws the rows of its members from _seeds, and has no setter.
        n_seeds = max(size - (self.n_members - len(self.model._seeds)), 0)
        kept = {name: getattr(self.model, name)[:size] for name in ("estimators_", "estimators_features_")}
        return truncated_ensemble(self.model, size, {**kept, "_seeds": self.model._seeds[:n_seeds]})


class BalancedBaggingAdapter(_ResampledMembers):
    """Adapter of BalancedBaggingClassifier.

    Rows that a member drew and its RandomUnderSampler left out are out of bag: which rows it keeps depends on the
    labels alone.  Any other sampler chooses or makes rows by the values of all drawn rows, so these are all in bag.
    """

    known: ClassVar[type] = BalancedBaggingClassifier

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, from the stored seeds and the rows that the samplers kept, after checking three members."""
        self._check_recorded(features.shape[0])
        target = training_target(y, self.classes, features.shape[0])
        is_proved = self._check_rows(features, target)
        bags = draw_bags(self._bag, self.n_members, features.shape[0])
        if self._draws_by_label and self.bagging.grow_as_trees and growth_is_known(features, self.model):
            check_growth_of_all(
                self.bagging.model.estimators_,
                features.astype(np.float32, copy=False),
                BagCounts(bags, self._bag),
                target,
                self.model.estimators_features_,
                weights_are_known=True,
            )
        return bags.with_proof(BagProof(rows=self.bagging.grow_as_trees or target is not None, target=is_proved))

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth of trees and the values or rows that members store."""
        members = [(own, self._columns(features, member)) for member, own in enumerate(self.bagging.model.estimators_)]
        if self.bagging.grow_as_trees:
            known = KnownRows(members, [])
        else:
            target = training_target(y, self.classes, features.shape[0])
            assert self.classes is not None
            known = known_rows(members, target, np.arange(len(self.classes)), self._bag)
        is_training = (self.bagging.grow_as_trees and self._grew_on(features, y)) or known.are_given()
        return judge_origin(is_training, (), features.shape[0], known.would_show)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that members split, where they are trees."""
        return self.bagging.column_splits(features)

    @cached_property
    def _samples(self) -> list[AnyIntArray]:
        return list(redrawable(self.model).estimators_samples_)

    @property
    def _draws_by_label(self) -> bool:
        return type(self.model.sampler_) is RandomUnderSampler

    def _bag(self, member: int) -> AnyIntArray:
        """Return the rows that are in a member's bag."""
        drawn = self._samples[member]
        return drawn[sampled_rows(self._sampler(member), drawn.size)] if self._draws_by_label else drawn

    def _sampler(self, member: int) -> Any:
        return self.model.estimators_[member][0]

    def _columns(self, features: Any, member: int) -> Any:
        """Return rows as a member takes them: with its columns, and as trees take them for a tree."""
        columns = self.model.estimators_features_[member]
        rows = features if np.array_equal(columns, np.arange(features.shape[1])) else features[:, columns]
        return rows.astype(np.float32, copy=False) if self.bagging.grow_as_trees else rows

    def _check_rows(self, features: Any, target: NDArray[Any] | None) -> bool:
        """Raise DataMismatchError unless three members can have been trained on these rows and labels."""
        if not self._draws_by_label:
            return False
        members = checked_members(self.n_members)
        are_grown = (
            [self._check_tree(features, target, member) for member in members] if self.bagging.grow_as_trees else []
        )
        if target is None:
            return False
        for member in members:
            check_sample(self._sampler(member), target[self._samples[member]], member)
        # Drawn rows of other labels would have been drawn otherwise, but rows may be in another order within labels.
        return bool(are_grown) and all(are_grown) and growth_is_known(features)

    def _check_tree(self, features: Any, target: NDArray[Any] | None, member: int) -> bool:
        rows, tree = self._bag(member), self.bagging.model.estimators_[member]
        # A bag without rows of a label gives a tree without it.
        codes = None if target is None else np.searchsorted(tree.classes_, target[rows])
        return check_growth(tree, self._columns(features[rows], member), np.arange(rows.size), codes, member)

    def _grew_on(self, features: Any, y: ArrayLike | None) -> bool:
        if features.shape[0] != self.model._n_samples or not growth_is_known(features) or not self._draws_by_label:
            return False
        target = training_target(y, self.classes, features.shape[0])
        trees = [self.bagging.model.estimators_[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self._check_rows(features, target))

    def _check_recorded(self, n_rows: int) -> None:
        name, recorded = type(self.model).__name__, len(self.model._seeds)
        if recorded != self.n_members:
            raise BagError(
                f"This {name} has {counted(self.n_members, 'member')}, but only the seeds of the last {recorded} were "
                "kept, because members were added with warm_start. Refit all members in one call of fit, or pass "
                'data="holdout" with rows the model was not trained on.'
            )
        check_row_count(self.model, n_rows)


class EasyEnsembleAdapter(_ResampledMembers):
    """Adapter of EasyEnsembleClassifier, for held-out rows."""

    known: ClassVar[type] = EasyEnsembleClassifier

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble, whose bags leave out no row of the rarest label."""
        return replace(super().describe(), bag_provenance="unknown")

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError: rows of the rarest label are in every bag."""
        raise BagError(
            "An EasyEnsembleClassifier trains every member on all rows of the rarest label, with a part of the others, "
            "so the rows of that label are never out of bag, and no out-of-bag error holds for it. Pass "
            'data="holdout" with rows no member was trained on.'
        )


# From this release on, weights decide which rows a bootstrap draws, and a fraction of rows is rounded down.
_DRAWS_BY_WEIGHT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


class BalancedForestAdapter(EnsembleAdapter):
    """Adapter of BalancedRandomForestClassifier, with one output.

    A row is in a tree's bag if the tree's sampler kept it and, with ``bootstrap=True``, the bootstrap then drew at
    least one of the copies that the sampler made of it.  The library's own ``oob_score_`` counts a copy that was not
    drawn as out of bag although another copy of the same row was drawn, so it is not used.
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
                weights_are_known=_DRAWS_BY_WEIGHT and self.model.bootstrap,
            )
        return bags.with_proof(proof)

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth of three trees and the values that trees split at."""
        target = training_target(y, self.classes, features.shape[0])
        trees = [(tree, features) for tree in self.model.estimators_]
        is_training = self._grew_on(features, target) or hold_node_values(trees)
        return judge_origin(is_training, (), features.shape[0], lambda: show_node_values(trees))

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.model.estimators_)

    def doubts(self) -> tuple[Finding, ...]:
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
                'Pass data="holdout" with rows the model was not trained on, or refit without class_weight.'
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

    def _drawn(self, member: int, n_rows: int) -> AnyIntArray:
        """Return the training rows that a tree was grown on."""
        kept = sampled_rows(self.model.samplers_[member], n_rows)
        return kept[self._positions(member, n_rows, kept.size)]

    def _counted(self, member: int, n_rows: int) -> AnyIntArray:
        """Return the training rows that a tree was grown on, each as often as the sampler's copies of it were drawn."""
        kept = sampled_rows(self.model.samplers_[member], n_rows)
        return kept[np.unique(self._positions(member, n_rows, kept.size))]

    def _positions(self, member: int, n_rows: int, n_kept: int) -> AnyIntArray:
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
