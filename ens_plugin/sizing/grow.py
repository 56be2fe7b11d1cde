"""Ensembles trained at the size that they need."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from tqdm import tqdm

from ens_plugin.adapters.library import TrainedModel, Trainer, TrainingRows
from ens_plugin.adapters.members import refusals
from ens_plugin.adapters.registry import find_library
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.arguments import check_options, metric_of_label
from ens_plugin.analysis.checks import warn_of_doubts
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.steps import step_findings
from ens_plugin.core.validation import (
    MOST_MEMBERS,
    as_count,
    counted,
    refuse_lazy,
)
from ens_plugin.errors import (
    InputError,
    NotConvergedWarning,
    TooFewMembersError,
    UnsupportedModelError,
    ends_at_caller,
    warn_user,
)
from ens_plugin.findings import Finding
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import changed, with_findings
from ens_plugin.sizing.truncate import is_enough_at, truncate

if TYPE_CHECKING:
    import pandas as pd


MAX_SIZE = 5001
PROBE_SIZE = 50
# With fewer no estimated size is used: four out-of-bag members of a row can all agree by chance, and the size would be
# far too small.
FEWEST_OUT_OF_BAG = 5


def known_task(estimator: Any) -> Literal["classification", "regression"] | None:
    """Return the task of an estimator; None where its class does not state it."""
    try:
        if is_classifier(estimator):
            return "classification"
        return "regression" if is_regressor(estimator) else None
    except (AttributeError, TypeError):  # from scikit-learn 1.6 on, of a class without its tags, and of a class itself
        return None


def find_trainer(estimator: Any) -> Trainer:
    """Return the function that trains this kind of ensemble to a size chosen during training."""
    if isinstance(estimator, type) and hasattr(estimator, "fit"):
        name = estimator.__name__
        raise UnsupportedModelError(f"estimator is the class {name}; pass an ensemble of it, as {name}() makes one.")
    return find_library(estimator).trainer(estimator)


@dataclass(frozen=True)
class GrowthStep:
    """One estimate of an ensemble's recommended size, made while it grew.

    Attributes
    ----------
    n_members : int
        Members of the ensemble at this step.
    trained_members : int
        Members trained so far in total; more than `n_members` where the library had to start anew.
    recommended_size : int or None
        Size that this ensemble promises to be enough; None above 20001 (or `max_size`, if larger), and without an
        estimate.
    interval : tuple of (int, int or None), or None
        95 % interval of the size that is needed; an upper end of None lies above all sizes tried.  None without an
        estimate.
    loss : float or None
        Estimated loss of `n_members` against infinitely many members, in the unit of the criterion.
    error : float or None
        Expected error at `n_members`.
    train_seconds, estimate_seconds : float
        Time spent on the members added since the step before, and on this estimate.
    problem : str
        Why no estimate can be used; empty if one can.
    reason : str
        The estimate in one sentence; empty without one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y, criterion="agreement", tolerance=0.1)
    >>> probe = growth.history[0]
    >>> probe.n_members, probe.trained_members, probe.problem
    (50, 50, '')
    """

    n_members: int
    trained_members: int
    recommended_size: int | None
    interval: tuple[int, int | None] | None
    loss: float | None
    error: float | None
    train_seconds: float
    estimate_seconds: float
    problem: str = ""
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Growth:
    """A model grown to its recommended size, with the estimates made during growth.

    Attributes
    ----------
    model : fitted ensemble, or Pipeline
        Ensemble of `n_members` members, like one trained at that size at once.
    n_members : int
        Members of `model`.
    report : EnsembleReport or None
        Analysis of the largest ensemble trained: `model`, or all members if some were left out, because more members
        give the better estimate.  None where no estimate could be made.
    history : tuple of GrowthStep
        Every estimate, in order.
    converged : bool
        Whether `model` has the size that was estimated to be enough; False where `max_size` or a missing estimate
        stopped it.
    suffices : bool or None
        Whether `n_members` are enough by the last estimate, from all members trained.  None without an estimate.
    wanted_size : int or None
        The recommended size that `n_members` follows; None if above all sizes tried, or without an estimate.
    reason : str
        Why growth stopped, in a sentence or two.
    trained_members : int
        Members trained in total, with those of the probe and of discarded models.
    seconds : float
        Total time of the growth.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y, criterion="agreement", tolerance=0.1)
    >>> growth.converged, growth.n_members == len(growth.model.estimators_), growth.trained_members >= growth.n_members
    (True, True, True)
    """

    model: Any
    n_members: int
    report: EnsembleReport | None
    history: tuple[GrowthStep, ...]
    converged: bool
    suffices: bool | None
    wanted_size: int | None
    reason: str
    trained_members: int
    seconds: float

    def __repr__(self) -> str:
        return f"Growth(n_members={self.n_members}, converged={self.converged}, trained_members={self.trained_members})"

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a pandas DataFrame with a row for each step and the fields of GrowthStep as columns."""
        import pandas as pd

        return pd.DataFrame([vars(step) for step in self.history])


