"""Estimators of scikit-learn that find their own number of members when they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from ens_plugin.adapters.library import LARGEST_SEED
from ens_plugin.adapters.sklearn.training import UnfittedLearnerError, check_fitted_columns, take_columns
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.sizing.grow import MAX_SIZE, PROBE_SIZE, Growth, find_trainer, grow, known_task, split_pipeline


def _delegates(name: str) -> Callable[[Any], bool]:
    def has_method(model: Any) -> bool:
        getattr(model.estimator_ if hasattr(model, "estimator_") else model._template(), name)
        return True

    return has_method


class _RightSized(BaseEstimator):
    """Base class of the right-sized classifier and regressor."""

    estimator: Any
    probe_size: int
    max_size: int
    random_state: Any
    verbose: bool
    estimator_: Any
    growth_: Growth
    n_members_: int
    _default: ClassVar[type]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels or values that the ensemble predicts for the rows of X."""
        return np.asarray(self._fitted_to(X).predict(X))

    def _template(self) -> Any:
        return self._default() if self.estimator is None else self.estimator

    def _unfitted(self) -> Any:
        """Return the unfitted ensemble to grow, with `random_state` as its seed unless that is None."""
        find_trainer(split_pipeline(self._template())[0])
        estimator = clone(self._template())
        if self.random_state is not None:
            seed = self.random_state
            if not isinstance(seed, (int, np.integer)):
                seed = int(check_random_state(seed).randint(LARGEST_SEED))
            split_pipeline(estimator)[0].set_params(random_state=seed)
        return estimator

    def _grow(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, **wanted: Any) -> Growth:
        unfitted = self._unfitted()
        ensemble = split_pipeline(unfitted)[0]
        own, other = "regression", "RightSizedClassifier"
        if isinstance(self, ClassifierMixin):
            own, other = "classification", "RightSizedRegressor"
        task, name = known_task(ensemble), type(ensemble).__name__
        if task is None:
            raise UnsupportedModelError(
                f"A {type(self).__name__} cannot train {name}, whose class does not state whether it "
                f"predicts labels or values. Derive {name} from a mixin of sklearn.base and BaseEstimator, or use "
                "ens_plugin.grow."
            )
        if task != own:
            raise UnsupportedModelError(f"A {type(self).__name__} cannot train {name}; use {other}.")
        return grow(
            unfitted,
            X,
            y,
            probe_size=self.probe_size,
            max_size=self.max_size,
            sample_weight=sample_weight,
            verbose=self.verbose,
            **wanted,
        )

    def _keep(self, growth: Growth) -> None:
        self.growth_, self.estimator_, self.n_members_ = growth, growth.model, growth.n_members
        take_columns(self, growth.model)

    def _fitted_to(self, X: Any) -> Any:
        """Return the fitted ensemble, or raise an error if X has other columns than in training."""
        if not hasattr(self, "estimator_"):
            raise UnfittedLearnerError(f"This {type(self).__name__} has not been fitted; call its fit(X, y) first.")
        check_fitted_columns(self, X)
        return self.estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags, inner = super().__sklearn_tags__(), get_tags(self._template()).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        return tags


