"""The command `ens-plugin demo`: forests trained on three real data sets, and a table of their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ens_plugin.analysis.evidence import progress_bar
from ens_plugin.cli.console import only_results_on_stdout, quiet_libraries
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import aligned, error_text, interval_text, level_text, recommended_text
from ens_plugin.tracking import log_report
from ens_plugin.tracking.connection import check_server, tracking_errors

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["demo_experiments", "demonstrations", "log_demonstrations", "results_table"]

# An experiment for each data set, because errors on different data cannot be read off the same chart.
EXPERIMENTS = {name: f"ens-plugin demo: {name}" for name in ("breast cancer", "digits", "diabetes")}

EXPLANATION = """\
Error        at the current number of trees, from the out-of-bag rows of each
             tree: share of wrong labels; diabetes: mean squared error, in
             squared points of disease progression (root: {rmse}).
             In brackets its {level} interval.
Infinite     the same error with infinitely many trees.
Needed       trees until the probabilities (mean Brier score) are within 0.5 %
             of the infinite forest's; diabetes: until the error is within 1 %.
Agreement    with the infinite forest's predictions, at the current size."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One data set with its fitted forest and the report on it."""

    name: str
    forest: Any
    X: pd.DataFrame
    report: EnsembleReport


def demonstrations() -> list[Demonstration]:
    """Return a fitted and analysed forest for each of three data sets that ship with scikit-learn."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    plans = [
        ("breast cancer", load_breast_cancer, RandomForestClassifier(500, random_state=0)),
        ("digits", load_digits, RandomForestClassifier(500, random_state=0)),
        ("diabetes", load_diabetes, RandomForestRegressor(100, random_state=0)),
    ]
    with only_results_on_stdout():
        return [_demonstrate(*plan) for plan in progress_bar(plans, len(plans))]


def _demonstrate(name: str, load: Any, forest: Any) -> Demonstration:
    from ens_plugin.analysis.analyze import analyze

    X, y = load(return_X_y=True, as_frame=True)
    forest.fit(X, y)
    return Demonstration(name, forest, X, analyze(forest, X, y))


def demo_experiments(uri: str) -> dict[str, str]:
    """Return the ids of the experiments by data set; those that do not exist are created."""
    import mlflow

    with only_results_on_stdout(), quiet_libraries():
        check_server(uri)
        with tracking_errors(uri):
            return {name: str(mlflow.set_experiment(title).experiment_id) for name, title in EXPERIMENTS.items()}


def log_demonstrations(shown: Sequence[Demonstration], uri: str, experiments: Mapping[str, str]) -> None:
    """Log each demonstration to a run in the experiment of its data set, with the model."""
    with only_results_on_stdout(), quiet_libraries(), tracking_errors(uri):
        for demonstration in progress_bar(shown, len(shown)):
            _log(demonstration, experiments[demonstration.name])


def _log(demonstration: Demonstration, experiment_id: str) -> None:
    import mlflow
    import sklearn

    with mlflow.start_run(experiment_id=experiment_id, run_name=demonstration.name):
        mlflow.log_params(demonstration.forest.get_params())
        logged = mlflow.sklearn.log_model(
            demonstration.forest,
            name="forest",
            serialization_format="cloudpickle",
            signature=mlflow.models.infer_signature(demonstration.X.head()),
            # Given, because MLflow starts another Python process to find them.
            pip_requirements=[f"scikit-learn=={sklearn.__version__}"],
        )
        log_report(demonstration.report, model_id=logged.model_id)


def results_table(shown: Sequence[Demonstration]) -> str:
    """Return a table of the reports as text, at most 80 columns wide, and an explanation of its columns."""
    header = ("Data", "Trees", "Error", "", "Infinite", "Needed", "Agreement")
    rows = [header, *(_row(demonstration.name, demonstration.report) for demonstration in shown)]
    lines = aligned(rows)
    lines.insert(1, "-" * len(lines[0]))
    rmse = next((f"{one.report.rmse:.3g} points" for one in shown if one.report.is_squared), "-")
    level = level_text(shown[0].report.error_curve.interval_level)
    return "\n".join([*lines, "", EXPLANATION.format(level=level, rmse=rmse)])


def _row(name: str, report: EnsembleReport) -> tuple[str, ...]:
    curve, recommendation = report.error_curve, report.recommendation
    return (
        name,
        str(report.n_members),
        error_text(report.error, curve.metric),
        f"({interval_text(report.error_interval, curve.metric)})",
        error_text(curve.asymptote, curve.metric),
        recommended_text(recommendation),
        "-" if recommendation.agreement is None else f"{100 * recommendation.agreement:.1f} %",
    )
