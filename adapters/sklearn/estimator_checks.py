"""Checks of rows and columns for the estimators of this package, which raise errors of ens_plugin.errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn.exceptions
from sklearn.utils.validation import check_is_fitted

from ens_plugin import errors
from ens_plugin.adapters.shared.foreign_calls import refusals

__all__ = [
    "UnfittedLearnerError",
    "check_columns",
    "checked_rows",
    "refusals",
    "require_fitted",
    "take_columns",
    "unchanged_on_failure",
]


class UnfittedLearnerError(errors.NotFittedError, sklearn.exceptions.NotFittedError):
    """Error for an estimator that has not been fitted yet; also a scikit-learn NotFittedError."""


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block raises an exception."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def require_fitted(estimator: Any, attribute: str) -> None:
    """Raise UnfittedLearnerError if the estimator lacks `attribute`."""
    try:
        check_is_fitted(estimator, attribute)
    except sklearn.exceptions.NotFittedError as error:
        raise UnfittedLearnerError(str(error)) from error


def check_columns(estimator: Any, X: Any) -> None:
    """Raise DataMismatchError unless the names and the number of the columns of X are those of the fit.

    Raises
    ------
    DataMismatchError
        If they are not those of the fit, with scikit-learn's message.
    """
    if not hasattr(estimator, "n_features_in_") or getattr(X, "ndim", 2) != 2:
        return
    # An array has no names, and all that scikit-learn compares then is this; its function takes longer than a tree.
    is_plain = type(X) is np.ndarray and not hasattr(estimator, "feature_names_in_")
    if is_plain and X.shape[1] == estimator.n_features_in_:
        return
    try:
        if hasattr(estimator, "_check_n_features"):  # scikit-learn before 1.6
            estimator._check_feature_names(X, reset=False)
            estimator._check_n_features(X, reset=False)
        else:
            from sklearn.utils.validation import validate_data

            validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        raise errors.DataMismatchError(str(error)) from error


def take_columns(estimator: Any, fitted: Any) -> None:
    """Set the number and the names of an estimator's columns to those that the model inside it was fitted to.

    What the model does not store is deleted from the estimator.
    """
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(estimator, name, getattr(fitted, name))
        else:
            vars(estimator).pop(name, None)


def checked_rows(estimator: Any, **rows: Any) -> Any:
    """Return X (and y), checked as in a fit or a prediction of `estimator`, but with missing values allowed.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Stores the number and the names of the features; with ``reset=False`` they are compared.
    **rows
        X, y and reset, as for ``sklearn.utils.validation.validate_data``.

    Returns
    -------
    X, or X and y : ndarray or CSR matrix

    Raises
    ------
    InputError
        If scikit-learn refuses the rows, with its message.
    """
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn below 1.6 has no public name for this
        with refusals():
            return estimator._validate_data(**rows, accept_sparse="csr", dtype=None, force_all_finite=False)
    with refusals():
        return validate_data(estimator, **rows, accept_sparse="csr", dtype=None, ensure_all_finite=False)