class RightSizedClassifier(ClassifierMixin, _RightSized):
    """Classifier that trains an ensemble to its recommended size.

    Parameters
    ----------
    estimator : unfitted ensemble, or Pipeline, default=None
        As for :func:`ens_plugin.grow`; its number of members is ignored.  None stands for
        ``RandomForestClassifier()``.
    metric : str, scorer or callable, optional
        The name of a scorer of scikit-learn (``"roc_auc"``, ``"neg_log_loss"``), a scorer of ``make_scorer``, or a
        function, as for :func:`ens_plugin.analyze`; the size is then by this metric.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.
    criterion : {"auto", "agreement", "error", "probability", "metric"}, default="auto"
        What the size has to meet, as for :func:`ens_plugin.analyze`.
    tolerance : float, optional
        What the ensemble may lose against infinitely many members, as for :func:`ens_plugin.analyze`.
    probe_size : int, default=50
        Members trained before the estimate.
    max_size : int, default=5001
        Most members of the ensemble.
    random_state : int, RandomState or None, default=None
        Seed of the ensemble; None leaves the one that `estimator` has.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Attributes
    ----------
    estimator_ : fitted ensemble, or Pipeline
    n_members_ : int
    growth_ : Growth
        History of sizes, estimates and times, the report, and whether `max_size` was enough.
    classes_ : ndarray, shape (n_labels,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    Notes
    -----
    With fewer than 30 rows, or fewer than 5 out-of-bag members per row, the probe is kept and a
    :class:`~ens_plugin.errors.NotConvergedWarning` is issued.  ``predict_proba``, ``predict_log_proba`` and
    ``decision_function`` exist if the ensemble has them.  ``sample_weight`` weighs rows in training and in the
    estimate of the size; with metadata routing on, ``set_fit_request(sample_weight=True)`` requests it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from ens_plugin import RightSizedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RightSizedClassifier(ExtraTreesClassifier(bootstrap=True), random_state=0).fit(X, y)
    >>> model.n_members_ == len(model.estimator_.estimators_), model.growth_.converged
    (True, True)
    """

    _default = RandomForestClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        metric: Metric | None = AnalysisOptions.metric,
        positive_label: object = None,
        criterion: str = AnalysisOptions.criterion,
        tolerance: float | None = None,
        probe_size: int = PROBE_SIZE,
        max_size: int = MAX_SIZE,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.positive_label = positive_label
        self.criterion = criterion
        self.tolerance = tolerance
        self.probe_size = probe_size
        self.max_size = max_size
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> RightSizedClassifier:
        """Train the ensemble to its recommended size, and return the fitted estimator.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
            Labels, at least two different ones.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self

        Raises
        ------
        EnsPluginError
            As :func:`ens_plugin.grow`; an earlier fit is then kept.
        """
        names = ("metric", "positive_label", "criterion", "tolerance")
        self._keep(self._grow(X, y, sample_weight, **{name: getattr(self, name) for name in names}))
        self.classes_ = self.estimator_.classes_
        return self

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the ensemble's probabilities of the labels, shape (n_rows, n_labels); errors as for `predict`."""
        return np.asarray(self._fitted_to(X).predict_proba(X))

    @available_if(_delegates("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of the ensemble's probabilities, shape (n_rows, n_labels); errors as for `predict`."""
        return np.asarray(self._fitted_to(X).predict_log_proba(X))

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the ensemble's decision function, shape (n_rows,) or (n_rows, n_labels); errors as for `predict`."""
        return np.asarray(self._fitted_to(X).decision_function(X))


class RightSizedRegressor(RegressorMixin, _RightSized):
    """Regressor that trains an ensemble to its recommended size.

    Parameters
    ----------
    estimator : unfitted ensemble, or Pipeline, default=None
        As for :func:`ens_plugin.grow`; its number of members is ignored.  None stands for
        ``RandomForestRegressor()``.
    metric : str, scorer or callable, optional
        The name of a scorer of scikit-learn (``"r2"``, ``"neg_mean_absolute_error"``), a scorer of ``make_scorer``,
        or a function, as for :func:`ens_plugin.analyze`; the size is then by this metric.
    tolerance : float, optional
        Wanted mean squared error in excess of the infinite ensemble's, relative to it, 0.01 by default; or distance of
        the metric, as for :func:`ens_plugin.analyze`.
    probe_size : int, default=50
        Members trained before the estimate.
    max_size : int, default=5001
        Most members of the ensemble.
    random_state : int, RandomState or None, default=None
        Seed of the ensemble; None leaves the one that `estimator` has.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Attributes
    ----------
    estimator_ : fitted ensemble, or Pipeline
    n_members_ : int
    growth_ : Growth
        History of sizes, estimates and times, the report, and whether `max_size` was enough.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    Notes
    -----
    With fewer than 30 rows, or fewer than 5 out-of-bag members per row, the probe is kept and a
    :class:`~ens_plugin.errors.NotConvergedWarning` is issued.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ens_plugin import RightSizedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RightSizedRegressor(tolerance=0.02, random_state=0).fit(X, y)
    >>> 30 < model.n_members_ < 70
    True
    """

    _default = RandomForestRegressor

    def __init__(
        self,
        estimator: Any = None,
        *,
        metric: Metric | None = AnalysisOptions.metric,
        tolerance: float | None = AnalysisOptions.tolerance,
        probe_size: int = PROBE_SIZE,
        max_size: int = MAX_SIZE,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.tolerance = tolerance
        self.probe_size = probe_size
        self.max_size = max_size
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> RightSizedRegressor:
        """Train the ensemble to its recommended size, and return the fitted estimator.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self

        Raises
        ------
        EnsPluginError
            As :func:`ens_plugin.grow`; an earlier fit is then kept.
        """
        self._keep(self._grow(X, y, sample_weight, metric=self.metric, tolerance=self.tolerance))
        return self