class Outcome(NamedTuple):
    """Number of members to keep, and other fields of :class:`Growth`, decided from the history."""

    n_members: int
    converged: bool
    suffices: bool | None
    wanted_size: int | None
    reason: str


def outcome_of(decided: GrowthStep, last: GrowthStep, max_size: int, report: EnsembleReport | None) -> Outcome:
    """Return how many members to keep by the step that decides, and why; the report is that of the last step."""
    wanted, trained = decided.recommended_size, last.n_members
    if report is None or last.problem:
        found = counted(trained, "member was", "members were")
        reason = f"{found} trained, and no size can be estimated from that: {last.problem}"
        return Outcome(trained, False, None, None, reason)
    if wanted is None or wanted > max_size:
        return Outcome(trained, False, is_enough_at(report, trained), wanted, _stopped(decided, last, max_size))
    kept = min(wanted, trained)
    suffices = is_enough_at(report, kept)
    return Outcome(kept, True, suffices, wanted, _finished(decided, last, kept, suffices))


def _stopped(decided: GrowthStep, last: GrowthStep, max_size: int) -> str:
    estimates = decided.reason if last is decided else f"{decided.reason} {last.reason}"
    return (
        f"Not converged: stopped at max_size={max_size}, below the size that is recommended. {estimates} Raise "
        "max_size, or tolerance."
    )


def _finished(decided: GrowthStep, last: GrowthStep, kept: int, suffices: bool) -> str:
    found = (
        f"{counted(kept, 'member is', 'members are')} enough, as estimated from {counted(decided.n_members, 'member')}"
    )
    if last is decided:
        return f"{found}{'' if kept == last.n_members else '; the others were left out'}. {decided.reason}"
    second = "confirms this." if suffices else f"finds them too few. {last.reason}"
    return f"{found}. {decided.reason} A second estimate, from all members trained, {second}"


