from __future__ import annotations

from pathlib import Path

import joblib
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two forests and the tables they were trained on, as a user would have it."""
    directory = tmp_path_factory.mktemp("workshop")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    joblib.dump(RandomForestClassifier(60, random_state=0).fit(X, y), directory / "cancer.joblib")
    X.assign(diagnosis=y).to_csv(directory / "cancer.csv", index=False)
    X.iloc[::-1].assign(diagnosis=y).to_parquet(directory / "cancer.parquet")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    joblib.dump(
        RandomForestRegressor(40, random_state=0).fit(X.to_numpy(), y.to_numpy()), directory / "diabetes.joblib"
    )
    X.assign(progression=y).to_csv(directory / "diabetes.csv", index=False)
    joblib.dump({"not": "a model"}, directory / "dict.joblib")
    return directory
