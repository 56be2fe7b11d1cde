"""What the rest of the package needs to know about scikit-learn, beside its trained ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.training import FitSite, fit_methods

__all__ = ["Sklearn"]


class Sklearn(Trainable):
    """scikit-learn's forests and bagging, alone or in its pipelines and searches."""

    library: ClassVar[str] = "sklearn"

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of ensembles, pipelines and searches."""
        from sklearn import ensemble, model_selection, pipeline

        return fit_methods(
            ensemble.BaggingClassifier,
            ensemble.BaggingRegressor,
            ensemble.ExtraTreesClassifier,
            ensemble.ExtraTreesRegressor,
            ensemble.RandomForestClassifier,
            ensemble.RandomForestRegressor,
            model_selection.GridSearchCV,
            model_selection.RandomizedSearchCV,
            pipeline.Pipeline,
        )