@dataclass
class Steps:
    """Preprocessing steps before an ensemble, in no pipeline, in one, or in several nested ones."""

    pipelines: list[Pipeline]  # unfitted, the outermost first; each one's last step is the next, or the ensemble

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Fit the steps, and return the transformed rows that the ensemble is trained on."""
        for pipeline in self.pipelines:
            earlier = pipeline[:-1]
            if earlier.steps:
                with refusals():
                    X = earlier.fit_transform(X, y)
                # A pipeline with a memory fits copies of its steps.
                pipeline.steps[:-1] = earlier.steps
        return X

    def around(self, ensemble: Any) -> Any:
        """Return the fitted pipeline that ends in the ensemble; the ensemble itself where there was no pipeline."""
        for pipeline in reversed(self.pipelines):
            pipeline.steps[-1] = (pipeline.steps[-1][0], ensemble)
            ensemble = pipeline
        return ensemble


def split_pipeline(estimator: Any) -> tuple[Any, Steps]:
    """Return the unfitted ensemble at the end of a pipeline, and the steps before it, neither of them copied."""
    pipelines = []
    while isinstance(estimator, Pipeline):
        _check_steps(estimator)
        pipelines.append(estimator)
        estimator = estimator.steps[-1][1]
    return estimator, Steps(pipelines)


def _check_steps(pipeline: Pipeline) -> None:
    for name, step in pipeline.steps[:-1]:
        if step is not None and step != "passthrough" and not hasattr(step, "transform"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline ({type(step).__name__}) has no transform: the ensemble "
                "would not be trained on the rows of X, one for one. Apply this step first, and grow the steps after "
                "it."
            )


@ends_at_caller
def grow(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    tolerance: float | None = None,
    probe_size: int = PROBE_SIZE,
    max_size: int = MAX_SIZE,
    sample_weight: ArrayLike | None = None,
    verbose: bool = False,
) -> Growth:
    """Train an ensemble to the size recommended by out-of-bag rows, and return it with the estimates made.

    A probe is trained, the size estimated from it, and the rest trained at once; members of the probe beyond the
    estimate are left out.

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
    tolerance : float, optional
        What the ensemble may lose against infinitely many members, as for :func:`ens_plugin.analyze`.
    probe_size : int, default=50
        Members trained before the estimate, at least 10.  The size is a promise, and that of a small probe may be
        larger than needed: a larger `probe_size` promises fewer members.
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
    WeakEstimateWarning
        If the report has doubts, as about copies or a step that was fitted to the target.
    NotConvergedWarning
        If `max_size` is smaller than the estimate, or there is no estimate to rely on: with a doubt about the report,
        fewer than 30 rows, fewer than 5 out-of-bag members per row on average, or a metric that cannot be told from
        that of chance.  The model then has `max_size` members, or those of the probe.

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
    (True, 106, True)
    """
    begun = time.perf_counter()
    first, limit = _sizes(probe_size, max_size)
    # Sizes are estimated beyond max_size, so that a message can state how many members would be enough.
    options = AnalysisOptions(
        sample_weight=sample_weight, metric=metric_of_label(metric, positive_label), criterion=criterion,
        tolerance=tolerance, max_size=max(AnalysisOptions.max_size, limit),
    )  # fmt: skip
    check_options(options)
    refuse_lazy(X, "X")
    trainer = find_trainer(split_pipeline(estimator)[0])
    _refuse_no_parameters(split_pipeline(estimator)[0])
    ensemble, steps = split_pipeline(clone(estimator))
    rows = steps.fit_transform(X, y)
    of_steps = step_findings(steps.around(ensemble), X, y, as_trained=True)
    with tqdm(total=first, desc="members", file=sys.stderr, disable=not verbose) as bar:
        course = _Course(limit, options, of_steps, bar)
        training = TrainingRows(rows, y, sample_weight, limit, first if verbose else None, course.progress)
        model = trainer(ensemble, training, first, course.next_size)
    # By the probe's estimate only: using the second one as well would be another method.
    outcome = outcome_of(course.steps[0], course.steps[-1], limit, course.report)
    if not outcome.converged:
        warn_user(outcome.reason, NotConvergedWarning)
    if course.report is not None:
        warn_of_doubts(course.report, but=outcome.reason)
    if outcome.n_members < course.steps[-1].n_members:
        model = truncate(model, outcome.n_members)
    grown, report = steps.around(model), course.report
    if report is not None:
        # Models before the last one may be of another class.
        report = changed(report, model=type(model).__name__)
    return Growth(
        **outcome._asdict(),
        model=grown,
        report=report,
        history=tuple(course.steps),
        trained_members=course.steps[-1].trained_members,
        seconds=time.perf_counter() - begun,
    )


def _sizes(probe_size: int, max_size: int) -> tuple[int, int]:
    first, limit = as_count(probe_size, "probe_size", 10, MOST_MEMBERS), as_count(max_size, "max_size")
    if limit < first:
        raise InputError(
            f"max_size={limit} is below the {counted(first, 'member')} of the probe, from which the size is estimated: "
            "set max_size to at least that, or a smaller probe_size (at least 10)."
        )
    return first, limit


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
    """State of one growth: the steps so far, and the report of the last one."""

    limit: int
    options: AnalysisOptions
    of_steps: tuple[Finding, ...]
    bar: Any
    steps: list[GrowthStep] = field(default_factory=list)
    report: EnsembleReport | None = None
    mark: float = field(default_factory=time.perf_counter)

    def progress(self, n_members: int) -> None:
        self.bar.update(n_members - self.bar.n)

    def next_size(self, evidence: TrainedModel) -> int | None:
        """Append a step to the history, and return the size to train to after the probe, or None to stop."""
        trained = time.perf_counter()
        self.report, problem = _estimate(evidence, self.options, self.of_steps)
        step = _step(evidence, self.report, problem)
        ended = time.perf_counter()
        self.steps.append(replace(step, train_seconds=trained - self.mark, estimate_seconds=ended - trained))
        self.mark = ended
        if problem or len(self.steps) > 1:
            return None
        wanted = self.limit if step.recommended_size is None else min(step.recommended_size, self.limit)
        if wanted <= evidence.n_members:
            return None
        self.bar.total = wanted
        return wanted


def _estimate(
    evidence: TrainedModel, options: AnalysisOptions, of_steps: tuple[Finding, ...]
) -> tuple[EnsembleReport | None, str]:
    """Return the report of a trained ensemble, and why its size cannot be used; an empty string if it can."""
    try:
        report = run_analysis(evidence.model, evidence.X, evidence.y, options)
    except TooFewMembersError as error:
        return None, str(error)
    if report.data == "oob":
        report = with_findings(report, of_steps)
    return report, _weakness(report)


def _weakness(report: EnsembleReport) -> str:
    """Return the reason not to use a report's recommended size; an empty string if it can be used."""
    if report.mean_oob_members < FEWEST_OUT_OF_BAG:
        return (
            f"each row has {report.mean_oob_members:.2g} out-of-bag members on average, and {FEWEST_OUT_OF_BAG} are "
            "needed. Set a larger probe_size, or let bags leave out more rows (subsample, max_samples)."
        )
    advice = report.recommendation
    return report.undecided or (advice.reason if math.isnan(advice.loss) else "")


def _step(evidence: TrainedModel, report: EnsembleReport | None, problem: str) -> GrowthStep:
    found = None if report is None or problem else report.recommendation
    return GrowthStep(
        n_members=evidence.n_members,
        trained_members=evidence.trained_members,
        recommended_size=None if found is None else found.size,
        interval=None if found is None else found.interval,
        loss=None if found is None else found.loss,
        error=None if report is None else report.error,
        train_seconds=math.nan,
        estimate_seconds=math.nan,
        problem=problem,
        reason="" if found is None else found.reason,
    )
