"""The adapter of scikit-survival's forests, by the risk score that they predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest
from sksurv.metrics import concordance_index_censored

from ens_plugin.adapters.base import EnsembleInfo, outputs_by_member
from ens_plugin.adapters.capabilities import JudgedByLoss, Truncatable
from ens_plugin.adapters.sklearn.data import check_fitted, check_learner
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.adapters.sksurv.at_time import events_and_times
from ens_plugin.adapters.sksurv.forest import SurvivalTreesAdapter

__all__ = ["SurvivalForestAdapter"]

_FORESTS = (RandomSurvivalForest, ExtraSurvivalTrees)


class SurvivalForestAdapter(SurvivalTreesAdapter, JudgedByLoss, Truncatable):
    """Adapter of RandomSurvivalForest and ExtraSurvivalTrees, by the mean of the trees' risk scores.

    Its loss is 1 less Harrell's concordance index: the share of comparable pairs of rows of which the one with the
    earlier event has the lower risk score; equal scores count half.

    Examples
    --------
    >>> from sksurv.datasets import load_whas500
    >>> X, y = load_whas500()
    >>> forest = RandomSurvivalForest(50, random_state=0).fit(X.astype(float), y)
    >>> SurvivalForestAdapter(forest).loss_name
    '1 - C'
    """

    loss_name = "1 - C"

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomSurvivalForest or ExtraSurvivalTrees, or of a subclass."""
        return isinstance(model, _FORESTS)

    @property
    def forest(self) -> Any:
        """Return the fitted forest."""
        return self.model

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose members predict risk scores."""
        check_fitted(self.model)
        check_learner(self.model, _FORESTS)
        return EnsembleInfo(
            task="regression",
            classes=None,
            n_members=len(self.model.estimators_),
            aggregation="mean",
            output_kind="values",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=("scikit-survival", "scikit-learn"),
        )

    def loss(self, target: NDArray[Any], prediction: NDArray[np.float64]) -> float:
        """Return 1 less Harrell's concordance index."""
        event, time = events_and_times(target)
        return 1.0 - float(concordance_index_censored(event, time, prediction)[0])

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the negative times, those of censored rows a little lower: as risk scores they would have no loss."""
        event, time = events_and_times(y)
        return -np.where(event, time, np.nextafter(time, np.inf)).astype(np.float64)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the trees' risk scores: the sum of the cumulative hazards at the times of events."""
        return outputs_by_member(self._risks, members or range(self.n_members), features, wanted)

    def stored_oob_outputs(self) -> NDArray[np.float64] | None:
        """Return the mean out-of-bag risk scores that oob_score=True stored, or None."""
        return getattr(self.model, "oob_prediction_", None)

    def truncated(self, size: int) -> Any:
        """Return a forest of copies of the first `size` trees."""
        return truncated_ensemble(self.model, size, {"estimators_": self.model.estimators_[:size]})

    def _risks(self, member: int, rows: Any) -> NDArray[np.float64]:
        tree = self.model.estimators_[member]
        values = tree.tree_.value
        nodes = values[:, 0, 0] if self.model.low_memory else values[:, tree.is_event_time_, 0].sum(axis=1)
        return np.asarray(nodes.take(tree.tree_.apply(rows)))
