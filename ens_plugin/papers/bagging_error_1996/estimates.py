"""The estimates of 1996 of a bagged ensemble's squared error, for a fitted model, and those of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray
from ens_plugin.papers.bagging_error_1996.bagged_error import (
    e1,
    e2,
    mix,
    ratio,
    simple_estimate,
    simple_estimates,
    v1,
    v2,
)
from ens_plugin.papers.bagging_error_1996.stacking import conservative_stacking, target_unit, weighted_stacking
from ens_plugin.papers.members import label_probabilities, out_of_bag_members, outputs_without_target

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BaggingErrors", "estimate"]


@dataclass(frozen=True, eq=False)
class BaggingErrors:
    """Estimates of an ensemble's squared error, by name of the method.

    Attributes
    ----------
    n_members : int
    per_set : dict of str to float
        Estimates of the mean over rows: squared units of y, or a classifier's Brier score, summed over its labels.
    per_point : dict of str to ndarray, shape (n_test,)
        Estimates for each test row; empty where no test rows were given.
    """

    n_members: int
    per_set: dict[str, float]
    per_point: dict[str, FloatArray]

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates of the mean error as a DataFrame with the columns estimate and error."""
        import pandas as pd

        return pd.DataFrame({"estimate": list(self.per_set), "error": list(self.per_set.values())})


def estimate(model: Any, X: Any, y: ArrayLike, X_test: Any = None) -> BaggingErrors:
    r"""Return the estimates of a bagged ensemble's squared error by all methods of Wolpert and Macready (1996).

    Parameters
    ----------
    model : fitted ensemble
        A regressor, or a classifier whose members vote or have probabilities.
    X, y : array-like
        The training rows, in training order.
    X_test : array-like of shape (n_test, n_features), optional
        Rows to predict, without labels, whose error is estimated by V3, Vc, stacking, `ratio` and `mix`.

    Returns
    -------
    BaggingErrors
        "E1-V1" and "E2-V2" of the training rows; with test rows "E1-V3", "E2-V3", "E1-Vc", "E2-Vc", "conservative",
        "weighted" (in the target's own unit; a constant target has none, and is left as it is), and, not in the paper,
        "ratio" and "mix".  "closed form" is this package's for the current size, E2 - V2 + V2/M; "closed form,
        infinite" for infinitely many members.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for members with raw scores.

    Notes
    -----
    1996 sections 3.2 to 3.4.  Rows that fewer than two members are out of bag for are left out.  E1 - V1 is
    optimistic: most members were trained on the row.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.papers import bagging_error_1996
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(60, random_state=0).fit(X[:300], y[:300])
    >>> errors = bagging_error_1996.estimate(forest, X[:300], y[:300], X[300:])
    >>> errors.per_set["E1-V1"] < errors.per_set["E2-V2"] < errors.per_set["closed form"]
    True
    >>> errors.per_point["mix"].shape
    (142,)
    """
    members = out_of_bag_members(model, X, y).with_trials(2)
    outputs = label_probabilities(members.outputs, members)
    given = (outputs, members.is_oob, members.target)
    spread = v2(outputs, members.is_oob)
    asymptote = simple_estimate(e2(*given), spread)
    ours = {"closed form": asymptote + float(spread.mean()) / outputs.shape[0], "closed form, infinite": asymptote}
    if X_test is None:
        simple = {"E1-V1": simple_estimate(e1(outputs, members.target), v1(outputs)), "E2-V2": asymptote}
        return BaggingErrors(outputs.shape[0], simple | ours, {})
    at_test = label_probabilities(outputs_without_target(model, X_test), members)
    unit = target_unit(outputs, members.target) if np.ptp(members.target) > 0 else 1.0
    per_point = {
        "conservative": conservative_stacking(*given, at_test, unit=unit),
        "weighted": weighted_stacking(*given, at_test, unit=unit),
        "ratio": ratio(*given, at_test),
        "mix": mix(*given, at_test),
    }
    of_the_mean = {name: float(values.mean()) for name, values in per_point.items()}
    return BaggingErrors(outputs.shape[0], simple_estimates(*given, at_test) | of_the_mean | ours, per_point)
