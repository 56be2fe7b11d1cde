"""The arguments that `analyze`, `recommend` and `rightsize` share: model, rows and options of the analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Literal, NamedTuple

import click

from ens_plugin.cli.console import only_results_on_stdout, progress_bar, quiet_libraries
from ens_plugin.cli.store import use_store
from ens_plugin.cli.table import ModelRows, read_table, rows_for_model
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.store.models import is_uri, load_model

__all__ = ["Analysis", "AnalysisRequest", "analysis_arguments", "analysis_of", "analysis_options", "load_requested"]

Estimator = Literal["auto", "deconvolved", "hypergeometric", "binomial", "path", "closed_form"]
ESTIMATORS = ("auto", "deconvolved", "hypergeometric", "binomial", "path", "closed_form")


@dataclass(frozen=True)
class AnalysisRequest:
    """Arguments common to the commands that analyse a model; see ``ens-plugin analyze --help``."""

    model: str
    data: str
    target: str
    holdout: bool
    confidence: float
    tolerance: float
    max_size: int
    estimator: Estimator
    sample_weight: str | None
    random_state: int
    n_jobs: int | None
    tracking_uri: str | None
    groups: str | None = None


ARGUMENTS = (
    click.argument("model"),
    click.option("--data", required=True, metavar="FILE", help="csv or parquet file with the rows."),
    click.option("--target", required=True, metavar="COL", help="Column with the true labels or values."),
    click.option(
        "--holdout",
        is_flag=True,
        help="The rows were not used for training. Without this they are the exact training rows, in order.",
    ),
    click.option(
        "--confidence",
        type=float,
        default=0.99,
        show_default=True,
        help="Classification: wanted mean agreement with the infinite ensemble.",
    ),
    click.option(
        "--tolerance",
        type=float,
        default=0.01,
        show_default=True,
        help="Regression: wanted excess error, relative to the infinite ensemble's.",
    ),
    click.option("--max-size", type=int, default=20001, show_default=True, help="Largest ensemble size considered."),
    click.option(
        "--estimator",
        type=click.Choice(ESTIMATORS),
        default="auto",
        show_default=True,
        help="How the error curve is estimated.",
    ),
    click.option("--sample-weight", metavar="COL", help="Column with the weights of the rows."),
    click.option(
        "--groups",
        metavar="COL",
        help="Column with the group of each row: a patient, a machine. It is not a feature.",
    ),
    click.option("--random-state", type=int, default=0, show_default=True, help="Seed of the resampling."),
    click.option("--n-jobs", type=int, help="Threads to use; -1 for all. Never changes the result."),
    click.option("--tracking-uri", metavar="URI", help="MLflow tracking store; as configured for MLflow by default."),
)


def analysis_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the shared arguments, which it gets as one `request`."""

    @wraps(command)
    def with_request(**values: Any) -> None:
        request = AnalysisRequest(**{field.name: values.pop(field.name) for field in fields(AnalysisRequest)})
        command(request=request, **values)

    decorated: Callable[..., None] = with_request
    for argument in reversed(ARGUMENTS):
        decorated = argument(decorated)
    return decorated


class Analysis(NamedTuple):
    """A model, the rows it was analysed on, and the report."""

    model: Any
    rows: ModelRows
    report: EnsembleReport


def analysis_of(request: AnalysisRequest) -> Analysis:
    """Load a model, read its rows, and return the analysis.

    Raises
    ------
    EnsPluginError
        Whatever keeps the model from being loaded or analysed.
    """
    from ens_plugin.analysis.analyze import run_analysis

    frame = read_table(request.data)
    with only_results_on_stdout():
        model = load_requested(request)
        rows = rows_for_model(
            frame, model, target=request.target, sample_weight=request.sample_weight, groups=request.groups
        )
        report = run_analysis(
            model,
            rows.X,
            rows.y,
            progress=progress_bar,
            **analysis_options(request, rows),
        )
    return Analysis(model, rows, report)


def analysis_options(request: AnalysisRequest, rows: ModelRows) -> dict[str, Any]:
    """Return the options of an analysis: those of ``run_analysis``, progress left out."""
    return {
        "data": "holdout" if request.holdout else "oob",
        "sample_weight": rows.sample_weight,
        "groups": rows.groups,
        "confidence": request.confidence,
        "tolerance": request.tolerance,
        "max_size": request.max_size,
        "estimator": request.estimator,
        "random_state": request.random_state,
        "n_jobs": request.n_jobs,
    }


def load_requested(request: AnalysisRequest) -> Any:
    """Return the model of a request, loaded."""
    if not is_uri(request.model):
        return load_model(request.model)
    with quiet_libraries():
        use_store(request.tracking_uri)
        return load_model(request.model)
