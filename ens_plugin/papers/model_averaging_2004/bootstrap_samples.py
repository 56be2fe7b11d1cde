"""Bootstrap samples for model averaging: rows with replacement, or rows drawn from a fitted model (2004, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = ["Draw", "draws_own_rows", "model_draw", "row_draw"]

Draw = Callable[[np.random.Generator], tuple[Any, NDArray[Any]]]
FeatureDraw = Callable[[IntArray, np.random.Generator], Any]

DRAWN_CELLS = 1 << 22


def row_draw(X: Any, y: NDArray[Any], chance: FloatArray | None) -> Draw:
    """Return a function that draws a bootstrap sample: as many rows as X has, with replacement.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (n_rows, n_features)
    y : ndarray, shape (n_rows,)
    chance : ndarray, shape (n_rows,), or None
        Probability of each row, summing to 1; None for equal probabilities.
    """

    def draw(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
        rows = _draw_rows(y.size, chance, rng)
        return X[rows], y[rows]

    return draw


def model_draw(model: Any, X: Any, chance: FloatArray | None) -> Draw:
    """Return a function that draws a parametric bootstrap sample: as many rows as X has, from a fitted model.

    Parameters
    ----------
    model : fitted classifier
        With a method ``sample(n_samples, random_state)`` that returns rows and labels, or one of
        scikit-learn's GaussianNB, BernoulliNB, MultinomialNB and CategoricalNB.
    X, chance
        Training rows and their probabilities, as for :func:`row_draw`.  A multinomial model has no
        distribution of the total of a row: each row drawn has the total of a training row drawn at random.

    Raises
    ------
    InputError
        If the model is multinomial and X holds numbers other than whole counts.
    UnsupportedModelError
        If the model cannot draw rows; the message names the method it lacks.
    """
    n_rows = X.shape[0]
    if hasattr(model, "sample"):

        def draw_by_method(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
            rows, labels = model.sample(n_rows, random_state=int(rng.integers(2**31)))
            return rows, np.asarray(labels)

        return draw_by_method
    draw_features = _feature_draw(model, X, chance)
    prior = _class_prior(model)

    def draw(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
        codes = rng.choice(prior.size, n_rows, p=prior)
        return draw_features(codes, rng), model.classes_[codes]

    return draw


def draws_own_rows(model: object) -> bool:
    """Return whether :func:`model_draw` can draw rows from this kind of model, fitted or not."""
    return hasattr(model, "sample") or _feature_draw.dispatch(type(model)) is not _feature_draw.dispatch(object)


def _draw_rows(n_rows: int, chance: FloatArray | None, rng: np.random.Generator) -> IntArray:
    return rng.integers(n_rows, size=n_rows) if chance is None else rng.choice(n_rows, n_rows, p=chance)


def _class_prior(model: Any) -> FloatArray:
    prior = model.class_prior_ if isinstance(model, GaussianNB) else np.exp(model.class_log_prior_)
    return np.asarray(prior / np.sum(prior))


@singledispatch
def _feature_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    raise UnsupportedModelError(
        f"{type(model).__name__} cannot draw rows: it has no method sample(n_samples, random_state). Add one that "
        "returns rows and labels, or use bootstrap='rows'."
    )


@_feature_draw.register(GaussianNB)
def _gaussian_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    sd = np.sqrt(model.var_)
    return lambda codes, rng: rng.normal(model.theta_[codes], sd[codes])


@_feature_draw.register(BernoulliNB)
def _bernoulli_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    share = np.exp(model.feature_log_prob_)
    # Ones must lie above the model's threshold, where values count as 1.
    zero = 0.0 if model.binarize is None else float(model.binarize)

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        return zero + (rng.random((codes.size, share.shape[1])) < share[codes])

    return draw if zero else _sparse_like(X, share.shape[1], draw)


@_feature_draw.register(MultinomialNB)
def _multinomial_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    cells = sparse.csr_matrix(X).data
    if np.any(cells != np.floor(cells)):
        raise InputError(
            "X holds fractions, and a multinomial model draws whole counts only; pass counts, or use bootstrap='rows'."
        )
    totals = np.asarray(X.sum(axis=1)).ravel().astype(np.int64)
    share = np.exp(model.feature_log_prob_)
    share /= share.sum(axis=1, keepdims=True)

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        lengths = totals[rng.choice(totals.size, codes.size, p=chance)]
        return rng.multinomial(lengths, share[codes]).astype(np.float64)

    return _sparse_like(X, share.shape[1], draw)


@_feature_draw.register(CategoricalNB)
def _categorical_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    below = [np.cumsum(np.exp(log_share), axis=1)[:, :-1] for log_share in model.feature_log_prob_]

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        columns = [np.sum(rng.random((codes.size, 1)) >= limits[codes], axis=1) for limits in below]
        return np.stack(columns, axis=1)

    return draw


def _sparse_like(X: Any, n_features: int, draw: FeatureDraw) -> FeatureDraw:
    """Return a function that draws features in blocks, sparse where the training rows are, to bound the memory."""
    if not sparse.issparse(X):
        return draw
    height = max(DRAWN_CELLS // n_features, 1)

    def draw_sparse(codes: IntArray, rng: np.random.Generator) -> Any:
        starts = range(0, codes.size, height)
        return sparse.vstack([sparse.csr_matrix(draw(codes[i : i + height], rng)) for i in starts], format="csr")

    return draw_sparse
