"""Fits of every kind that autolog reports, and what MLflow then holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import mlflow
import numpy as np
from joblib import parallel_config
from mlflow.entities import Run
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.extras import lightgbm, xgboost

__all__ = ["FITS", "LIGHTGBM", "XGBOOST", "X", "forest", "new_experiment", "top_runs", "y"]

# Regression, because for classifiers MLflow's autologging draws three figures each.
X, y = (part[:200] for part in load_diabetes(return_X_y=True))
XGBOOST = {
    "subsample": 0.6,
    "num_parallel_tree": 20,
    "learning_rate": 1.0,
    "objective": "reg:squarederror",
    "nthread": 1,
}
LIGHTGBM = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": "regression", "verbose": -1,
            "num_threads": 1}  # fmt: skip


def forest(**options: Any) -> RandomForestRegressor:
    return RandomForestRegressor(**{"n_estimators": 20, "random_state": 0, **options})


def search(**options: Any) -> GridSearchCV:
    return GridSearchCV(forest(n_estimators=5), {"max_depth": [2, 3]}, cv=2, **options)


def _search_in_threads() -> object:
    with parallel_config(backend="threading", n_jobs=2):
        return search().fit(X, y)


def _xgboost_regressor() -> object:
    return xgboost.XGBRFRegressor(n_estimators=20, subsample=0.6, n_jobs=1).fit(X, y)


def _lightgbm_regressor() -> object:
    model = lightgbm.LGBMRegressor(
        n_estimators=20, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, verbose=-1, n_jobs=1
    )
    return model.fit(X, y)


FITS: dict[str, Callable[[], object]] = {
    "forest": lambda: forest().fit(X, y),
    "bagging of forests": lambda: BaggingRegressor(forest(n_estimators=2), 5).fit(X, y),
    "pipeline": lambda: make_pipeline(StandardScaler(), forest()).fit(X, y),
    "search": lambda: search().fit(X, y),
    "search of pipelines": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), forest(n_estimators=5)), {"randomforestregressor__max_depth": [2, 3]}, cv=2
    ).fit(X, y),
    "search in threads": _search_in_threads,
    "search in processes": lambda: search(n_jobs=2).fit(X, y),
    "XGBRFRegressor": _xgboost_regressor,
    "xgboost.train": lambda: xgboost.train(XGBOOST, xgboost.DMatrix(X, y), 1),
    "LGBMRegressor": _lightgbm_regressor,
    "lightgbm.train": lambda: lightgbm.train(LIGHTGBM, lightgbm.Dataset(X, y), 20),
}


@contextmanager
def new_experiment(client: mlflow.MlflowClient) -> Iterator[str]:
    """An experiment of its own, beside the one called ``tests``, which is set again."""
    beside = client.get_experiment_by_name("tests")
    assert beside is not None
    name = uuid4().hex
    location = f"{beside.artifact_location}/{name}" if beside.artifact_location.startswith("file:") else None
    experiment = client.create_experiment(name, artifact_location=location)
    mlflow.set_experiment(experiment_id=experiment)
    try:
        yield experiment
    finally:
        mlflow.set_experiment("tests")


def top_runs(client: mlflow.MlflowClient, experiment: str) -> list[Run]:
    """The runs of an experiment, oldest first, without the children that a search's autologging makes.

    All of them have ended well, and no child has a report.
    """
    runs = list(client.search_runs([experiment], order_by=["attributes.start_time"]))
    assert mlflow.active_run() is None
    assert {run.info.status for run in runs} <= {"FINISHED"}
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert not [run for run in children if "ens.accuracy" in run.data.metrics]
    return [run for run in runs if run not in children]


def repeated(client: mlflow.MlflowClient, run: Run) -> list[str]:
    """Metrics of ours that have more than one value at a step."""
    found = []
    for key in run.data.metrics:
        if key.startswith("ens"):
            steps = [point.step for point in client.get_metric_history(run.info.run_id, key)]
            if np.unique(steps).size != len(steps):
                found.append(key)
    return found
