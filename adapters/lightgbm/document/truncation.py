"""Copies of LightGBM forests with fewer iterations."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from lightgbm import Booster

__all__ = ["SIZE_ALIASES", "truncated_forest"]

SIZE_ALIASES = (
    "num_iterations",
    "num_iteration",
    "n_iter",
    "num_tree",
    "num_trees",
    "num_round",
    "num_rounds",
    "nrounds",
    "num_boost_round",
    "max_iter",
)


def truncated_forest(model: Any, booster: Any, size: int) -> Any:
    """Return a copy of a fitted forest with its first `size` iterations, which LightGBM averages.

    Parameters
    ----------
    model : Booster, LGBMClassifier or LGBMRegressor
    booster : Booster
        The Booster of `model`.
    size : int

    Examples
    --------
    >>> from lightgbm import LGBMRegressor
    >>> X = [[float(row)] for row in range(200)]
    >>> options = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1, "verbose": -1}
    >>> model = LGBMRegressor(n_estimators=5, **options).fit(X, range(200))
    >>> truncated_forest(model, model.booster_, 2).n_estimators_
    2
    """
    text = booster.model_to_string(num_iteration=size)
    if model is booster:
        return Booster(model_str=text)
    part = deepcopy(model)
    part.booster_.model_from_string(text)
    # LightGBM prefers the value given to set_params to the attribute of the same name.
    part.set_params(**{name: size for name in ("n_estimators", *SIZE_ALIASES) if name in part.get_params()})
    _cut_history(part, size)
    return part


def _cut_history(part: Any, size: int) -> None:
    """Cut the evaluation results to the first `size` iterations; LightGBM has no public way to set them."""
    history = {
        name: {metric: values[:size] for metric, values in measured.items()}
        for name, measured in part.evals_result_.items()
    }
    part._evals_result = history
    part._best_iteration = 0
    part._best_score = {
        name: {metric: values[-1] for metric, values in measured.items()} for name, measured in history.items()
    }
