"""An ensemble cut to its first members, and whether it predicts the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.registry import find_library
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.evidence import Progress
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.core.comparison import agreement_interval, interval_over_seeds
from ens_plugin.errors import InputError, TooFewMembersError, ends_at_caller
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import SizeRecommendation
from ens_plugin.report.text import error_text, interval_text, level_text, members_text
from ens_plugin.sizing.budget import allowed_size, first_of


@ends_at_caller
def truncate(
    model: Any,
    size: int | None = None,
    *,
    max_bytes: float | None = None,
    max_latency: float | None = None,
    X: Any = None,
) -> Any:
    """Return a trained ensemble cut to its first members, without training; `model` is not changed.

    The result is a model of the same kind that predicts the average of those members, is saved and loaded
    by its library's own functions, and has its number of members in its parameters.  Scores that the library
    computed on all members (out-of-bag scores, the best score of early stopping) are left out.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`; for XGBoost, a model of one round.
    size : int, optional
        Number of members to keep, from 1 to the number in `model`; with limits, the most to keep.
    max_bytes : float, optional
        Most bytes of the smaller model, pickled: as many members are kept as fit.  ``joblib.dump`` without ``compress``
        writes about 80 bytes a tree more.
    max_latency : float, optional
        Most seconds of the smaller model's ``predict`` for a request of one row, by the medians of
        :func:`ens_plugin.measure_costs`: on this machine, as busy as it is now.
    X : array-like, optional
        Rows in the form that ``predict`` takes; `max_latency` needs them.

    Returns
    -------
    fitted ensemble
        Of a Pipeline, a Pipeline with copies of its other steps.  Of a search, its truncated
        ``best_estimator_``: scores and parameters of a search are those of ensembles of full size.  Of a
        :class:`ens_plugin.RightSizedClassifier` or regressor, its truncated ``estimator_``.  Of an MLflow pyfunc, the
        truncated model inside it.  Nothing in it is shared with `model`, except the models of
        :meth:`ens_plugin.CustomEnsemble.from_estimators`.

    Raises
    ------
    InputError
        If `size` is not a whole number from 1 to the number of members, or a limit is not a positive finite number,
        or is less than what one member takes.
    NotFittedError
        If the model has not been fitted.
    UnsupportedModelError
        If no adapter accepts the model, its adapter cannot truncate, or its members depend on one another
        (XGBoost's trees of several rounds).

    Notes
    -----
    The members of every supported ensemble are exchangeable, so the first `size` are as good as any others.
    A limit that the whole ensemble meets keeps all members.  Of several limits, the one that allows the fewest decides;
    :meth:`ens_plugin.EnsembleReport.budget` has the error of that size.

    XGBoost's leaf values are float32: rescaled, they differ in the last bit from those of an ensemble trained smaller.
    An IsolationForest keeps its threshold, which `contamination` set from the scores of all members, so that another
    share of the rows may lie beyond it: ``small.offset_ = np.percentile(small.score_samples(X), 100 * contamination)``
    sets it anew.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> small = ens_plugin.truncate(forest, 40)
    >>> small, small.predict(X[:2]), len(forest.estimators_)
    (RandomForestClassifier(n_estimators=40, random_state=0), array([0, 0]), 100)
    >>> len(ens_plugin.truncate(forest, max_bytes=50_000).estimators_) < 100
    True
    """
    if max_bytes is None and max_latency is None:
        return first_of(model, size)
    kept = model if size is None else first_of(model, size)
    return first_of(kept, allowed_size(kept, X, max_bytes, max_latency))


def labels(model: Any, rows: Any) -> NDArray[Any]:
    """Return the label that a classifier predicts for each row; for a booster, the position of the label."""
    return find_library(model).labels(model, rows)


@dataclass(frozen=True)
class Check:
    """One requirement on an ensemble, and whether the ensemble satisfies it."""

    name: str
    passed: bool
    value: float | None  # None, as is the limit, where the requirement has no number
    limit: float | None
    sentence: str

    @property
    def text(self) -> str:
        """Return the sentence of the check, with "Passed" or "FAILED" before it."""
        return f"{'Passed' if self.passed else 'FAILED'}: {self.sentence}"


def is_enough_at(report: EnsembleReport, size: int) -> bool:
    """Return whether a number of members is enough in every required respect, by the estimates of a report."""
    return all(found.loss_at(size) <= found.tolerance for found in _required(report))


def _required(report: EnsembleReport) -> list[SizeRecommendation]:
    return [found for found in report.criteria if found.is_required] or [report.recommendation]


def cut_checks(
    model: Any, cut: Any, X: Any, report: EnsembleReport, cut_report: EnsembleReport, sample_weight: ArrayLike | None
) -> tuple[Check, ...]:
    """Return checks whether a cut ensemble is enough by its own report, and has the error that the whole one's has."""
    checks = [_enough_check(cut_report), _error_check(report, cut_report)]
    wanted = 1.0 - report.recommendation.tolerance
    # On training rows labels are not compared: most members were trained on a row, and predict its own label whatever
    # their number.
    if report.recommendation.criterion == "agreement" and report.data == "holdout":
        of_labels = labels(model, X), labels(cut, X)
        checks.insert(1, _agreement_check(*of_labels, report, cut_report, wanted, sample_weight))
    return tuple(checks)


def _enough_check(cut_report: EnsembleReport) -> Check:
    """Return the check whether a cut ensemble is enough by its own report, in the first respect in which it is not."""
    found = next((each for each in _required(cut_report) if not each.is_enough), cut_report.recommendation)
    of_error = "error" if cut_report.task == "classification" else "mean squared error"
    names = {"error": of_error, "probability": "Brier score", "metric": found.of_metric}
    if found.criterion == "agreement":
        lost = f"{100 * found.loss:.2g} % of the labels differ from those"
        allowed = f"{100 * found.tolerance:.2g} %"
    else:
        lost = f"the {names[found.criterion]} is {abs(found.loss):.2g} from that"
        allowed = f"{found.tolerance:.2g}"
    sentence = (
        f"{members_text(cut_report.n_members)}: {lost} of infinitely many, by the report on the cut ensemble; "
        f"{allowed} is allowed."
    )
    return Check("enough", cut_report.is_enough, found.loss, found.tolerance, sentence)


def _agreement_check(
    whole: ArrayLike, cut: ArrayLike, report: EnsembleReport, cut_report: EnsembleReport, wanted: float,
    sample_weight: ArrayLike | None,
) -> Check:  # fmt: skip
    share, _, upper = agreement_interval(whole, cut, sample_weight, report.error_curve.interval_level)
    sentence = (
        f"{members_text(cut_report.n_members)} and all {report.n_members} give the same label on {100 * share:.2f} % "
        f"of these rows. On fresh rows, a share of up to {100 * upper:.2f} % is plausible; at least "
        f"{100 * wanted:g} % is wanted."
    )
    return Check("agreement", upper >= wanted, share, wanted, sentence)


def _error_check(report: EnsembleReport, cut_report: EnsembleReport) -> Check:
    curve, size, found = report.error_curve, cut_report.n_members, cut_report.error
    expected = curve.at(size) if curve.reaches(size) else math.nan
    if math.isnan(expected) or math.isnan(found):
        raise InputError(
            f"The error of {members_text(size)} cannot be compared: the curve of the whole ensemble does not reach it."
        )
    level = curve.interval_level
    # The deviation over seeds is not known for every metric.
    seed_sd = 0.0 if math.isnan(cut_report.algorithmic_sd) else cut_report.algorithmic_sd
    lower, upper = interval_over_seeds(expected, curve.interval_at(size), seed_sd, level)
    least = -math.inf if curve.metric_basis is not None else 0.0
    sentence = (
        f"{members_text(size)}: {curve.metric} {error_text(found, curve.metric)}; the whole ensemble's curve has "
        f"{error_text(expected, curve.metric)}, {level_text(level)} interval "
        f"{interval_text((max(lower, least), upper), curve.metric)}."
    )
    return Check("error", lower <= found <= upper, found, lower if found < lower else upper, sentence)


class AnalysedModel(NamedTuple):
    """A model and its report, with the rows and the options of that analysis."""

    model: Any
    report: EnsembleReport
    X: Any
    y: ArrayLike
    options: AnalysisOptions


def sufficient_cut(
    whole: AnalysedModel, size: int, progress: Progress | None = None
) -> tuple[Any, EnsembleReport, tuple[Check, ...]]:
    """Cut an ensemble to the first size that is enough by its own report, or misses its error; else keep all."""
    while size < whole.report.n_members:
        cut = truncate(whole.model, size)
        cut_report = _report_on_cut(cut, size, whole, progress)
        checks = cut_checks(whole.model, cut, whole.X, whole.report, cut_report, whole.options.sample_weight)
        has_wrong_error = any(check.name == "error" and not check.passed for check in checks)
        if has_wrong_error or cut_report.is_enough:
            return cut, cut_report, checks
        # Another draw of members may lose more than was promised; each step has a better report.
        size += 2 * max(size // 10, 1)
    return whole.model, whole.report, ()


def _report_on_cut(cut: Any, size: int, whole: AnalysedModel, progress: Progress | None) -> EnsembleReport:
    try:
        return run_analysis(cut, whole.X, whole.y, whole.options, progress=progress)
    except TooFewMembersError as error:
        found = error.finding or str(error).rstrip(".")
        raise TooFewMembersError(
            f"The recommended {members_text(size)} cannot be checked on these rows ({found}). Pass held-out rows with "
            "data='holdout', or get a larger size by a lower tolerance."
        ) from error
