"""Sizes recommended for a fitted ensemble by the paper of 2013 and the rules compared in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.tallies.growth_path import tally_path
from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.errors import InputError
from ens_plugin.papers.ensemble_size_2013.borderline import borderline_density, borderline_size
from ens_plugin.papers.ensemble_size_2013.size_baselines import ban_size, mcnemar_size, reduction_size
from ens_plugin.papers.ensemble_size_2013.vote_size import deconvolved_size, plugin_size, row_size
from ens_plugin.papers.members import Members, held_out_members, out_of_bag_members, wrong_labels

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["row_sizes", "sizes"]


def sizes(
    model: Any,
    X: Any,
    y: ArrayLike,
    X_validation: Any = None,
    y_validation: ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    max_size: int = 20001,
) -> pd.Series:
    """Return the sizes recommended by each rule of Hernandez-Lobato et al. (2013) and by this package's.

    Parameters
    ----------
    model : fitted classifier of two labels
        The sizes are those of majority votes of its members' labels, whatever the model itself averages.
    X, y : array-like
        The training rows, in training order.
    X_validation, y_validation : array-like, optional
        Held-out rows for McNemar's rule, which cannot use out-of-bag rows; both or neither.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1; for "error_reduction", the
        wanted share of it.
    max_size : int, default=20001

    Returns
    -------
    Series
        Size by rule: "plug_in", the paper's (eq. 17); "deconvolved", this package's; "borderline", eq. 16, for large
        ensembles; "ban" (Banfield et al. 2007); "mcnemar" (Latinne et al. 2001), with validation rows;
        "error_reduction" (Fumera et al. 2008).  NaN where a rule has none up to `max_size` or `n_members`.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for regressors and for more than two labels; InputError
        for one of `X_validation` and `y_validation` without the other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:400], y[:400])
    >>> found = ensemble_size_2013.sizes(forest, X[:400], y[:400], X[400:], y[400:])
    >>> list(found.index)
    ['plug_in', 'deconvolved', 'borderline', 'ban', 'mcnemar', 'error_reduction']
    """
    import pandas as pd

    if (X_validation is None) != (y_validation is None):
        raise InputError(
            "X_validation and y_validation belong together. Pass both for McNemar's rule, or neither to leave it out."
        )
    members = out_of_bag_members(model, X, y).with_trials(1)
    is_wrong = wrong_labels(members)
    trials, wrong = members.is_oob.sum(axis=0), (is_wrong & members.is_oob).sum(axis=0)
    found: dict[str, float | None] = {
        "plug_in": plugin_size(wrong, trials, confidence, max_size),
        "deconvolved": deconvolved_size(wrong, trials, confidence, max_size),
        "borderline": borderline_size(borderline_density(wrong / trials), confidence),
        "ban": ban_size(_error_path(members)),
    }
    if X_validation is not None and y_validation is not None:
        found["mcnemar"] = mcnemar_size(wrong_labels(held_out_members(model, X_validation, y_validation)))
    found["error_reduction"] = reduction_size(confidence)
    return pd.Series({rule: math.nan if size is None else float(size) for rule, size in found.items()}, name="size")


def row_sizes(model: Any, X: Any, y: ArrayLike, *, confidence: float = 0.99) -> pd.DataFrame:
    """Return, for each training row, the number of votes that give the infinite ensemble's label, with a confidence.

    Parameters
    ----------
    model : fitted classifier of two labels
    X, y : array-like
        The training rows, in training order.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    DataFrame
        One row for each training row with an out-of-bag member, with the columns probability, the share of its
        out-of-bag members that are wrong, and size (2013 eq. 10), infinite where no size settles it.  The index is the
        position of the row among the training rows.

    Raises
    ------
    EnsPluginError
        As :func:`sizes`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> bool(ensemble_size_2013.row_sizes(forest, X, y)["size"].median() == 1)
    True
    """
    import pandas as pd

    members = out_of_bag_members(model, X, y)
    rows = np.flatnonzero(members.is_oob.any(axis=0))
    members = members.with_trials(1)
    share = (wrong_labels(members) & members.is_oob).sum(axis=0) / members.is_oob.sum(axis=0)
    return pd.DataFrame({"probability": share, "size": row_size(share, confidence)}, index=rows)


def _error_path(members: Members) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the out-of-bag error of votes after 1, 2, ... members."""
    labels = np.where(wrong_labels(members), 1, 0)
    block = RowBlock(labels, members.is_oob, np.zeros(members.target.size, dtype=np.int64), 2)
    path = tally_path(block, np.ones(members.target.size)).curve()
    return path[~np.isnan(path)]
