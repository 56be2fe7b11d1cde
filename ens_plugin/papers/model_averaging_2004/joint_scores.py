"""Log joint probabilities of averaged models for rows, label by label and model by model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.parallel import Parallel, delayed

from ens_plugin.adapters.sklearn.estimator_checks import refusals
from ens_plugin.core.validation import FloatArray, counted, with_article
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.papers.model_averaging_2004.score_regions import models_by_row

__all__ = [
    "SCORES",
    "Scores",
    "conditional_scores",
    "in_row_blocks",
    "joint_scores",
    "mean_scores",
    "models_needed",
    "stacked_scores",
]

Scores = Callable[[Any, Any, NDArray[Any]], FloatArray]

# A fixed height, whatever n_jobs is: the rounding of matrix products depends on the height of a block.
BLOCK_ROWS = 4096
BLOCK_CELLS = 1 << 22


def joint_scores(model: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Return the log joint probability of each row and label under one model.

    Parameters
    ----------
    model : fitted classifier
        Has ``predict_joint_log_proba`` and ``classes_``.
    X : ndarray or CSR matrix, shape (n_rows, n_features)
    classes : ndarray, shape (n_labels,)
        Sorted labels of the ensemble, which include those of the model.

    Returns
    -------
    ndarray, shape (n_rows, n_labels)
        Minus infinity for labels that the model's bootstrap sample did not hold.

    Raises
    ------
    InputError
        If the model returns NaN or plus infinity, or X holds categories that its sample did not.
    UnsupportedModelError
        If the model returns an array of another shape.
    """
    try:
        found = np.asarray(model.predict_joint_log_proba(X), dtype=np.float64)
    except IndexError as error:
        raise InputError(
            f"X holds values that the training rows of {type(model).__name__} did not, new categories for example "
            f"({error}). Leave these rows out, or allow for them at the fit (min_categories of CategoricalNB)."
        ) from error
    if found.shape != (X.shape[0], len(model.classes_)):
        raise UnsupportedModelError(
            f"predict_joint_log_proba of {type(model).__name__} returned an array of shape {found.shape} for "
            f"{counted(X.shape[0], 'row')} and {counted(len(model.classes_), 'label')}; it must have one row and one "
            "column for each."
        )
    if np.isnan(found).any() or np.isposinf(found).any():
        raise InputError(
            f"{with_article(type(model).__name__, 'A')} returns NaN or plus infinity as log joint probability: its "
            "bootstrap sample has a feature with zero variance, or X holds values it cannot use. Train on more rows, "
            "leave constant features out, or let the base smooth more (var_smoothing of GaussianNB)."
        )
    aligned = np.full((found.shape[0], classes.size), -np.inf)
    aligned[:, np.searchsorted(classes, model.classes_)] = found
    return aligned


def conditional_scores(model: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Return the log probability of each label given the row under one model; see :func:`joint_scores`.

    A row of joint probability 0 with every label has minus infinity for each.
    """
    joint = joint_scores(model, X, classes)
    total = np.asarray(logsumexp(joint, axis=1, keepdims=True))
    return np.subtract(joint, total, out=np.full_like(joint, -np.inf), where=np.isfinite(total))


SCORES: dict[str, Scores] = {"joint": joint_scores, "conditional": conditional_scores}


def mean_scores(models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores) -> FloatArray:
    """Return the log of the models' mean probability, shape (n_rows, n_labels), summed in the order of the models."""
    total = np.full((X.shape[0], classes.size), -np.inf)
    for model in models:
        np.logaddexp(total, scores(model, X, classes), out=total)
    return np.asarray(total - np.log(len(models)))


def stacked_scores(models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores) -> FloatArray:
    """Return the log probabilities of all models, shape (n_models, n_rows, n_labels)."""
    return np.stack([scores(model, X, classes) for model in models])


def models_needed(
    models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores, delta: float, n_jobs: int | None
) -> FloatArray:
    """Return the estimated number of models that give each row the label of infinitely many; infinite if none does.

    Rows of probability 0 under every model and label are never settled; nor is any row while some label is missing
    from every model, since its probabilities are unknown.
    """
    if np.unique(np.concatenate([model.classes_ for model in models])).size < classes.size:
        return np.full(X.shape[0], np.inf)

    def needed(rows: Any) -> FloatArray:
        stacked = stacked_scores(models, rows, classes, scores)
        known = np.isfinite(stacked.max(axis=(0, 2)))
        found = np.full(known.size, np.inf)
        if known.any():
            found[known] = models_by_row(stacked[:, known], delta)
        return found

    return np.concatenate(in_row_blocks(needed, X, len(models) * classes.size, n_jobs))


def in_row_blocks(function: Callable[[Any], Any], X: Any, cells_per_row: int, n_jobs: int | None) -> list[Any]:
    """Return a function's results for blocks of rows, computed in threads; errors of the base become InputError.

    The height of a block depends only on the cells of a row, not on the threads.
    """
    height = max(min(BLOCK_ROWS, BLOCK_CELLS // cells_per_row), 1)
    calls = (delayed(function)(X[start : start + height]) for start in range(0, X.shape[0], height))
    with refusals():
        return list(Parallel(n_jobs=n_jobs, prefer="threads")(calls))
