"""A survival forest as a classifier of events up to one time."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import counted
from ens_plugin.errors import InputError

__all__ = ["SurvivalAt", "survival_at"]


class SurvivalAt:
    """A survival forest that predicts, for each row, the probability of an event up to one time; see `survival_at`.

    Attributes
    ----------
    forest : fitted RandomSurvivalForest or ExtraSurvivalTrees
    time : float
    classes_ : ndarray
        ``[False, True]``: no event up to `time`, or an event.
    """

    def __init__(self, forest: Any, time: float) -> None:
        self.forest = forest
        self.time = time
        self.classes_ = np.array([False, True])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of survival beyond the time, and of an event up to it, shape (n_rows, 2)."""
        survival = self.forest.predict_survival_function(X, return_array=True)
        place = np.searchsorted(self.forest.unique_times_, self.time, side="right") - 1
        beyond = survival[:, place] if place >= 0 else np.ones(survival.shape[0])
        return np.stack([beyond, 1.0 - beyond], axis=1)

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Return whether an event up to the time is likelier than none."""
        return np.asarray(self.predict_proba(X)[:, 1] > 0.5)


def survival_at(forest: Any, time: float) -> SurvivalAt:
    """Return a survival forest as a classifier of whether the event happens up to one time.

    For :func:`ens_plugin.analyze` and the functions like it, with the structured target of scikit-survival: an event up
    to `time` is the label True.  Rows that were censored before `time` have no label; the others are weighted by the
    inverse probability of not being censored, which Kaplan and Meier's estimator gives from the rows passed (Graf et
    al. 1999).  The Brier score at `time` is then the criterion ``"probability"``, and ``metric="roc_auc"`` the
    cumulative, dynamic area under the curve.

    Parameters
    ----------
    forest : fitted RandomSurvivalForest or ExtraSurvivalTrees
        Trained with ``low_memory=False``, the default.
    time : float
        Below the largest time of the training rows.

    Returns
    -------
    SurvivalAt

    Raises
    ------
    InputError
        If `time` is no positive number.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei and M. Schumacher (1999), Assessment and comparison of prognostic classification
    schemes for survival data, Statistics in Medicine 18.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters.sksurv import survival_at
    >>> from sksurv.datasets import load_whas500
    >>> from sksurv.ensemble import RandomSurvivalForest
    >>> X, y = load_whas500()
    >>> forest = RandomSurvivalForest(200, random_state=0).fit(X.astype(float), y)
    >>> report = ens_plugin.analyze(survival_at(forest, 365.0), X.astype(float), y)
    >>> report.n_members
    200
    """
    if isinstance(time, bool) or not (isinstance(time, Real) and 0 < float(time) < inf):
        raise InputError(f"time={time!r} is not a positive number; pass one in the unit of the times in y.")
    return SurvivalAt(forest, float(time))


def event_labels(y: ArrayLike, time: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the label of each row, 1 for an event up to a time, and its weight, 0 where it was censored before.

    Raises
    ------
    InputError
        If `y` is not a structured target of scikit-survival, or has too few rows on one side of the time.
    """
    from sksurv.nonparametric import CensoringDistributionEstimator

    target = np.asarray(y)
    event, times = events_and_times(target)
    had_event, survived = event & (times <= time), times > time
    if not had_event.any() or not survived.any():
        raise InputError(
            f"{counted(np.count_nonzero(had_event), 'row has', 'rows have')} an event up to time {time:g}, and "
            f"{counted(np.count_nonzero(survived), 'is', 'are')} observed beyond it: there must be rows of both. The "
            f"times of y range from {times.min():g} to {times.max():g}; choose one between."
        )
    weight = np.zeros(times.size)
    if event.all():
        weight[had_event | survived] = 1.0
        return had_event.astype(np.int64), weight
    uncensored = CensoringDistributionEstimator().fit(target)
    weight[had_event] = 1.0 / uncensored.predict_proba(times[had_event])
    weight[survived] = 1.0 / uncensored.predict_proba(np.array([time]))
    return had_event.astype(np.int64), weight


def events_and_times(y: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether each row had an event, and the time of the event or of the censoring.

    Raises
    ------
    InputError
        If `y` is not a structured target of scikit-survival.
    """
    from sksurv.util import check_array_survival

    try:
        event, times = check_array_survival(np.empty((y.shape[0], 1)), y)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"y is no target of scikit-survival ({error}). Pass an array as sksurv.util.Surv.from_arrays(event, time) "
            "makes it: a field with the event as a boolean, and a field with its time or the time of censoring."
        ) from error
    return event, times
