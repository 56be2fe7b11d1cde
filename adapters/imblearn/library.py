"""Training of imbalanced-learn's ensembles, for the parts of the package outside the adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ens_plugin.adapters.library import NamedEnsembles
from ens_plugin.adapters.training import FitSite, Trainer, fit_methods, retrain_members

__all__ = ["Imblearn"]


class Imblearn(NamedEnsembles):
    """The library imbalanced-learn with its balanced ensembles, which are recognised without importing the library."""

    library: ClassVar[str] = "imblearn"
    module: ClassVar[str] = "imblearn.ensemble"
    ensembles: ClassVar[tuple[str, ...]] = ("BalancedRandomForestClassifier", "BalancedBaggingClassifier")

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles, and of pipelines."""
        from imblearn.pipeline import Pipeline

        return (*super().fit_sites(), *fit_methods(Pipeline))

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members
