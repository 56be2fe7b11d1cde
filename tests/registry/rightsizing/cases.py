"""Ensembles as users log them, and what the registry holds of them."""

from __future__ import annotations

import warnings
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import mlflow
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
XR, YR = load_diabetes(return_X_y=True, as_frame=True)
# Small recommendations, from little time.
EASY: dict[str, Any] = {"criterion": "agreement", "tolerance": 0.03, "max_size": 2001}

Client = mlflow.MlflowClient


class Case(NamedTuple):
    """A model as somebody logs it, and what it was trained on."""

    flavor: str
    model: Any
    X: Any = X
    y: Any = Y
    options: Any = MappingProxyType({})
    wanted: Any = MappingProxyType({})


@cache
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(60, random_state=0).fit(X, Y)


@cache
def report_on_forest() -> EnsembleReport:
    return analyze(forest(), X, Y, **EASY)


CLOUDPICKLE = {"serialization_format": "cloudpickle"}


class Counts(NamedTuple):
    """Numbers of runs, logged models and versions in a store."""

    runs: int
    models: int
    versions: int


def counts(client: Client) -> Counts:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return Counts(
        len(client.search_runs(experiments)),
        len(client.search_logged_models(experiments, max_results=10_000)),  # all in the database that tests share
        len(client.search_model_versions()),
    )


def log(case: Case, name: str | None, **options: Any) -> Any:
    """Log a model as its owner would, and register it."""
    with mlflow.start_run(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(mlflow, case.flavor).log_model(
            case.model,
            **{
                "name": "forest",
                "registered_model_name": name,
                "pip_requirements": ["scikit-learn>=1.4", "pandas"],
                "signature": mlflow.models.infer_signature(case.X, np.zeros(1)),
                "metadata": {"team": "trees"},
                **case.options,
                **options,
            },
        )
