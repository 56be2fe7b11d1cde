"""The adapter of forests that scikit-learn-intelex trained, which predicts by a model of oneDAL."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.capabilities import HeldOutOnly, Truncatable
from ens_plugin.adapters.shared.distributions import first_installed
from ens_plugin.adapters.shared.refusals import several_outputs
from ens_plugin.adapters.sklearn.data import check_fitted, prepare_rows
from ens_plugin.adapters.sklearn.predictions import check_predictions
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = ["OneApiForestAdapter"]

LEAF = -1


class OneApiForestAdapter(HeldOutOnly, EnsembleAdapter, Truncatable):
    """Adapter of a forest that scikit-learn-intelex trained after ``patch_sklearn()``, for held-out rows.

    Its ``estimators_`` are copies of the trees of a model of oneDAL, by which it predicts.  That compares the rows with
    thresholds as float64, where scikit-learn's trees take float32, so the copies are read here as oneDAL reads its own.
    """

    no_bags: ClassVar[str] = (
        "This forest was trained by scikit-learn-intelex, whose oneDAL keeps no record of the rows that its trees "
        "drew: train it after sklearnex.unpatch_sklearn(), and it is a forest of scikit-learn, whose rows are known."
    )

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest with a model of oneDAL; what scikit-learn itself trained has none."""
        return hasattr(model, "_onedal_estimator") and hasattr(type(model), "estimators_")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose bags are not known."""
        model = self.model
        check_fitted(model)
        if model.n_outputs_ > 1:
            raise UnsupportedModelError(several_outputs(type(model).__name__, model.n_outputs_))
        is_classifier = isinstance(model, ClassifierMixin)
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=model.classes_ if is_classifier else None,
            n_members=len(model.estimators_),
            aggregation="mean_proba" if is_classifier else "mean",
            output_kind="probabilities" if is_classifier else "values",
            bag_provenance="unknown",
            is_row_independent=True,
            distributions=(*first_installed("scikit-learn-intelex"), "scikit-learn"),
        )

    def prepare(self, X: Any) -> NDArray[Any]:
        """Return X as an array of float64, or of float32 where it is one: the types that oneDAL takes."""
        rows = prepare_rows(self.model, X, None)
        if not isinstance(rows, np.ndarray):
            raise InputError(
                "X is a sparse matrix, which scikit-learn-intelex leaves to the copies of its trees, and these read "
                "with another rounding. Pass X.toarray()."
            )
        try:
            return rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)
        except ValueError as error:
            raise InputError(f"X cannot be used ({error}); pass the rows as the model's predict takes them.") from error

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless oneDAL predicts the mean of the trees."""
        try:
            check_predictions(self, features, ())
        except UnsupportedModelError as error:
            raise UnsupportedModelError(
                f"This {type(self.model).__name__} was trained by scikit-learn-intelex, and the trees in its "
                "estimators_ do not predict what its model of oneDAL does. Train it after "
                f"sklearnex.unpatch_sklearn(), which makes it a forest of scikit-learn. What was found: {error}"
            ) from error

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the probabilities or values of the trees for the prepared rows."""
        return outputs_by_member(self._leaf_outputs, members or range(self.n_members), features, wanted)

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: the model of oneDAL, by which the forest predicts, holds all trees."""
        raise UnsupportedModelError(
            f"This {type(self.model).__name__} was trained by scikit-learn-intelex and predicts by one model of "
            f"oneDAL, from which no tree can be removed. Train one with n_estimators={size}, or train it after "
            "sklearnex.unpatch_sklearn(), which makes it a forest of scikit-learn that can be cut."
        )

    def _leaf_outputs(self, member: int, rows: NDArray[Any]) -> NDArray[np.float64]:
        nodes = self.model.estimators_[member].tree_
        left, right, feature = nodes.children_left, nodes.children_right, nodes.feature
        # oneDAL compares in the type of the rows where it classifies, and as float64 where it does not.
        threshold = nodes.threshold.astype(rows.dtype if self.classes is not None else np.float64, copy=False)
        reached = np.zeros(len(rows), np.intp)
        moving = np.arange(len(rows)) if left[0] != LEAF else np.arange(0)
        while moving.size:
            node = reached[moving]
            goes_left = rows[moving, feature[node]] <= threshold[node]
            reached[moving] = node = np.where(goes_left, left[node], right[node])
            moving = moving[left[node] != LEAF]
        held = np.asarray(nodes.value[reached, 0, :], dtype=np.float64)
        return held if self.output_kind == "probabilities" else held[:, 0]
