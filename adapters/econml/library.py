"""Training of EconML's regression forest, for the parts of the package outside the adapters."""

from __future__ import annotations

from typing import Any, ClassVar

from ens_plugin.adapters.library import NamedEnsembles
from ens_plugin.adapters.training import Trainer
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError

__all__ = ["EconML"]


class EconML(NamedEnsembles):
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
