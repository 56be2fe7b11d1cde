"""Searches over an ensemble's parameters without folds: each setting is fitted once and judged by out-of-bag rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import MetadataRequest

from ens_plugin.analysis.analyze import analyze
from ens_plugin.analysis.arguments import metric_of_label
from ens_plugin.analysis.checks import warn_of_doubts
from ens_plugin.analysis.options import Metric
from ens_plugin.core.validation import as_count
from ens_plugin.errors import BagError, DataMismatchError, InputError
from ens_plugin.report.ensemble_report import EnsembleReport


@dataclass(frozen=True)
class OneFold:
    """A splitter with one split, whose training rows and test rows are all rows, in their order.

    With :func:`make_oob_scorer`, it makes a search of scikit-learn one without folds: every setting is fitted once, on
    all rows.  With any other scorer it would measure the error on training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin import OneFold
    >>> [(train.tolist(), test.tolist()) for train, test in OneFold().split(np.zeros((3, 2)))]
    [([0, 1, 2], [0, 1, 2])]
    """

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the one split.

        Parameters
        ----------
        X : array-like of shape (n_rows, ...)
        y : object
            Ignored.
        groups : None

        Raises
        ------
        InputError
            If groups are passed: nothing is split here, so they would have no effect.
        """
        if groups is not None:
            raise InputError(
                "groups were passed to OneFold, which splits nothing, so they would have no effect on the scores. Pass "
                "them to the scorer: scoring=functools.partial(make_oob_scorer(), groups=groups), or with "
                "scikit-learn's metadata routing scoring=make_oob_scorer().set_score_request(groups=True)."
            )
        rows = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
        yield rows, rows

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return 1."""
        return 1


class OobScorer:
    """Scores a fitted ensemble by its out-of-bag error; made by :func:`make_oob_scorer`.

    Parameters
    ----------
    metric : str, scorer, callable or None
        As of :func:`ens_plugin.analyze`.
    size : float
        Ensemble size to score at, or infinity.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> scorer = ens_plugin.make_oob_scorer()
    >>> -0.1 < scorer(forest, X, y) < 0  # minus the error of infinitely many members
    True
    """

    def __init__(self, metric: Metric | None, size: float) -> None:
        self.metric = metric
        self.size = size
        self._requests: dict[str, bool | str | None] = {"sample_weight": None, "groups": None}

    def __repr__(self) -> str:
        metric = "" if self.metric is None else f"metric={getattr(self.metric, '__name__', self.metric)!r}, "
        return f"make_oob_scorer({metric}size={self.size})"

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the score of a fitted ensemble; greater is better.

        Parameters
        ----------
        estimator : fitted ensemble
            As for :func:`ens_plugin.analyze`.
        X : array-like of shape (n_rows, n_features)
            Exactly the training rows, in training order, as :class:`OneFold` passes them.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the error.  scikit-learn 1.7 and later pass those of the search's ``fit``.
        groups : array-like of shape (n_rows,), or "identical", optional
            Rows that belong together.

        Returns
        -------
        float
            Minus the out-of-bag error at `size`, or the metric of a scorer of scikit-learn.

        Raises
        ------
        EnsPluginError
            As :func:`ens_plugin.analyze`; for example BagError if the ensemble has no bags.

        Warns
        -----
        WeakEstimateWarning
            If the report of the analysis doubts the error.
        """
        if y is None:
            raise InputError("An out-of-bag error needs the target; pass y to the fit of the search.")
        try:
            report = analyze(estimator, X, y, metric=self.metric, sample_weight=sample_weight, groups=groups)
        except BagError as error:
            raise BagError(
                f"This setting cannot be scored by out-of-bag rows: {error} In a search, leave the setting out, or "
                "search with folds and a scoring of scikit-learn."
            ) from error
        except DataMismatchError as error:
            raise DataMismatchError(
                "The scorer was not given the training rows. In a search, pass cv=ens_plugin.OneFold(); where the rows "
                "are the resource of a halving search, give it an integer random_state too. The analysis of the rows "
                f"that it was given found: {error}"
            ) from error
        warn_of_doubts(report)
        return self._score(report)

    def set_score_request(
        self, *, sample_weight: bool | str | None = None, groups: bool | str | None = None
    ) -> OobScorer:
        """Set which metadata the scorer requests where scikit-learn's metadata routing is enabled.

        Parameters
        ----------
        sample_weight, groups : bool, str or None
            True: wanted; False: not wanted; a name: wanted under this name; None: passing it to ``fit`` is an error.

        Returns
        -------
        OobScorer
            The scorer itself.
        """
        self._requests = {"sample_weight": sample_weight, "groups": groups}
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that the scorer requests, in the form in which scikit-learn looks it up."""
        request = MetadataRequest(owner=type(self).__name__)
        for name, wanted in self._requests.items():
            request.score.add_request(param=name, alias=wanted)
        return request

    def _score(self, report: EnsembleReport) -> float:
        error = report.error_curve.at(self.size)
        return error if report.error_curve.greater_is_better else -error


def make_oob_scorer(
    metric: Metric | None = None, size: float = math.inf, *, positive_label: object = None
) -> OobScorer:
    """Return a scorer by the out-of-bag error, for searches without folds.

    ``GridSearchCV(estimator, grid, scoring=make_oob_scorer(), cv=OneFold())`` fits each setting once, on all rows, and
    compares the settings by the error that :func:`ens_plugin.analyze` estimates from out-of-bag rows.  So do
    ``RandomizedSearchCV`` and the halving searches.

    Parameters
    ----------
    metric : str, scorer or callable, optional
        As of :func:`ens_plugin.analyze`; None means 0-1 error or mean squared error.  A scorer of scikit-learn is the
        score; that of an error or of a user's own function is its negative.
    size : int or ``math.inf``, default=infinity
        Ensemble size at which settings are compared, whatever size they are trained at.  Infinity compares
        them as if each had enough members.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.

    Returns
    -------
    OobScorer
        ``scorer(estimator, X, y) -> float``, greater is better.

    Raises
    ------
    InputError
        If `size` is neither a whole number of at least 1 nor infinity.

    Notes
    -----
    The best score of a search is optimistic, as it is with folds: it is the best of many estimates.  The error of the
    chosen setting on fresh rows is known from rows that took no part in the search, or from a search inside each
    fold of a cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import GridSearchCV
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = GridSearchCV(
    ...     RandomForestClassifier(50, random_state=0),
    ...     {"min_samples_leaf": [1, 50]},
    ...     scoring=ens_plugin.make_oob_scorer(),
    ...     cv=ens_plugin.OneFold(),
    ... ).fit(X, y)
    >>> search.best_params_
    {'min_samples_leaf': 1}
    """
    if not (isinstance(size, float) and size == math.inf):
        size = as_count(size, "size")
    return OobScorer(metric_of_label(metric, positive_label), size)
