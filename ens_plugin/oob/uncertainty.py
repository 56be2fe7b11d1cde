"""How uncertain a prediction is: its standard error over training sets, and an interval for the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import model_errors
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.arguments import granted_threads, refuse_own_loss
from ens_plugin.analysis.evidence import tally_rows
from ens_plugin.analysis.variance import PredictionSpread, SpreadKind, prediction_spread, read_draws
from ens_plugin.core.losses import residual_limits, residuals_at_size
from ens_plugin.core.tally import ValueTally, select_rows
from ens_plugin.core.validation import FloatArray, as_chance
from ens_plugin.errors import BagError, InputError, TooFewMembersError, ends_at_caller
from ens_plugin.findings import Finding
from ens_plugin.oob.predictions import (
    TrainingRows,
    left_out_notes,
    mean_outputs,
    read_training_rows,
    refuse_other_prediction,
    usable_rows,
)
from ens_plugin.report.text import first_rows, printable, wrapped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class PredictionUncertainty:
    """Predictions with their standard errors and, for regression, intervals for the target.

    Attributes
    ----------
    prediction : ndarray of float64, shape (n_rows,) or (n_rows, n_labels)
        What the model predicts: the value, or the probability of each label (share of votes, where members vote).
    standard_error : ndarray of float64, of the shape of `prediction`
        Standard deviation of the prediction over training sets and seeds, in the unit of `prediction`; NaN where the
        library does not keep how often members drew each row, for which `warnings` has the reason.
    standard_error_kind : {"estimate", "upper bound", "unknown"}
        An upper bound where the members are too few, or the bags not of a kind, for an estimate; `warnings` has the
        reason.
    lower, upper : ndarray of float64, shape (n_rows,), or None
        Interval in which the target of a fresh row lies; None for classifiers.
    interval_level : float
    classes : ndarray of shape (n_labels,) or None
    warnings : tuple of str
    index : pandas.Index or None
        That of `X_new`, where it is a DataFrame.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> found = ens_plugin.predict_with_uncertainty(forest, X, y, X[:2])
    >>> found.prediction.shape, found.standard_error.shape, found.lower
    ((2, 3), (2, 3), None)
    """

    prediction: FloatArray
    standard_error: FloatArray
    standard_error_kind: SpreadKind
    lower: FloatArray | None
    upper: FloatArray | None
    interval_level: float
    classes: NDArray[Any] | None
    warnings: tuple[str, ...]
    index: pd.Index[Any] | None = None

    def __repr__(self) -> str:
        """Return the first rows and the warnings as text of at most 80 columns."""
        cautions = (line for text in self.warnings for line in wrapped(f"Warning: {printable(text)}", later="  "))
        return "\n".join([first_rows("PredictionUncertainty", self.to_frame()), *cautions])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with the index of `X_new`, if it has one.

        Returns
        -------
        DataFrame
            Columns ``prediction``, ``standard_error``, ``lower`` and ``upper``; of a classifier, the former two with a
            column for each label below them.
        """
        import pandas as pd

        if self.classes is None:
            columns = {name: getattr(self, name) for name in ("prediction", "standard_error", "lower", "upper")}
            return pd.DataFrame(columns, index=self.index)
        tables = {
            name: pd.DataFrame(getattr(self, name), index=self.index, columns=self.classes)
            for name in ("prediction", "standard_error")
        }
        return pd.concat(tables, axis=1)


