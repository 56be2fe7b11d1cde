"""Bootstrap model averaging: the sum of the joint probabilities of models fitted to bootstrap samples (2004)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed

from ens_plugin.adapters.sklearn.estimator_checks import checked_rows, refusals, require_fitted, unchanged_on_failure
from ens_plugin.analysis.rows.targets import target_array
from ens_plugin.core.validation import MOST_MEMBERS, FloatArray, as_chance, as_count, shown
from ens_plugin.errors import InputError
from ens_plugin.papers.model_averaging_2004.bootstrap_members import (
    check_base,
    drawn_rows,
    fit_member,
    fit_single,
    member_template,
)
from ens_plugin.papers.model_averaging_2004.bootstrap_samples import model_draw, row_draw
from ens_plugin.papers.model_averaging_2004.joint_scores import (
    SCORES,
    Scores,
    in_row_blocks,
    joint_scores,
    mean_scores,
    models_needed,
    stacked_scores,
)
from ens_plugin.papers.model_averaging_2004.parameter_bounds import ParameterBounds, parameter_bounds
from ens_plugin.papers.model_averaging_2004.score_regions import ScoreRegions, score_regions
from ens_plugin.papers.model_averaging_2004.settled_growth import SettlingStep, grow_until_settled, models_for_share
from ens_plugin.papers.score_tables_2017.bites.probes import seeded_clone

__all__ = ["BootstrapModelAveragingClassifier"]

BOOTSTRAPS = ("rows", "parametric")
CHECKED_ROWS = 2


class BootstrapModelAveragingClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier that averages a stable base over bootstrap samples by summing joint probabilities (2004).

    T models of the base are fitted to bootstrap samples; a row gets the label
    :math:`\arg\max_y \sum_t P(y, x \mid \theta_t)`.  Meant for stable learners that model the rows
    (naive Bayes), where the training set is small; not for trees, which have no joint probability.

    Parameters
    ----------
    estimator : classifier, default=None
        The base: any with ``predict_joint_log_proba``, as scikit-learn's GaussianNB (None),
        BernoulliNB, MultinomialNB and CategoricalNB.  ComplementNB raises an error: its scores are not
        log probabilities.
    n_estimators : int or "auto", default=100
        Number of models T.  "auto" adds models until the labels of a share of the training rows are settled.
    bootstrap : {"rows", "parametric"}, default="rows"
        Draw training rows with replacement, or draw rows from the base fitted to all of them:
        scikit-learn's four naive Bayes classes above, or a base with ``sample(n_samples, random_state)``
        that returns rows and labels.
    combine : {"joint", "conditional"}, default="joint"
        Sum P(y, x | theta_t), or P(y | x, theta_t), the paper's comparison.
    share : float, default=0.95
        With "auto": wanted share of training rows whose label is settled.
    delta : float, default=0.05
        With "auto": chance that a settled label is not that of infinitely many models, at each check.
    max_n_estimators : int, default=1000
        With "auto": largest number of models; a warning is issued if too few rows are settled then.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples, and of bases that have one.
    n_jobs : int or None, default=None
        Number of threads to fit and predict; results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,)
    class_prior_ : ndarray, shape (n_labels,)
        Weighted share of each label among the training rows.
    estimators_ : list of fitted classifiers
    single_model_ : fitted classifier
        The base fitted to all rows (weighted, if it takes weights), for comparison; parametric samples are
        drawn from it.
    n_estimators_ : int
        Number of models.
    n_drawn_rows_ : int
        Rows of each bootstrap sample: the number of training rows with positive weight.
    history_ : list of SettlingStep
        Empty unless ``n_estimators="auto"``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A label missing from a bootstrap sample has joint probability 0 under that model.  A row of
    probability 0 under all models gets ``class_prior_``.  Missing values are passed to the base, whose errors
    are raised.  ``sample_weight`` is the chance of a row to be drawn,
    as in scikit-learn's bagging; parametric samples come from the base fitted with the weights.

    A joint sum is dominated by the models with a high probability of the row.  ``docs/explanations/model_averaging.md``
    has examples where that helps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ens_plugin import BootstrapModelAveragingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> averaged = BootstrapModelAveragingClassifier(random_state=0).fit(X[::5], y[::5])
    >>> float(round(averaged.score(X, y), 2))
    0.9
    >>> float(round(averaged.settled_rows(X).mean(), 2))
    0.54
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | str = 100,
        bootstrap: str = "rows",
        combine: str = "joint",
        share: float = 0.95,
        delta: float = 0.05,
        max_n_estimators: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap
        self.combine = combine
        self.share = share
        self.delta = delta
        self.max_n_estimators = max_n_estimators
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BootstrapModelAveragingClassifier:
        """Fit the models to bootstrap samples, and return the fitted classifier.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
            Labels, of at least two kinds.
        sample_weight : array-like, shape (n_rows,), default=None
            Chance of each row to be drawn, up to a factor; rows of weight 0 are ignored.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a parameter, the rows, the labels or the weights are invalid, or the base raises an error.
        UnsupportedModelError
            If the base lacks a method that is needed; the message names the method.
        """
        with unchanged_on_failure(self):
            self._check_parameters()
            X, labels = checked_rows(self, X=X, y=y, reset=True)
            with refusals():
                check_classification_targets(labels)
            rows, chance = drawn_rows(sample_weight, X.shape[0])
            self._fit_rows(X[rows], labels[rows], chance)
        return self

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the models' mean joint probability of row and label.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray, shape (n_rows, n_labels)
            Columns as in ``classes_``; minus infinity where every model has probability 0.

        Raises
        ------
        NotFittedError
        InputError
            If X has other features than the training rows, or the base raises an error.
        """
        return self._mean_scores(X, joint_scores)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of :meth:`predict_proba`, shape (n_rows, n_labels)."""
        scores = self._mean_scores(X, SCORES[self.combine])
        total = np.asarray(logsumexp(scores, axis=1, keepdims=True))
        prior = np.broadcast_to(np.log(self.class_prior_), scores.shape).copy()
        return np.asarray(np.subtract(scores, total, out=prior, where=np.isfinite(total)))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each label: its share in the sum over models.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)

        Returns
        -------
        ndarray, shape (n_rows, n_labels)
            Rows sum to 1; columns as in ``classes_``.

        Raises
        ------
        NotFittedError, InputError
            As :meth:`predict_joint_log_proba`.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest sum over models for each row; of tied labels, the first in ``classes_``."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the weighted share of correct labels, among which no unknown one is.

        Raises
        ------
        InputError
            If `y` holds missing values, or no label of the training rows at all.
        """
        require_fitted(self, "estimators_")
        found = np.unique(target_array(y))
        if found.size and not np.isin(found, self.classes_).any():
            raise InputError(
                f"y holds only labels that the training rows did not have: {found.tolist()[:5]}. Those rows had labels "
                f"{self.classes_.tolist()[:10]}. Pass the labels as the models were trained on them."
            )
        return float(super().score(X, y, sample_weight))

    def score_regions(self, X: Any, delta: float = 0.05) -> ScoreRegions:
        """Return intervals that hold, for each row and label, the mean score of infinitely many models.

        See :func:`ens_plugin.papers.model_averaging_2004.score_regions.score_regions`; scores are those that
        `combine` sums.

        Raises
        ------
        NotFittedError, InputError
            As :meth:`predict_joint_log_proba`; InputError also for a row of probability 0 under all models.
        TooFewMembersError
            If there are fewer than three models.
        """
        X = self._rows(X)
        scores, cells = SCORES[self.combine], len(self.estimators_) * self.classes_.size

        def regions(rows: Any) -> ScoreRegions:
            return score_regions(stacked_scores(self.estimators_, rows, self.classes_, scores), delta)

        parts = in_row_blocks(regions, X, cells, self.n_jobs)
        return ScoreRegions(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def settled_rows(self, X: Any, delta: float = 0.05) -> NDArray[np.bool_]:
        """Return which rows have a settled label: the interval of its mean score overlaps that of no other label.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
        delta : float, default=0.05
            Chance that a settled label is not that of infinitely many models.

        Returns
        -------
        ndarray of bool, shape (n_rows,)
            The mean is the share of settled rows.  A row of probability 0 under all models is not settled.

        Raises
        ------
        NotFittedError, InputError
            As :meth:`predict_joint_log_proba`.
        TooFewMembersError
            If there are fewer than three models.
        """
        return np.asarray(self._models_by_row(X, delta) <= self.n_estimators_)

    def models_to_settle(self, X: Any, share: float = 0.95, delta: float = 0.05) -> int | None:
        """Return the estimated number of models that give a share of the rows the label of infinitely many, or None.

        See :func:`ens_plugin.papers.model_averaging_2004.score_regions.models_to_settle`.

        Raises
        ------
        NotFittedError, InputError, TooFewMembersError
            As :meth:`settled_rows`.
        """
        return models_for_share(self._models_by_row(X, delta), as_chance(share, "share"))

    def parameter_bounds(self, parameter: str, delta: float = 0.05) -> ParameterBounds:
        """Return bounds on how far a parameter's mean and spread over models are from those of infinitely many.

        See :func:`ens_plugin.papers.model_averaging_2004.parameter_bounds.parameter_bounds`.

        Parameters
        ----------
        parameter : str
            A fitted attribute of the base, ``"theta_"`` of GaussianNB for example.
        delta : float, default=0.05
            Chance that a bound is exceeded, for each number separately.
        """
        require_fitted(self, "estimators_")
        return parameter_bounds(self.estimators_, parameter, self.classes_, self.n_drawn_rows_, delta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = self._base()
        if hasattr(base, "__sklearn_tags__"):
            of_base = base.__sklearn_tags__().input_tags
            for name in ("allow_nan", "sparse", "positive_only", "categorical", "string"):
                setattr(tags.input_tags, name, getattr(of_base, name))
            tags.classifier_tags.poor_score = base.__sklearn_tags__().classifier_tags.poor_score
        return tags

    def _base(self) -> Any:
        return GaussianNB() if self.estimator is None else self.estimator

    def _check_parameters(self) -> None:
        for name, allowed in (("bootstrap", BOOTSTRAPS), ("combine", tuple(SCORES))):
            if not isinstance(given := getattr(self, name), str) or given not in allowed:
                raise InputError(f"{name} must be {' or '.join(map(repr, allowed))}, got {shown(given)}.")
        if isinstance(self.n_estimators, str):
            if self.n_estimators != "auto":
                raise InputError(f"n_estimators must be a whole number or 'auto', got {self.n_estimators!r}.")
        else:
            as_count(self.n_estimators, "n_estimators", largest=MOST_MEMBERS)
        as_count(self.max_n_estimators, "max_n_estimators", 3, MOST_MEMBERS)
        as_chance(self.share, "share")
        as_chance(self.delta, "delta")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, (int, np.integer)) or self.n_jobs == 0):
            raise InputError(f"n_jobs must be a whole number other than 0, or None, got {shown(self.n_jobs)}.")
        check_base(self._base(), self.bootstrap)

    def _fit_rows(self, X: Any, y: NDArray[Any], chance: FloatArray | None) -> None:
        classes, codes = np.unique(y, return_inverse=True)
        if classes.size < 2:
            raise InputError(
                f"y holds one class only, {classes.tolist()[0]!r} (among rows of positive weight); "
                "pass rows of at least two classes."
            )
        with refusals():
            seed = int(check_random_state(self.random_state).randint(2**31))
        weight = None if chance is None else chance * y.size
        # Members have the streams [seed, 0], [seed, 1], ...; this one differs from all of them.
        base = seeded_clone(self._base(), np.random.default_rng([seed, 0, 1]))
        single = fit_single(base, X, y, weight, self.bootstrap)
        joint_scores(single, X[:CHECKED_ROWS], classes)
        draw = row_draw(X, y, chance) if self.bootstrap == "rows" else model_draw(single, X, chance)
        template = member_template(self._base(), single)

        def grow(start: int, stop: int) -> list[Any]:
            fits = (
                delayed(fit_member)(template, draw, [seed, t], X[:CHECKED_ROWS], classes) for t in range(start, stop)
            )
            return list(Parallel(n_jobs=self.n_jobs, prefer="threads")(fits))

        models, history = self._grown(grow, X, classes)
        self.classes_ = classes
        self.class_prior_ = np.bincount(codes, weights=chance) / (y.size if chance is None else 1.0)
        self.estimators_ = models
        self.single_model_ = single
        self.n_estimators_ = len(models)
        self.n_drawn_rows_ = int(y.size)
        self.history_ = history

    def _grown(
        self, grow: Callable[[int, int], list[Any]], X: Any, classes: NDArray[Any]
    ) -> tuple[list[Any], list[SettlingStep]]:
        if self.n_estimators != "auto":
            return grow(0, int(self.n_estimators)), []

        def by_row(models: list[Any]) -> FloatArray:
            return models_needed(models, X, classes, SCORES[self.combine], self.delta, self.n_jobs)

        return grow_until_settled(grow, by_row, self.share, int(self.max_n_estimators))

    def _mean_scores(self, X: Any, scores: Scores) -> FloatArray:
        X = self._rows(X)
        return np.concatenate(
            in_row_blocks(lambda rows: mean_scores(self.estimators_, rows, self.classes_, scores), X, 1, self.n_jobs)
        )

    def _rows(self, X: Any) -> Any:
        require_fitted(self, "estimators_")
        return checked_rows(self, X=X, reset=False)

    def _models_by_row(self, X: Any, delta: float) -> FloatArray:
        X = self._rows(X)
        return models_needed(self.estimators_, X, self.classes_, SCORES[self.combine], delta, self.n_jobs)
