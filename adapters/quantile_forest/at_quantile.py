"""A quantile forest as the predictor of one quantile."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.errors import InputError

__all__ = ["QuantileAt", "quantile_at"]


class QuantileAt:
    """A quantile forest that predicts one quantile; see :func:`quantile_at`.

    Attributes
    ----------
    forest : fitted RandomForestQuantileRegressor or ExtraTreesQuantileRegressor
    quantile : float
    """

    def __init__(self, forest: Any, quantile: float) -> None:
        self.forest = forest
        self.quantile = quantile

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted quantile of each row, shape (n_rows,)."""
        return np.asarray(self.forest.predict(X, quantiles=self.quantile), dtype=np.float64)


def quantile_at(forest: Any, quantile: float) -> QuantileAt:
    """Return a quantile forest as the predictor of one quantile.

    For :func:`ens_plugin.analyze`: the curve and the recommended size are then of the pinball loss of that quantile.
    With one training value in each leaf, ``max_samples_leaf=1``, the quantile that the forest predicts is that of its
    trees' values, so that of any subset of trees is known.

    Parameters
    ----------
    forest : fitted RandomForestQuantileRegressor or ExtraTreesQuantileRegressor
        With ``max_samples_leaf=1``, the default.
    quantile : float
        Strictly between 0 and 1.

    Returns
    -------
    QuantileAt

    Raises
    ------
    InputError
        If `quantile` is no number between 0 and 1.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters.quantile_forest import quantile_at
    >>> from quantile_forest import RandomForestQuantileRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestQuantileRegressor(n_estimators=200, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(quantile_at(forest, 0.9), X, y)
    >>> report.error_curve.metric
    'pinball loss of quantile 0.9'
    """
    if isinstance(quantile, bool) or not (isinstance(quantile, Real) and 0 < float(quantile) < 1):
        raise InputError(f"quantile={quantile!r} is no number between 0 and 1; pass 0.9 for example.")
    return QuantileAt(forest, float(quantile))
