"""The arguments that `analyze`, `recommend` and `rightsize` share: model, rows and options of the analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

import click

from ens_plugin.analysis.options import (
    CLASSIFICATION_ESTIMATORS,
    CRITERIA,
    REGRESSION_ESTIMATORS,
    AnalysisOptions,
    metric_of_label,
)
from ens_plugin.cli.console import only_results_on_stdout, paragraph, progress_bar, quiet_libraries
from ens_plugin.cli.store import use_store
from ens_plugin.cli.table import ModelRows, left_out_note, rows_for_model
from ens_plugin.cli.table_files import KINDS, read_table
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.store.models import is_uri, load_model

__all__ = [
    "Analysis",
    "AnalysisRequest",
    "analysis_arguments",
    "analysis_of",
    "feature_arguments",
    "load_requested",
    "model_and_rows",
    "row_arguments",
]

Argument = Callable[[Callable[..., None]], Callable[..., None]]

ESTIMATORS = ("auto", *dict.fromkeys((*CLASSIFICATION_ESTIMATORS, *REGRESSION_ESTIMATORS)))
PLACES = ("model", "data", "target", "sample_weight", "groups", "drop", "features", "tracking_uri")
OPTIONS = ("metric", "criterion", "confidence", "tolerance", "max_size", "estimator", "random_state", "n_jobs")


@dataclass(frozen=True)
class AnalysisRequest:
    """Arguments common to the commands that analyse a model; see ``ens-plugin analyze --help``.

    Attributes
    ----------
    model : str
        Path or URI.
    data : str
        Path of the rows.
    target : str
        Column with the true labels or values.
    sample_weight, groups : str or None
        Columns with the weights and the groups of the rows.
    drop, features : tuple of str
        Columns that are no features, and those that are; all others are features if `features` is empty.  Each may be
        several names with commas between them.
    tracking_uri : str or None
    options : AnalysisOptions
        Without the weights and the groups, which are in the file.
    """

    model: str
    data: str
    target: str
    sample_weight: str | None
    groups: str | None
    drop: tuple[str, ...]
    features: tuple[str, ...]
    tracking_uri: str | None
    options: AnalysisOptions

    @property
    def columns(self) -> dict[str, Any]:
        """The arguments of :func:`ens_plugin.cli.rows_for_model` that name columns."""
        return {name: getattr(self, name) for name in ("target", "sample_weight", "groups", "drop", "features")}


FEATURES = (
    click.option(
        "--drop",
        multiple=True,
        metavar="COL",
        help="Columns that are no features: COL,COL or the option several times.",
    ),
    click.option(
        "--features",
        multiple=True,
        metavar="COL",
        help="The columns that are features, in training order: COL,COL or the option several times.",
    ),
)
MODEL_AND_ROWS = (
    click.argument("model"),
    click.option("--data", required=True, metavar="FILE", help=f"File with the rows: {KINDS}."),
    click.option("--target", required=True, metavar="COL", help="Column with the true labels or values."),
)
COLUMNS = (
    click.option("--sample-weight", metavar="COL", help="Column with the weights of the rows."),
    click.option(
        "--groups",
        metavar="COL",
        help="Column with the group of each row: a patient, a machine. It is not a feature.",
    ),
    *FEATURES,
)
MEANS = (
    click.option("--n-jobs", type=int, help="Threads to use; -1 for all. Never changes the result."),
    click.option("--tracking-uri", metavar="URI", help="MLflow tracking store; as configured for MLflow by default."),
)
ARGUMENTS = (
    *MODEL_AND_ROWS,
    click.option(
        "--holdout",
        is_flag=True,
        help="The rows were not used for training. Without this they are the exact training rows, in order.",
    ),
    click.option(
        "--metric",
        metavar="NAME",
        help="Name of a scorer of scikit-learn, such as roc_auc, average_precision, neg_log_loss or r2, that curve and "
        "recommended size are of. By default the 0-1 error, or the mean squared error.",
    ),
    click.option(
        "--positive-label",
        metavar="LABEL",
        help="The positive one of two labels, for a --metric that is about it, such as f1 or average_precision. "
        "By default 1, as in scikit-learn, or the rarer label where neither is 1.",
    ),
    click.option(
        "--criterion",
        type=click.Choice(CRITERIA),
        default=AnalysisOptions.criterion,
        show_default=True,
        help="What the recommended size has to meet: the agreement of labels, the error, the Brier score of "
        "probabilities, or --metric. auto: the agreement if --confidence is given; else the metric, if one is given; "
        "else the Brier score for labels, and the error for values.",
    ),
    click.option(
        "--confidence",
        type=float,
        default=AnalysisOptions.confidence,
        help="Classification: wanted mean agreement with the infinite ensemble; 0.99 if only --criterion is given.",
    ),
    click.option(
        "--tolerance",
        type=float,
        default=AnalysisOptions.tolerance,
        help="Wanted excess of the error or the Brier score, relative to the infinite ensemble's; by default 0.01 for "
        "an error and 0.005 for a Brier score. Or distance of the metric: a difference for scores with a largest value "
        "(by default 1 % of what it has above chance), else 0.01 times the infinite ensemble's.",
    ),
    click.option(
        "--max-size",
        type=int,
        default=AnalysisOptions.max_size,
        show_default=True,
        help="Largest ensemble size considered.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(ESTIMATORS),
        default=AnalysisOptions.estimator,
        show_default=True,
        help="How the error curve is estimated.",
    ),
    *COLUMNS,
    click.option(
        "--random-state",
        type=int,
        default=AnalysisOptions.random_state,
        show_default=True,
        help="Seed of the resampling.",
    ),
    *MEANS,
)
ROW_ARGUMENTS = (*MODEL_AND_ROWS, *COLUMNS, *MEANS)


def analysis_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the shared arguments, which are passed to `command` as one AnalysisRequest."""

    @wraps(command)
    def with_request(holdout: bool, positive_label: str | None, **values: Any) -> None:
        chosen = {name: values.pop(name) for name in OPTIONS}
        if positive_label is not None:
            if chosen["metric"] is None:
                raise click.UsageError("--positive-label is the label that a metric is about. Add --metric.")
            chosen["metric"] = metric_of_label(chosen["metric"], positive_label)
        options = AnalysisOptions(data="holdout" if holdout else "oob", **chosen)
        command(request=_request(values, options), **values)

    return _with_arguments(with_request, ARGUMENTS)


