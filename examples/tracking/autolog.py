"""Log a report after every fit: ``ens_plugin.autolog()`` beside MLflow's own.

Run it, then look at the run: ``mlflow ui --backend-store-uri sqlite:///mlflow.db``.
"""

from __future__ import annotations

import mlflow
import mlflow.sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV

import ens_plugin


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("forest size")
    mlflow.sklearn.autolog(log_models=False)
    ens_plugin.autolog()

    GridSearchCV(RandomForestClassifier(100, random_state=0), {"max_features": [2, 8]}, cv=3).fit(X, y)

    run = mlflow.last_active_run()
    assert run is not None
    metrics = run.data.metrics
    print(f"Best estimator of the search, in run {run.info.run_id}:")
    print(f"out-of-bag accuracy {metrics['ens.accuracy']:.2%}, {metrics['ens.recommended_size']:.0f} trees are enough")


if __name__ == "__main__":
    main()
