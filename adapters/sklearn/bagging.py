"""The adapter of scikit-learn's bagging meta-estimators, over any base estimator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import BaggingClassifier, BaggingRegressor

from ens_plugin.adapters.contract import (
    Aggregation,
    DistributedBags,
    EnsembleAdapter,
    EnsembleInfo,
    OutputKind,
    draw_bags,
    outputs_by_member,
    refuse_other_candidates,
)
from ens_plugin.adapters.members import (
    DrawCounts,
    DrawRule,
    call_model,
    checked_numbers,
    code_dtype,
    counts_of_rows,
    several_outputs,
    unequal_member_doubts,
)
from ens_plugin.adapters.sklearn.bags import BagCounts, check_growth, check_growth_of_all, drawn_numbers, leaf_counts
from ens_plugin.adapters.sklearn.forest import (
    RecordedBags,
    are_plain_trees,
    are_recognised,
    checked_members,
    grow_as_trees,
    growth_is_known,
    leaf_outputs,
    pure_labels,
    reached_labels,
    tree_splits,
    truncated_ensemble,
)
from ens_plugin.adapters.sklearn.kept_rows import KnownRows, known_rows
from ens_plugin.adapters.sklearn.known_rows import (
    are_outputs_of_known_rows,
    are_shuffled_rows,
    draws_by_leaves,
)
from ens_plugin.adapters.sklearn.training import (
    DISTRIBUTIONS,
    TRAINING,
    check_fitted,
    check_learner,
    check_predictions,
    check_row_count,
    drawing_weight,
    draws_by_weight,
    left_out_chances,
    oob_score,
    prepare_rows,
    probe_rows,
    redrawable,
    refuse_other_part,
    training_target,
)
from ens_plugin.adapters.trees import RowOrigin, judge_origin
from ens_plugin.adapters.unwrap import output_count
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.training_rows import LeafDraws
from ens_plugin.core.validation import ROUNDING, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.findings import Finding

# From this release on, bagging draws rows by their weights.
DRAWS_BY_WEIGHT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 8)
# Number of rows whose likeliest label rounding may change.
TIED_ROWS = 1.5

_ENSEMBLES = (BaggingClassifier, BaggingRegressor)


class SklearnBaggingAdapter(EnsembleAdapter):
    """Adapter of scikit-learn's BaggingClassifier and BaggingRegressor, with one output.

    Members that have ``predict_proba`` are averaged, others vote, as in scikit-learn.  Members
    trained on some of the columns predict from those; labels without a row in a member's bag get probability 0.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a BaggingClassifier or a BaggingRegressor, or of a subclass."""
        return isinstance(model, _ENSEMBLES)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble; members that have no ``predict_proba`` vote."""
        model = self.model
        check_fitted(model)
        check_learner(model, _ENSEMBLES, TRAINING)
        if (n_outputs := output_count(model)) > 1:
            raise UnsupportedModelError(several_outputs(type(model).__name__, n_outputs))
        is_classifier = isinstance(model, BaggingClassifier)
        aggregation, output_kind = self._voting() if is_classifier else ("mean", "values")
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=model.classes_ if is_classifier else None,
            n_members=len(model.estimators_),
            aggregation=aggregation,
            output_kind=output_kind,
            bag_provenance="recorded",
            is_row_independent=self.are_trees,
            distributions=DISTRIBUTIONS,
        )

    def _voting(self) -> tuple[Aggregation, OutputKind]:
        members = self.model.estimators_
        if not all(hasattr(member, "predict_proba") for member in members):
            return "vote", "labels"
        return "mean_proba", "probabilities" if self._labels is None else "labels"

    @cached_property
    def are_trees(self) -> bool:
        """Whether all members are trees of scikit-learn's own classes, which predict what their leaves hold."""
        return are_plain_trees(self.model.estimators_)

    @cached_property
    def grow_as_trees(self) -> bool:
        """Whether all members are trees, or predict differently only, so that their nodes show their rows."""
        return grow_as_trees(self.model.estimators_)

    @cached_property
    def _columns(self) -> list[NDArray[np.integer[Any]] | None]:
        """Return the columns that each member was trained on, None for all columns."""
        n_features = self.model.n_features_in_
        return [_column_choice(columns, n_features) for columns in self.model.estimators_features_]

    def prepare(self, X: Any) -> Any:
        """Return X as an array or CSR matrix; float32 where every member is a tree."""
        return prepare_rows(self.model, X, np.float32 if self.are_trees else None)

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the ensemble predicts the mean, or the votes, of its members."""
        check_predictions(self, features, _ENSEMBLES)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the members for the prepared rows."""
        return outputs_by_member(self._member_outputs, members or range(self.n_members), features, wanted)

    def _member_outputs(self, member: int, features: Any) -> NDArray[Any]:
        estimator, rows = self.model.estimators_[member], self._member_rows(member, features)
        if self.output_kind == "values":
            return self._values(estimator, rows, member)
        if self.output_kind == "probabilities":
            return self._probabilities(estimator, rows, member)
        if self._labels is not None:
            return reached_labels(estimator, self._labels[member], rows)
        return self._votes(estimator, rows, member)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the stored seeds, after checking three trees or the out-of-bag score."""
        n_rows = features.shape[0]
        self._check_recorded(n_rows)
        check_row_count(self.model, n_rows)
        target = training_target(y, self.classes, n_rows)
        if not self.grow_as_trees:
            proof = BagProof(rows=self.stored_oob_outputs() is not None, target=self._check_score(target))
            return draw_bags(self._draw, self.n_members, n_rows).with_proof(proof)
        if not growth_is_known(features, self.model):
            return draw_bags(self._draw, self.n_members, n_rows).with_proof(BagProof(target=False))
        proof = BagProof(target=self._check_rows(features, target))
        bags = draw_bags(self._draw, self.n_members, n_rows)
        check_growth_of_all(
            self.model.estimators_,
            _as_trees_take(features),
            BagCounts(bags),
            target,
            self._columns,
            weights_are_known=draws_by_weight(self.model),
        )
        return bags.with_proof(proof)

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, redrawn from its seed after the checks of :meth:`bags`."""
        self.bags(X, features, y)
        weight = drawing_weight(self.model)
        if weight is not None and not self.model.bootstrap:
            raise BagError(
                f"This {type(self.model).__name__} drew rows without replacement by weight, and no formula for the "
                "variance over training sets covers that. Refit with bootstrap=True, or without sample_weight."
            )
        drawn = map(self._draw, range(self.n_members))
        rule: DrawRule = "with_replacement" if self.model.bootstrap else "without_replacement"
        return counts_of_rows(drawn, self.n_members, features.shape[0], rule, weight)

    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that are redrawn from the stored seeds, for some rows at a time by position."""
        refuse_other_candidates(candidate)
        self._check_recorded(n_rows)
        check_row_count(self.model, n_rows)
        trees = self.model.estimators_ if self.grow_as_trees else None
        without_trees = BagProof(rows=self.stored_oob_outputs() is not None, target=False)
        draw_all = partial(draw_bags, self._draw, self.n_members, n_rows)
        return RecordedBags(self.model, self._draw, draw_all, n_rows, trees, self._tree_rows, without_trees)

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each row's chance to be out of a bag, where scikit-learn 1.9 or later drew by weight, else None."""
        return left_out_chances(self.model, getattr(self.model, "_max_samples", None))

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where a warm start added members with other parameters."""
        members, columns = self.model.estimators_, list(map(len, self.model.estimators_features_))
        return unequal_member_doubts(
            members, rows=drawn_numbers(self.model) if self.grow_as_trees else None, columns=columns
        )

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by the growth, errors, stored rows and leaves of the members."""
        target = training_target(y, self.classes, features.shape[0])
        known = self._known_rows(features, target)
        return judge_origin(
            known.are_given() or self._are_training_rows(features, target),
            self._leaf_counts(features, target),
            features.shape[0],
            known.would_show,
        )

    def leaf_draws(self, features: Any) -> LeafDraws | None:
        """Return how often trees drew training rows and how many draws the leaves of rows hold; None of other members.

        Members such as nearest neighbours are also right about fresh rows beside those that they drew.
        """
        model = self.model
        if self.classes is None or not self.grow_as_trees or len(model._seeds) != self.n_members:
            return None
        if any(tree.monotonic_cst is not None for tree in model.estimators_):
            return None
        members = [(tree, self._tree_rows(member, features)) for member, tree in enumerate(model.estimators_)]
        return draws_by_leaves(members, len(self.classes), self._draw, model._n_samples)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that members split, where they are trees."""
        return features, tree_splits(self.model.estimators_, self._columns) if self.grow_as_trees else ()

    def _are_training_rows(self, features: Any, target: NDArray[Any] | None) -> bool:
        # Seeds of the last members only, as after a warm start, redraw no member's rows.
        if len(self.model._seeds) != self.n_members:
            return False
        if self._grew_on(features, target):
            return True
        return target is not None and are_shuffled_rows(self, features, target, self._draw, self.model._n_samples)

    def _known_rows(self, features: Any, target: NDArray[Any] | None) -> KnownRows:
        """Return what the members store of their training rows."""
        rows = _as_trees_take(features) if self.grow_as_trees else features
        members = [(member, self._member_rows(index, rows)) for index, member in enumerate(self.model.estimators_)]
        if self.grow_as_trees:
            return KnownRows(members, [])
        # Members are given the codes of labels.
        codes = None if self.classes is None else np.arange(len(self.classes))
        is_drawn = len(self.model._seeds) == self.n_members
        return known_rows(members, target, codes, self._draw if is_drawn else lambda member: None)

    def _leaf_counts(self, features: Any, target: NDArray[Any] | None) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the numbers of training and given rows in the leaves of each member; nothing unless all are trees."""
        members = self.model.estimators_ if self.grow_as_trees and growth_is_known(features, self.model) else []
        rows = _as_trees_take(features) if self.grow_as_trees else features
        return (leaf_counts(tree, self._member_rows(member, rows), target) for member, tree in enumerate(members))

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether members are wrong on out-of-bag rows only, which shows that the rows are training rows."""
        if len(self.model._seeds) != self.n_members:
            return False
        return are_outputs_of_known_rows(self, outputs, target, self._draw, self.model._n_samples)

    def _grew_on(self, features: Any, target: NDArray[Any] | None) -> bool:
        n_rows = features.shape[0]
        if not self.grow_as_trees or n_rows != self.model._n_samples or not growth_is_known(features, self.model):
            return False
        trees = [self.model.estimators_[member] for member in checked_members(self.n_members)]
        return are_recognised(trees, lambda: self._check_rows(features, target))

    def stored_oob_outputs(self) -> NDArray[np.float64] | None:
        """Return the mean out-of-bag outputs the model stored when fitted with ``oob_score``, or None."""
        # A refit without oob_score keeps the outputs of the earlier fit.
        if not self.model.oob_score:
            return None
        return getattr(self.model, "oob_prediction_" if self.classes is None else "oob_decision_function_", None)

    def mean_of_sum(self, total: NDArray[np.float64], n_members: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return mean probabilities divided by their sum, as scikit-learn does out of bag, or mean values."""
        if self.classes is None:
            return super().mean_of_sum(total, n_members)
        by_row = total.sum(axis=1, keepdims=True)
        return np.asarray(total / np.where(by_row > 0, by_row, 1.0))

    def truncated(self, size: int) -> Any:
        """Return an ensemble of copies of the first `size` members, which predicts their mean."""
        splits = dict(tree_splits(self.model.estimators_, self._columns)) if self.grow_as_trees else {}
        rows = probe_rows(self.model.n_features_in_, splits)
        self.check_members(rows)
        # After a warm start, scikit-learn keeps the seeds of the last members only.
        n_seeds = max(size - (self.n_members - len(self.model._seeds)), 0)
        kept = {
            "estimators_": self.model.estimators_[:size],
            "estimators_features_": self.model.estimators_features_[:size],
            "_seeds": self.model._seeds[:n_seeds],
        }
        part = truncated_ensemble(self.model, size, kept)
        refuse_other_part(self, lambda: type(self)(part).check_members(rows), size)
        return part

    @cached_property
    def _labels(self) -> list[NDArray[np.unsignedinteger[Any]]] | None:
        """Return the label code of every node of each member; None where a leaf is mixed, or a member is no tree."""
        model = self.model
        if not self.are_trees or not isinstance(model, BaggingClassifier):
            return None
        return pure_labels(model.estimators_, len(model.classes_))

    def _check_rows(self, features: Any, target: NDArray[Any] | None) -> bool:
        return all(
            [
                check_growth(
                    self.model.estimators_[member],
                    self._tree_rows(member, features),
                    self._draw(member),
                    target,
                    member,
                    weights_are_known=draws_by_weight(self.model),
                )
                for member in checked_members(self.n_members)
            ]
        )

    def _check_score(self, target: NDArray[Any] | None) -> bool:
        """Raise DataMismatchError unless y gives the stored out-of-bag score; return False if none is stored."""
        outputs, stored = self.stored_oob_outputs(), getattr(self.model, "oob_score_", None)
        if target is None or outputs is None or stored is None or outputs.shape[0] != target.size:
            return False
        expected = oob_score(outputs, target)
        slack = TIED_ROWS / target.size if self.classes is not None else ROUNDING * max(abs(stored), 1.0)
        if abs(stored - expected) > slack:
            raise DataMismatchError(
                "These are not the rows the model was trained on, in training order, or y is not their target: the "
                f"stored out-of-bag outputs have a score of {expected:.6g} with y, and had one of {stored:.6g} at "
                "training. X and y must be the exact training rows in training order; for rows the model was "
                'not trained on pass data="holdout".'
            )
        return True

    def _member_rows(self, member: int, features: Any) -> Any:
        columns = self._columns[member]
        return features if columns is None else features[:, columns]

    def _tree_rows(self, member: int, features: Any) -> Any:
        return self._member_rows(member, _as_trees_take(features))

    def _values(self, estimator: Any, rows: Any, member: int) -> NDArray[np.float64]:
        if self.are_trees:
            return leaf_outputs(estimator, rows)[:, 0]
        values = call_model(estimator.predict, rows, member)
        if getattr(values, "ndim", 1) == 2:
            raise UnsupportedModelError(several_outputs(type(self.model).__name__, values.shape[1]))
        return checked_numbers(values, (rows.shape[0],), member)

    def _votes(self, estimator: Any, rows: Any, member: int) -> NDArray[Any]:
        n_labels = len(self.model.classes_)
        codes = checked_numbers(call_model(estimator.predict, rows, member), (rows.shape[0],), member)
        if not np.isin(codes, np.arange(n_labels)).all():
            raise InputError(f"Model {member} predicts labels other than the ensemble's {n_labels}; refit all members.")
        return codes.astype(code_dtype(n_labels))

    def _probabilities(self, estimator: Any, rows: Any, member: int) -> NDArray[np.float64]:
        if self.are_trees:
            outputs = leaf_outputs(estimator, rows)
        else:
            n_labels = len(getattr(estimator, "classes_", self.model.classes_))
            outputs = checked_numbers(
                call_model(estimator.predict_proba, rows, member), (rows.shape[0], n_labels), member
            )
        if outputs.shape[1] == len(self.model.classes_):
            return outputs
        probabilities = np.zeros((len(outputs), len(self.model.classes_)))
        probabilities[:, estimator.classes_] = outputs
        return probabilities

    def _check_recorded(self, n_rows: int) -> None:
        name = type(self.model).__name__
        recorded = len(self.model._seeds)
        if recorded != self.n_members:
            raise BagError(
                f"This {name} has {counted(self.n_members, 'member')}, but scikit-learn kept the seeds of the last "
                f"{recorded} only, because members were added with warm_start. Refit all members in one call of fit, "
                'or pass data="holdout" with rows the model was not trained on.'
            )
        if getattr(self.model, "_sample_weight", None) is not None and not DRAWS_BY_WEIGHT:
            raise BagError(
                f"This {name} was trained by scikit-learn 1.8 or later, which drew its rows by their weights, and "
                f"scikit-learn {sklearn.__version__}, which is installed, draws them without. Install 1.8 or later, "
                'or pass data="holdout" with rows the model was not trained on.'
            )
        drawn = self._draw(0)
        if not self.model.bootstrap and len(drawn) >= n_rows:
            raise BagError(
                f"This {name} was trained with bootstrap=False on samples of all {len(drawn)} rows, so no row is out "
                'of bag. Pass data="holdout" with rows the model was not trained on, or refit with bootstrap=True or '
                "a smaller max_samples."
            )

    def _draw(self, member: int) -> NDArray[np.integer[Any]]:
        """Return the rows that one member drew; for all members at once they would take 8 bytes per row and member."""
        one_member = copy(redrawable(self.model))
        # The public estimators_samples_ redraws from these seeds, every member's at once.
        one_member._seeds = self.model._seeds[member : member + 1]
        return np.asarray(one_member.estimators_samples_[0])


def _column_choice(columns: NDArray[np.integer[Any]], n_features: int) -> NDArray[np.integer[Any]] | None:
    return None if np.array_equal(columns, np.arange(n_features)) else columns


def _as_trees_take(features: Any) -> Any:
    """Return rows as float32, the type that trees compare with their thresholds."""
    return features.astype(np.float32, copy=False)
