"""The libraries of a few ensembles each: EconML, imbalanced-learn, quantile-forest."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from ens_plugin.adapters.library import FitSite, Library, Trainer, fit_methods, retrain_members
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError

__all__ = [
    "EconML",
    "Imblearn",
    "QuantileForest",
]


class _NamedEnsembles(Library):
    """A library whose ensembles are recognised by the names of their classes, so that it need not be imported.

    Attributes
    ----------
    module : str
        Import name of the module that has the ensembles.
    ensembles : tuple of str
        Names of their classes.
    """

    module: ClassVar[str]
    ensembles: ClassVar[tuple[str, ...]]
    works_in_fork: ClassVar[bool] = True

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is one of the ensembles, or of a class derived from one."""
        return super().accepts(model) and any(parent.__name__ in cls.ensembles for parent in type(model).__mro__)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles."""
        module = import_module(cls.module)
        return fit_methods(*(getattr(module, name) for name in cls.ensembles))


class EconML(_NamedEnsembles):
    """The library EconML with its RegressionForest, which is recognised without importing the library."""

    library: ClassVar[str] = "econml"
    module: ClassVar[str] = "econml.grf"
    ensembles: ClassVar[tuple[str, ...]] = ("RegressionForest",)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Raise UnsupportedModelError: members are groups of trees, which `n_estimators` does not count."""
        raise UnsupportedModelError(
            f"{with_article(type(estimator).__name__, 'A')} cannot be grown: its members are groups of trees that "
            "share half of the rows. Train it with the n_estimators you can afford, and cut it with "
            "ens_plugin.truncate."
        )


class Imblearn(_NamedEnsembles):
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


class QuantileForest(_NamedEnsembles):
    """The library quantile-forest with its forests, which are recognised without importing the library."""

    library: ClassVar[str] = "quantile_forest"
    module: ClassVar[str] = "quantile_forest"
    ensembles: ClassVar[tuple[str, ...]] = ("RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor")

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members
