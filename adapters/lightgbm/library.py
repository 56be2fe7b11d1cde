"""What the rest of the package needs to know about LightGBM, beside its trained forests; does not import it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.training import FitSite, TrainingData, fit_methods

__all__ = ["LightGBM", "train_arguments"]


class LightGBM(Trainable):
    """LightGBM's ``train`` and scikit-learn interface."""

    library: ClassVar[str] = "lightgbm"

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``lightgbm.train`` and the ``fit`` methods."""
        import lightgbm

        return [
            FitSite(lightgbm, "train", train_arguments),
            *fit_methods(lightgbm.LGBMClassifier, lightgbm.LGBMRegressor),
        ]


def train_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``lightgbm.train``, which frees the rows later."""
    dataset = arguments["train_set"]
    return TrainingData(dataset.data if hasattr(dataset.data, "shape") else None, dataset.label, dataset.weight)
