"""Bounds of 2004 on the distance of an ensemble's outputs from those of infinitely many members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ens_plugin.errors import InputError
from ens_plugin.papers.members import outputs_without_target
from ens_plugin.papers.model_averaging_2004.bound_formulas import mean_bound, sd_bound

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["bounds"]


def bounds(model: Any, X: Any, *, delta: float = 0.05) -> pd.DataFrame:
    """Return bounds on the distance of the members' mean output from that of infinitely many (Davidson 2004).

    Parameters
    ----------
    model : fitted ensemble
        Its members have values, probabilities or raw scores, not votes.
    X : array-like of shape (n_rows, n_features)
        Any rows: no target is needed.
    delta : float, default=0.05
        Chance that a bound is exceeded, strictly between 0 and 1.

    Returns
    -------
    DataFrame
        One row for each row of X, and for each label of a classifier, with the columns row, label (the position of the
        label, for a classifier), mean and sd of the members' outputs, and mean_bound and sd_bound (eq. 11 and
        13, the latter with the number of models in place of the number of rows).

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; InputError for votes, and for fewer than two members.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.papers import model_averaging_2004
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = model_averaging_2004.bounds(RandomForestRegressor(50, random_state=0).fit(X, y), X[:3])
    >>> list(found.columns)
    ['row', 'mean', 'sd', 'mean_bound', 'sd_bound']
    """
    import pandas as pd

    outputs = outputs_without_target(model, X)
    if outputs.dtype.kind not in "f":
        raise InputError(
            "The members of this ensemble vote, and the bounds are for means of values, probabilities or scores. Use "
            "ens_plugin.analyze for votes."
        )
    n_members, n_rows = outputs.shape[:2]
    if n_members < 2:
        raise InputError(
            "The ensemble has one member, and a spread over members needs at least two. Train more members."
        )
    mean, sd = outputs.mean(axis=0).ravel(), outputs.std(axis=0, ddof=1).ravel()
    n_labels = mean.size // n_rows
    columns = {"row": np.repeat(np.arange(n_rows), n_labels)}
    if outputs.ndim == 3:
        columns["label"] = np.tile(np.arange(n_labels), n_rows)
    found = columns | {"mean": mean, "sd": sd}
    found |= {"mean_bound": mean_bound(sd, n_members, delta), "sd_bound": sd_bound(sd, n_members, delta)}
    return pd.DataFrame(found)
