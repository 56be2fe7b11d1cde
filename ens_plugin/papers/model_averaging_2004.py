r"""Davidson 2004: bootstrap model averaging, and bounds of what more bootstrap models can change.

Bounds on how far T bootstrap models are from infinitely many, for averages of stable learners (2004). A parameter of
T models, fitted to independent bootstrap samples, has a sample mean and a sample standard deviation. Each is within
the bound of its limit for infinitely many models except with chance :math:`\delta`. The bounds do not cover the
distance of that limit from the posterior, which does not depend on T. Where the paper's bound is exceeded more often,
a valid one is given, and the paper's is kept as ``published_...`` (``docs/explanations/papers.md``).

Regions of the class scores of averaged models, and which labels are settled at T models (2004 section 8.2). A model
has the joint score P(y, x | theta_t) for each label y; T models predict the label of the largest mean. Around each
mean is a region that holds the mean of infinitely many models except with a small chance. Where the best label's
region overlaps no other region, the label is settled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from ens_plugin.adapters.members import refusals
from ens_plugin.adapters.sklearn.training import checked_rows, require_fitted, unchanged_on_failure
from ens_plugin.analysis.arguments import target_array
from ens_plugin.core.validation import (
    CELLS_AT_ONCE,
    MOST_MEMBERS,
    FloatArray,
    IntArray,
    as_chance,
    as_count,
    as_numbers,
    as_weight,
    counted,
    shown,
)
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError, WeakEstimateWarning, warn_user
from ens_plugin.papers.members import outputs_without_target
from ens_plugin.papers.score_tables_2017.bites import seeded_clone

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BootstrapModelAveragingClassifier", "bounds", "grow_until_settled"]

Draw = Callable[[np.random.Generator], tuple[Any, NDArray[Any]]]
FeatureDraw = Callable[[IntArray, np.random.Generator], Any]


def row_draw(X: Any, y: NDArray[Any], chance: FloatArray | None) -> Draw:
    """Return a function that draws a bootstrap sample: as many rows as X has, with replacement.

    Parameters
    ----------
    X : ndarray or CSR matrix, shape (n_rows, n_features)
    y : ndarray, shape (n_rows,)
    chance : ndarray, shape (n_rows,), or None
        Probability of each row, summing to 1; None for equal probabilities.
    """

    def draw(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
        rows = _draw_rows(y.size, chance, rng)
        return X[rows], y[rows]

    return draw


def model_draw(model: Any, X: Any, chance: FloatArray | None) -> Draw:
    """Return a function that draws a parametric bootstrap sample: as many rows as X has, from a fitted model.

    Parameters
    ----------
    model : fitted classifier
        With a method ``sample(n_samples, random_state)`` that returns rows and labels, or one of
        scikit-learn's GaussianNB, BernoulliNB, MultinomialNB and CategoricalNB.
    X, chance
        Training rows and their probabilities, as for :func:`row_draw`.  A multinomial model has no
        distribution of the total of a row: each row drawn has the total of a training row drawn at random.

    Raises
    ------
    InputError
        If the model is multinomial and X holds numbers other than whole counts.
    UnsupportedModelError
        If the model cannot draw rows; the message names the method it lacks.
    """
    n_rows = X.shape[0]
    if hasattr(model, "sample"):

        def draw_by_method(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
            rows, labels = model.sample(n_rows, random_state=int(rng.integers(2**31)))
            return rows, np.asarray(labels)

        return draw_by_method
    draw_features = _feature_draw(model, X, chance)
    prior = _class_prior(model)

    def draw(rng: np.random.Generator) -> tuple[Any, NDArray[Any]]:
        codes = rng.choice(prior.size, n_rows, p=prior)
        return draw_features(codes, rng), model.classes_[codes]

    return draw


def draws_own_rows(model: object) -> bool:
    """Return whether :func:`model_draw` can draw rows from this kind of model, fitted or not."""
    return hasattr(model, "sample") or _feature_draw.dispatch(type(model)) is not _feature_draw.dispatch(object)


def _draw_rows(n_rows: int, chance: FloatArray | None, rng: np.random.Generator) -> IntArray:
    return rng.integers(n_rows, size=n_rows) if chance is None else rng.choice(n_rows, n_rows, p=chance)


def _class_prior(model: Any) -> FloatArray:
    prior = model.class_prior_ if isinstance(model, GaussianNB) else np.exp(model.class_log_prior_)
    return np.asarray(prior / np.sum(prior))


@singledispatch
def _feature_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    raise UnsupportedModelError(
        f"{type(model).__name__} cannot draw rows: it has no method sample(n_samples, random_state). Add one that "
        "returns rows and labels, or use bootstrap='rows'."
    )


@_feature_draw.register(GaussianNB)
def _gaussian_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    sd = np.sqrt(model.var_)
    return lambda codes, rng: rng.normal(model.theta_[codes], sd[codes])


@_feature_draw.register(BernoulliNB)
def _bernoulli_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    share = np.exp(model.feature_log_prob_)
    # Ones must lie above the model's threshold, where values count as 1.
    zero = 0.0 if model.binarize is None else float(model.binarize)

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        return zero + (rng.random((codes.size, share.shape[1])) < share[codes])

    return draw if zero else _sparse_like(X, share.shape[1], draw)


@_feature_draw.register(MultinomialNB)
def _multinomial_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    cells = sparse.csr_matrix(X).data
    if np.any(cells != np.floor(cells)):
        raise InputError(
            "X holds fractions, and a multinomial model draws whole counts only; pass counts, or use bootstrap='rows'."
        )
    totals = np.asarray(X.sum(axis=1)).ravel().astype(np.int64)
    share = np.exp(model.feature_log_prob_)
    share /= share.sum(axis=1, keepdims=True)

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        lengths = totals[rng.choice(totals.size, codes.size, p=chance)]
        return rng.multinomial(lengths, share[codes]).astype(np.float64)

    return _sparse_like(X, share.shape[1], draw)


@_feature_draw.register(CategoricalNB)
def _categorical_draw(model: Any, X: Any, chance: FloatArray | None) -> FeatureDraw:
    below = [np.cumsum(np.exp(log_share), axis=1)[:, :-1] for log_share in model.feature_log_prob_]

    def draw(codes: IntArray, rng: np.random.Generator) -> Any:
        columns = [np.sum(rng.random((codes.size, 1)) >= limits[codes], axis=1) for limits in below]
        return np.stack(columns, axis=1)

    return draw


def _sparse_like(X: Any, n_features: int, draw: FeatureDraw) -> FeatureDraw:
    """Return a function that draws features in blocks, sparse where the training rows are, to bound the memory."""
    if not sparse.issparse(X):
        return draw
    height = max(CELLS_AT_ONCE // n_features, 1)

    def draw_sparse(codes: IntArray, rng: np.random.Generator) -> Any:
        starts = range(0, codes.size, height)
        return sparse.vstack([sparse.csr_matrix(draw(codes[i : i + height], rng)) for i in starts], format="csr")

    return draw_sparse


def mean_bound(sd: ArrayLike, n_models: int, delta: float = 0.05) -> FloatArray:
    r"""Return a bound on the distance of the mean of T models from that of infinitely many.

    Parameters
    ----------
    sd : array-like of float, any shape
        Standard deviation of a single model's parameter (or score) over bootstrap samples; in
        practice that of the T models.
    n_models : int
        Number of models T.
    delta : float, default=0.05
        Chance that the bound is exceeded, strictly between 0 and 1.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{T \delta}` (2004 eq. 11), by Chebyshev's inequality: for any distribution.

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 1 or `delta` out of range.

    Notes
    -----
    With the standard deviation of three or more models in place of the true one, the bound still holds
    for normal parameters: Student's t exceeds x with a chance of at most 1/x^2.

    The paper's example (its section 8.2) has 0.00456 for sd 0.057, T = 250, delta = 0.05: that is
    0.057 / 12.5, without the root.  Eq. 11 gives 0.0161.

    Examples
    --------
    >>> round(float(mean_bound(0.057, 250, 0.05)), 4)
    0.0161
    """
    return np.asarray(_as_sd(sd) / math.sqrt(as_count(n_models, "n_models") * as_chance(delta, "delta")))


def sd_bound(sd: ArrayLike, n_models: int, delta: float = 0.05) -> FloatArray:
    r"""Return a bound on the distance of the standard deviation of T models from that of infinitely many.

    Parameters
    ----------
    sd, delta
        As for :func:`mean_bound`.
    n_models : int
        Number of models T, at least 2.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{2 (T - 1) \delta}`, for normal parameters (2004 eq. 13 with the number of
        models where the paper has the number of rows).

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 2 or `delta` out of range.

    Notes
    -----
    With S the standard deviation (ddof 1) of T normal draws,
    :math:`E(S - \sigma)^2 = 2 \sigma^2 (1 - c_4(T)) \le \sigma^2 / (2 (T - 1))`, and Markov's inequality
    for :math:`(S - \sigma)^2` gives the bound.  It still holds with S in place of :math:`\sigma`, from five
    models.  Bootstrapped parameters are normal for many rows only;
    :func:`general_sd_bound` makes no such assumption.

    Examples
    --------
    >>> round(float(sd_bound(0.057, 250, 0.05)), 4)
    0.0114
    """
    models = as_count(n_models, "n_models", smallest=2)
    return np.asarray(_as_sd(sd) / math.sqrt(2.0 * (models - 1) * as_chance(delta, "delta")))


def general_sd_bound(sd: ArrayLike, n_models: int, delta: float = 0.05, excess_kurtosis: float = 0.0) -> FloatArray:
    r"""Return a bound as by :func:`sd_bound`, but for parameters of any distribution with a known kurtosis.

    Parameters
    ----------
    sd, n_models, delta
        As for :func:`sd_bound`.
    excess_kurtosis : float, default=0.0
        Excess kurtosis of a single model's parameter, at least -2; 0 for the normal distribution.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma \sqrt{(2 / (T - 1) + \kappa / T) / \delta}`; twice :func:`sd_bound` for
        :math:`\kappa = 0`.

    Raises
    ------
    InputError
        As :func:`sd_bound`, and if `excess_kurtosis` is below -2 or not finite.

    Notes
    -----
    :math:`\mathrm{Var}(S^2) = \sigma^4 (2 / (T - 1) + \kappa / T)` for any distribution, and
    :math:`|S - \sigma| \le |S^2 - \sigma^2| / \sigma`.

    Examples
    --------
    >>> round(float(general_sd_bound(1.0, 101, 0.05)), 4)
    0.6325
    """
    models = as_count(n_models, "n_models", smallest=2)
    if not math.isfinite(excess_kurtosis) or excess_kurtosis < -2.0:
        raise InputError(f"excess_kurtosis must be a finite number of at least -2, got {excess_kurtosis!r}.")
    relative = 2.0 / (models - 1) + excess_kurtosis / models
    return np.asarray(_as_sd(sd) * math.sqrt(relative / as_chance(delta, "delta")))


def published_sd_bound(sd: ArrayLike, n_models: int, n_rows: int, delta: float = 0.05) -> FloatArray:
    r"""Return the bound on the standard deviation as published in 2004, which is too small; for comparison only.

    Parameters
    ----------
    sd, n_models, delta
        As for :func:`mean_bound`.
    n_rows : int
        Number of rows n of the training data, at least 2.

    Returns
    -------
    ndarray of float64, shape of `sd`
        :math:`\sigma / \sqrt{2 (n - 1) T \delta}` (2004 eq. 13).

    Raises
    ------
    InputError
        If an `sd` is negative or not finite, `n_models` below 1, `n_rows` below 2 or `delta` out of
        range.

    Notes
    -----
    The standard error of a standard deviation of T draws depends on T only; the paper divides by the
    number of rows as well.  With 50 rows and delta = 0.05 it is exceeded in more than half of the
    cases, whatever T is (``benchmarks/papers/model_averaging_2004.py``).

    Examples
    --------
    >>> round(float(published_sd_bound(0.057, 250, 50, 0.05)), 4)
    0.0016
    """
    models = as_count(n_models, "n_models")
    rows = as_count(n_rows, "n_rows", smallest=2)
    return np.asarray(_as_sd(sd) / math.sqrt(2.0 * (rows - 1) * models * as_chance(delta, "delta")))


def _as_sd(sd: ArrayLike) -> FloatArray:
    array = as_numbers(sd, "sd")
    if not np.isfinite(array).all() or np.any(array < 0):
        raise InputError("sd must hold finite numbers of at least 0.")
    return array


FIRST_BATCH = 25
# An early warning is issued where the models needed are at least FAR times max_size, and those still to fit at least
# MOST_TO_COME times the current ones.
FAR = 3
MOST_TO_COME = 3


class SettlingStep(NamedTuple):
    """One check, during the growth of an average, of the share of training rows whose label is final.

    Attributes
    ----------
    size : int
        Number of models at this check.
    settled : float
        Share of the training rows whose label these models settle.
    needed : int or None
        Number of models that would settle the wanted share, extrapolated; None where no number would.
    seconds : float
        Time since the start of the growth.
    """

    size: int
    settled: float
    needed: int | None
    seconds: float


def grow_until_settled(
    grow: Callable[[int, int], list[Any]],
    models_by_row: Callable[[list[Any]], FloatArray],
    share: float,
    max_size: int,
) -> tuple[list[Any], list[SettlingStep]]:
    """Return models and history, adding models (at most doubling them) until the labels of enough rows are settled.

    Parameters
    ----------
    grow : callable
        ``grow(start, stop)`` returns the models numbered start to stop - 1.
    models_by_row : callable
        Returns for a list of models how many would settle each training row, shape (n_rows,).
    share : float
        Wanted share of settled rows.
    max_size : int
        Largest number of models, at least 3; a WeakEstimateWarning is issued there, or before if foreseeable.

    Returns
    -------
    models : list
    history : list of SettlingStep

    Examples
    --------
    Each of ten rows is settled by 60 models, which are numbers here.

    >>> import numpy as np
    >>> from ens_plugin.papers.model_averaging_2004 import grow_until_settled
    >>> models, history = grow_until_settled(
    ...     lambda start, stop: list(range(start, stop)), lambda models: np.full(10, 60.0), share=0.95, max_size=1000
    ... )
    >>> [(step.size, step.settled) for step in history]
    [(25, 0.0), (50, 0.0), (75, 1.0)]
    """
    began = time.perf_counter()
    models: list[Any] = []
    history: list[SettlingStep] = []
    announced = False
    size = min(FIRST_BATCH, max_size)
    while True:
        models += grow(len(models), size)
        by_row = models_by_row(models)
        step = SettlingStep(
            size, float(np.mean(by_row <= size)), models_for_share(by_row, share), time.perf_counter() - began
        )
        history.append(step)
        if step.settled >= share:
            return models, history
        if size == max_size:
            warn_user(_unsettled(step, share), WeakEstimateWarning)
            return models, history
        if not announced and _is_out_of_sight(history, max_size):
            announced = True
            warn_user(_announced(step, share, max_size), WeakEstimateWarning)
        size = min(_next_size(step), max_size)


def models_for_share(by_row: FloatArray, share: float) -> int | None:
    """Return how many models settle the labels of a share of the rows, from how many settle each; None if none do."""
    enough = np.sort(by_row)[math.ceil(share * by_row.size) - 1]
    return int(enough) if np.isfinite(enough) else None


def _next_size(step: SettlingStep) -> int:
    """Return the number of models to grow to: at most twice as many, since the number needed is uncertain."""
    if step.needed is None:
        return 2 * step.size
    return min(max(step.needed, step.size + FIRST_BATCH), 2 * step.size)


def _is_out_of_sight(history: list[SettlingStep], max_size: int) -> bool:
    """Return whether two successive checks estimate far more than `max_size` models, with most models still to fit."""
    if len(history) < 2 or max_size - history[-1].size < MOST_TO_COME * history[-1].size:
        return False
    return all(step.needed is None or step.needed > FAR * max_size for step in history[-2:])


def _announced(step: SettlingStep, share: float, max_size: int) -> str:
    needed = (
        "no number of models settles" if step.needed is None else f"about {counted(step.needed, 'model')} would settle"
    )
    return (
        f"As estimated from {counted(step.size, 'model')}, {needed} the labels of {100 * share:g} % of the training "
        f"rows, and max_n_estimators={max_size} are allowed. That many will be fitted, which takes about "
        f"{_seconds_left(step, max_size):.0f} s more. To avoid it, pass a number as n_estimators, for example 100."
    )


def _seconds_left(step: SettlingStep, max_size: int) -> float:
    """Return the seconds that growing to `max_size` will take, at the rate so far."""
    return step.seconds * (max_size / step.size - 1.0)


def _unsettled(step: SettlingStep, share: float) -> str:
    found = (
        f"{counted(step.size, 'model settles', 'models settle')} the labels of {100 * step.settled:.1f} % of the "
        f"training rows; {100 * share:g} % were wanted."
    )
    if step.needed is None:
        return (
            f"{found} By their estimate no number of models would settle as many: too many rows have equal scores. "
            "Pass a smaller share. The current models are kept."
        )
    return (
        f"{found} As estimated from their means and spreads, about {counted(step.needed, 'model')} would. Raise "
        "max_n_estimators, or pass a smaller share or a larger delta. The current models are kept."
    )


# With the standard deviation of two models in place of the true one, the bound is exceeded too often.
MIN_MODELS = 3


class ScoreRegions(NamedTuple):
    """Mean joint score of each row and label, with an interval that holds the mean of infinitely many models.

    Attributes
    ----------
    mean, lower, upper : ndarray, shape (n_rows, n_labels)
        Relative to the row's largest single score, which is 1: joint scores themselves underflow.
    """

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray

    def __repr__(self) -> str:
        """Return what the regions are of; the numbers are in the fields."""
        n_rows, n_labels = self.mean.shape
        return f"ScoreRegions(mean, lower, upper; each of {counted(n_rows, 'row')} and {counted(n_labels, 'label')})"


def score_regions(log_scores: ArrayLike, delta: float = 0.05) -> ScoreRegions:
    r"""Return intervals that hold, for each row and label, the mean joint score of infinitely many models.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        Logarithms of the joint scores P(y, x | theta_t), as ``predict_joint_log_proba`` of
        scikit-learn's naive Bayes classes returns them; minus infinity for a score of 0.
    delta : float, default=0.05
        Chance that the mean of infinitely many models lies outside a region, strictly between 0
        and 1, for each region separately.

    Returns
    -------
    ScoreRegions
        Mean plus and minus :func:`ens_plugin.papers.model_averaging_2004.mean_bound`, with the
        standard deviation over the models (2004 eq. 11 applied to eq. 9).

    Raises
    ------
    InputError
        If `log_scores` has another shape, fewer than two labels, NaN or plus infinity, or a row whose
        scores are all 0; or if `delta` is out of range.
    TooFewMembersError
        If there are fewer than three models.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[[0.30, 0.10]], [[0.28, 0.12]], [[0.29, 0.09]], [[0.30, 0.11]]])
    >>> regions = score_regions(np.log(scores), delta=0.2)
    >>> bool(regions.lower[0, 0] > regions.upper[0, 1])
    True
    """
    chance = as_chance(delta, "delta")
    mean, sd, n_models = _score_moments(log_scores)
    half = mean_bound(sd, n_models, chance)
    return ScoreRegions(mean, mean - half, mean + half)


def settled_rows(log_scores: ArrayLike, delta: float = 0.05) -> NDArray[np.bool_]:
    r"""Return which rows have a settled label: the interval of its mean score overlaps that of no other label.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        As for :func:`score_regions`.
    delta : float, default=0.05
        Chance that a settled label is not that of infinitely many models.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
        The mean is the share of settled rows.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`.

    Notes
    -----
    2004 section 8.2.  All of a row's regions must hold at once, so each has delta over the number
    of labels; in the paper each has the whole delta, and the chances add up.

    The standard deviation is that of the T models.  Where a rival's score varies by orders of magnitude and
    its mean depends on models rarer than one in T, both are underestimated: a rival that is log-normal with a
    standard deviation of 3 in logarithms and a mean 1.1 times the best label's is wrongly excluded in some 39 %
    of the cases at T = 25 and 6 % at 1000 (with 1.5 instead of 3, in 2 % and never).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> settled_rows(np.log(scores))
    array([ True, False])
    """
    chance = as_chance(delta, "delta")
    scores = _as_log_scores(log_scores)
    regions = score_regions(scores, chance / scores.shape[2])
    best = np.argmax(regions.mean, axis=1)
    rows = np.arange(best.size)
    upper = regions.upper.copy()
    upper[rows, best] = -np.inf
    return np.asarray(regions.lower[rows, best] > upper.max(axis=1))


def models_to_settle(log_scores: ArrayLike, share: float = 0.95, delta: float = 0.05) -> int | None:
    r"""Return the estimated number of models that give a share of the rows the label of infinitely many models.

    Parameters
    ----------
    log_scores : array-like of float, shape (n_models, n_rows, n_labels)
        Scores of the current models, as for :func:`score_regions`.
    share : float, default=0.95
        Wanted share of settled rows, strictly between 0 and 1.
    delta : float, default=0.05
        Chance that a settled label is not that of infinitely many models.

    Returns
    -------
    int or None
        The number at which the regions of that share of the rows stop overlapping if means and standard
        deviations do not change: :math:`T > ((s_1 + s_2) / (m_1 - m_2))^2 L / \delta` for L labels
        and the rival that needs most models.  None where the means of too many rows are equal.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`; InputError also if `share` is out of range.

    Notes
    -----
    2004 section 8.2: "only as many models as required".  An extrapolation: check with
    :func:`settled_rows` after they are fitted.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> models_to_settle(np.log(scores), share=0.5), models_to_settle(np.log(scores), share=0.9)
    (3, 485)
    """
    wanted = as_chance(share, "share")
    return models_for_share(models_by_row(log_scores, delta), wanted)


def models_by_row(log_scores: ArrayLike, delta: float = 0.05) -> FloatArray:
    """Return the estimated number of models that give each row the label of infinitely many models.

    Parameters
    ----------
    log_scores, delta
        As for :func:`models_to_settle`.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        Whole numbers of at least 3, infinite where the means of two labels are equal.  A row is settled
        (:func:`settled_rows`) exactly if this is at most the number of current models.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`score_regions`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = np.array([[0.3, 0.1], [0.21, 0.2]]) * rng.uniform(0.8, 1.2, size=(100, 2, 2))
    >>> models_by_row(np.log(scores))
    array([  3., 485.])
    """
    chance = as_chance(delta, "delta")
    mean, sd, _ = _score_moments(log_scores)
    best = np.argmax(mean, axis=1)[:, None]
    gap = np.take_along_axis(mean, best, 1) - mean
    spread = np.take_along_axis(sd, best, 1) + sd
    tied = gap <= 0
    needed = np.where(tied, np.inf, (spread / np.where(tied, 1.0, gap)) ** 2) * mean.shape[1] / chance
    np.put_along_axis(needed, best, 0.0, 1)
    return np.asarray(np.maximum(np.floor(needed.max(axis=1)) + 1.0, MIN_MODELS))


def _score_moments(log_scores: ArrayLike) -> tuple[FloatArray, FloatArray, int]:
    """Return mean and standard deviation (ddof 1) over models, relative to a row's largest score, and their number."""
    logs = _as_log_scores(log_scores)
    scores = np.exp(logs - logs.max(axis=(0, 2))[None, :, None])
    return scores.mean(axis=0), scores.std(axis=0, ddof=1), scores.shape[0]


