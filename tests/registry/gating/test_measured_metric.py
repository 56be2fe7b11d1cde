"""Policies on a metric of scikit-learn, which the gate measures on rows that it is given."""

from __future__ import annotations

import mlflow
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import gate
from ens_plugin.errors import GateError
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

POLICY = {"report": {"metric": "roc_auc", "roc_auc": {"min": 0.9}}}


@pytest.mark.slow
def test_a_policy_on_a_metric_is_measured_on_the_rows_given(embedded: mlflow.MlflowClient) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    with mlflow.start_run():
        mlflow.sklearn.log_model(
            forest,
            name="forest",
            registered_model_name="metric",
            serialization_format="cloudpickle",
            pip_requirements=[],
        )
    decision = gate("models:/metric/1", POLICY, X=X, y=y)
    assert decision.passed
    assert decision.checks[0].value == ens_plugin.analyze(forest, X, y, metric="roc_auc").error
    unnamed = {"report": {"roc_auc": {"min": 0.9}}}
    with pytest.raises(GateError, match=r"requires 'report\.roc_auc', which is not available"):
        gate("models:/metric/1", unnamed, X=X, y=y)
