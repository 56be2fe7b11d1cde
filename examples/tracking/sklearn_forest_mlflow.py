"""Train a forest with MLflow on, then estimate how large it should have been.

Run it, then look at the run: ``mlflow ui --backend-store-uri sqlite:///mlflow.db``.
"""

from __future__ import annotations

import mlflow
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("forest size")
    with mlflow.start_run():
        forest = RandomForestClassifier(n_estimators=200, random_state=0).fit(X, y)
        logged = mlflow.sklearn.log_model(
            forest,
            name="forest",
            serialization_format="cloudpickle",
            pip_requirements=[f"scikit-learn=={sklearn.__version__}"],
        )

        report = ens_plugin.analyze(forest, X, y)
        ens_plugin.log_report(report, model_id=logged.model_id)

    print(report.summary())


if __name__ == "__main__":
    main()
