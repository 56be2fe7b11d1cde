"""The task of an unfitted estimator, which may be of a library that does not derive its classes from scikit-learn's."""

from __future__ import annotations

from typing import Any, Literal

from sklearn.base import is_classifier, is_regressor

from ens_plugin.errors import UnsupportedModelError

__all__ = ["known_task", "refuse_class"]


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
    except (AttributeError, TypeError):  # from scikit-learn 1.6 on, of a class without its tags, and of a class itself
        return None


def refuse_class(estimator: Any) -> None:
    """Raise UnsupportedModelError for a class of estimators in place of one of them."""
    if isinstance(estimator, type) and hasattr(estimator, "fit"):
        name = estimator.__name__
        raise UnsupportedModelError(f"estimator is the class {name}; pass an ensemble of it, as {name}() makes one.")
