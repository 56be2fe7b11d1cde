"""The adapters of imbalanced-learn's BalancedBaggingClassifier and EasyEnsembleClassifier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from imblearn.ensemble import BalancedBaggingClassifier, EasyEnsembleClassifier
from imblearn.under_sampling import RandomUnderSampler
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import BaggingClassifier

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, draw_bags
from ens_plugin.adapters.capabilities import HeldOutOnly, RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.imblearn.samplers import check_sample, sampled_rows
from ens_plugin.adapters.shared.member_parameters import unequal_member_doubts
from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin
from ens_plugin.adapters.sklearn.bagging import SklearnBaggingAdapter
from ens_plugin.adapters.sklearn.data import check_fitted, check_learner, check_row_count, redrawable, training_target
from ens_plugin.adapters.sklearn.growth import BagCounts, check_growth, check_growth_of_all
from ens_plugin.adapters.sklearn.recognition.kept_rows import KnownRows, known_rows
from ens_plugin.adapters.sklearn.trees.outputs import are_recognised, checked_members, growth_is_known
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError

__all__ = ["BalancedBaggingAdapter", "EasyEnsembleAdapter"]

IntArray = NDArray[np.integer[Any]]


class _ResampledMembers(EnsembleAdapter, Truncatable):
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

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        columns = list(map(len, self.model.estimators_features_))
        return unequal_member_doubts(self.model.estimators_, columns=columns)

    def truncated(self, size: int) -> Any:
        """Return an ensemble of copies of the first `size` members."""
        n_seeds = max(size - (self.n_members - len(self.model._seeds)), 0)
        kept = {name: getattr(self.model, name)[:size] for name in ("estimators_", "estimators_features_")}
        return truncated_ensemble(self.model, size, {**kept, "_seeds": self.model._seeds[:n_seeds]})


class BalancedBaggingAdapter(_ResampledMembers, VerifiesRows):
    """Adapter of BalancedBaggingClassifier.

    Rows that a member drew and its RandomUnderSampler left out are out of bag: which rows it keeps depends on the
    labels alone.  Any other sampler chooses or makes rows by the values of all drawn rows, so these are all in bag.

    Examples
    --------
    >>> import numpy as np
    >>> from imblearn.ensemble import BalancedBaggingClassifier
    >>> X, y = np.arange(12.0)[:, None], np.array([0] * 8 + [1] * 4)
    >>> adapter = BalancedBaggingAdapter(BalancedBaggingClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> features = adapter.prepare(X)
    >>> adapter.info.aggregation, adapter.bags(X, features, y).in_bag().shape
    ('mean_proba', (5, 12))
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
                self.bagging.leaves,
                self.model.estimators_features_,
                weights_are_known=True,
            )
        return bags.with_proof(BagProof(rows=self.bagging.grow_as_trees or target is not None, target=is_proved))

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by the growth of trees and the values or rows that members store."""
        members = [(own, self._columns(features, member)) for member, own in enumerate(self.bagging.model.estimators_)]
        if self.bagging.grow_as_trees:
            known = KnownRows(members, [])
        else:
            target = training_target(y, self.classes, features.shape[0])
            assert target is not None
            assert self.classes is not None
            known = known_rows(members, target, np.arange(len(self.classes)), self._bag)
        is_training = (self.bagging.grow_as_trees and self._grew_on(features, y)) or known.are_given()
        return judge_origin(is_training, (), features.shape[0], known.would_show)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that members split, where they are trees."""
        return self.bagging.column_splits(features)

    @cached_property
    def _samples(self) -> list[IntArray]:
        return list(redrawable(self.model).estimators_samples_)

    @property
    def _draws_by_label(self) -> bool:
        return type(self.model.sampler_) is RandomUnderSampler

    def _bag(self, member: int) -> IntArray:
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

    def _grew_on(self, features: Any, y: ArrayLike) -> bool:
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
                '{data="holdout"} with rows the model was not trained on.'
            )
        check_row_count(self.model, n_rows)


class EasyEnsembleAdapter(HeldOutOnly, _ResampledMembers):
    """Adapter of EasyEnsembleClassifier, for held-out rows."""

    known: ClassVar[type] = EasyEnsembleClassifier
    no_bags: ClassVar[str] = (
        "An EasyEnsembleClassifier trains every member on all rows of the rarest label, with a part of the others, so "
        "the rows of that label are never out of bag, and no out-of-bag error holds for it."
    )

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble, whose bags leave out no row of the rarest label."""
        return replace(super().describe(), bag_provenance="unknown")
