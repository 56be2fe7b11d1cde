"""A classifier that stops querying an ensemble's members for a row once its label is nearly certain."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import VerifiesRows
from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.registry import find_adapter, find_library, is_known, is_registered
from ens_plugin.adapters.shared.refusals import no_adapter
from ens_plugin.adapters.sklearn.estimator_checks import UnfittedLearnerError, check_columns, take_columns
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis.rows.targets import encode_target
from ens_plugin.core.validation import as_confidence, refuse_lazy, shown, with_article
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError, UnsupportedModelError
from ens_plugin.learners.pruning.member_queries import StoppingRule, Totals, codes, mean_outputs, query_rows
from ens_plugin.learners.pruning.stopping_rules import (
    OutOfBagOutputs,
    expected_saving,
    make_stopping_rule,
    out_of_bag_outputs,
    row_prior,
)
from ens_plugin.learners.tasks import known_task, refuse_class

__all__ = ["DynamicPruningClassifier", "PrunedPrediction"]

RULES = ("full", "infinite", "learned")
DATA = ("oob", "holdout")
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)


@dataclass(frozen=True, eq=False)
class PrunedPrediction:
    """Predictions for some rows, each from the members queried until its label was nearly certain.

    Attributes
    ----------
    labels : ndarray, shape (n_rows,)
    probabilities : ndarray of float, shape (n_rows, n_labels)
        Mean output of the members that were queried.
    n_queries : ndarray of int, shape (n_rows,)
        Number of members that were queried.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.float64]
    n_queries: NDArray[np.int64]


class DynamicPruningClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier that predicts with an ensemble, but queries members only until a row's label is nearly certain.

    Members are queried in order.  At checkpoints, at growing distances, rows whose label is settled, hence
    unlikely to change, are dropped.  All other rows get the whole ensemble's label.

    Parameters
    ----------
    estimator : classifier
        An ensemble with an adapter in ens_plugin, also inside a Pipeline or a search, which is cloned and fitted; or
        a fitted one in ``sklearn.frozen.FrozenEstimator`` (scikit-learn 1.6 or newer), which is used unchanged.
    rule : {"learned", "full", "infinite"}, default="learned"
        When a row is settled.  "full" (2009): the whole ensemble's label is the current one with probability
        `confidence`, if all shares of votes are equally likely a priori.  "infinite" (2011): the same for the label
        of the infinite ensemble.  "learned": as "full", with the distribution of vote shares fitted to the
        training rows' out-of-bag votes; queries fewer members for the same agreement.
    confidence : float, default=0.99
        Wanted probability that a settled row's label is final, strictly between 0.5 and 1.
    data : {"oob", "holdout"}, default="oob"
        Whether the rows given to `fit` are a frozen ensemble's training rows, in training order, or rows that it
        was not trained on.

    Attributes
    ----------
    estimator_ : fitted classifier
        The whole ensemble; a frozen one is not copied.
    classes_ : ndarray, shape (n_labels,)
    n_members_ : int
        Members of the whole ensemble.
    expected_queries_ : float or None
        Mean number of members that new rows will need.  None where rule is "full" or "infinite" and no row is out of
        bag for two members.
    expected_disagreement_ : float or None
        Expected share of new rows with another label than from the whole ensemble.
    n_features_in_ : int
        Where the fitted estimator has it.
    feature_names_in_ : ndarray of str
        Where the fitted estimator has it.

    Notes
    -----
    ``docs/explanations/pruning.md`` has the assumptions of each rule.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin import DynamicPruningClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pruned = DynamicPruningClassifier(RandomForestClassifier(201, random_state=0)).fit(X, y)
    >>> bool(pruned.expected_queries_ < 40 and pruned.expected_disagreement_ < 0.01)
    True
    >>> pruned.query(X[:3]).labels.tolist()
    [0, 0, 0]
    """

    classes_: NDArray[Any]
    expected_queries_: float | None
    expected_disagreement_: float | None

    def __init__(self, estimator: Any, *, rule: str = "learned", confidence: float = 0.99, data: str = "oob") -> None:
        self.estimator = estimator
        self.rule = rule
        self.confidence = confidence
        self.data = data

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> DynamicPruningClassifier:
        """Fit the ensemble, unless it is frozen, and compute the votes at which a row needs no further member.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        **fit_params
            Passed to the ensemble's own ``fit``: `sample_weight`, for example.  With scikit-learn's metadata routing
            on, only the parameters that the ensemble requests.

        Returns
        -------
        DynamicPruningClassifier
            Itself.

        Raises
        ------
        InputError
            If a parameter is out of range, or y holds a single label.
        NotFittedError
            If a frozen ensemble is not fitted.
        UnsupportedModelError
            If there is no adapter for the ensemble, or it is a regressor.
        BagError
            If the rule needs out-of-bag rows and there are none, or bags cannot be proved.
        TooFewMembersError
            If the rule needs out-of-bag rows and none is out of bag for two members.
        DataMismatchError
            If rows contradict `data`, or y holds labels that a frozen ensemble was not trained on.
        """
        self._check_parameters()
        model = self._fitted(X, y, fit_params)
        ensemble, rows = unwrap(model, X)
        adapter = _classifier_adapter(ensemble)
        features = adapter.prepare(rows)
        adapter.check_members(features)
        encode_target(adapter, y)
        found = self._out_of_bag_outputs(adapter, rows, features, y)
        prior = None if found is None else row_prior(found, adapter.output_kind)
        table = make_stopping_rule(adapter, self.rule, self.confidence, prior)
        saving = None if found is None or prior is None else expected_saving(adapter, table, found, prior)
        self._keep(model, adapter, table, saving)
        return self

    def query(self, X: Any) -> PrunedPrediction:
        """Return each row's label, the mean output of the members queried for the row, and their number.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)

        Raises
        ------
        NotFittedError
            If called before `fit`.
        InputError
            If X is not a table of values that the ensemble accepts.
        DataMismatchError
            If the columns are not the ones the ensemble was trained on.
        """
        totals, adapter = self._totals(X)
        return PrunedPrediction(
            self.classes_[codes(totals, adapter.output_kind)], _probabilities(totals, adapter), totals.queries
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, shape (n_rows,); errors as for :meth:`query`."""
        totals, adapter = self._totals(X)
        return np.asarray(self.classes_[codes(totals, adapter.output_kind)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the mean output of the members queried, shape (n_rows, n_labels), highest for the label of `predict`.

        Coarser than the whole ensemble's, which is ``estimator_.predict_proba``: where the first five members agree,
        they may be the only ones queried, and the row gets probability 1.  Errors as for :meth:`query`.
        """
        return _probabilities(*self._totals(X))

    def count_queries(self, X: Any) -> NDArray[np.int64]:
        """Return how many members are queried for each row, shape (n_rows,); errors as for :meth:`query`."""
        return self._totals(X)[0].queries

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's routing of metadata, from `fit` to the ensemble's own ``fit``."""
        return MetadataRouter(owner=type(self).__name__).add(
            estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _more_tags(self) -> dict[str, Any]:
        # scikit-learn before 1.6 uses these tags in place of __sklearn_tags__.
        return {"allow_nan": self.estimator._get_tags()["allow_nan"]}

    def __getstate__(self) -> dict[str, Any]:
        # The adapter may hold objects that neither pickle nor skops can store; it is made again from the ensemble.
        state = dict(super().__getstate__())
        state.pop("_adapter", None)
        return state

    def _check_parameters(self) -> None:
        if not isinstance(self.rule, str) or self.rule not in RULES:
            raise InputError(f"rule must be one of {', '.join(RULES)}, got {shown(self.rule)}.")
        if not isinstance(self.data, str) or self.data not in DATA:
            raise InputError(f"data must be 'oob' or 'holdout', got {shown(self.data)}.")
        as_confidence(self.confidence)
        if self.data == "holdout" and _frozen_model(self.estimator) is None:
            raise InputError(
                "data='holdout' declares that the ensemble was not trained on the rows given to fit, but it would be "
                "fitted on them. Pass a fitted ensemble as sklearn.frozen.FrozenEstimator(ensemble), or leave "
                "data='oob'."
            )
        refuse_class(self.estimator)
        if known_task(self.estimator) == "regression":
            raise UnsupportedModelError(
                f"{type(self.estimator).__name__} is a regressor: its members have no label to settle. Pass a "
                "classifier."
            )

    def _fitted(self, X: Any, y: ArrayLike, fit_params: dict[str, Any]) -> Any:
        frozen = _frozen_model(self.estimator)
        if frozen is not None:
            return frozen
        if sklearn.get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        _refuse_before_training(self.estimator, self.rule)
        return clone(self.estimator).fit(X, y, **fit_params)

    def _out_of_bag_outputs(
        self, adapter: EnsembleAdapter, rows: Any, features: Any, y: ArrayLike
    ) -> OutOfBagOutputs | None:
        if self.data == "holdout" and _are_training_rows(adapter, features, y):
            raise DataMismatchError(
                "These are the rows the ensemble was trained on. Its members agree on them far more often than on "
                "new rows. Leave out data='holdout', or pass rows that were not used for training."
            )
        try:
            return out_of_bag_outputs(adapter, rows, features, y, self.data)
        except (BagError, TooFewMembersError):
            # "full" and "infinite" assume a distribution of votes and need no rows; scores need their spread.
            if self.rule == "learned" or adapter.output_kind == "scores":
                raise
            return None

    def _keep(
        self, model: Any, adapter: EnsembleAdapter, table: StoppingRule, saving: tuple[float, float] | None
    ) -> None:
        self.estimator_ = model
        assert adapter.classes is not None
        self.classes_ = adapter.classes
        self.n_members_ = adapter.n_members
        self.expected_queries_, self.expected_disagreement_ = (None, None) if saving is None else saving
        self._table = table
        self._adapter = adapter
        take_columns(self, model)

    def _totals(self, X: Any) -> tuple[Totals, EnsembleAdapter]:
        if not hasattr(self, "estimator_"):
            raise UnfittedLearnerError(f"This {type(self).__name__} has not been fitted; call its fit(X, y) first.")
        refuse_lazy(X, "X")
        check_columns(self, X)
        ensemble, rows = unwrap(self.estimator_, X)
        if not hasattr(self, "_adapter"):
            self._adapter = find_adapter(ensemble)
        adapter = self._adapter
        return query_rows(adapter, adapter.prepare(rows), self._table), adapter


def _refuse_before_training(estimator: Any, rule: str) -> None:
    """Raise, before training, the errors about the ensemble that its class and parameters determine."""
    if missing := [name for name in ("fit", "get_params") if not hasattr(estimator, name)]:
        raise UnsupportedModelError(
            f"estimator is {with_article(type(estimator).__name__)} without {' and '.join(missing)}, which cannot be "
            "copied and trained. Pass an ensemble such as RandomForestClassifier(100), or a trained one as "
            "sklearn.frozen.FrozenEstimator(ensemble)."
        )
    ensemble = estimator
    while isinstance(ensemble, Pipeline) and ensemble.steps:
        ensemble = ensemble.steps[-1][1]
    library, has_own_adapter = find_library(ensemble, Trainable), is_registered(ensemble)
    # An adapter that a user registered may support boosted ensembles of a built-in library.
    if library is not None and (issubclass(library, EnsembleAdapter) or not has_own_adapter):
        library.refuse_boosting(ensemble)
    if has_own_adapter:
        return
    home = type(ensemble).__module__
    # A search holds its ensemble only once it is fitted.
    if home.startswith("sklearn.") and not home.startswith("sklearn.model_selection.") and not is_known(ensemble):
        raise UnsupportedModelError(no_adapter(ensemble))
    if rule == "learned" and isinstance(ensemble, FORESTS) and not ensemble.bootstrap:
        raise BagError(
            f"This {type(ensemble).__name__} has no bootstrap (bootstrap=False): every tree is trained on every "
            "row, so rule='learned' has no out-of-bag rows to learn from. Set bootstrap=True, or use rule='full', "
            "which needs none."
        )


def _frozen_model(estimator: Any) -> Any | None:
    """Return the fitted model in scikit-learn's FrozenEstimator, or None."""
    frozen = sys.modules.get("sklearn.frozen")
    return estimator.estimator if frozen is not None and isinstance(estimator, frozen.FrozenEstimator) else None


def _classifier_adapter(ensemble: Any) -> EnsembleAdapter:
    adapter = find_adapter(ensemble)
    if adapter.classes is None:
        raise UnsupportedModelError(
            f"This {type(ensemble).__name__} predicts values: its members have no label to settle. Pass a classifier."
        )
    if adapter.classes.size < 2:
        raise InputError(
            f"The ensemble was trained on one class only, {adapter.classes.tolist()[0]!r}, and every row "
            "gets it. Train it on rows of at least two classes."
        )
    return adapter


def _probabilities(totals: Totals, adapter: EnsembleAdapter) -> NDArray[np.float64]:
    mean = mean_outputs(totals, adapter.output_kind)
    return adapter.inverse_link(mean) if adapter.output_kind == "scores" else mean


def _are_training_rows(adapter: EnsembleAdapter, features: Any, y: ArrayLike) -> bool:
    return isinstance(adapter, VerifiesRows) and adapter.verify_rows(features, np.asarray(y)) == "training"
