"""Adapters of the forests and bagging ensembles of imbalanced-learn."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from imblearn.ensemble import BalancedBaggingClassifier, BalancedRandomForestClassifier
from imblearn.pipeline import Pipeline
from imblearn.under_sampling import RandomUnderSampler
from numpy.typing import NDArray
from sklearn.base import clone

from ens_plugin.adapters.contract import EnsembleInfo
from ens_plugin.adapters.library import FitSite, Library, Trainer, fit_methods, retrain_members
from ens_plugin.adapters.members import other_row_count
from ens_plugin.adapters.sklearn.bagging import BaggedMembers
from ens_plugin.adapters.sklearn.bags import prove_members
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, growth_is_known
from ens_plugin.adapters.sklearn.training import RELEASE
from ens_plugin.core.bags import BagProof
from ens_plugin.core.validation import AnyIntArray
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError

# From this release on, weights decide which rows a bootstrap draws, and a fraction of rows is rounded down.
DRAWS_BY_WEIGHT = RELEASE >= (1, 9)


def sampled_rows(model: object, sampler: Any, n_rows: int) -> AnyIntArray:
    """Return the positions of the rows that a fitted sampler kept, in its order, repeated or not."""
    kept = np.asarray(sampler.sample_indices_)
    if kept.size and kept.max() >= n_rows:
        raise other_row_count(model, n_rows, f"at least {kept.max() + 1}")
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


class Imblearn(Library):
    """Training of imbalanced-learn's ensembles."""

    library: ClassVar[str] = "imblearn"
    works_in_fork: ClassVar[bool] = True
    known: ClassVar[tuple[type, ...]]

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles, and of pipelines."""
        return fit_methods(*cls.known, Pipeline)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members


class BalancedBaggingAdapter(BaggedMembers, Imblearn):
    """Adapter of BalancedBaggingClassifier.

    Rows that a member drew and its RandomUnderSampler left out are out of bag: which rows it keeps depends on the
    labels alone.  Any other sampler chooses or makes rows by the values of all drawn rows, so these are all in bag.
    """

    known: ClassVar[tuple[type, ...]] = (BalancedBaggingClassifier,)
    distributions: ClassVar[tuple[str, ...]] = ("imbalanced-learn", "scikit-learn")

    @cached_property
    def ensemble(self) -> Any:
        """The ensemble with the classifiers alone as members: predictions skip their samplers."""
        plain = copy(self.model)
        plain.estimators_ = [member[-1] for member in self.model.estimators_]
        return plain

    @property
    def learners(self) -> Sequence[Any]:
        """Return the pipelines, whose samplers have parameters too."""
        pipelines: Sequence[Any] = self.model.estimators_
        return pipelines

    @property
    def _draws_by_label(self) -> bool:
        return type(self.model.sampler_) is RandomUnderSampler

    def grown_on(self, member: int, n_rows: int) -> tuple[AnyIntArray, AnyIntArray]:
        """Return the rows of a bag, which a tree got one by one, repeated or not."""
        rows = self.draw(member)
        return rows, np.arange(rows.size)

    def draw(self, member: int) -> AnyIntArray:
        """Return the rows that are in a member's bag."""
        drawn = super().draw(member)
        return drawn[sampled_rows(self.model, self._sampler(member), drawn.size)] if self._draws_by_label else drawn

    def prove(self, features: Any, target: NDArray[Any] | None) -> BagProof:
        """Return what some members' samplers and trees prove of the rows and labels."""
        # Drawn rows of other labels would have been drawn otherwise, but rows may be in another order within labels.
        is_proved = self._draws_by_label and prove_members(
            lambda own: self.check_member(own, features, target), self.n_members
        )
        return BagProof(rows=self.trees is not None or target is not None, target=is_proved)

    def check_member(self, member: int, features: Any, target: NDArray[Any] | None) -> bool:
        """Raise DataMismatchError unless a member can have been trained; return whether its tree proves y."""
        is_proved = False
        if self.trees is not None and growth_is_known(features, self.model):
            is_proved = super().check_member(member, features, target)
        if target is not None:
            check_sample(self._sampler(member), target[super().draw(member)], member)
        return is_proved

    def _sampler(self, member: int) -> Any:
        return self.model.estimators_[member][0]


