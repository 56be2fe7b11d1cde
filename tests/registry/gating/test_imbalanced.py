"""A forest with balanced weights on 4 % malignant tumours: no report is logged, and no gate promotes it."""

from __future__ import annotations

import logging
from uuid import uuid4

import mlflow
import pytest
from sklearn import __version__ as sklearn_version
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import autolog, gate
from ens_plugin.errors import GateError, TooFewMembersError
from tests.forests import Array
from tests.tracking.autologged_fits import PATIENT, has_report, messages
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [
    MLFLOW_WARNINGS,
    pytest.mark.skipif(
        tuple(map(int, sklearn_version.split(".")[:2])) < (1, 9), reason="scikit-learn draws by weight from 1.9 on"
    ),
]
POLICY = {"report": {"error_upper": {"max": 0.5}}}


def tumours() -> tuple[Array, Array]:
    X, y = load_breast_cancer(return_X_y=True)
    kept = sorted([*(y == 1).nonzero()[0], *(y == 0).nonzero()[0][:15]])
    return X[kept], y[kept]


@pytest.mark.usefixtures("autologging")
def test_autolog_says_why_there_is_no_report_and_the_gate_promotes_nothing(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    autolog(log_artifacts=False, max_overhead=PATIENT)
    X, y = tumours()
    name = f"tumours-{uuid4().hex[:8]}"
    with mlflow.start_run() as run:
        forest = RandomForestClassifier(50, class_weight="balanced", random_state=0).fit(X, y)
        mlflow.sklearn.log_model(
            forest, name="forest", registered_model_name=name, serialization_format="cloudpickle", pip_requirements=[]
        )
    assert not has_report(embedded.get_run(run.info.run_id))
    (message,) = [each for each in messages(log, logging.WARNING) if "balanced_subsample" in each]
    assert "Of the 15 rows of label '0'" in message
    with pytest.raises(GateError, match="no report is linked to its model"):
        gate(f"models:/{name}/1", POLICY, promote="champion")
    with pytest.raises(TooFewMembersError, match="Of the 15 rows of label '0'"):
        gate(f"models:/{name}/1", POLICY, X=X, y=y, promote="champion")
    assert embedded.get_registered_model(name).aliases == {}
