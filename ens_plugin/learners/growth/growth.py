"""Training of an ensemble to its recommended size: in one step from a probe, or iteratively (2013, Fig. 3)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from tqdm import tqdm

from ens_plugin.adapters.training import TrainedModel, TrainingRows
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.checks.supervised_steps import doubts_about_training, with_supervised_steps
from ens_plugin.analysis.options import AnalysisOptions, Metric, metric_of_label
from ens_plugin.core.validation import MOST_MEMBERS, as_confidence, as_count, as_positive, counted, refuse_lazy
from ens_plugin.errors import InputError, NotConvergedWarning, TooFewMembersError, UnsupportedModelError
from ens_plugin.learners.growth.member_training import find_trainer
from ens_plugin.learners.growth.outcome import (
    LARGER_PROBE,
    Growth,
    GrowthStep,
    Target,
    deciding_step,
    outcome_of,
)
from ens_plugin.learners.growth.pipelines import split_pipeline
from ens_plugin.learners.tasks import known_task
from ens_plugin.report.quantities import criterion_words
from ens_plugin.report.result import FEWEST_ROWS, EnsembleReport
from ens_plugin.sizing.truncate import truncate
from ens_plugin.user_warnings import warn_user

__all__ = ["MAX_SIZE", "grow"]

MAX_SIZE = 5001
PROBE_SIZES = {"one_shot": 50, "iterative": 100}
# Below these limits no estimated size is used.  Four out-of-bag members per row can all agree by chance, and the size
# would be far too small.
FEWEST_OUT_OF_BAG = 5


def grow(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    confidence: float | None = None,
    tolerance: float | None = None,
    method: str = "one_shot",
    probe_size: int | None = None,
    max_size: int = MAX_SIZE,
    sample_weight: ArrayLike | None = None,
    verbose: bool = False,
) -> Growth:
    """Train an ensemble to the size recommended by out-of-bag rows, and return it with the estimates made.

    Parameters
    ----------
    estimator : unfitted ensemble
        scikit-learn's RandomForest* and ExtraTrees* with ``bootstrap=True``, Bagging*; LightGBM's LGBMClassifier and
        LGBMRegressor with ``boosting_type="rf"``; XGBoost's XGBRF*, and XGBClassifier and XGBRegressor with
        ``n_estimators=1``; a Pipeline that ends in one of them.  Cloned, never fitted itself.  Its number of members
        is ignored.
    X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
    y : array-like, shape (n_rows,)
        Labels or values.
    metric : str, scorer or callable, optional
        The name of a scorer of scikit-learn (``"roc_auc"``, ``"neg_log_loss"``), a scorer of ``make_scorer``, or a
        function, as for :func:`ens_plugin.analyze`; the size is then by this metric.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.
    criterion : {"auto", "agreement", "error", "probability", "metric"}, default="auto"
        What the size has to meet, as for :func:`ens_plugin.analyze`.
    confidence : float, optional
        Classification only: wanted mean agreement with the infinite ensemble, in (0.5, 1).
    tolerance : float, optional
        Wanted excess of the error or the Brier score, or distance of the metric, as for :func:`ens_plugin.analyze`.
    method : {"one_shot", "iterative"}, default="one_shot"
        ``"one_shot"``: train a probe, estimate the size, train the rest at once.  ``"iterative"``: estimate again
        after each growth, at most by a factor 2, until the estimate is no larger than the ensemble (2013, Fig. 3;
        ``"figure3"`` is its old name).
        With both, members beyond the estimate are left out.  Where an estimate tells no size, because its interval is
        too wide, both go on to 200 members and estimate again.  Of an interval that is still too wide, the upper end is
        the size to train to.
    probe_size : int, optional
        Members trained before the first estimate, at least 10; by default 50 for ``"one_shot"``, 100 for
        ``"iterative"``.
    max_size : int, default=5001
        Most members of an ensemble.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in training, and in the estimate.
    verbose : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    Growth

    Raises
    ------
    InputError
        If an argument is out of range or belongs to the other task, if y holds a single label, or if the estimator
        raises an error for X or y (whose message is kept).
    UnsupportedModelError
        If the members are not all trained in the same way, or the library is not supported.
    BagError
        If every member would be trained on every row, so that no row is out of bag.

    Warns
    -----
    NotConvergedWarning
        If `max_size` is smaller than the estimate, or there is none: with fewer than 30 rows, fewer than 5 out-of-bag
        members per row on average, or a regression error that may be 0.  The model then has `max_size`
        members, or those of the probe.

    Notes
    -----
    scikit-learn's ensembles continue by warm start: the members are, to the bit, those of one training at the final
    size with the same seed, and ``random_state=None`` is replaced by a seed drawn once.  (Bagging with
    ``oob_score=True`` cannot continue, and starts anew.)  LightGBM grows in a single fit.  XGBoost cannot add
    parallel trees and starts anew, which `trained_members` counts.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y)
    >>> growth.n_members == len(growth.model.estimators_), growth.trained_members, growth.converged
    (True, 321, True)
    """
    begun = time.perf_counter()
    method = _current_name(method)
    next_size = _rule(method)
    first, limit = _sizes(method, probe_size, max_size)
    options = _options(metric_of_label(metric, positive_label), criterion, confidence, tolerance, limit, sample_weight)
    refuse_lazy(X, "X")
    trainer = find_trainer(split_pipeline(estimator)[0])
    _refuse_no_parameters(split_pipeline(estimator)[0])
    _refuse_other_task(split_pipeline(estimator)[0], confidence)
    ensemble, steps = split_pipeline(clone(estimator))
    rows = steps.fit_transform(X, y)
    with tqdm(total=first, desc="members", file=sys.stderr, disable=not verbose) as bar:
        course = _Course(next_size, first, limit, options, bar)
        training = TrainingRows(rows, y, sample_weight, limit, first if verbose else None, course.progress)
        model = trainer(ensemble, training, first, course.next_size)
    outcome = outcome_of(method, course.steps, limit, _target(course.report))
    if not outcome.converged:
        warn_user(outcome.reason, NotConvergedWarning)
    if outcome.n_members < course.steps[-1].n_members:
        model = truncate(model, outcome.n_members)
    grown, report = steps.around(model), course.report
    if report is not None:
        # Models before the last one may be of another class.
        report = replace(report, model=type(model).__name__)
        report = with_supervised_steps(report, doubts_about_training(grown, report.n_rows))
    return Growth(
        model=grown,
        n_members=outcome.n_members,
        report=report,
        history=tuple(course.steps),
        method=method,
        converged=outcome.converged,
        suffices=outcome.suffices,
        wanted_size=outcome.wanted_size,
        reason=outcome.reason,
        trained_members=course.steps[-1].trained_members,
        seconds=time.perf_counter() - begun,
    )


def _current_name(method: str) -> str:
    """Return the current name of a growing method, with a warning for its old name."""
    if not isinstance(method, str):
        raise InputError(f"method must be 'one_shot' or 'iterative', got {method!r}.")
    if method != "figure3":
        return method
    warn_user(
        "method='figure3' is deprecated and will be removed: pass method='iterative', which is the same.", FutureWarning
    )
    return "iterative"


NextWanted = Callable[[Sequence[GrowthStep], float], float]


def _rule(method: str) -> NextWanted:
    rules: dict[str, NextWanted] = {"one_shot": _one_shot, "iterative": _iterative}
    if method not in rules:
        raise InputError(f"method must be 'one_shot' or 'iterative', got {method!r}.")
    return rules[method]


def _one_shot(history: Sequence[GrowthStep], wanted: float) -> float:
    """Return the size to train to: the recommended one after the probe, 0 after the second estimate.

    A probe whose estimate is rough grows to 200 members, from which the size is estimated again.
    """
    last = history[-1]
    if last.is_rough and last.n_members < LARGER_PROBE:
        return min(wanted, LARGER_PROBE)
    return wanted if last is deciding_step(history) else 0


def _iterative(history: Sequence[GrowthStep], wanted: float) -> float:
    last = history[-1]
    return min(wanted, max(2 * last.n_members, LARGER_PROBE if last.is_rough else 0))


def _sizes(method: str, probe_size: int | None, max_size: int) -> tuple[int, int]:
    first = PROBE_SIZES[method] if probe_size is None else as_count(probe_size, "probe_size", 10, MOST_MEMBERS)
    limit = as_count(max_size, "max_size")
    if limit < first:
        raise InputError(
            f"max_size={limit} is below the {counted(first, 'member')} of the probe, from which the size is estimated: "
            "set max_size to at least that, or a smaller probe_size (at least 10)."
        )
    return first, limit


def _options(
    metric: Metric | None,
    criterion: str,
    confidence: float | None,
    tolerance: float | None,
    limit: int,
    sample_weight: ArrayLike | None,
) -> AnalysisOptions:
    return AnalysisOptions(
        sample_weight=sample_weight,
        metric=metric,
        criterion=criterion,
        confidence=None if confidence is None else as_confidence(confidence),
        tolerance=None if tolerance is None else as_positive(tolerance, "tolerance"),
        # Sizes are estimated beyond max_size, so that a message can state how many members would be enough.
        max_size=max(AnalysisOptions.max_size, limit),
    )


def _refuse_other_task(ensemble: Any, confidence: float | None) -> None:
    name = type(ensemble).__name__
    if confidence is not None and known_task(ensemble) == "regression":
        raise InputError(
            f"confidence={confidence!r} is an agreement of labels, and this {name} is a regression: set tolerance, "
            "how far its error may lie above that of the infinite ensemble."
        )


def _refuse_no_parameters(ensemble: Any) -> None:
    missing = [name for name in ("get_params", "set_params") if not hasattr(ensemble, name)]
    if missing:
        name = type(ensemble).__name__
        raise UnsupportedModelError(
            f"This {name} has no {' and no '.join(missing)}, by which it is copied and its number of members is set. "
            f"Derive {name} from sklearn.base.BaseEstimator, or give it both methods; or train it, and pass it to "
            "ens_plugin.analyze."
        )


@dataclass
class _Course:
    """State of one growth: the estimates so far, and the size to train to next."""

    rule: NextWanted
    first: int
    limit: int
    options: AnalysisOptions
    bar: Any
    steps: list[GrowthStep] = field(default_factory=list)
    report: EnsembleReport | None = None
    mark: float = field(default_factory=time.perf_counter)

    def progress(self, n_members: int) -> None:
        self.bar.update(n_members - self.bar.n)

    def next_size(self, evidence: TrainedModel) -> int | None:
        """Estimate the size needed, append it to the history, and return the next size to train to, or None to stop."""
        trained = time.perf_counter()
        self.report, problem = self._estimate(evidence)
        ended = time.perf_counter()
        self.steps.append(_step(evidence, self.report, problem, trained - self.mark, ended - trained))
        self.mark = ended
        wanted = min(self.rule(self.steps, self.wanted), self.limit)
        if wanted <= evidence.n_members:
            return None
        self.bar.total = int(wanted)
        return int(wanted)

    @property
    def wanted(self) -> float:
        """Latest size wanted: infinity if above all sizes tried, 0 without an estimate and where none can be told."""
        last = self.steps[-1]
        if last.problem or (last.is_rough and last.reach is None and last.n_members >= LARGER_PROBE):
            return 0
        return np.inf if last.reach is None else last.reach

    def _estimate(self, evidence: TrainedModel) -> tuple[EnsembleReport | None, str]:
        try:
            report = run_analysis(evidence.model, evidence.X, evidence.y, self.options)
        except TooFewMembersError as error:
            return None, str(error)
        return report, _weakness(report)


def _weakness(report: EnsembleReport) -> str:
    """Return the reason not to use a report's recommended size; an empty string if it can be used."""
    if not report.has_enough_rows:
        return f"{report.too_few_rows_text} to estimate a size from; {FEWEST_ROWS} are needed."
    if report.mean_oob_members < FEWEST_OUT_OF_BAG:
        return (
            f"each row has {report.mean_oob_members:.2g} out-of-bag members on average, and {FEWEST_OUT_OF_BAG} are "
            "needed. Set a larger probe_size, or let bags leave out more rows (subsample, max_samples)."
        )
    if report.basis.doubts:
        return report.basis.doubts[0]
    return "" if report.recommendation.has_interval else report.recommendation.reason


def _step(
    evidence: TrainedModel, report: EnsembleReport | None, problem: str, train_seconds: float, estimate_seconds: float
) -> GrowthStep:
    found = None if report is None else report.recommendation
    return GrowthStep(
        n_members=evidence.n_members,
        trained_members=evidence.trained_members,
        recommended_size=None if found is None or problem else found.size,
        interval=None if found is None or problem else found.interval,
        attained=None if found is None or problem else float(np.interp(evidence.n_members, found.sizes, found.values)),
        error=None if report is None else report.error,
        train_seconds=train_seconds,
        estimate_seconds=estimate_seconds,
        problem=problem,
        is_rough=found is not None and not problem and not found.is_known,
    )


def _target(report: EnsembleReport | None) -> Target:
    if report is None:
        return Target("the wanted size", "", is_share=True)
    found = report.recommendation
    measure = {
        "agreement": "the agreement with the infinite ensemble is {}",
        "probability": "the mean Brier score is {} above that of the infinite ensemble",
        "excess_error": "the error is {} above that of the infinite ensemble",
        "metric": "the metric differs from that of the infinite ensemble by {}",
    }[found.criterion]
    return Target(criterion_words(found), measure, is_share=not found.is_absolute)
