"""The command `ens-plugin demo`: forests trained on three real data sets, and a table of their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ens_plugin.analysis.evidence import progress_bar
from ens_plugin.cli.console import only_results_on_stdout, quiet_libraries
from ens_plugin.report.answers import answer_lines
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.tracking.connection import check_server, tracking_errors
from ens_plugin.tracking.log import log_report

if TYPE_CHECKING:
    import pandas as pd


# An experiment for each data set, because errors on different data cannot be read off the same chart.
EXPERIMENTS = {name: f"ens-plugin demo: {name}" for name in ("breast cancer", "digits", "diabetes")}


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


def demonstrated(shown: Sequence[Demonstration]) -> str:
    """Return the answers of each report below the name of its data set, at most 80 columns wide."""
    titles = [f"{each.name.capitalize()}: {each.report.model} of {each.report.n_members} trees" for each in shown]
    return "\n\n".join(
        "\n".join([title, *answer_lines(each.report)]) for title, each in zip(titles, shown, strict=True)
    )
