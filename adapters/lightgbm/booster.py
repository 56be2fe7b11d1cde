"""The booster inside a model of LightGBM, its mode and its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from lightgbm import Booster, LGBMClassifier
from numpy.typing import NDArray

from ens_plugin.adapters.lightgbm.bags import BAGGING
from ens_plugin.adapters.lightgbm.document.text import ModelText
from ens_plugin.adapters.lightgbm.objective import Objective
from ens_plugin.errors import NotFittedError, UnsupportedModelError

__all__ = ["check_mode", "fitted_booster", "labels_of"]


def fitted_booster(model: Any) -> Any:
    """Return the Booster of a fitted model; raise NotFittedError for one that is not fitted."""
    if isinstance(model, Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.")
    return model.booster_


def check_mode(text: ModelText) -> None:
    """Raise UnsupportedModelError for a model that boosts, and NotFittedError for one without trees."""
    if not text.averages:
        raise UnsupportedModelError(
            "This LightGBM model sums its trees: each corrects those before it, so none of them predicts on its own. "
            f"ens_plugin covers random forests: train with boosting_type='rf', {BAGGING}."
        )
    if not text.trees:
        raise NotFittedError("This LightGBM model has no trees; train it first.")


def labels_of(model: Any, objective: Objective) -> NDArray[Any] | None:
    """Return the labels of a classifier; None for regression.

    Raises
    ------
    UnsupportedModelError
        If the model does not score each of its labels.
    """
    if not isinstance(model, LGBMClassifier):
        return np.arange(objective.n_labels) if objective.n_labels else None
    if len(model.classes_) != objective.n_labels:
        raise UnsupportedModelError(
            f"This {type(model).__name__} was trained with objective {objective.name}, which does not score each "
            f"label (of {len(model.classes_)}). Use objective='binary' or 'multiclass' and at least two labels."
        )
    return np.asarray(model.classes_)
