"""rightsize over HTTP, against a real server that works, refuses, or dies on the way."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import mlflow
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.errors import EnsPluginError
from ens_plugin.registry import rightsize
from ens_plugin.tracking.models import load_model
from tests.tracking.faulty_proxy import Fault, Request, faulty_proxy
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow, pytest.mark.server, pytest.mark.xdist_group("mlflow_server")]

X, Y = load_breast_cancer(return_X_y=True)
FOREST = RandomForestClassifier(60, random_state=0).fit(X, Y)

Rule = Callable[[Request], Fault | None]


@pytest.fixture(autouse=True)
def impatient(plain: None, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.fixture
def name(served: mlflow.MlflowClient) -> str:
    name = f"churn-{uuid4().hex[:8]}"
    mlflow.sklearn.log_model(
        FOREST, name="forest", serialization_format="cloudpickle", pip_requirements=[], registered_model_name=name
    )
    return name


def versions(client: mlflow.MlflowClient, name: str) -> list[str]:
    return sorted(str(found.version) for found in client.search_model_versions(f"name='{name}'"))


def test_the_smaller_version_comes_back_over_http(served: mlflow.MlflowClient, name: str) -> None:
    found = rightsize(f"models:/{name}/1", X, Y, criterion="agreement", tolerance=0.03)
    assert found.logged is not None
    assert versions(served, name) == ["1", "2"]
    assert found.cut_report is not None
    size = found.cut_report.n_members
    assert size is not None
    smaller = ens_plugin.truncate(FOREST, size)
    assert np.array_equal(load_model(f"models:/{name}/2").predict_proba(X), smaller.predict_proba(X))
    assert served.get_run(found.logged.run_id).info.status == "FINISHED"


RULES: dict[str, Rule] = {
    "registration": lambda request: 403 if request.path.endswith("/model-versions/create") else None,
    "run": lambda request: 403 if request.path.endswith("/runs/create") else None,
    "model": lambda request: 403 if request.method == "POST" and request.path.endswith("/logged-models") else None,
    "artifacts": lambda request: 500 if request.method == "PUT" and "/mlflow-artifacts/" in request.path else None,
    "metrics": lambda request: "drop" if request.path.endswith("/runs/log-batch") else None,
}


def death_after_the_first_write() -> Rule:
    written: list[str] = []

    def rule(request: Request) -> Fault | None:
        if written:
            return "drop"
        if request.writes:
            written.append(request.path)
        return None

    return rule


@pytest.mark.parametrize("fault", [*RULES, "death"])
def test_no_version_unless_all_of_it_arrived(fault: str, served: mlflow.MlflowClient, name: str) -> None:
    rule = death_after_the_first_write() if fault == "death" else RULES[fault]
    with faulty_proxy(mlflow.get_tracking_uri()) as proxy:
        proxy.reset(rule)
        with tracking_to(proxy.uri), pytest.raises(EnsPluginError):
            rightsize(f"models:/{name}/1", X, Y, criterion="agreement", tolerance=0.03)
        assert any(rule(request) is not None for request in proxy.requests)
    assert versions(served, name) == ["1"]