def row_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the arguments that name a model and its training rows, which it gets as one `request`."""

    @wraps(command)
    def with_request(n_jobs: int | None, **values: Any) -> None:
        command(request=_request(values, AnalysisOptions(n_jobs=n_jobs)), **values)

    return _with_arguments(with_request, ROW_ARGUMENTS)


def feature_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options that choose columns as features."""
    return _with_arguments(command, FEATURES)


def _request(values: dict[str, Any], options: AnalysisOptions) -> AnalysisRequest:
    """Return a request from the values of the arguments, which are taken out of `values`."""
    return AnalysisRequest(options=options, **{name: values.pop(name) for name in PLACES})


def _with_arguments(command: Callable[..., None], arguments: Sequence[Argument]) -> Callable[..., None]:
    for argument in reversed(arguments):
        command = argument(command)
    return command


class Analysis(NamedTuple):
    """A model, the rows it was analysed on, the options with their weights and groups, and the report."""

    model: Any
    rows: ModelRows
    options: AnalysisOptions
    report: EnsembleReport


def analysis_of(request: AnalysisRequest) -> Analysis:
    """Load a model, read its rows, and return the analysis.

    Raises
    ------
    EnsPluginError
        If the model cannot be loaded or analysed.
    """
    from ens_plugin.analysis.analyze import run_analysis

    with only_results_on_stdout():
        model, rows = model_and_rows(request)
        options = replace(request.options, sample_weight=rows.sample_weight, groups=rows.groups)
        report = run_analysis(model, rows.X, rows.y, options, progress=progress_bar)
    return Analysis(model, rows, options, report)


def model_and_rows(request: AnalysisRequest) -> tuple[Any, ModelRows]:
    """Return the model of a request, loaded, and its rows."""
    frame = read_table(request.data)
    model = load_requested(request)
    rows = rows_for_model(frame, model, **request.columns, path=request.data)
    if rows.left_out:
        paragraph(left_out_note(rows.left_out))
    return model, rows


def load_requested(request: AnalysisRequest) -> Any:
    """Load and return the model of a request."""
    if not is_uri(request.model):
        return load_model(request.model)
    with quiet_libraries():
        use_store(request.tracking_uri)
        return load_model(request.model)
