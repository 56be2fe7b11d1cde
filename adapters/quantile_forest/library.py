"""Training of quantile-forest's forests, for the parts of the package outside the adapters."""

from __future__ import annotations

from typing import Any, ClassVar

from ens_plugin.adapters.library import NamedEnsembles
from ens_plugin.adapters.training import Trainer, retrain_members

__all__ = ["QuantileForest"]


class QuantileForest(NamedEnsembles):
    """The library quantile-forest with its forests, which are recognised without importing the library."""

    library: ClassVar[str] = "quantile_forest"
    module: ClassVar[str] = "quantile_forest"
    ensembles: ClassVar[tuple[str, ...]] = ("RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor")

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members
