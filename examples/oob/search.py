"""A grid search without folds, and the same as a study of Optuna."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV

import ens_plugin

FOREST = RandomForestClassifier(60, random_state=0)


def search_grid(X: Any, y: Any) -> None:
    grid = {"max_features": [0.1, 0.5], "min_samples_leaf": [1, 10]}
    search = GridSearchCV(FOREST, grid, scoring=ens_plugin.make_oob_scorer(), cv=ens_plugin.OneFold()).fit(X, y)
    results = search.cv_results_
    for setting, score in zip(results["params"], results["mean_test_score"], strict=True):
        print(f"{setting}: {-score:.2%} wrong with infinitely many trees")
    print(f"Chosen: {search.best_params_}\n")


def search_with_optuna(X: Any, y: Any) -> None:
    if find_spec("optuna") is None:
        print("The study is left out: Optuna is not installed (pip install optuna).")
        return
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    scorer = ens_plugin.make_oob_scorer()

    def error(trial: Any) -> float:
        setting = {
            "max_features": trial.suggest_float("max_features", 0.05, 1.0),
            "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 20, log=True),
        }
        return -scorer(clone(FOREST).set_params(**setting).fit(X, y), X, y)

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(error, n_trials=8)
    print(f"Optuna's choice after {len(study.trials)} fits: {study.best_params}, {study.best_value:.2%} wrong")


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    search_grid(X, y)
    search_with_optuna(X, y)


if __name__ == "__main__":
    main()
