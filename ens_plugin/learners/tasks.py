"""The task of an unfitted estimator, which may be of a library that does not derive its classes from scikit-learn's."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.base import is_classifier, is_regressor

__all__ = ["known_task"]


def known_task(estimator: Any) -> Literal["classification", "regression"] | None:
    """Return the task of an estimator; None where its class does not state it.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> known_task(RandomForestRegressor())
    'regression'
    >>> known_task(object()) is None
    True
    """
    try:
        if is_classifier(estimator):
            return "classification"
        return "regression" if is_regressor(estimator) else None
    except AttributeError:  # from scikit-learn 1.6 on, of a class without its tags
        return None