def _as_log_scores(log_scores: ArrayLike) -> FloatArray:
    logs = as_numbers(log_scores, "log_scores")
    if logs.ndim != 3 or logs.shape[1] == 0 or logs.shape[2] < 2:
        raise InputError(
            f"log_scores must have shape (n_models, n_rows, n_labels) with at least two labels, got {logs.shape}."
        )
    if logs.shape[0] < MIN_MODELS:
        raise TooFewMembersError(
            f"log_scores holds {logs.shape[0]} model(s), and their spread needs at least {MIN_MODELS}. Add models."
        )
    if np.isnan(logs).any() or np.isposinf(logs).any():
        raise InputError(
            "log_scores holds NaN or plus infinity; logarithms of probabilities are finite or minus infinity."
        )
    if np.isneginf(logs.max(axis=(0, 2))).any():
        raise InputError("log_scores holds a row whose scores are 0 for every label and model; leave such rows out.")
    return logs


Scores = Callable[[Any, Any, NDArray[Any]], FloatArray]

# A fixed height, whatever n_jobs is: the rounding of matrix products depends on the height of a block.
BLOCK_ROWS = 4096


def joint_scores(model: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Return the log joint probability of each row and label under one model.

    Parameters
    ----------
    model : fitted classifier
        Has ``predict_joint_log_proba`` and ``classes_``.
    X : ndarray or CSR matrix, shape (n_rows, n_features)
    classes : ndarray, shape (n_labels,)
        Sorted labels of the ensemble, which include those of the model.

    Returns
    -------
    ndarray, shape (n_rows, n_labels)
        Minus infinity for labels that the model's bootstrap sample did not hold.

    Raises
    ------
    InputError
        If the model returns NaN or plus infinity, or X holds categories that its sample did not.
    UnsupportedModelError
        If the model returns an array of another shape.
    """
    try:
        found = np.asarray(model.predict_joint_log_proba(X), dtype=np.float64)
    except IndexError as error:
        raise InputError(
            f"X holds values that the training rows of {type(model).__name__} did not, new categories for example "
            f"({error}). Leave these rows out, or allow for them at the fit (min_categories of CategoricalNB)."
        ) from error
    if found.shape != (X.shape[0], len(model.classes_)):
        raise UnsupportedModelError(
            f"predict_joint_log_proba of {type(model).__name__} returned an array of shape {found.shape} for "
            f"{counted(X.shape[0], 'row')} and {counted(len(model.classes_), 'label')}; it must have one row and one "
            "column for each."
        )
    if np.isnan(found).any() or np.isposinf(found).any():
        raise InputError(
            f"This {type(model).__name__} returns NaN or plus infinity as log joint probability: its "
            "bootstrap sample has a feature with zero variance, or X holds values it cannot use. Train on more rows, "
            "leave constant features out, or let the base smooth more (var_smoothing of GaussianNB)."
        )
    aligned = np.full((found.shape[0], classes.size), -np.inf)
    aligned[:, np.searchsorted(classes, model.classes_)] = found
    return aligned


def conditional_scores(model: Any, X: Any, classes: NDArray[Any]) -> FloatArray:
    """Return the log probability of each label given the row under one model; see :func:`joint_scores`.

    A row of joint probability 0 with every label has minus infinity for each.
    """
    joint = joint_scores(model, X, classes)
    total = np.asarray(logsumexp(joint, axis=1, keepdims=True))
    return np.subtract(joint, total, out=np.full_like(joint, -np.inf), where=np.isfinite(total))


SCORES: dict[str, Scores] = {"joint": joint_scores, "conditional": conditional_scores}


def mean_scores(models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores) -> FloatArray:
    """Return the log of the models' mean probability, shape (n_rows, n_labels), summed in the order of the models."""
    total = np.full((X.shape[0], classes.size), -np.inf)
    for model in models:
        np.logaddexp(total, scores(model, X, classes), out=total)
    return np.asarray(total - np.log(len(models)))


def stacked_scores(models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores) -> FloatArray:
    """Return the log probabilities of all models, shape (n_models, n_rows, n_labels)."""
    return np.stack([scores(model, X, classes) for model in models])


def models_needed(
    models: Sequence[Any], X: Any, classes: NDArray[Any], scores: Scores, delta: float, n_jobs: int | None
) -> FloatArray:
    """Return the estimated number of models that give each row the label of infinitely many; infinite if none does.

    Rows of probability 0 under every model and label are never settled; nor is any row while some label is missing
    from every model, since its probabilities are unknown.
    """
    if np.unique(np.concatenate([model.classes_ for model in models])).size < classes.size:
        return np.full(X.shape[0], np.inf)

    def needed(rows: Any) -> FloatArray:
        stacked = stacked_scores(models, rows, classes, scores)
        known = np.isfinite(stacked.max(axis=(0, 2)))
        found = np.full(known.size, np.inf)
        if known.any():
            found[known] = models_by_row(stacked[:, known], delta)
        return found

    return np.concatenate(in_row_blocks(needed, X, len(models) * classes.size, n_jobs))


def in_row_blocks(function: Callable[[Any], Any], X: Any, cells_per_row: int, n_jobs: int | None) -> list[Any]:
    """Return a function's results for blocks of rows, computed in threads; errors of the base become InputError.

    The height of a block depends only on the cells of a row, not on the threads.
    """
    height = max(min(BLOCK_ROWS, CELLS_AT_ONCE // cells_per_row), 1)
    calls = (delayed(function)(X[start : start + height]) for start in range(0, X.shape[0], height))
    with refusals():
        return list(Parallel(n_jobs=n_jobs, prefer="threads")(calls))


def check_base(base: Any, bootstrap: str) -> None:
    """Raise UnsupportedModelError if the base lacks a method that model averaging needs."""
    name = type(base).__name__
    if isinstance(base, type):
        raise UnsupportedModelError(f"estimator must be an instance, got the class {base.__name__}: add ().")
    if isinstance(base, ComplementNB):
        raise UnsupportedModelError(
            "ComplementNB has no joint probabilities to sum and no generative model to draw rows from: it scores "
            "labels by the weights of all other labels. Use MultinomialNB."
        )
    missing = [method for method in ("fit", "predict_joint_log_proba") if not hasattr(base, method)]
    if missing:
        raise UnsupportedModelError(
            f"{name} has no {' and no '.join(missing)}: model averaging sums P(y, x), whose logarithms "
            "(n_rows, n_labels) this method returns. Use scikit-learn's naive Bayes classes, or give the base that "
            "method; put a preprocessing Pipeline around this classifier, not inside it."
        )
    if bootstrap == "parametric" and not draws_own_rows(base):
        raise UnsupportedModelError(
            f"{name} cannot draw rows, as bootstrap='parametric' needs: it has no method sample(n_samples, "
            "random_state). Add one that returns rows and labels, or use bootstrap='rows'."
        )


def drawn_rows(sample_weight: ArrayLike | None, n_rows: int) -> tuple[Any, FloatArray | None]:
    """Return an index of the rows with weight, and the chance of each to be drawn; None where all are equal."""
    if sample_weight is None:
        return slice(None), None
    if not np.any(np.asarray(sample_weight)):
        raise InputError("sample_weight is zero for every row, so no row can be drawn; pass positive weights.")
    weight = as_weight(sample_weight, n_rows, "sample_weight")
    rows = np.flatnonzero(weight)
    kept = weight[rows]
    return rows, None if np.all(kept == kept[0]) else kept / kept.sum()


def fit_single(base: Any, X: Any, y: NDArray[Any], weight: FloatArray | None, bootstrap: str) -> Any:
    """Return the base fitted to all rows, with their weights if its ``fit`` accepts weights.

    Raises
    ------
    InputError
        If the base raises an error for the rows.
    UnsupportedModelError
        If rows are to be drawn from the fitted base, and its ``fit`` accepts no weights.
    """
    if weight is not None and not has_fit_parameter(base, "sample_weight"):
        if bootstrap == "parametric":
            raise UnsupportedModelError(
                f"fit of {type(base).__name__} takes no sample_weight, so that no rows can be drawn from a weighted "
                "model; leave the weights out, or use bootstrap='rows'."
            )
        weight = None
    with refusals():
        return base.fit(X, y) if weight is None else base.fit(X, y, sample_weight=weight)


def member_template(base: Any, single: Any) -> Any:
    """Return the unfitted base to clone members from, set to keep categories that a bootstrap sample lacks."""
    if not isinstance(base, CategoricalNB):
        return base
    return clone(base).set_params(min_categories=single.n_categories_)


def fit_member(template: Any, draw: Draw, seed: list[int], some_rows: Any, classes: NDArray[Any]) -> Any:
    """Return one model fitted to a bootstrap sample, after a check that it returns joint probabilities.

    Raises
    ------
    InputError
        If the base cannot be fitted to the sample (the message names labels the sample lacks), or returns no
        probabilities.
    UnsupportedModelError
        If the joint probabilities have a wrong shape.
    """
    rng = np.random.default_rng(seed)
    X, y = draw(rng)
    model = seeded_clone(template, rng)
    try:
        model.fit(X, y)
    except ValueError as error:
        absent = np.setdiff1d(classes, y).tolist()
        if not absent:
            raise InputError(str(error)) from error
        raise InputError(
            f"{type(model).__name__} refused a bootstrap sample without rows of {absent}: {error} Pass more rows of "
            "these labels, or a base that can be fitted without rows of some labels."
        ) from error
    joint_scores(model, some_rows, classes)
    return model


def bounds(model: Any, X: Any, *, delta: float = 0.05) -> pd.DataFrame:
    """Return bounds on the distance of the members' mean output from that of infinitely many (Davidson 2004).

    Parameters
    ----------
    model : fitted ensemble
        Its members have values, probabilities or raw scores, not votes; or a
        :class:`BootstrapModelAveragingClassifier`, whose models' terms are those of the sum it takes.
    X : array-like of shape (n_rows, n_features)
        Any rows: no target is needed.
    delta : float, default=0.05
        Chance that a bound is exceeded, strictly between 0 and 1.

    Returns
    -------
    DataFrame
        One row for each row of X, and for each label of a classifier, with the columns row, label (the position of the
        label, for a classifier), mean and sd of the members' outputs, and mean_bound and sd_bound (eq. 11 and
        13, the latter with the number of models in place of the number of rows).  Joint probabilities are relative to
        the row's largest, which is 1: they underflow themselves.

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

    is_average = isinstance(model, BootstrapModelAveragingClassifier)
    outputs = _summed_terms(model, X) if is_average else outputs_without_target(model, X)
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


def _summed_terms(model: BootstrapModelAveragingClassifier, X: Any) -> FloatArray:
    """Return what the models' sum adds up, shape (n_models, n_rows, n_labels)."""
    require_fitted(model, "estimators_")
    rows = checked_rows(model, X=X, reset=False)
    with refusals():
        terms = stacked_scores(model.estimators_, rows, model.classes_, SCORES[model.combine])
    if model.combine == "joint":
        largest = terms.max(axis=(0, 2), keepdims=True)
        terms -= np.where(np.isfinite(largest), largest, 0.0)
    return np.asarray(np.exp(terms))


MIN_MODELS_OF_PARAMETERS = 5


class ParameterBounds(NamedTuple):
    """Mean and standard deviation of a parameter over models, with bounds on their distance from infinitely many.

    Attributes
    ----------
    mean, sd : ndarray, shape of the parameter
        Mean and standard deviation (ddof 1) over the models.
    mean_bound : ndarray
        Bound on the distance of `mean` (2004 eq. 11).
    sd_bound : ndarray
        Bound on the distance of `sd`, for parameters that are normal over bootstrap samples: eq. 13 corrected.
    general_sd_bound : ndarray
        The same without that assumption, for the kurtosis over the models (at least the normal one).
    published_sd_bound : ndarray
        Eq. 13 as published, which is too small; for comparison only.
    n_models : int
        Number of models that have the parameter for every label.
    """

    mean: FloatArray
    sd: FloatArray
    mean_bound: FloatArray
    sd_bound: FloatArray
    general_sd_bound: FloatArray
    published_sd_bound: FloatArray
    n_models: int

    def __repr__(self) -> str:
        """Return what the bounds are of; the numbers are in the fields."""
        names = ", ".join(self._fields[:-1])
        return f"ParameterBounds({names}; each of shape {self.mean.shape}, from {counted(self.n_models, 'model')})"


def parameter_bounds(
    models: Sequence[Any], parameter: str, classes: NDArray[Any], n_rows: int, delta: float
) -> ParameterBounds:
    """Return bounds on the distance of a parameter's mean and standard deviation from those of infinitely many models.

    Parameters
    ----------
    models : sequence of fitted classifiers
    parameter : str
        A fitted numeric attribute, the same in every model.
    classes : ndarray
        Labels of the ensemble; models whose sample missed one are left out.
    n_rows : int
        Rows of each bootstrap sample, for the published bound.
    delta : float
        Chance that a bound is exceeded, for each number separately.

    Raises
    ------
    InputError
        If `delta` is out of range or the parameter is not numbers of one shape.
    TooFewMembersError
        If fewer than five models have the parameter for every label.
    UnsupportedModelError
        If the models have no such attribute.

    Notes
    -----
    The distance is to infinitely many bootstrap models, not to the posterior.
    """
    whole = [model for model in models if len(model.classes_) == classes.size]
    if len(whole) < MIN_MODELS_OF_PARAMETERS:
        raise TooFewMembersError(
            f"{counted(len(whole), 'was', 'were', of=f'{len(models)} models')} trained on every label, and their "
            f"spread needs at least {MIN_MODELS_OF_PARAMETERS}. Grow more models, or train on more rows of the "
            "rare labels."
        )
    values = _values(whole, parameter)
    mean, sd, n_models = values.mean(axis=0), values.std(axis=0, ddof=1), len(whole)
    return ParameterBounds(
        mean,
        sd,
        mean_bound(sd, n_models, delta),
        sd_bound(sd, n_models, delta),
        _general_bound(values, sd, delta),
        published_sd_bound(sd, n_models, n_rows, delta),
        n_models,
    )


def _values(models: Sequence[Any], parameter: str) -> FloatArray:
    if not hasattr(models[0], parameter):
        raise UnsupportedModelError(
            f"{type(models[0]).__name__} has no fitted attribute {parameter!r}; name one it has, such as theta_ of "
            "GaussianNB or feature_log_prob_ of BernoulliNB."
        )
    try:
        values = np.asarray([getattr(model, parameter) for model in models], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"parameter {parameter!r} is not an array of numbers of one shape ({error}).") from error
    if not np.isfinite(values).all():
        raise InputError(f"parameter {parameter!r} is not finite in every model; bounds need finite numbers.")
    return values


def _general_bound(values: FloatArray, sd: FloatArray, delta: float) -> FloatArray:
    """Return `general_sd_bound` for each entry of a parameter, at the entry's kurtosis over the models."""
    centred = values - values.mean(axis=0)
    spread = np.where(sd > 0, sd, 1.0)
    kurtosis = np.maximum(np.mean((centred / spread) ** 4, axis=0) - 3.0, 0.0)
    found = [
        general_sd_bound(one, values.shape[0], delta, float(excess))
        for one, excess in zip(np.ravel(sd), np.ravel(kurtosis), strict=True)
    ]
    return np.reshape(found, sd.shape)


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

    A joint sum is dominated by the models with a high probability of the row.  ``docs/explanations/papers.md``
    has examples where that helps.  There is no adapter for it: a joint sum is no mean of votes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier
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

        See :func:`ens_plugin.papers.model_averaging_2004`; scores are those that
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

        See :func:`ens_plugin.papers.model_averaging_2004.models_to_settle`.

        Raises
        ------
        NotFittedError, InputError, TooFewMembersError
            As :meth:`settled_rows`.
        """
        return models_for_share(self._models_by_row(X, delta), as_chance(share, "share"))

    def parameter_bounds(self, parameter: str, delta: float = 0.05) -> ParameterBounds:
        """Return bounds on how far a parameter's mean and spread over models are from those of infinitely many.

        See :func:`ens_plugin.papers.model_averaging_2004`.

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
