"""The refusal of survival forests without a time."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray
from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import UnsupportedModelError

__all__ = ["SurvivalForestAdapter"]


class SurvivalForestAdapter(EnsembleAdapter):
    """Refuses a survival forest without a time, with what to pass instead."""

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomSurvivalForest or ExtraSurvivalTrees, or of a subclass."""
        return isinstance(model, (RandomSurvivalForest, ExtraSurvivalTrees))

    def describe(self) -> EnsembleInfo:
        """Raise UnsupportedModelError."""
        raise UnsupportedModelError(
            f"A {type(self.model).__name__} predicts a curve of survival for each row, and is analysed at one time of "
            "it: pass ens_plugin.adapters.sksurv.survival_at(forest, time), which predicts the probability of an event "
            "up to that time, with the same X and y."
        )

    def prepare(self, X: Any) -> Any:
        """Not reached: no such adapter is made."""
        raise NotImplementedError

    def outputs(self, features: Any, members: range | None = None, wanted: Any = None) -> NDArray[Any]:
        """Not reached: no such adapter is made."""
        raise NotImplementedError

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Not reached: no such adapter is made."""
        raise NotImplementedError
