"""Adapter of the forests of EconML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from econml.grf import CausalForest, CausalIVForest, RegressionForest
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ens_plugin.adapters.contract import EnsembleInfo, outputs_by_member
from ens_plugin.adapters.library import FitSite, Library, Trainer, fit_methods
from ens_plugin.adapters.members import other_row_count, other_rows, other_target
from ens_plugin.adapters.sklearn.bags import checked_members
from ens_plugin.adapters.sklearn.known_rows import tree_splits
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, are_recognised
from ens_plugin.adapters.trees import RowOrigin, target_ranges
from ens_plugin.core.validation import ROUNDING, AnyIntArray, counted
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.findings import Finding, finding


class RegressionForestAdapter(SeededEnsemble, Library):
    """Adapter of EconML's RegressionForest, with one output.

    With ``inference=True``, the default, the library draws half of the rows for each group of `subforest_size` trees,
    and the trees of a group from that half: they resemble each other more than trees of two groups.  A member is then
    a whole group, so that members are drawn alike and independently; its bag holds the rows of all of its trees, those
    that chose the splits and those that gave the leaves their values.
    """

    known: ClassVar[tuple[type, ...]] = (RegressionForest,)
    distributions: ClassVar[tuple[str, ...]] = ("econml", "scikit-learn")
    library: ClassVar[str] = "econml"
    works_in_fork: ClassVar[bool] = True

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` method of the forest."""
        return fit_methods(RegressionForest)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Raise UnsupportedModelError: members are groups of trees, which `n_estimators` does not count."""
        raise UnsupportedModelError(
            f"This {type(estimator).__name__} cannot be grown: its members are groups of trees that "
            "share half of the rows. Train it with the n_estimators you can afford, and cut it with "
            "ens_plugin.truncate."
        )

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; a member is a group of trees where these share half of the rows."""
        self.check_learned()
        self.check_outputs()
        if len({len(group) for group in self.members}) > 1:
            raise UnsupportedModelError(
                f"The groups of trees of this {type(self.model).__name__} differ in size: trees were added by a warm "
                "start with another subforest_size. Refit all trees in one call of fit."
            )
        return self.info_of("mean", "values")

    def check_outputs(self) -> None:
        """Raise UnsupportedModelError for several outputs."""
        self.refuse_outputs(self.model.n_outputs_)

    @cached_property
    def members(self) -> Sequence[Sequence[int]]:
        """The positions of the trees of each member."""
        if self.model.inference_:
            return [[int(tree) for tree in group] for group in self.model.slices_]
        return [[tree] for tree in range(len(self.model.estimators_))]

    def prepare(self, X: Any) -> NDArray[np.float64]:
        """Return X as float64, the type the trees compare with their thresholds."""
        try:
            # EconML takes no missing values.
            rows = check_array(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X cannot be used ({error}); pass the rows as the model's predict takes them.") from error
        if rows.shape[1] != self.model.n_features_:
            raise DataMismatchError(
                f"X has {counted(rows.shape[1], 'column')}, but the {type(self.model).__name__} was trained on "
                f"{self.model.n_features_}; pass the columns it was trained on, in the same order."
            )
        return np.asarray(rows)

    def member_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return the mean values of the trees of a member."""
        total = np.zeros(rows.shape[0])
        for tree in self.members[member]:
            total += self.model.estimators_[tree].predict(rows)[:, 0]
        return total / len(self.members[member])

    def check_bags(self, n_rows: int) -> None:
        """Raise DataMismatchError for another number of rows than all trees were trained on."""
        trained = int(self.model.n_samples_[0])
        if n_rows != trained or len(set(self.model.n_samples_)) > 1:
            raise other_row_count(self.model, n_rows, str(trained))

    def draw(self, member: int) -> AnyIntArray:
        """Return the rows of all trees of a member."""
        return np.concatenate([self._samples[tree] for tree in self.members[member]])

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, in training order."""
        if features.shape[0] != self.model.n_samples_[0]:
            return "unknown"
        target = self.target_of(y, features.shape[0])
        trees = [self.model.estimators_[self.members[member][0]] for member in checked_members(self.n_members)]
        return "training" if are_recognised(trees, lambda: self.prove(features, target)) else "unknown"

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return features, tree_splits(self.model.estimators_)

    @property
    def learners(self) -> Sequence[Any]:
        """Return the trees."""
        trees: Sequence[Any] = self.model.estimators_
        return trees

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning that members are groups of trees, where they are."""
        n_trees = len(self.members[0])
        if n_trees == 1:
            return ()
        sentence = (
            f"A member is a group of {n_trees} trees, which share half of the rows (inference=True): "
            f"{counted(self.n_members, 'member is', 'members are')} {self.n_members * n_trees} trees, and a size of 1 "
            f"is n_estimators={n_trees}."
        )
        return (finding("grouped-trees", sentence, n_trees=n_trees),)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the trees of the first `size` members."""
        part, n_trees = copy(self.model), sum(map(len, self.members[:size]))
        part.n_estimators, part.estimators_ = n_trees, self.model.estimators_[:n_trees]
        for name in ("slices_", "slices_n_samples_", "slices_n_samples_subsample_"):
            setattr(part, name, getattr(self.model, name)[: size if self.model.inference_ else None])
        for name in ("n_samples_", "n_samples_subsample_"):
            setattr(part, name, getattr(self.model, name)[:n_trees])
        return deepcopy(part)

    @cached_property
    def _samples(self) -> Sequence[NDArray[np.int64]]:
        return [np.asarray(rows) for rows in self.model.get_subsample_inds()]

    def check_member(self, member: int, features: NDArray[np.float64], target: NDArray[Any] | None) -> bool:
        """Raise DataMismatchError unless a member's first tree can have been trained; return whether y is proved."""
        tree = self.members[member][0]
        grown, drawn = self.model.estimators_[tree], self._samples[tree]
        for_splits, for_values = (drawn[part] for part in grown.get_train_test_split_inds())
        leaves, nodes = grown.apply(features), grown.tree_
        is_leaf = nodes.children_left == -1
        counts = [np.bincount(leaves[rows], minlength=nodes.node_count) for rows in (for_splits, for_values)]
        stored = (nodes.n_node_samples_train, nodes.n_node_samples)
        other = sum(int(np.count_nonzero((a != b)[is_leaf])) for a, b in zip(counts, stored, strict=True))
        if other:
            raise other_rows(f"{other} counts of rows in the leaves of tree {tree} differ from those of the training")
        return target is not None and self._check_values(tree, leaves[for_values], target[for_values])

    def _check_values(self, tree: int, leaves: NDArray[np.int64], target: NDArray[np.float64]) -> bool:
        """Raise DataMismatchError where y cannot give the values of leaves, whatever the weights of the fit."""
        nodes = self.model.estimators_[tree].tree_
        value, reached = np.asarray(nodes.value).reshape(nodes.node_count, -1)[:, 0], np.unique(leaves)
        ranges = target_ranges(leaves, target, nodes.node_count)
        slack = ROUNDING * max(float(np.abs(target).max()), 1e-300)
        outside = ((value < ranges["lowest"] - slack) | (value > ranges["highest"] + slack))[reached]
        if outside.any():
            raise other_target(outside, tree)
        mean = np.bincount(leaves, target, nodes.node_count)[reached] / np.bincount(leaves)[reached]
        return bool((np.abs(mean - value[reached]) <= slack).all())


class CausalForestAdapter(RegressionForestAdapter):
    """Adapter of EconML's forests of effects, for lists of rows and values alone.

    The forest predicts theta = J^-1 A, where J and A are means over trees, so that no mean over members is predicted.
    The output of a member m is the effect in theta + J^-1 (A_m - J_m theta), which is linear in A_m and J_m: its mean
    over members is theta, and its covariance is that of one member to first order.
    """

    known: ClassVar[tuple[type, ...]] = (CausalForest, CausalIVForest)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Raise UnsupportedModelError: no error tells when a forest of effects is large enough."""
        raise _lists_alone(estimator)

    def check_outputs(self) -> None:
        """Raise UnsupportedModelError for several treatments; of several outcomes EconML trains no forest."""
        if self.model.n_relevant_outputs_ > 1:
            raise UnsupportedModelError(
                f"This {type(self.model).__name__} estimates the effects of {self.model.n_relevant_outputs_} "
                "treatments, and a list is of one. Train a forest for each treatment."
            )

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the pseudo-values of members, whose mean over all members is the effect that the forest predicts."""
        alpha, jacobian = self.model.predict_alpha_and_jac(features, parallel=False)
        inverse = np.linalg.pinv(jacobian)
        theta = np.einsum("rij,rj->ri", inverse, alpha)

        def pseudo_values(member: int, rows: Any) -> NDArray[np.float64]:
            alpha, jacobian = self.model.predict_alpha_and_jac(rows, slice=self.members[member], parallel=False)
            apart = alpha - np.einsum("rij,rj->ri", jacobian, theta)
            return np.asarray(theta[:, 0] + np.einsum("rj,rj->r", inverse[:, 0], apart))

        return outputs_by_member(pseudo_values, members or range(self.n_members), features)

    def _refuse(self, *given: Any, **named: Any) -> NoReturn:
        """Raise UnsupportedModelError: there is no target, and members are known by the whole forest alone."""
        raise _lists_alone(self.model)

    check_form = bags = truncated = importances = draw_counts = _refuse


def _lists_alone(forest: Any) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"This {type(forest).__name__} estimates effects. No effect is observed, so that no error is known, and "
        "each is a ratio of means over all trees, so that a part of the trees is not judged alone. Pass it to "
        "ens_plugin.agreement(top=...) for the rows with the largest effects, or to ens_plugin.agreement(within=...) "
        "for how close the effects are: both tell the size that is enough."
    )