@ends_at_caller
def predict_with_uncertainty(
    model: Any,
    X_train: Any,
    y_train: ArrayLike,
    X_new: Any,
    *,
    interval_level: float = 0.95,
    groups: Any = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> PredictionUncertainty:
    r"""Return what an ensemble predicts for new rows, and how uncertain that is; nothing is trained or held out.

    The standard error is of the prediction: how much another training set would move it.  The interval is for the
    target of a fresh row: it holds the noise of the target too, and is much wider.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`, but no CustomEnsemble of arrays, which cannot predict new rows.
    X_train : array-like of shape (n_training_rows, n_features)
        Exactly the training rows, in training order.
    y_train : array-like of shape (n_training_rows,)
        The training target.
    X_new : array-like of shape (n_rows, n_features)
        The rows to predict.
    interval_level : float, default=0.95
        Chance that the interval contains the target of a fresh row.
    groups : array-like of shape (n_training_rows,), or "identical", optional
        Training rows that belong together, as for :func:`ens_plugin.analyze`.  Residuals are then of members that were
        trained on no row of the group, and the interval is for a row of a fresh group.
    sample_weight : array-like of shape (n_training_rows,), optional
        Weights of the residuals of a regression.
    n_jobs : int or None, default=None
        Threads, joblib's convention.  The result does not depend on it.

    Returns
    -------
    PredictionUncertainty

    Raises
    ------
    EnsPluginError
        One of its kinds in :mod:`ens_plugin.errors`, as :func:`ens_plugin.analyze`: the rows are not the training rows,
        were trained on without bootstrap, are copies of each other, or are too few for the level of the
        interval (fewer than 2 / (1 - level) - 1 rows or groups); an option is out of range.

    Notes
    -----
    The standard error is the root of :math:`\rho (v + \rho \bar v)/(1 + \rho) + v/B`.  v is the variance of the
    members' predictions of the row, :math:`\bar v` its mean over rows, and :math:`\rho` the ratio of the variance over
    training sets to that over members.  The ratio is the same for all rows; the variance over training sets behind it
    is the mean of the infinitesimal jackknife and the jackknife after the bootstrap, without the noise of the members
    (S. Wager, T. Hastie, B. Efron 2014, JMLR 15, section 3), over new rows and out-of-bag training rows.

    The interval is the prediction plus empirical quantiles of the out-of-bag residuals (H. Zhang, J. Zimmerman,
    D. Nettleton, D. Nordman 2020, *Random forest prediction intervals*, The American Statistician 74, section 2).
    Residuals are narrowed to the size of the whole ensemble, because out-of-bag members are fewer.  Its width is the
    same for all rows.  Coverage is that of fresh rows on average: where the noise of the target differs, rows with
    little noise are covered more often than `interval_level`, and rows with much noise less often.  A row unlike all
    training rows is not covered at all.  ``docs/explanations/prediction-intervals.md`` has formulas and
    measured coverage.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import ens_plugin
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(100, random_state=0).fit(X[:400], y[:400])
    >>> found = ens_plugin.predict_with_uncertainty(forest, X[:400], y[:400], X[400:])
    >>> float(((found.lower <= y[400:]) & (y[400:] <= found.upper)).mean()) > 0.85
    True
    """
    level = as_chance(interval_level, "interval_level")
    with model_errors(model), granted_threads(n_jobs):
        rows = read_training_rows(model, X_train, y_train, sample_weight, groups)
        adapter = rows.adapter
        refuse_own_loss(adapter, "The interval of a prediction")
        refuse_other_prediction(adapter)
        if adapter.classes is not None and sample_weight is not None:
            raise InputError(
                "sample_weight weights the residuals behind the interval of a regression, and this model is a "
                "classifier; leave it out."
            )
        new = _new_rows(model, adapter, X_new)
        if new.shape[0] == 0:
            raise InputError("X_new has no rows; pass the rows to predict.")
        prediction = adapter.inverse_link(mean_outputs(adapter, new, None).mean)
        limits, left_out = (None, ()) if adapter.classes is not None else _limits(rows, level)
        spread = _spread(model, rows, X_train, X_new, prediction.shape)
    return PredictionUncertainty(
        prediction=prediction,
        standard_error=spread.standard_error,
        standard_error_kind=spread.kind,
        lower=None if limits is None else prediction + limits[0],
        upper=None if limits is None else prediction + limits[1],
        interval_level=level,
        classes=adapter.classes,
        warnings=(*(found.sentence for found in (*rows.findings, *left_out)), *spread.cautions),
        index=getattr(X_new, "index", None) if hasattr(X_new, "iloc") else None,
    )


def _new_rows(model: Any, adapter: EnsembleAdapter, X_new: Any) -> Any:
    """Return the rows to predict as the adapter takes them; an error names them X_new."""
    try:
        return adapter.prepare(unwrap(model, X_new, are_fresh=True)[1])
    except InputError as error:
        raise type(error)(f"X_new cannot be predicted. {error}") from error


def _limits(rows: TrainingRows, level: float) -> tuple[tuple[float, float], tuple[Finding, ...]]:
    """Return the quantiles of the residuals of the whole ensemble, and notes on them."""
    adapter = rows.adapter
    rng = np.random.default_rng(0)  # of a sample that is not used
    evidence = tally_rows(adapter, rows.features, rows.bags, rows.target, rows.weight, rng=rng, progress=None)
    assert isinstance(evidence.tally, ValueTally)
    usable = usable_rows(rows, np.arange(rows.target.size), evidence.tally.trials)
    tally, weight = select_rows(evidence.tally, usable), rows.weight[usable]
    assert isinstance(tally, ValueTally)
    groups = None if rows.groups is None else rows.groups[usable]
    limits = residual_limits(residuals_at_size(tally, weight, adapter.n_members), level, weight, groups)
    n_weighted = int(np.count_nonzero(rows.weight > 0))
    return limits, left_out_notes(n_weighted - weight.size, n_weighted)


def _spread(model: Any, rows: TrainingRows, X_train: Any, X_new: Any, shape: tuple[int, ...]) -> PredictionSpread:
    """Return the standard errors and warnings about them; NaN, and the reason as a warning, where unknown."""
    # Groups of one row each are rows, for which more is known.
    are_rows = rows.groups is None or np.unique(rows.groups).size == rows.groups.size
    try:
        return prediction_spread(read_draws(model, X_train, X_new, rows.labels, None if are_rows else rows.groups))
    except (BagError, TooFewMembersError) as error:
        return PredictionSpread(np.full(shape, np.nan), "unknown", (f"The standard error is not known. {error}",))
