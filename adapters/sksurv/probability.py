"""The adapter of scikit-survival's forests, by their probabilities of survival beyond one time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleInfo, outputs_by_member
from ens_plugin.adapters.capabilities import Truncatable
from ens_plugin.adapters.sklearn.data import check_fitted, check_learner
from ens_plugin.adapters.sklearn.truncation import truncated_ensemble
from ens_plugin.adapters.sksurv.at_time import SurvivalAt, event_labels
from ens_plugin.adapters.sksurv.forest import SurvivalTreesAdapter
from ens_plugin.errors import UnsupportedModelError

__all__ = ["SurvivalAtAdapter"]


class SurvivalAtAdapter(SurvivalTreesAdapter, Truncatable):
    """Adapter of a survival forest at one time, as :func:`ens_plugin.adapters.sksurv.survival_at` makes it.

    The trees' probabilities of survival beyond the time are averaged, as in the library.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a survival forest at one time."""
        return isinstance(model, SurvivalAt)

    @property
    def forest(self) -> Any:
        """Return the fitted forest."""
        return self.model.forest

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of events up to the time."""
        from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest

        forest, known = self.model.forest, (RandomSurvivalForest, ExtraSurvivalTrees)
        if not isinstance(forest, known):
            raise UnsupportedModelError(
                f"survival_at takes a RandomSurvivalForest or ExtraSurvivalTrees of scikit-survival, not a "
                f"{type(forest).__name__}."
            )
        check_fitted(forest)
        check_learner(forest, known)
        if forest.low_memory:
            raise UnsupportedModelError(
                f"This {type(forest).__name__} was trained with low_memory=True, which keeps one risk score for each "
                "leaf and no probability of survival. Refit with low_memory=False."
            )
        return EnsembleInfo(
            task="classification",
            classes=self.model.classes_,
            n_members=len(forest.estimators_),
            aggregation="mean_proba",
            output_kind="probabilities",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=("scikit-survival", "scikit-learn"),
        )

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return 1 for rows with an event up to the time, 0 for the others."""
        return event_labels(y, self.model.time)[0]

    def target_weights(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return inverse probabilities of not being censored, 0 for rows that were censored before the time."""
        return event_labels(y, self.model.time)[1]

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the trees' probabilities of survival beyond the time, and of an event up to it."""
        return outputs_by_member(self._tree_outputs, members or range(self.n_members), features, wanted)

    def truncated(self, size: int) -> SurvivalAt:
        """Return a forest of copies of the first `size` trees, at the same time."""
        forest = self.forest
        part = truncated_ensemble(forest, size, {"estimators_": forest.estimators_[:size]})
        return SurvivalAt(part, self.model.time)

    @cached_property
    def _place(self) -> int:
        """Return the position of the last step of the survival curves at or before the time; -1 if there is none."""
        return int(np.searchsorted(self.forest.unique_times_, self.model.time, side="right")) - 1

    def _tree_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        tree = self.forest.estimators_[member].tree_
        # Nodes hold cumulative hazards and probabilities of survival, by time.
        beyond = tree.value[:, self._place, 1].take(tree.apply(rows)) if self._place >= 0 else np.ones(rows.shape[0])
        return np.stack([beyond, 1.0 - beyond], axis=1)
