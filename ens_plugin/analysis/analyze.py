"""The whole analysis, from a trained ensemble and its rows to one report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.shared.foreign_calls import model_errors
from ens_plugin.adapters.shared.refusals import several_outputs
from ens_plugin.adapters.unwrap.outputs import has_own_bags, output_count, output_ensemble
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble, unwrap
from ens_plugin.analysis import checks
from ens_plugin.analysis.arguments import granted_threads
from ens_plugin.analysis.checks.supervised_steps import (
    cross_fitting_explained,
    doubts_about_transformed_rows,
    with_supervised_steps,
)
from ens_plugin.analysis.model_rows import RowChoice, read_rows
from ens_plugin.analysis.one_output import open_model, report_on_rows, tally_model_rows, with_member_findings
from ens_plugin.analysis.options import AnalysisOptions, Metric, metric_of_label
from ens_plugin.analysis.rows.targets import refuse_own_loss, target_array
from ens_plugin.core.validation import as_array
from ens_plugin.errors import UnsupportedModelError

if TYPE_CHECKING:
    from ens_plugin.analysis.checks.judged_metric import JudgedMetric
    from ens_plugin.analysis.checks.judged_rows import JudgedRows
    from ens_plugin.analysis.row_blocks import Progress
    from ens_plugin.report.result import EnsembleReport

__all__ = ["analyze", "analyze_rows", "in_bag", "run_analysis"]


def analyze(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    data: Literal["oob", "holdout"] = AnalysisOptions.data,
    sample_weight: ArrayLike | None = AnalysisOptions.sample_weight,
    groups: ArrayLike | None = AnalysisOptions.groups,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    confidence: float | None = AnalysisOptions.confidence,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    sizes: ArrayLike | None = AnalysisOptions.sizes,
    estimator: str = AnalysisOptions.estimator,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = AnalysisOptions.n_jobs,
) -> EnsembleReport:
    """Return a report on how a trained ensemble's error depends on its size, with a recommended size.

    Nothing is trained.  On the training rows, each row is judged only by its out-of-bag
    members: those that were not trained on it.

    Parameters
    ----------
    model : fitted ensemble
        A scikit-learn forest or bagging ensemble, a LightGBM forest in ``rf`` mode or an XGBoost booster of
        parallel trees, also inside a Pipeline or a search, or a :class:`ens_plugin.CustomEnsemble`, or
        anything a registered adapter accepts.
    X : array-like of shape (n_rows, n_features)
        With ``data="oob"``, exactly the training rows in training order; with ``data="holdout"``,
        rows that no member was trained on.  None for a CustomEnsemble made from arrays of outputs.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        True labels or values of these rows.  For a model of several outputs, a column for each: the report is of
        the mean over outputs, and ``report.outputs`` has one for each, by the names of the columns of a DataFrame.
    data : {"oob", "holdout"}, default="oob"
        What `X` and `y` are: ``"oob"``, the training rows, each judged by the members that were not trained on it;
        ``"holdout"``, rows that no member was trained on, each judged by all members.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in the evaluation; intervals use Kish's effective number of rows.  Weights
        with which rows were drawn into bags are read from the model.
    groups : array-like of shape (n_rows,), or "identical", optional
        Rows that belong together: repeated measurements of one patient, copies of one row.  A row then counts as
        in bag if any row of its group was drawn, the estimates hold for rows of new groups, and intervals treat
        each group as one independent draw.  ``"identical"`` puts rows with the same features and target into one
        group.  None treats rows as independent; an error or a doubt reports many rows that are copies or nearly so.
    metric : str, scorer or callable, optional
        The name of a scorer of scikit-learn (``"roc_auc"``, ``"average_precision"``, ``"neg_log_loss"``), or a scorer
        made by ``sklearn.metrics.make_scorer``: the curve has its values, with its own sign, greater is better.  Or a
        function ``metric(y, mean_output) -> float``, lower is better: y has the labels as they are given here, and
        column j of the mean output (probabilities of shape (n_rows, n_labels), or values) belongs to the j-th label
        of the model's ``classes_``.  Weights are passed as ``sample_weight`` where the function has that parameter.
        None means 0-1 error or mean squared error.
    positive_label : label, optional
        The label of two that a scorer is about, such as ``"f1"`` or ``"average_precision"``.  By default 1, as of
        scikit-learn, or the rarer label where neither is 1, which the report states.
    criterion : {"auto", "agreement", "error", "probability", "metric"}, default="auto"
        What the recommended size has to meet.  ``"agreement"``: a share `confidence` of the labels are those of the
        infinite ensemble (2013).  ``"error"``: the error, 0-1 or squared, is at most ``1 + tolerance`` times that of
        the infinite ensemble.  ``"probability"``: so is the mean Brier score of the probabilities, which keeps
        rankings and rare labels.  ``"metric"``: `metric` differs from that of the infinite ensemble by at most
        `tolerance`, at this size and all larger ones.  ``"auto"``: for labels ``"agreement"`` if `confidence` is given;
        else ``"metric"`` if `metric` is given; else ``"probability"`` for labels, ``"error"`` for values.  The size
        by each is in ``report.criteria``.
    confidence : float, optional
        Classification: wanted mean agreement with the infinite ensemble, in (0.5, 1); 0.99 if only `criterion` is
        given.
    tolerance : float, optional
        Wanted excess of the error or of the Brier score, relative to that of the infinite ensemble; by default 0.01
        for an error and 0.005 for a Brier score.  Of a metric: the difference itself for scores with a largest value,
        such as ``"roc_auc"``, by default 1 % of what the infinite ensemble has above chance; else relative to the value
        of the infinite ensemble, 0.01 by default.
    max_size : int, default=20001
        Largest size to consider.
    interval_level : float, default=0.95
        Level of all intervals.
    sizes : array-like of int, optional
        Sizes to tabulate, besides the current one; about 200 log-spaced ones by default.
    estimator : {"auto", "deconvolved", "hypergeometric", "binomial", "path", "closed_form"}, default="auto"
        How the curve is estimated; see ``docs/methods.md``.  The recommendation always comes from
        the default estimator.
    random_state : int or None, default=0
        Seed of the subsets and draws behind intervals.  Same input, same seed: same report.
    n_jobs : int or None, default=None
        Number of threads, in joblib's convention.  The result does not depend on it.

    Returns
    -------
    EnsembleReport

    Raises
    ------
    EnsPluginError
        One of its subclasses in :mod:`ens_plugin.errors`: the model is not fitted or not supported, was
        trained without bootstrap, the rows are not the training rows, labels are unknown or missing,
        members or rows are too few, rows are copies of each other or were resampled by an earlier step of a
        pipeline, nearly every bag holds rows of too many groups, an option is out of range.  Of several outputs, the
        message names the one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(400, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> report.recommended_size < 400
    True
    """
    options = AnalysisOptions(
        data=data,
        sample_weight=sample_weight,
        groups=groups,
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        confidence=confidence,
        tolerance=tolerance,
        max_size=max_size,
        interval_level=interval_level,
        sizes=sizes,
        estimator=estimator,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    return run_analysis(model, X, y, options)


def run_analysis(
    model: Any,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    *,
    progress: Progress | None = None,
    choose_rows: RowChoice | None = None,
) -> EnsembleReport:
    """Return the report of :func:`analyze`; ``progress(blocks, total)`` wraps the iterable of blocks to show progress.

    ``choose_rows(adapter, features, bags)`` may return training rows, in ascending order, to analyse in place of all.
    """
    with model_errors(model), cross_fitting_explained(model):
        if (n_outputs := output_count(inner_ensemble(model), probe=_has_columns(y))) < 2:
            return _analyzed(model, X, y, options, progress, choose_rows)[0]
        ensemble, rows = unwrap(model, X, are_fresh=isinstance(options.data, str) and options.data == "holdout")
        # Few models have several outputs.
        from ens_plugin.analysis.outputs import analyze_outputs

        report = analyze_outputs(ensemble, n_outputs, rows, y, options, progress, choose_rows)
        return with_supervised_steps(report, doubts_about_transformed_rows(model, len(as_array(y, "y"))))


def _has_columns(y: Any) -> bool:
    target = as_array(y, "y")
    return target.ndim == 2 and target.shape[1] > 1


def analyze_rows(
    model: Any, X: Any, y: ArrayLike, *, data: Literal["oob", "holdout"], metric: Metric | None = None
) -> tuple[EnsembleReport, JudgedRows | JudgedMetric]:
    """Return the report of :func:`analyze`, and the loss of each row or, with a metric, the rows it is computed on.

    Returns
    -------
    report : EnsembleReport
    rows : JudgedRows or JudgedMetric

    Raises
    ------
    EnsPluginError
        As :func:`analyze`.
    """
    with model_errors(model), cross_fitting_explained(model):
        _refuse_outputs(model, "The comparison of models row by row")
        report, rows = _analyzed(model, X, y, AnalysisOptions(data=data, metric=metric), judges=True)
    assert rows is not None
    return report, rows


def _analyzed(
    model: Any,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    progress: Progress | None = None,
    choose_rows: RowChoice | None = None,
    judges: bool = False,
) -> tuple[EnsembleReport, JudgedRows | JudgedMetric | None]:
    adapter, inner, settings = open_model(model, X, y, options)
    if judges:
        refuse_own_loss(adapter, "The comparison of models row by row")
    with granted_threads(options.n_jobs):
        rows = read_rows(adapter, inner, y, options, settings.metric).choose(choose_rows)
        evidence = tally_model_rows(rows, settings, progress)
        rows = with_member_findings(rows, evidence.sample).without_features()
        report = report_on_rows(rows, evidence, settings, sizes_given=options.sizes is not None)
        report = with_supervised_steps(report, doubts_about_transformed_rows(model, len(as_array(y, "y"))))
        if not judges:
            return report, None
        if settings.metric is not None:
            return report, checks.judge_metric(
                adapter, evidence, rows.labels.reshape(-1), settings.metric, report.error
            )
        return report, checks.judge_rows(adapter, evidence, rows.target, settings.data, report.error)


def in_bag(model: Any, X: Any, y: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Return which training rows each member of an ensemble was trained on.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`analyze`.
    X : array-like of shape (n_rows, n_features)
        The training rows, in training order.
    y : array-like of shape (n_rows,), optional
        The training target, for a sharper check that these are the training rows.

    Returns
    -------
    ndarray of bool, shape (n_members, n_rows)
        For XGBoost, one row per tree in the booster's order, whatever the rounds and classes.

    Raises
    ------
    BagError
        If the bags cannot be recovered, or there are none (no bootstrap).
    DataMismatchError
        If these are not the training rows in training order, as far as this can be checked.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> ens_plugin.in_bag(forest, X).shape
    (10, 150)
    """
    labels = None if y is None else target_array(y)
    with model_errors(model), cross_fitting_explained(model):
        ensemble, rows = unwrap(model, X)
        if output_count(ensemble) > 1 and not has_own_bags(ensemble):
            ensemble = output_ensemble(ensemble, 0)
            labels = labels[:, 0] if labels is not None and labels.ndim == 2 else labels
        adapter = find_adapter(ensemble)
        features = adapter.prepare(rows)
        return adapter.bags(rows, features, labels).in_bag()


def _refuse_outputs(model: Any, what: str) -> None:
    ensemble = inner_ensemble(model)
    if (n_outputs := output_count(ensemble)) > 1:
        raise UnsupportedModelError(several_outputs(type(ensemble).__name__, n_outputs, what))
