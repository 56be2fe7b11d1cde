"""Copies of scikit-learn ensembles with fewer members."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

__all__ = ["truncated_ensemble"]

_OF_ALL_MEMBERS = ("oob_score_", "oob_decision_function_", "oob_prediction_")


def truncated_ensemble(model: Any, size: int, kept: dict[str, Any]) -> Any:
    """Return a copy of a fitted ensemble with its first `size` members.

    Out-of-bag results are those of all members, and are dropped unless all are kept.

    Parameters
    ----------
    model : fitted RandomForest*, ExtraTrees* or Bagging*
    size : int
        Members to keep, the first ones.
    kept : dict
        Fitted attributes with one entry per member, cut to those that are kept.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> forest = RandomForestRegressor(n_estimators=3).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> truncated_ensemble(forest, 2, {"estimators_": forest.estimators_[:2]})
    RandomForestRegressor(n_estimators=2)
    """
    part = copy(model)
    if size < len(model.estimators_):
        for name in _OF_ALL_MEMBERS:
            vars(part).pop(name, None)
    for name, value in {**kept, "n_estimators": size}.items():
        setattr(part, name, value)
    # Copied only now: the members left out may be many and large.
    return deepcopy(part)
