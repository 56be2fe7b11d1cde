"""The adapters of bagging meta-estimators, over any base estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier, BaggingRegressor

from ens_plugin.adapters.contract import EnsembleInfo
from ens_plugin.adapters.library import Trainer, retrain_members
from ens_plugin.adapters.members import DrawCounts, call_model, checked_numbers, code_dtype
from ens_plugin.adapters.sklearn.bags import drawn_numbers
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, SklearnEnsemble, leaf_outputs
from ens_plugin.adapters.sklearn.training import RELEASE, drawing_weight, oob_score, prepare_rows, warm_started
from ens_plugin.adapters.unwrap import output_count
from ens_plugin.core.bags import BagProof
from ens_plugin.core.validation import ROUNDING, FloatArray
from ens_plugin.errors import BagError, DataMismatchError, InputError

# Number of rows whose likeliest label rounding may change.
TIED_ROWS = 1.5


class BaggedMembers(SeededEnsemble):
    """Base class of adapters of bagging ensembles, whose members may be any estimators.

    Members that have ``predict_proba`` are averaged, others vote, as in scikit-learn.  Members
    trained on some of the columns predict from those; labels without a row in a member's bag get probability 0.
    """

    by_member: ClassVar[tuple[str, ...]] = ("estimators_", "estimators_features_")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble; members that have no ``predict_proba`` vote."""
        self.check_learned()
        self.refuse_outputs(output_count(self.ensemble))
        if not isinstance(self.ensemble, ClassifierMixin):
            return self.info_of("mean", "values")
        classes = self.ensemble.classes_
        if not all(hasattr(member, "predict_proba") for member in self.members):
            return self.info_of("vote", "labels", classes)
        return self.info_of("mean_proba", "probabilities" if self._labels is None else "labels", classes)

    def prepare(self, X: Any) -> Any:
        """Return X as an array or CSR matrix; float32 where every member is a tree."""
        return prepare_rows(self.ensemble, X, np.float32 if self.are_plain else None)

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return the label codes, probabilities or values of one member, from its columns."""
        estimator, own = self.members[member], self.member_rows(member, rows)
        if self.output_kind == "values":
            return self._values(estimator, own, member)
        if self.output_kind == "probabilities":
            return self._probabilities(estimator, own, member)
        return self._votes(estimator, own, member) if self._labels is None else self.leaf_outputs(member, own)

    def _values(self, estimator: Any, rows: Any, member: int) -> NDArray[np.float64]:
        if self.are_plain:
            return leaf_outputs(estimator, rows)[:, 0]
        values = call_model(estimator.predict, rows, member)
        if getattr(values, "ndim", 1) == 2:
            self.refuse_outputs(values.shape[1])
        return checked_numbers(values, (rows.shape[0],), member)

    def _votes(self, estimator: Any, rows: Any, member: int) -> NDArray[Any]:
        n_labels = len(self.ensemble.classes_)
        codes = checked_numbers(call_model(estimator.predict, rows, member), (rows.shape[0],), member)
        if not np.isin(codes, np.arange(n_labels)).all():
            raise InputError(f"Model {member} predicts labels other than the ensemble's {n_labels}; refit all members.")
        return codes.astype(code_dtype(n_labels))

    def _probabilities(self, estimator: Any, rows: Any, member: int) -> NDArray[np.float64]:
        if self.are_plain:
            outputs = leaf_outputs(estimator, rows)
        else:
            n_labels = len(getattr(estimator, "classes_", self.ensemble.classes_))
            outputs = checked_numbers(
                call_model(estimator.predict_proba, rows, member), (rows.shape[0], n_labels), member
            )
        if outputs.shape[1] == len(self.ensemble.classes_):
            return outputs
        probabilities = np.zeros((len(outputs), len(self.ensemble.classes_)))
        probabilities[:, estimator.classes_] = outputs
        return probabilities

    def member_target(self, member: int, target: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return the training target as codes of the labels that a member was trained on."""
        classes = getattr(self.members[member], "classes_", None)
        if target is None or classes is None:
            return target
        return np.minimum(np.searchsorted(classes, target), len(classes) - 1)

    def mean_of_sum(self, total: FloatArray, n_members: FloatArray) -> FloatArray:
        """Return mean probabilities divided by their sum, as scikit-learn does out of bag, or mean values."""
        if self.classes is None:
            return super().mean_of_sum(total, n_members)
        by_row = total.sum(axis=1, keepdims=True)
        return np.asarray(total / np.where(by_row > 0, by_row, 1.0))


class SklearnBaggingAdapter(SklearnEnsemble, BaggedMembers):
    """Adapter of scikit-learn's BaggingClassifier and BaggingRegressor, with one output."""

    known: ClassVar[tuple[type, ...]] = (BaggingClassifier, BaggingRegressor)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains by warm starts or, with ``oob_score``, anew at each size."""
        # scikit-learn refuses warm starts of bagging with oob_score.
        return retrain_members if estimator.oob_score else warm_started

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble; matrix products depend on which rows are predicted together."""
        return replace(super().describe(), is_row_independent=self.are_plain)

    def prove(self, features: Any, target: NDArray[Any] | None) -> BagProof:
        """Return what some trees prove or, of other members, the stored out-of-bag score."""
        if self.trees is not None:
            return super().prove(features, target)
        return BagProof(rows=self.stored_oob_outputs() is not None, target=self._check_score(target))

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each row, redrawn from its seed after the checks of :meth:`bags`."""
        if drawing_weight(self.model) is not None and not self.model.bootstrap:
            raise BagError(
                f"This {type(self.model).__name__} drew rows without replacement by weight, and no formula for the "
                "variance over training sets covers that. Refit with bootstrap=True, or without sample_weight."
            )
        return super().draw_counts(X, features, y)

    def drawn_numbers(self) -> FloatArray | None:
        """Return how many rows each tree drew, repeats included; None where the members do not show it."""
        return None if self.trees is None else drawn_numbers(self.model)

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError or DataMismatchError unless the rows of all members can be drawn again, and leave some out."""
        super().check_bags(n_rows)
        name = type(self.model).__name__
        if getattr(self.model, "_sample_weight", None) is not None and RELEASE < (1, 8):
            raise BagError(
                f"This {name} was trained by scikit-learn 1.8 or later, which drew its rows by their weights, and "
                f"scikit-learn {sklearn.__version__}, which is installed, draws them without. Install 1.8 or later, "
                'or pass data="holdout" with rows the model was not trained on.'
            )
        n_drawn = len(self.draw(0))
        if not self.model.bootstrap and n_drawn >= n_rows:
            raise BagError(
                f"This {name} was trained with bootstrap=False on samples of all {n_drawn} rows, so no row is out "
                'of bag. Pass data="holdout" with rows the model was not trained on, or refit with bootstrap=True or '
                "a smaller max_samples."
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
