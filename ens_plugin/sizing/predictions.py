"""Predictions of a fitted model of any library, for rows in the form in which the user passes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.library import NativeInterface
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.shared.frames import as_pandas
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.core.validation import refuse_lazy, with_article
from ens_plugin.errors import InputError

__all__ = ["first_rows", "labels", "predict_alike", "predicted"]


def first_rows(X: Any, most: int) -> Any:
    """Return the first rows of X, at most `most`, in the form in which X came; a sparse matrix as CSR.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
    most : int

    Raises
    ------
    InputError
        If X is an object of a library without such rows, as a DMatrix of XGBoost.

    Examples
    --------
    >>> first_rows([[1.0], [2.0], [3.0]], 2)
    [[1.0], [2.0]]
    """
    refuse_lazy(X, "X")
    if not hasattr(X, "__getitem__") and not hasattr(X, "tocsr"):
        raise InputError(
            f"X is {with_article(type(X).__name__)}, whose first rows cannot be taken. Pass the rows as an array, a "
            "sparse matrix or a data frame."
        )
    # Sparse matrices of other formats have no rows to choose.
    return (X.tocsr() if hasattr(X, "tocsr") else X)[:most]


def predicted(model: Any, rows: Any) -> Any:
    """Return what the model's own ``predict`` returns for `rows`, converted where it needs another form of rows.

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
    return _interface(model).predict(model, rows)


def labels(model: Any, rows: Any) -> NDArray[Any]:
    """Return the label that a classifier predicts for each row; for a booster, the position of the label.

    Parameters
    ----------
    model : fitted classifier
        Boosters predict probabilities; their label is the one with the highest raw score, which for two labels is
        the second one where the score is above 0.
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
    return _interface(model).labels(model, rows)


def _interface(model: Any) -> type[NativeInterface]:
    return find_library(model, NativeInterface) or NativeInterface


def predict_alike(model: Any, copy: Any, rows: Any) -> bool:
    """Return whether a copy of an ensemble has the same predictions as the ensemble, up to rounding.

    Threads add the members' outputs in any order, so the predictions of one model differ by a few bits from call to
    call.  Two sums of B numbers of at most M, in different orders, differ by less than B - 1 units of rounding of
    B M; their means may therefore differ by B M times the machine epsilon of their type.  Labels are equal, except
    where the two highest chances are nearer to each other than twice that.

    Parameters
    ----------
    model, copy : fitted ensembles
        Two ensembles of the same kind.
    rows : array-like or DataFrame, shape (n_rows, n_features)

    Returns
    -------
    bool

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> small, large = (RandomForestClassifier(n, random_state=0).fit(X, y) for n in (10, 20))
    >>> predict_alike(small, small, X), predict_alike(small, large, X)
    (True, False)
    """
    mean, found = _mean_outputs(model, rows), _mean_outputs(copy, rows)
    if mean.dtype.kind != "f" or found.shape != mean.shape:
        return np.array_equal(mean, found)
    rounding = _rounding(model, rows, mean)
    if not (np.abs(found - mean) <= rounding).all():
        return False
    if not hasattr(model, "predict_proba"):
        return True
    differs = np.asarray(predicted(model, rows) != predicted(copy, rows))
    highest = np.sort(mean, axis=1)[:, -2:]
    return bool((highest[differs, -1] - highest[differs, 0] <= 2 * rounding).all())


def _mean_outputs(model: Any, rows: Any) -> NDArray[Any]:
    if not hasattr(model, "predict_proba"):
        return np.asarray(predicted(model, rows))
    # Categories of Arrow end the process of LightGBM.
    table = rows if find_library(model, NativeInterface) is None else as_pandas(rows)
    return np.asarray(model.predict_proba(table))


def _rounding(model: Any, rows: Any, mean: NDArray[Any]) -> float:
    ensemble, features = unwrap(model, rows, are_fresh=True)
    adapter = find_adapter(ensemble)
    outputs = np.abs(adapter.outputs(adapter.prepare(features))).max()
    return float(adapter.n_members * np.finfo(mean.dtype).eps * max(outputs, np.abs(mean).max()))
