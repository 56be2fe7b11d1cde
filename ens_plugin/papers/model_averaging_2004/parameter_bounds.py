"""Bounds on the distance of averaged models' parameters from those of infinitely many models (2004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError
from ens_plugin.papers.model_averaging_2004.bound_formulas import (
    general_sd_bound,
    mean_bound,
    published_sd_bound,
    sd_bound,
)

__all__ = ["ParameterBounds", "parameter_bounds"]

MIN_MODELS = 5


class ParameterBounds(NamedTuple):
    """Mean and standard deviation of a parameter over models, with bounds on their distance from infinitely many.

    Attributes
    ----------
    mean, sd : ndarray, shape of the parameter
        Mean and standard deviation (ddof 1) over the models.
    mean_bound : ndarray
        Bound on the distance of `mean` (2004 eq. 11).
    sd_bound : ndarray
        Bound on the distance of `sd`, for parameters that are normal over bootstrap samples: eq. 13 corrected.
    general_sd_bound : ndarray
        The same without that assumption, for the kurtosis over the models (at least the normal one).
    published_sd_bound : ndarray
        Eq. 13 as published, which is too small; for comparison only.
    n_models : int
        Number of models that have the parameter for every label.
    """

    mean: FloatArray
    sd: FloatArray
    mean_bound: FloatArray
    sd_bound: FloatArray
    general_sd_bound: FloatArray
    published_sd_bound: FloatArray
    n_models: int


def parameter_bounds(
    models: Sequence[Any], parameter: str, classes: NDArray[Any], n_rows: int, delta: float
) -> ParameterBounds:
    """Return bounds on the distance of a parameter's mean and standard deviation from those of infinitely many models.

    Parameters
    ----------
    models : sequence of fitted classifiers
    parameter : str
        A fitted numeric attribute, the same in every model.
    classes : ndarray
        Labels of the ensemble; models whose sample missed one are left out.
    n_rows : int
        Rows of each bootstrap sample, for the published bound.
    delta : float
        Chance that a bound is exceeded, for each number separately.

    Raises
    ------
    InputError
        If `delta` is out of range or the parameter is not numbers of one shape.
    TooFewMembersError
        If fewer than five models have the parameter for every label.
    UnsupportedModelError
        If the models have no such attribute.

    Notes
    -----
    The distance is to infinitely many bootstrap models, not to the posterior.
    """
    whole = [model for model in models if len(model.classes_) == classes.size]
    if len(whole) < MIN_MODELS:
        raise TooFewMembersError(
            f"{counted(len(whole), 'was', 'were', of=f'{len(models)} models')} trained on every label, and their "
            f"spread needs at least {MIN_MODELS}. Grow more models, or train on more rows of the rare labels."
        )
    values = _values(whole, parameter)
    mean, sd, n_models = values.mean(axis=0), values.std(axis=0, ddof=1), len(whole)
    return ParameterBounds(
        mean,
        sd,
        mean_bound(sd, n_models, delta),
        sd_bound(sd, n_models, delta),
        _general_bound(values, sd, delta),
        published_sd_bound(sd, n_models, n_rows, delta),
        n_models,
    )


def _values(models: Sequence[Any], parameter: str) -> FloatArray:
    if not hasattr(models[0], parameter):
        raise UnsupportedModelError(
            f"{type(models[0]).__name__} has no fitted attribute {parameter!r}; name one it has, such as theta_ of "
            "GaussianNB or feature_log_prob_ of BernoulliNB."
        )
    try:
        values = np.asarray([getattr(model, parameter) for model in models], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"parameter {parameter!r} is not an array of numbers of one shape ({error}).") from error
    if not np.isfinite(values).all():
        raise InputError(f"parameter {parameter!r} is not finite in every model; bounds need finite numbers.")
    return values


def _general_bound(values: FloatArray, sd: FloatArray, delta: float) -> FloatArray:
    """Return `general_sd_bound` for each entry of a parameter, at the entry's kurtosis over the models."""
    centred = values - values.mean(axis=0)
    spread = np.where(sd > 0, sd, 1.0)
    kurtosis = np.maximum(np.mean((centred / spread) ** 4, axis=0) - 3.0, 0.0)
    found = [
        general_sd_bound(one, values.shape[0], delta, float(excess))
        for one, excess in zip(np.ravel(sd), np.ravel(kurtosis), strict=True)
    ]
    return np.reshape(found, sd.shape)
