"""The function rightsize, which cuts a logged ensemble to its recommended size and logs a new version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from ens_plugin.analysis.options import AnalysisOptions, Metric, metric_of_label
from ens_plugin.errors import InputError
from ens_plugin.registry.rightsizing.cut_model import LoggedCut, log_cut_model, register_cut_model
from ens_plugin.registry.rightsizing.model_source import ModelSource, find_source
from ens_plugin.report.quantities import error_text, members_text
from ens_plugin.report.result import FEWEST_ROWS, EnsembleReport
from ens_plugin.report.text import printable, verdict, wrapped
from ens_plugin.tracking.store.models import load_model

if TYPE_CHECKING:
    from ens_plugin.analysis.row_blocks import Progress
    from ens_plugin.sizing.checks import Check
    from ens_plugin.sizing.savings import Savings

__all__ = ["Rightsizing", "check_name", "rightsize", "rightsize_analysed"]

Outcome = Literal["logged", "not_needed", "no_size", "refused"]


@dataclass(frozen=True, eq=False)
class Rightsizing:
    """The outcome of cutting a model to its recommended size.

    Attributes
    ----------
    source : str
        URI of the model, an alias replaced by the version that it pointed at.
    outcome : {"logged", "not_needed", "no_size", "refused"}
        A smaller model was logged; the model has no more members than it needs; no size is large
        enough; the smaller model failed a check. Nothing is logged in the last three.
    report : EnsembleReport
        Report on the model.
    cut_report : EnsembleReport or None
        Report on the smaller model, on the same rows; None where the model was not cut.
    checks : tuple of Check
        Checks of the smaller model against the report.
    savings : Savings or None
        Bytes and times before and after; None where nothing is logged.
    logged : LoggedCut or None
        Run, LoggedModel and registered version of the smaller model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> found = ens_plugin.rightsize("models:/churn/7", X, y)  # doctest: +SKIP
    >>> found = ens_plugin.Rightsizing("models:/churn/7", "not_needed", report)
    >>> found.outcome, found.logged
    ('not_needed', None)
    """

    source: str
    outcome: Outcome
    report: EnsembleReport
    cut_report: EnsembleReport | None = None
    checks: tuple[Check, ...] = ()
    savings: Savings | None = None
    logged: LoggedCut | None = None

    def __str__(self) -> str:
        return self.summary()

    @property
    def passed(self) -> bool:
        """Whether a smaller model was logged, or none is needed."""
        return self.outcome in ("logged", "not_needed")

    @property
    def sentence(self) -> str:
        """The outcome as a sentence, without control characters."""
        found, members = self.report.recommendation, members_text(self.report.n_members)
        source = printable(self.source, 300)
        kept = found.size if self.cut_report is None else self.cut_report.n_members
        if self.outcome == "no_size":
            return f"{source}: {members}, and not even {found.max_size} are enough. Not cut, nothing logged."
        if self.outcome == "not_needed" and found.size is not None and found.size < self.report.n_members:
            return (
                f"{source}: {members}, of which {found.size} were recommended, but the reports on smaller models "
                "recommend more members than these have. Not cut, nothing logged."
            )
        if self.outcome == "not_needed":
            return f"{source}: {members}, no more than the {found.size} recommended. Nothing to cut, nothing logged."
        if self.outcome == "refused":
            return f"{source}: the model of its first {kept} of {members} failed a check. Nothing logged."
        if kept == found.size:
            return f"{source}: {members} cut to the {found.size} recommended."
        return (
            f"{source}: {members} cut to {kept}, where {found.size} were recommended: the reports on smaller models "
            "recommended more members than these had."
        )

    def summary(self) -> str:
        """Return the outcome, the reason, the checks and the logged model as plain text, 80 columns wide."""
        sentences = [self.sentence, printable(self.report.recommendation.reason)]
        sentences += [check.text for check in self.checks]
        if self.logged is not None:
            sentences += self.logged.sentences("register='NAME'")
        return "\n".join(line for sentence in sentences for line in wrapped(sentence, later="  "))


def rightsize(
    source: str,
    X: Any,
    y: ArrayLike,
    *,
    register: str | None = None,
    data: Literal["oob", "holdout"] = AnalysisOptions.data,
    sample_weight: ArrayLike | None = AnalysisOptions.sample_weight,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    confidence: float | None = AnalysisOptions.confidence,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    estimator: str = AnalysisOptions.estimator,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = AnalysisOptions.n_jobs,
) -> Rightsizing:
    """Cut a logged ensemble to its recommended size and log the smaller one as a new version.

    Loading a model runs code stored in it: rightsize only what you trust.  The smaller model is analysed
    on the same rows, compared with the whole one, logged, loaded back and compared again before a version
    is registered, which is the last step.  No alias moves, and the model itself stays as it is.

    Parameters
    ----------
    source : str
        ``models:/name/7``, ``models:/name@champion``, ``models:/m-...`` or ``runs:/<run>/model``, logged as
        sklearn, xgboost or lightgbm.
    X, y : array-like
        Rows to analyse the model on, as for :func:`ens_plugin.analyze`.
    register : str, optional
        Registered model that gets the new version; that of the source by default, and none where the
        source is not a registered version.
    data, sample_weight, metric, positive_label, criterion, confidence, tolerance, max_size, estimator
        As for :func:`ens_plugin.analyze`.
    random_state, n_jobs
        As for :func:`ens_plugin.analyze`.

    Returns
    -------
    Rightsizing

    Raises
    ------
    InputError
        If `source` is not the URI of a model in MLflow, or the recommended size is not available.
    ModelLoadError
        If the model, or what was logged, does not load.
    TooFewMembersError
        If the recommended members are too few to be checked on these rows.
    TrackingError
        If MLflow cannot be reached or refuses.
    EnsPluginError
        If the model cannot be analysed or cut for another reason.

    Notes
    -----
    The new run, in the source's experiment, has the source as input, the report of the smaller model, and
    metrics ``ens.rightsize.*``.  Run, LoggedModel and version have the tag ``ens.parent``; the version also
    ``ens.parent_version``.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ens_plugin.rightsize("models:/churn/7", X, y).logged.version  # doctest: +SKIP
    '8'
    >>> ens_plugin.rightsize("forest.joblib", X, y)
    Traceback (most recent call last):
    ens_plugin.errors.InputError: ...
    """
    from ens_plugin.analysis.analyze import run_analysis

    check_name(register)
    found = find_source(source)
    model = load_model(found.uri)
    options = AnalysisOptions(
        data=data,
        sample_weight=sample_weight,
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        confidence=confidence,
        tolerance=tolerance,
        max_size=max_size,
        estimator=estimator,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    return rightsize_analysed(found, model, X, y, options, run_analysis(model, X, y, options), register)


def check_name(register: str | None) -> None:
    """Raise InputError for what cannot be the name of a registered model, before anything is analysed.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_name("churn")
    """
    if register is None:
        return
    if not isinstance(register, str) or not register.strip() or set(register) & set("/:"):
        raise InputError(
            f"register={printable(repr(register), 120)} cannot be the name of a registered model. Use one without "
            "'/' and ':', 'churn' for example."
        )


def rightsize_analysed(
    source: ModelSource,
    model: Any,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    report: EnsembleReport,
    register: str | None,
    progress: Progress | None = None,
) -> Rightsizing:
    """Return what :func:`rightsize` returns, for a model that is loaded and analysed with `options` already.

    Raises
    ------
    EnsPluginError
        As :func:`rightsize`.
    """
    from ens_plugin.sizing.sufficient_cut import sufficient_cut

    size = _size_to_cut_to(report)
    if size is None:
        is_above = report.recommendation.is_known and report.recommended_size is None
        return Rightsizing(source.uri, "no_size" if is_above else "not_needed", report)
    cut, cut_report, checks = sufficient_cut(model, report, size, X, y, options, progress)
    if not all(check.passed for check in checks):
        return Rightsizing(source.uri, "refused", report, cut_report, checks)
    if cut_report.n_members == report.n_members:
        return Rightsizing(source.uri, "not_needed", report)
    savings = _measured(model, X, y, cut_report.n_members)
    tags = {"ens.parent": source.uri, "ens.rightsize": f"{report.n_members} to {members_text(cut_report.n_members)}"}
    logged = log_cut_model(source, cut, X, cut_report, _metrics(savings, checks), tags)
    name = register or source.name
    if name is not None:
        parent = {} if source.version is None else {"ens.parent_version": source.version}
        logged = register_cut_model(logged, name, {**tags, **parent}, _description(source, report, cut_report))
    return Rightsizing(source.uri, "logged", report, cut_report, checks, savings, logged)


def _description(source: ModelSource, report: EnsembleReport, cut: EnsembleReport) -> str:
    """Return one sentence on a version: what it was cut from, and its error before and after."""
    metric = cut.error_curve.metric
    error = f"{printable(metric, 40)} {error_text(cut.error, metric)} instead of {error_text(report.error, metric)}"
    return (
        f"Cut from {report.n_members} to {members_text(cut.n_members)} of {printable(source.uri, 200)}, with {error}."
    )


def _size_to_cut_to(report: EnsembleReport) -> int | None:
    """Return the recommended size, or else the upper end of its interval, which is safe; None if that is no cut."""
    found = report.recommendation
    if report.basis.doubts or not report.has_enough_rows:
        raise InputError(
            f"No size was cut to: {verdict(report)} Pass {FEWEST_ROWS} rows or more, or "
            "choose a size yourself and cut with ens_plugin.truncate."
        )
    if not found.is_known and not found.has_interval:
        raise InputError(
            f"The recommended size is not available: {found.reason} Nothing was cut. Pass other rows, "
            "or choose a size yourself and cut with ens_plugin.truncate."
        )
    size = found.size if found.is_known else found.interval[1]
    return None if size is None or size >= report.n_members else size


def _measured(model: Any, X: Any, y: ArrayLike, size: int) -> Savings:
    from mlflow.utils.autologging_utils import disable_autologging

    from ens_plugin.sizing.savings import measure_savings

    # A few members are trained to time them, and MLflow's autologging would make a run for each training.
    with disable_autologging():
        return measure_savings(model, X, y, size)


def _metrics(savings: Savings, checks: tuple[Check, ...]) -> dict[str, float]:
    agreement = {f"ens.rightsize.{check.name}": check.value for check in checks if check.name == "agreement"}
    return {
        "ens.rightsize.n_members_before": float(savings.n_members),
        "ens.rightsize.n_members_after": float(savings.size),
        "ens.rightsize.bytes_before": float(savings.bytes_now),
        "ens.rightsize.bytes_after": float(savings.bytes_cut),
        "ens.rightsize.predicted_rows": float(savings.n_rows),
        "ens.rightsize.predict_seconds_before": savings.predict_seconds_now,
        "ens.rightsize.predict_seconds_after": savings.predict_seconds_cut,
        **{name: value for name, value in agreement.items() if value is not None},
    }
