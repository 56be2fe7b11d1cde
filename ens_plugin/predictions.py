"""What a model predicts, in the form its library has for rows as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["labels", "predicted"]


def predicted(model: Any, rows: Any) -> Any:
    """Return what the model's own ``predict`` returns for `rows`.

    XGBoost's ``Booster`` predicts a ``DMatrix`` only; of rows it does this in place.

    Parameters
    ----------
    model : fitted model
    rows : array-like or DataFrame, shape (n_rows, n_features)

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> predicted(DummyClassifier().fit([[0.0]], ["a"]), [[1.0], [2.0]])
    array(['a', 'a'], dtype='<U1')
    """
    return model.inplace_predict(rows) if hasattr(model, "inplace_predict") else model.predict(rows)


def labels(model: Any, rows: Any) -> NDArray[Any]:
    """Return the label that a classifier gives to each row; of a booster, its position.

    Parameters
    ----------
    model : fitted classifier
        Boosters of XGBoost and LightGBM predict chances; their label is the one with the highest raw
        score, which for two labels is the second one where the score is above 0.
    rows : array-like or DataFrame, shape (n_rows, n_features)

    Returns
    -------
    ndarray, shape (n_rows,)

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> labels(DummyClassifier().fit([[0.0]], ["a"]), [[1.0], [2.0]])
    array(['a', 'a'], dtype='<U1')
    """
    scores = _raw_scores(model, rows)
    if scores is None:
        return np.asarray(model.predict(rows))
    return np.asarray(scores.argmax(axis=1) if scores.ndim == 2 else scores > 0)


def _raw_scores(model: Any, rows: Any) -> NDArray[Any] | None:
    """Raw scores of a booster; None of a model that predicts labels."""
    if hasattr(model, "inplace_predict"):
        return np.asarray(model.inplace_predict(rows, predict_type="margin"))
    if hasattr(model, "model_to_string"):
        return np.asarray(model.predict(rows, raw_score=True))
    return None