class BalancedForestAdapter(SeededEnsemble, Imblearn):
    """Adapter of BalancedRandomForestClassifier, with one output.

    A row is in a tree's bag if the tree's sampler kept it and, with ``bootstrap=True``, the bootstrap then drew at
    least one of the copies that the sampler made of it.  The library's own ``oob_score_`` counts a copy that was not
    drawn as out of bag although another copy of the same row was drawn, so it is not used.
    """

    known: ClassVar[tuple[type, ...]] = (BalancedRandomForestClassifier,)
    distributions: ClassVar[tuple[str, ...]] = ("imbalanced-learn", "scikit-learn")
    by_member: ClassVar[tuple[str, ...]] = ("estimators_", "samplers_", "pipelines_")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees output labels where every leaf is pure."""
        self.check_learned()
        model = self.model
        if any(tree.tree_.value.shape[2] != len(model.classes_) for tree in model.estimators_):
            raise UnsupportedModelError(
                f"Some trees of this {type(model).__name__} were trained without rows of some label. Refit with a "
                "sampling_strategy that keeps rows of every label."
            )
        return self.info_of("mean_proba", "probabilities" if self._labels is None else "labels", model.classes_)

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return the label codes or probabilities of one tree."""
        return self.leaf_outputs(member, rows)

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError where weights decided about the rows of a bootstrap."""
        if self.model.bootstrap and DRAWS_BY_WEIGHT and self.model.class_weight not in (None, "balanced_subsample"):
            raise BagError(
                f"This {type(self.model).__name__} has class_weight and bootstrap=True: scikit-learn 1.9 and later "
                "draw bootstrap samples by the weights, which imbalanced-learn does not keep. "
                'Pass data="holdout" with rows the model was not trained on, or refit without class_weight.'
            )
        for sampler in self.model.samplers_:
            sampled_rows(self.model, sampler, n_rows)
        # The library does not keep how many rows it was trained on.
        self._n_rows = n_rows

    def has_trained_on(self, n_rows: int) -> bool:
        """Return True: the number of rows is not kept."""
        return True

    def draw(self, member: int) -> AnyIntArray:
        """Return the training rows that a tree was grown on, of as many as :meth:`check_bags` was called with."""
        kept, drawn = self.grown_on(member, self._n_rows)
        return kept[drawn]

    @property
    def are_weights_known(self) -> bool:
        """Whether rows count alike inside a tree: without a bootstrap, the weights of a fit act there."""
        return DRAWS_BY_WEIGHT and bool(self.model.bootstrap)

    def check_member(self, member: int, features: Any, target: NDArray[Any] | None) -> bool:
        """Raise DataMismatchError unless a tree and its sampler can have been trained on these rows and labels."""
        is_proved = super().check_member(member, features, target)
        if target is not None:
            check_sample(self.model.samplers_[member], target, member)
        return is_proved

    def grown_on(self, member: int, n_rows: int) -> tuple[AnyIntArray, AnyIntArray]:
        """Return the rows that a tree's sampler kept, and which of these the tree was grown on."""
        kept = sampled_rows(self.model, self.model.samplers_[member], n_rows)
        if not self.model.bootstrap:
            return kept, np.arange(kept.size)
        # The public estimators_samples_ of a forest that is trained on the kept rows draws again from a tree's seed.
        forest = copy(self.model)
        forest.estimators_ = [self.model.estimators_[member]]
        forest._n_samples, forest._sample_weight = kept.size, None
        forest._n_samples_bootstrap = min(self._n_draws(n_rows), kept.size)
        return kept, np.asarray(forest.estimators_samples_[0])

    def _n_draws(self, n_rows: int) -> int:
        wanted = self.model.max_samples
        if wanted is None or isinstance(wanted, Integral):
            return n_rows if wanted is None else int(wanted)
        return max(int(wanted * n_rows) if DRAWS_BY_WEIGHT else round(wanted * n_rows), 1)
